"""Rows over HTTP: a pipeline from files to a server on the same machine.

    python bench/webhook.py [--rows 500000] [--rows-per-request 100] [--repeat 3] [--single]

The server is a process of its own that reads a request by its length, answers with a constant, and counts. How many
requests it could take at most is measured first, by a client that has one ready request and sends it again and again.
Bar, for many rows a request: 20,000 rows a second.
"""

import argparse
import asyncio
import multiprocessing
import shutil
import socket
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.manifest.model import SparkSpec
from penstock.runtime.run.start import start
from penstock.runtime.spark.session import spark_session
from penstock.workflow.stages import check, compile_project, plan_project

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
LENGTH = b"content-length: "
CLIENTS = 4
BAR = 20_000
PIPELINE = """
sources:
  events: {{type: file, path: events, format: parquet, mode: {{type: bounded}}}}
transforms: {{}}
sinks:
  hook: {{type: webhook, from: events, url: "{url}", {options}}}
"""


class Taker(asyncio.Protocol):
    """One connection: requests in, as long as they say they are; constant answers out."""

    requests = 0
    octets = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.missing = 0
        self.head = b""

    def data_received(self, data: bytes) -> None:
        Taker.octets += len(data)
        while data:
            if self.missing:
                taken = min(self.missing, len(data))
                self.missing -= taken
                data = data[taken:]
            else:
                self.head += data
                end = self.head.find(b"\r\n\r\n")
                if end < 0:
                    return
                begin = self.head.lower().index(LENGTH) + len(LENGTH)
                self.missing = int(self.head[begin : self.head.index(b"\r\n", begin)])
                data, self.head = self.head[end + 4 :], b""
                if self.missing:
                    continue
            if not self.missing:
                Taker.requests += 1
                self.transport.write(ANSWER)


def serve(told: Connection) -> None:
    """Say the port, then answer every word with what came since the last one."""

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Taker, "127.0.0.1", 0, backlog=256)
        told.send(server.sockets[0].getsockname()[1])
        while await asyncio.to_thread(told.recv):
            told.send((Taker.requests, Taker.octets))
            Taker.requests = Taker.octets = 0

    asyncio.run(main())


def most_requests(port: int, size: int, seconds: float) -> float:
    """How many requests of this size the server takes in a second, from clients that do nothing else."""
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    ends = time.monotonic() + seconds
    counts: list[int] = []

    def send() -> None:
        count = 0
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while time.monotonic() < ends:
                line.sendall(request)
                line.recv(1000)
                count += 1
        counts.append(count)

    threads = [threading.Thread(target=send) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def fill(spark: SparkSession, folder: Path, rows: int) -> None:
    made = spark.range(0, rows, 1, 4).selectExpr(
        "id",
        "concat('user-', id % 1000) AS user_id",
        "concat('user', id % 1000, '@mail.test') AS email",
        "element_at(array('DE', 'FR', 'US', 'JP'), cast(id % 4 + 1 AS int)) AS country",
        "id * 1.5D AS amount",
        "timestamp_millis(1767225600000 + id) AS ts",
    )
    made.write.parquet(str(folder / "events"))


def run_pipeline(spark: SparkSession, folder: Path, url: str, options: str) -> float:
    file = folder / "bench.yml"
    file.write_text(PIPELINE.format(url=url, options=options), encoding="utf-8")
    checked = check(file)
    plan = plan_project(checked, compile_project(checked))
    store = checked.store
    begun = time.perf_counter()
    run = start(plan, spark, checked.place, store, environ=checked.environ, clusters=checked.clusters)
    try:
        run.run_once(lambda: time.sleep(0.01))
    finally:
        run.close()
    seconds = time.perf_counter() - begun
    shutil.rmtree(folder / ".penstock")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rows-per-request", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--single", action="store_true", help="a row a request, of a tenth of the rows")
    arguments = parser.parse_args()
    rows = arguments.rows // 10 if arguments.single else arguments.rows
    size = f"batch_size: {arguments.rows_per_request}"
    plain = "one_row_per_request: true" if arguments.single else size
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    try:
        for bytes_ in (200, 15_000):
            print(f"the server alone: {most_requests(port, bytes_, 3):,.0f} requests/s of {bytes_:,} bytes", flush=True)
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            with spark_session(SparkSpec(master="local[*]"), folder / "logs") as spark:
                fill(spark, folder, rows)
                for name, options in (("any order", plain), ("by key", f"{plain}, primary_key: id")):
                    taken = []
                    for turn in range(arguments.repeat + 1):
                        ours.send(True)
                        ours.recv()
                        seconds = run_pipeline(spark, folder, f"http://127.0.0.1:{port}/", options)
                        ours.send(True)
                        requests, octets = ours.recv()
                        if turn:  # the first one warms the JVM up
                            taken.append(seconds)
                    best = min(taken)
                    bar = "" if arguments.single else f"; bar {BAR:,}: {'met' if rows / best >= BAR else 'NOT met'}"
                    print(
                        f"{name}: {rows / best:,.0f} rows/s, {requests / best:,.0f} requests/s, "
                        f"{octets / best / 2**20:,.1f} MB/s ({requests:,} requests, best of {arguments.repeat}{bar})",
                        flush=True,
                    )
    finally:
        ours.send(False)
        server.join(5)


if __name__ == "__main__":
    main()
