"""The Spark session: a JVM of our own, which writes nothing to the terminal and ends with our process."""

import logging
import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.clients.jvm.java import find_java
from penstock.clients.jvm.local_files import set_permissions_in_process
from penstock.clients.masked_answers import IN_WORKERS
from penstock.errors import PenstockError, ServiceError
from penstock.manifest.model import SparkSpec
from penstock.runtime.spark.class_archive import archive_option
from penstock.runtime.spark.errors import failure_of
from penstock.runtime.spark.masked_log import MaskedFormatter, write_log_settings
from penstock.runtime.spark.process import OomKills, is_spark_gone, kill_process, spark_lost_error
from penstock.runtime.spark.python_workers import pack_code, worker_python_variables
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.spark_internals.jvm import (
    Jvm,
    JvmProcess,
    cache_classes,
    forget_jvm,
    is_local,
    jvm_process,
    launch_jvm,
    running_context,
    silence_accumulators,
)

KEPT_LOGS: Final = 10
_OPTIONS: Final = "spark.driver.defaultJavaOptions"
_LATE_OPTIMISATION: Final = " ".join(
    f"-XX:Tier4{what}Threshold={calls}"
    for what, calls in {"Invocation": 100_000, "MinInvocation": 12_000, "Compile": 300_000, "BackEdge": 800_000}.items()
)
"""Twenty times the JVM's own number of calls before it compiles a method with full optimization, which takes a third of
the CPU time of a start and of short runs. Methods that process rows are called that often within a second."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Without these two from the start, a checkpoint can never change its set of sources.
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    # A process that ends while it records its first batch leaves a file that would prevent later runs from starting.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Spark's default starts 40 processes a batch to write a checkpoint on a local disk, 8 here, for the same rename.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Otherwise every call on a column makes five more to the JVM, so that errors can name a place in our Python.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # How long to wait for a query that is stopped. Without a limit, a sink that hangs would block us forever.
    "spark.sql.streaming.stopTimeout": "10s",
    # How soon a query without rows reports that.
    "spark.sql.streaming.noDataProgressEventInterval": "2s",
    # It guards an operation that we never start, and fails on a checkpoint whose first batches lack a setting.
    "spark.sql.streaming.checkUnfinishedRepartitionOnRestart": "false",
    # Without Kafka: its older writer does not count the rows that it writes.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Filters inside the readers would hide rows from the counts of rows that were read.
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # 96-bit times are nanoseconds to others, and overflow
    # No bound in bytes: for it, Spark asks for the size of every column at every row, which is half of the time that
    # rows take to Python. So few rows that even the largest Kafka records (1 MB) fit into an Arrow column.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    **dict.fromkeys(
        # Otherwise Arrow checks every access to a buffer. Spark's writers grow their buffers before they write.
        (_OPTIONS, "spark.executor.defaultJavaOptions"),
        "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false",
    ),
}


def spark_settings(spec: SparkSpec, home: Path, jars: Sequence[Path] = ()) -> dict[str, str]:
    """Return all Spark properties: defaults for a laptop, then the project's. Its libraries are added to ours."""
    cores = str(os.cpu_count() or 2)
    local = spec.master.startswith("local")
    said = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in spec.config.items()}
    libraries = [*map(str, jars), *filter(None, said.pop("spark.jars", "").split(","))]
    return {
        "spark.master": spec.master,
        "spark.app.name": "penstock",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        **DEFAULTS,
        **(_for_one_machine() if local else {}),
        **said,
        **({"spark.jars": ",".join(libraries)} if libraries else {}),
    }


def _for_one_machine() -> dict[str, str]:
    here = "127.0.0.1"
    return {
        "spark.driver.memory": _driver_memory(),
        "spark.driver.host": here,
        "spark.driver.bindAddress": here,
        _OPTIONS: f"{DEFAULTS[_OPTIONS]} {_LATE_OPTIMISATION}",
    }


@contextmanager
def spark_session(
    spec: SparkSpec,
    logs: Path,
    jars: Sequence[Path] = (),
    *,
    inherited: Sequence[int] = (),
    note_pid: Callable[[int], None] = lambda _: None,
    exit_secs: float = 10,
) -> Iterator[SparkSession]:
    """Start a session with these libraries, and write all output of Spark to a file below `logs`. Its JVM ends with it,
    and is killed if it has not exited after `exit_secs`.

    The JVM gets the `inherited` file descriptors: our locks are then held as long as it lives. `note_pid` gets its pid.
    """
    java = find_java()
    log = _new_log(logs)
    logging.raiseExceptions = False  # a full disk is reported by those who must write to it
    handler = logging.FileHandler(log)  # py4j logs closed connections, and errors of batches, to the root logger
    if spec.covered_log:
        handler.setFormatter(MaskedFormatter())
    logging.getLogger().addHandler(handler)
    for chatter in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(chatter).disabled = True  # errors of a query are reported by us
    conf = SparkConf(loadDefaults=False)
    for key, value in spark_settings(spec, logs.parent.absolute(), jars).items():
        conf.set(key, value)
    if option := archive_option(java):
        conf.set(_OPTIONS, f"{conf.get(_OPTIONS, '')} {option}")
    if spec.covered_log:
        file = write_log_settings(logs.absolute())
        conf.set(f"spark.executorEnv.{IN_WORKERS}", "1")
        conf.set(_OPTIONS, f'{conf.get(_OPTIONS, "")} -Dlog4j2.configurationFile="{file}"')
    jvm: Jvm | None = None
    OomKills.start()
    try:
        # A signal now would leave a JVM that nobody ends; it is deferred until the JVM is known.
        # Python workers must use this very Python: another one on the PATH has other packages.
        # On the machines of a cluster they use the one that the project names.
        environ = {"JAVA_HOME": str(java.home), **worker_python_variables(conf)}
        code = None if spec.master.startswith("local") else pack_code(logs)
        if code is not None:
            environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(code), os.environ.get("PYTHONPATH"))))
        with _defer_signals(), _environment(**environ):
            with log.open("ab") as sink:
                # A session of its own, because we handle Ctrl-C. Its stdin is a pipe: it ends when we do.
                process = _ProcessSettings(stdout=sink, stderr=sink, start_new_session=True, pass_fds=tuple(inherited))
                jvm = launch_jvm(conf, process)
            note_pid(jvm.process.pid)
            session = _start_session(conf, jvm, log)
            cache_classes(session.sparkContext)
            if is_local(session.sparkContext):
                set_permissions_in_process(session.sparkContext)
            if code is not None:
                session.sparkContext.addPyFile(str(code))
        yield session
    except PySparkRuntimeError as error:
        if jvm is not None:
            raise (spark_lost_error() if is_spark_gone(error) else error) from error
        text = f"Spark did not start: {_last_error(log) or error}"
        raise ServiceError("spark-start", text, hint=f"the whole log is in {log}") from error
    except Exception as error:
        is_ours = isinstance(error, PenstockError) and not error.internal
        if is_ours or jvm is None or not is_spark_gone(error):
            raise
        raise spark_lost_error() from error
    finally:
        if jvm is not None:
            _close(jvm.process, exit_secs)


class _ProcessSettings(dict[str, Any]):
    """How the JVM is started. It ignores SIGTERM: whoever stops all processes of a service at once stops ours too,
    which lets the JVM finish its batches."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _ignore_signals if name == "preexec_fn" else value)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _start_session(conf: SparkConf, jvm: Jvm, log: Path) -> SparkSession:
    try:
        return SparkSession(jvm.start_context(conf))
    except SPARK_ERRORS as error:
        text = f"Spark did not start: {failure_of(error).message}"
        raise ServiceError("spark-start", text, hint=f"the whole log is in {log}") from error


@contextmanager
def _defer_signals() -> Iterator[None]:
    """Defer signals that would end the process until the block ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda n, _: received.append(n)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for signum in dict.fromkeys(received):
        os.kill(os.getpid(), signum)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _close(jvm: JvmProcess, exit_secs: float) -> None:
    """End Spark and its JVM. The JVM may have ended already."""
    if (context := running_context()) is not None:
        with suppress(*SPARK_ERRORS, OSError), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            context.stop()  # it would warn about a JVM that we have killed
    forget_jvm()
    if jvm.stdin is not None:
        with suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(timeout=exit_secs)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def kill_jvm(spark: SparkSession) -> None:
    """End the JVM now, whatever it does. Its Python workers end with it: their input is a pipe from there."""
    silence_accumulators(spark.sparkContext)
    if (process := jvm_process()) is not None:
        kill_process(process)


def _new_log(logs: Path) -> Path:
    try:
        logs.mkdir(parents=True, exist_ok=True)
        for old in sorted(logs.glob("spark-*.log"))[: -KEPT_LOGS + 1]:
            old.unlink(missing_ok=True)
        log = logs / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        log.touch()
    except OSError as error:
        raise ServiceError("not-writable", f"cannot write Spark's log to {logs}: {error.strerror}") from error
    return log


def _last_error(log: Path) -> str | None:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if "Exception" in line or "Error" in line), None)


def _driver_memory() -> str:
    """Return a quarter of the machine's memory, between 1 and 8 GB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(1, min(8, total // 4 // 2**30))}g"
