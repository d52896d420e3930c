"""From the command to its end: `penstock run --once` beside a plain PySpark script that does the same.

    python bench/startup.py [--models 1 5 16] [--rows 160000] [--repeat 3] [--only "by hand"|ours]

Each project is run twice as a process of its own: a first start, with rows to read, and a restart with nothing to do.
The script by hand has the same queries, in one session, each started when those that it reads from are done. Wall-clock
seconds, and CPU seconds of all processes together: beside others on the machine, those say more. Bars: one query takes
at most 1.2 x of by hand, and a restart with nothing to do less than 12 s on two quiet cores.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from machine import Others, run_and_measure
from penstock.cli.sample import write_minute

BY_HAND_BAR = 1.2
RESTART_BAR_SECS = 12
MINUTES = 20


@dataclass(frozen=True, slots=True)
class Model:
    """A model as a project has it, and as the body of a query by hand."""

    name: str
    reads: tuple[str, ...]
    sql: str
    by_hand: str
    """Spark SQL over temporary views that are named after what is read."""
    output_mode: str = "append"


def _window(name: str, reads: str, unit: str, column: str = "country") -> Model:
    amount, at = "SUM(amount) AS revenue", "ordered_at"
    return Model(
        name,
        (reads,),
        f"SELECT {column}, TUMBLE_START({at}, INTERVAL '1' {unit}) AS since, {amount} FROM {{{{ {_ref(reads)} }}}} "
        f"GROUP BY {column}, TUMBLE({at}, INTERVAL '1' {unit})",
        f"SELECT {column}, w.start AS since, {amount} FROM (SELECT *, window({at}, '1 {unit.lower()}') AS w "
        f"FROM {reads}) GROUP BY {column}, w",
    )


def _group(name: str, reads: str, column: str) -> Model:
    select = f"SELECT {column}, COUNT(*) AS orders, SUM(amount) AS revenue FROM "
    return Model(
        name,
        (reads,),
        f"{select} {{{{ {_ref(reads)} }}}} GROUP BY {column}",
        f"{select} {reads} GROUP BY {column}",
        "update",
    )


def _filter(name: str, reads: str, condition: str) -> Model:
    columns = "order_id, customer_id, UPPER(country) AS country, amount, ordered_at"
    return Model(
        name,
        (reads,),
        f"SELECT {columns} FROM {{{{ {_ref(reads)} }}}} WHERE {condition}",
        f"SELECT {columns} FROM {reads} WHERE {condition}",
    )


def _ref(name: str) -> str:
    return f'source("{name}")' if name == "orders_raw" else f'ref("{name}")'


_JOIN = (
    "SELECT a.order_id, a.customer_id, b.country, b.amount, a.ordered_at FROM {} AS a JOIN {} AS b "
    "ON a.order_id = b.order_id AND b.ordered_at BETWEEN a.ordered_at AND a.ordered_at + INTERVAL '1' MINUTE"
)
MODELS = (
    _filter("orders_clean", "orders_raw", "status = 'paid' AND amount > 0"),
    _filter("large_orders", "orders_clean", "amount >= 450"),
    _window("revenue_by_minute", "orders_clean", "MINUTE"),
    _group("by_country", "orders_clean", "country"),
    _filter("small_orders", "orders_clean", "amount < 10"),
    Model(
        "paired_orders",
        ("orders_clean", "large_orders"),
        _JOIN.format('{{ ref("orders_clean") }}', '{{ ref("large_orders") }}'),
        _JOIN.format("orders_clean", "large_orders"),
    ),
    _filter("german_orders", "orders_clean", "country = 'DE'"),
    _filter("french_orders", "orders_clean", "country = 'FR'"),
    _window("revenue_by_hour", "orders_clean", "HOUR"),
    _window("german_revenue", "german_orders", "MINUTE"),
    _window("french_revenue", "french_orders", "MINUTE"),
    _window("large_by_minute", "large_orders", "MINUTE"),
    _group("by_customer", "orders_clean", "customer_id"),
    _group("large_by_customer", "large_orders", "customer_id"),
    _group("german_by_customer", "german_orders", "customer_id"),
    _filter("paired_german", "paired_orders", "country = 'DE'"),
)

PROJECT = """project: {name: startup}
sources:
  - name: orders_raw
    topic: orders.raw.v1
    columns:
      - {name: order_id, type: BIGINT}
      - {name: customer_id, type: BIGINT}
      - {name: country, type: STRING}
      - {name: status, type: STRING}
      - {name: amount, type: "DECIMAL(10, 2)"}
      - {name: ordered_at, type: TIMESTAMP(3)}
    event_time: {column: ordered_at, watermark: {max_out_of_orderness_ms: 5000}}
models:
"""

BY_HAND = '''
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession

work, models = Path(sys.argv[1]), json.loads(sys.argv[2])
spark = (
    SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.driver.memory", "5g")
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
schemas = {"orders_raw": """order_id BIGINT, customer_id BIGINT, country STRING, status STRING, amount DECIMAL(10, 2),
    ordered_at TIMESTAMP"""}

def view(name):
    if name == "orders_raw":
        rows = spark.readStream.schema(schemas[name]).json(str(work / ".penstock/topics/orders.raw.v1"))
    else:
        rows = spark.readStream.schema(schemas[name]).parquet(str(work / "out" / name))
    if "ordered_at" in rows.columns:
        rows = rows.withWatermark("ordered_at", "5 seconds")
    rows.createOrReplaceTempView(name)

def write(name):
    target = str(work / "out" / name)
    return lambda batch, _: batch.write.mode("append").parquet(target)

for model in models:
    for name in model["reads"]:
        view(name)
    rows = spark.sql(model["sql"])
    schemas[model["name"]] = rows.schema
    (work / "out" / model["name"]).mkdir(parents=True, exist_ok=True)
    (
        rows.writeStream.outputMode(model["output_mode"]).option("checkpointLocation", str(work / model["name"]))
        .trigger(availableNow=True).foreachBatch(write(model["name"])).start().awaitTermination()
    )
spark.stop()
'''


def write_project(project: Path, models: tuple[Model, ...], rows: int) -> None:
    project.mkdir(parents=True)
    parts = [f"  - name: {model.name}\n    sql: |\n      {model.sql}\n" for model in models]
    (project / "stream_project.yml").write_text(PROJECT + "".join(parts), encoding="utf-8")
    for minute in range(MINUTES):
        write_minute(project, minute, rows // MINUTES)


def commands(project: Path, models: tuple[Model, ...]) -> dict[str, list[str]]:
    script = project / "by_hand.py"
    script.write_text(BY_HAND, encoding="utf-8")
    told = [{"name": m.name, "reads": m.reads, "sql": m.by_hand, "output_mode": m.output_mode} for m in models]
    penstock = Path(sys.executable).with_name("penstock")
    return {
        "by hand": [sys.executable, str(script), str(project), json.dumps(told)],
        "ours": [str(penstock), "run", str(project), "--once"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[1, 5, 16])
    parser.add_argument("--rows", type=int, default=160_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=["by hand", "ours"])
    arguments = parser.parse_args()
    for count in arguments.models:
        models, others = MODELS[:count], Others()
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(arguments.repeat):
            with tempfile.TemporaryDirectory() as folder:
                project = Path(folder) / "startup"
                write_project(project, models, arguments.rows)
                for who, command in commands(project, models).items():
                    if arguments.only in (None, who):
                        for start in ("first start", "restart"):
                            taken.setdefault((who, start), []).append(measure(command, Path(folder)))
        report(count, taken)
        print(f"  ({others})")


def measure(command: list[str], folder: Path) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a command that must succeed."""
    log = folder / "log"
    with log.open("wb") as sink:
        code, wall_secs, cpu_secs = run_and_measure(command, sink)
    if code:
        raise SystemExit(log.read_text(encoding="utf-8")[-4000:])
    return wall_secs, cpu_secs


def report(count: int, taken: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    print(f"{count} model{'s' * (count > 1)}")
    for (who, start), runs in taken.items():
        walls, cpus = zip(*runs, strict=True)
        ratio = ""
        if who == "ours" and ("by hand", start) in taken:
            hand = taken[("by hand", start)]
            best = min(walls) / min(wall for wall, _ in hand), min(cpus) / min(cpu for _, cpu in hand)
            ratio = f"   {best[0]:.2f} x wall, {best[1]:.2f} x CPU of by hand"
        print(
            f"  {who:>8}, {start:<11}: wall best {min(walls):5.1f} s, median {statistics.median(walls):5.1f} s; "
            f"CPU best {min(cpus):5.1f} s, median {statistics.median(cpus):5.1f} s{ratio}"
        )


if __name__ == "__main__":
    main()
