"""Rows into ClickHouse: a batch through the sink, against one insert of the same rows by ClickHouse's own client.

    python bench/clickhouse.py [--rows 1000000] [--repeat 9] [--warm 10]

The real engine is started for it. Ours begins with a batch that Spark has computed, the client with an Arrow table in
memory. They take turns, each into a new table of the same columns and the same engine. The JVM compiles what it runs
for some turns more after the first one, so those of a query that has just begun and of one that has run for a while are
told apart; the very first one, which also starts Python workers, does not count.
Bar: at least 0.7 of the client's rate, by best and by median, when it has run for a while.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from clickhouse_connect import get_client

from machine import Others, core_secs, end_in_order
from penstock.batch import BatchRef
from penstock.clients.clickhouse.client import ClickHouse
from penstock.clients.clickhouse.client import ClickHouseSinkServer as Target
from penstock.connectors.clickhouse_sink import ClickHouseSink
from penstock.dev import clickhouse, processes
from penstock.manifest.model import SparkSpec
from penstock.runtime.spark.session import spark_session

ROWS = (
    "id",
    "concat('user-', id % 10000) AS user_id",
    "concat('user', id % 10000, '@mail.test') AS email",
    "element_at(array('DE', 'FR', 'US', 'JP'), CAST(id % 4 AS INT) + 1) AS country",
    "id * 1.5D AS amount",
    "CAST(id * 0.0001 AS DECIMAL(20, 4)) AS price",
    "timestamp_millis(1767225600000 + id) AS at",
)


BAR = 0.7
Turn = tuple[float, float]
"""The seconds that passed, and those of cores, the server's among them."""


def timed(job: Callable[[], object], server: int) -> Turn:
    busy, begun = core_secs(server), time.perf_counter()
    job()
    return time.perf_counter() - begun, core_secs(server) - busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--warm", type=int, default=10)
    arguments = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        try:
            running = clickhouse.up(folder / "clickhouse")
            url = str(running.about["url"])
            with spark_session(SparkSpec(master="local[*]"), folder / "logs") as spark:
                batch = spark.range(arguments.rows).selectExpr(*ROWS).localCheckpoint()
                table = batch.toArrow()
                address = urlsplit(url)
                client = get_client(host=address.hostname, port=address.port)
                reaching = Target(ClickHouse(url))
                others = Others()
                own: list[Turn] = []
                theirs: list[Turn] = []
                for turn in range(arguments.warm + arguments.repeat):
                    said = {"from": "rows", "table": f"ours_{turn}", "primary_key": "id"}
                    sink = ClickHouseSink.model_validate(said).with_target(reaching)
                    ref = BatchRef("bench", "sink.bench", "bench", turn, ())
                    our = timed(lambda sink=sink, ref=ref: sink.write(batch, ref), running.pid)  # type: ignore[misc]
                    client.command(f"CREATE TABLE theirs_{turn} AS ours_{turn}")
                    their = timed(lambda turn=turn: client.insert_arrow(f"theirs_{turn}", table), running.pid)  # type: ignore[misc]
                    for name in (f"ours_{turn}", f"theirs_{turn}"):
                        ((count,),) = client.query(f"SELECT count() FROM {name}").result_rows
                        assert count == arguments.rows, (name, count)
                        client.command(f"DROP TABLE {name}")
                    own.append(our)
                    theirs.append(their)
                    print(f"turn {turn}: ours {our[0]:.2f} s, the client {their[0]:.2f} s", flush=True)
                told = str(others)
        finally:
            processes.stop(folder / "clickhouse")
    print(f"{arguments.rows:,} rows, best and median, {told}")
    warm = arguments.warm
    told_of(f"just begun, turns 1 to {warm - 1}", arguments.rows, theirs[1:warm], own[1:warm])
    best, median = told_of(f"turns {warm} and on", arguments.rows, theirs[warm:], own[warm:])
    print(f"bar {BAR}: {'met' if min(best, median) >= BAR else 'NOT met'}")


def told_of(which: str, rows: int, theirs: list[Turn], own: list[Turn]) -> tuple[float, float]:
    """Say how fast both were, and give what part ours was of the client, by best and by median."""
    if not own:
        return 0.0, 0.0
    print(which)
    for way, turns in (("the client", theirs), ("ours", own)):
        secs, cores = zip(*turns, strict=True)
        fastest, usual = rows / min(secs), rows / statistics.median(secs)
        print(f"  {way}: {fastest:,.0f} and {usual:,.0f} rows/s, {statistics.median(cores):.2f} s of cores")
    best, median = (each(t for t, _ in theirs) / each(t for t, _ in own) for each in (min, statistics.median))
    print(f"  ours: {best:.2f} and {median:.2f} of the client")
    return best, median


if __name__ == "__main__":
    main()
