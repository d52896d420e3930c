"""The quickstart's stateless hop over many rows, against the same job written by hand in PySpark, in one run.

    python bench/embedded.py [--rows 1000000] [--repeat 5]

Both read the same JSON Lines files, filter and project, and write Parquet, as streams that drain what is there. They
take turns in one Spark session; each round has a new checkpoint and a new target. Bar: ours within 1.2 x of by hand.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.init import write_project
from penstock.cli.sample import TOPIC, write_minute
from penstock.runtime.run.start import start
from penstock.runtime.spark.session import DEFAULTS, spark_session
from penstock.workflow.stages import check, compile_project, plan_project

Counter = Callable[[], int]
"""How many rows a job put out; asked after the clock has stopped."""

FILES = 20
SCHEMA = """order_id BIGINT, customer_id BIGINT, country STRING, status STRING, amount DECIMAL(10, 2),
    ordered_at TIMESTAMP"""


def by_hand(spark: SparkSession, project: Path) -> Counter:
    """What a person would write who knows Spark."""
    work = Path(tempfile.mkdtemp(dir=project.parent))
    orders = spark.readStream.schema(SCHEMA).json(str(project / TOPIC))
    clean = orders.where("status = 'paid' AND amount > 0").selectExpr(
        "order_id", "customer_id", "upper(country) AS country", "amount", "ordered_at"
    )
    writer = clean.writeStream.format("parquet").option("checkpointLocation", str(work / "checkpoint"))
    writer.trigger(availableNow=True).start(str(work / "out")).awaitTermination()
    return lambda: spark.read.parquet(str(work / "out")).count()


def ours(spark: SparkSession, project: Path) -> Counter:
    """The same hop by Penstock: plan, checkpoint, row counts, atomic directories and all."""
    checked = check(project)
    manifest = compile_project(checked)
    plan = plan_project(checked, manifest, select=["orders_clean"])
    run = start(plan, spark, checked.place, checked.store)
    run.run_once(lambda: time.sleep(0.01))
    (row,) = run.board.snapshot()
    return lambda: row.rows_out


def plain(spark: SparkSession) -> SparkSession:
    """A session as Spark comes, without our settings."""
    session = spark.newSession()
    for key in DEFAULTS:
        if key.startswith("spark.sql.") and not key.endswith("timeZone"):
            session.conf.unset(key)
    return session


def forget(project: Path) -> None:
    for path in (project / ".penstock").iterdir():
        if path.name not in ("topics", "logs"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(project / ".penstock" / "topics" / "orders.clean.v1", ignore_errors=True)


def timed(job: Callable[[SparkSession, Path], Counter], spark: SparkSession, project: Path) -> tuple[float, int]:
    begun = time.perf_counter()
    rows = job(spark, project)
    return time.perf_counter() - begun, rows()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "quickstart"
        write_project(project, "quickstart")
        for minute in range(FILES):
            write_minute(project, minute, arguments.rows // FILES)
        spec = compile_project(check(project)).spark
        with spark_session(spec, project / ".penstock" / "logs") as spark:
            times: dict[str, list[float]] = {"by hand": [], "ours": []}
            for turn in range(arguments.repeat + 1):
                hand_secs, hand_rows = timed(by_hand, plain(spark), project)
                our_secs, our_rows = timed(ours, spark, project)
                forget(project)
                if hand_rows != our_rows:
                    raise SystemExit(f"by hand {hand_rows} rows, ours {our_rows}: not the same job")
                if turn:  # the first round warms the JVM up
                    times["by hand"].append(hand_secs)
                    times["ours"].append(our_secs)
    print(f"{arguments.rows:,} rows in, {our_rows:,} out, {arguments.repeat} rounds in turns")
    for name, taken in times.items():
        best, middle = min(taken), statistics.median(taken)
        print(f"{name:>8}: best {best:.2f} s, median {middle:.2f} s, {arguments.rows / best:,.0f} rows/s at best")
    print(
        f"ours / by hand: best {min(times['ours']) / min(times['by hand']):.2f}, "
        f"median {statistics.median(times['ours']) / statistics.median(times['by hand']):.2f}"
    )


if __name__ == "__main__":
    main()
