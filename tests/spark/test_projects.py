"""Projects on embedded topics: rows in, rows out, again and again."""

import csv
import json
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.cli.output import exact_json
from penstock.connectors.registry import source_from
from penstock.errors import PlanRefused, QueryFailed
from penstock.workflow.stages import check, compile_project
from tests.spark.running import ORDERS, Running, order

PAID = """
project:
  name: shop
models:
  - name: large
    sql: |
      SELECT id, UPPER(country) AS country, amount
      FROM {{ source("orders") }}
      WHERE amount >= 10
"""


def test_a_row_goes_from_file_to_topic(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1, country="de"), order(2, amount=3), order(3, country="fr")])
    progress = running.run()["large"]
    assert (progress.rows_in, progress.rows_out, progress.batches) == (3, 2, 1)
    rows = sorted(running.topic("large"), key=lambda row: row["id"])
    assert rows == [{"id": 1, "country": "DE", "amount": 10.0}, {"id": 3, "country": "FR", "amount": 10.0}]


def test_a_second_run_reads_only_what_is_new(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1), order(2)])
    running.run()
    running.drop("orders.v1", "b.jsonl", [order(3)])
    assert running.run()["large"].rows_in == 1
    assert running.run()["large"].rows_in == 0
    assert sorted(row["id"] for row in running.topic("large")) == [1, 2, 3]


def test_json_csv_and_parquet_may_lie_side_by_side(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    folder = running.root / ".penstock" / "topics" / "orders.v1"
    running.drop("orders.v1", "a.jsonl", [order(1)])
    (folder / "b.csv").write_text("id,country,amount,at\n2,de,20,2026-01-01T00:00:00Z\n")
    rows = running.spark.createDataFrame([(3, "it", 30.0)], "id BIGINT, country STRING, amount DOUBLE")
    rows.selectExpr("*", "TIMESTAMP '2026-01-01' AS at").write.parquet(str(folder / "c"))
    running.run()
    assert sorted(row["id"] for row in running.topic("large")) == [1, 2, 3]


def test_one_call_carries_a_row_through_a_chain_with_a_window_at_its_end(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: by_minute
                sql: |
                  SELECT country, TUMBLE_START(happened, INTERVAL '1' MINUTE) AS minute, COUNT(*) AS n, SUM(amount)
                  FROM {{ ref("clean") }}
                  GROUP BY country, TUMBLE(happened, INTERVAL '1' MINUTE)
              - name: clean
                sql: SELECT id, country, amount, at AS happened FROM {{ source("orders") }}
            """,
        }
    )
    times = ["00:00:10", "00:00:50", "00:01:05", "00:03:00"]
    running.drop("orders.v1", "a.jsonl", [order(n, at=f"2026-01-01T{t}Z") for n, t in enumerate(times)])
    progress = running.run()
    assert progress["clean"].rows_out == 4
    rows = sorted(running.topic("by_minute"), key=lambda row: row["minute"])
    assert [(row["minute"].minute, row["n"], row["_col_3"]) for row in rows] == [(0, 2, 20.0), (1, 1, 10.0)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("HOP(at, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)", [("23:59", 1), ("00:00", 2), ("00:01", 1)]),
        ("SESSION(at, INTERVAL '1' MINUTE)", [("00:00", 2)]),
    ],
)
def test_hopping_and_session_windows_give_the_rows_they_should(
    running: Running, window: str, expected: list[tuple[str, int]]
) -> None:
    name, _, rest = window.partition("(")
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": f"""
            project: {{name: shop}}
            models:
              - name: counted
                sql: |
                  SELECT {name}_START({rest} AS began, COUNT(*) AS n
                  FROM {{{{ source("orders") }}}} GROUP BY country, {window}
            """,
        }
    )
    times = ["00:00:30", "00:01:10", "01:00:00"]
    running.drop("orders.v1", "a.jsonl", [order(n, at=f"2026-01-01T{t}Z") for n, t in enumerate(times)])
    running.run()
    rows = sorted(running.topic("counted"), key=lambda row: row["began"])
    assert [(row["began"].strftime("%H:%M"), row["n"]) for row in rows] == expected


def test_a_virtual_topic_without_a_gateway_runs_inside_its_reader(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: german
                materialized: virtual_topic
                sql: SELECT * FROM {{ source("orders") }} WHERE country = 'DE'
              - name: ids
                sql: SELECT id FROM {{ ref("german") }}
            """,
        }
    )
    running.drop("orders.v1", "a.jsonl", [order(1), order(2, country="FR")])
    assert list(running.run()) == ["ids"]
    assert [row["id"] for row in running.topic("ids")] == [1]
    assert [row["id"] for row in running.show("model.german")] == [1]


def test_a_source_that_is_read_twice_is_read_under_two_names(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: twice
                sql: |
                  SELECT id, 'a' AS side FROM {{ source("orders") }}
                  UNION ALL
                  SELECT id, 'b' AS side FROM {{ source("orders") }}
            """,
        }
    )
    running.drop("orders.v1", "a.jsonl", [order(1)])
    running.run()
    assert sorted(row["side"] for row in running.topic("twice")) == ["a", "b"]


def test_checkpoints_begin_in_the_form_that_can_change_later(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1)])
    running.run()
    log = (running.place.checkpoint("large") / "offsets" / "0").read_text().splitlines()
    assert log[0] == "v2"
    assert [line.partition(":")[0] for line in log[2:]] == ["source_orders_json"]


def test_new_sql_without_state_goes_on_where_the_old_stopped(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1)])
    running.run()
    running.write({"stream_project.yml": PAID.replace("amount >= 10", "amount >= 0")})
    running.drop("orders.v1", "b.jsonl", [order(2, amount=1)])
    assert running.run()["large"].rows_in == 1
    assert sorted(row["id"] for row in running.topic("large")) == [1, 2]


def test_new_sql_with_state_is_refused_until_a_rebuild_is_allowed(running: Running) -> None:
    counted = """
    project: {name: shop}
    models:
      - name: counted
        sql: |
          SELECT country, COUNT(*) AS n FROM {{ source("orders") }}
          GROUP BY country, TUMBLE(at, INTERVAL '1' MINUTE)
    """
    running.write({"stream_project.yml": counted, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1), order(2, at="2026-01-01T00:05:00Z")])
    running.run()
    running.write({"stream_project.yml": counted.replace("COUNT(*) AS n", "COUNT(*) AS n, MAX(amount) AS top")})
    with pytest.raises(PlanRefused) as refused:
        running.run()
    assert refused.value.code == "rebuild-refused"
    assert running.run(allow_rebuild=["counted"])["counted"].rows_in == 2
    kept = [path.name for path in running.place.checkpoint("counted").parent.iterdir()]
    assert len(kept) == 2
    assert any("@" in name for name in kept)


def test_files_that_are_old_are_read_all_the_same(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "new.jsonl", [order(1)])
    running.run()
    running.drop("orders.v1", "old.jsonl", [order(2)])
    old = running.root / ".penstock" / "topics" / "orders.v1" / "old.jsonl"
    os.utime(old, (1_600_000_000, 1_600_000_000))
    assert running.run()["large"].rows_in == 1


def test_a_path_with_brackets_and_stars_is_a_path(spark: SparkSession, tmp_path: Path) -> None:
    running = Running(tmp_path / "a [1] {b} * c", spark)
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1)])
    assert running.run()["large"].rows_out == 1
    assert running.show("source.orders")[0]["id"] == 1


def test_a_project_that_moves_does_not_read_everything_again_in_silence(spark: SparkSession, tmp_path: Path) -> None:
    first = Running(tmp_path / "first", spark)
    first.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    first.drop("orders.v1", "a.jsonl", [order(1)])
    first.run()
    (tmp_path / "link").symlink_to(first.root)
    assert Running(tmp_path / "link", spark).run()["large"].rows_in == 0
    first.root.rename(tmp_path / "second")
    with pytest.raises(PlanRefused) as refused:
        Running(tmp_path / "second", spark).run()
    assert refused.value.code == "rebuild-refused"


def test_a_checkpoint_that_was_put_back_does_not_lose_rows_in_silence(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1)])
    running.run()
    checkpoint = running.place.checkpoint("large")
    shutil.copytree(checkpoint, running.root / "copy")
    running.drop("orders.v1", "b.jsonl", [order(2)])
    running.run()
    shutil.rmtree(checkpoint)
    shutil.copytree(running.root / "copy", checkpoint)
    running.drop("orders.v1", "c.jsonl", [order(3)])
    with pytest.raises(QueryFailed) as failed:
        running.run()
    assert failed.value.code == "batch-conflict"


def test_a_lost_checkpoint_does_not_start_over_in_silence(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1)])
    running.run()
    running.place.checkpoint("large").rename(running.root / "lost")
    with pytest.raises(PlanRefused) as refused:
        running.run()
    assert refused.value.code == "rebuild-refused"


def test_a_replayed_batch_leaves_no_duplicates_and_no_gap(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1), order(2)])
    running.run()
    running.uncommit("large", 0)
    running.drop("orders.v1", "b.jsonl", [order(3)])
    progress = running.run()["large"]
    assert progress.batches == 2
    assert sorted(row["id"] for row in running.topic("large")) == [1, 2, 3]


def test_a_later_batch_is_replayed_as_well(running: Running) -> None:
    """Another run wrote the batch before it: Spark compares the settings of the two."""
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    for number in (1, 2):
        running.drop("orders.v1", f"{number}.jsonl", [order(number)])
        running.run()
    running.uncommit("large", 1)
    running.drop("orders.v1", "3.jsonl", [order(3)])
    running.run()
    assert sorted(row["id"] for row in running.topic("large")) == [1, 2, 3]


def test_state_keeps_its_partitions_when_the_machine_changes(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: counted
                sql: |
                  SELECT country, COUNT(*) AS n FROM {{ source("orders") }}
                  GROUP BY country, TUMBLE(at, INTERVAL '1' MINUTE)
            """,
        }
    )
    countries = [f"C{n}" for n in range(20)]
    running.drop("orders.v1", "a.jsonl", [order(n, country=c) for n, c in enumerate(countries)])
    running.run()
    java_conf = running.spark.sparkContext._jsc.sc().conf()
    before = java_conf.get("spark.sql.shuffle.partitions")
    java_conf.set("spark.sql.shuffle.partitions", "7")
    try:
        late = [order(n, country=c) for n, c in enumerate(countries)]
        running.drop("orders.v1", "b.jsonl", [*late, order(99, at="2026-01-01T01:00:00Z")])
        running.run()
    finally:
        java_conf.set("spark.sql.shuffle.partitions", before)
    assert sorted((row["country"], row["n"]) for row in running.topic("counted")) == sorted((c, 2) for c in countries)


def test_csv_is_read_and_written_as_others_do(running: Running) -> None:
    """Quotes inside quotes, commas and line breaks, as Python's csv writes and reads them."""
    names = ['He said "no", twice', "two\nlines", "plain", "back\\slash"]
    running.write(
        {
            "stream_project.yml": """
            project: {name: shop}
            sources:
              - name: people
                topic: people
                columns: [{name: id, type: BIGINT}, {name: name, type: STRING}, {name: city, type: STRING}]
            models:
              - {name: named, sql: 'SELECT id, name FROM {{ source("people") }}'}
              - name: export
                from: named
                advanced: {connector: {type: file, config: {path: out, format: csv}}}
            """
        }
    )
    folder = running.root / ".penstock" / "topics" / "people"
    folder.mkdir(parents=True)
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "name", "city"], *([n, name, "x"] for n, name in enumerate(names))])
    running.run()
    assert [row["name"] for row in sorted(running.topic("named"), key=lambda row: row["id"])] == names
    exported = []
    for part in (running.root / "out").glob("*/part-*.csv"):
        with part.open(newline="") as file:
            exported += [row["name"] for row in csv.DictReader(file)]
    assert sorted(exported) == sorted(names)


def test_an_old_copy_of_a_checkpoint_is_refused_rather_than_trusted(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1)])
    running.run()
    note = next((running.root / ".penstock" / "topics" / "large").glob("*/_batch.json"))
    note.write_text(json.dumps({**json.loads(note.read_text()), "offsets": ["elsewhere:7"]}))
    running.uncommit("large", 0)
    with pytest.raises(QueryFailed) as failed:
        running.run()
    assert failed.value.code == "batch-conflict"


def test_a_row_that_is_not_what_was_declared_stops_the_query_and_names_it(running: Running) -> None:
    stopping = ORDERS.replace("    topic: orders.v1\n", "    topic: orders.v1\n    on_error: stop\n")
    running.write({"stream_project.yml": PAID, "sources/orders.yml": stopping})
    running.drop("orders.v1", "a.jsonl", [order(1), {"id": "not a number"}])
    with pytest.raises(QueryFailed) as failed:
        running.run()
    assert failed.value.code == "field-mismatch"
    assert failed.value.chain[:-1] == ["query `large` stopped", "batch 0 was not written to model `large`"]
    assert (failed.value.node, failed.value.internal, failed.value.retriable) == ("large", False, False)
    assert "`id`: `not a number` is not a BIGINT" in failed.value.message
    assert "a.jsonl" in failed.value.message
    assert "Traceback" not in failed.value.message


def test_a_model_sink_writes_with_one_of_our_connectors(running: Running, tmp_path: Path) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: export
                from: [{source: orders}]
                advanced:
                  connector:
                    type: file
                    config: {path: exported, format: json}
            """,
        }
    )
    running.drop("orders.v1", "a.jsonl", [order(1), order(2)])
    running.run()
    lines = [line for file in (tmp_path / "exported").glob("*/*.json") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines if "id" in json.loads(line)) == [1, 2]


def test_show_gives_rows_of_sources_and_models(running: Running) -> None:
    running.write({"stream_project.yml": PAID, "sources/orders.yml": ORDERS})
    running.drop("orders.v1", "a.jsonl", [order(1)])
    assert running.show("model.large") == []
    running.run()
    assert running.show("model.large") == [{"id": 1, "country": "DE", "amount": 10.0}]
    assert running.show("source.orders")[0]["at"].startswith("2026-01-01T00:00:00")
    assert running.show("source.orders")[0]["at"].endswith("Z")


def test_rows_are_shown_alike_with_and_without_spark(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: wide
                sql: |
                  SELECT id, CAST(amount AS DECIMAL(10, 2)) AS price, DATE '2026-01-31' AS day, at,
                    ARRAY(1, 2) AS numbers, NAMED_STRUCT('a', 1, 'b', 'x') AS pair, MAP('k', at) AS times,
                    CAST('12345678901234567890.12' AS DECIMAL(38, 2)) AS large, CAST(0 AS DECIMAL(20, 18)) AS small,
                    ARRAY(CAST('0.10' AS DECIMAL(4, 2))) AS prices, CAST(7 AS DECIMAL(5, 0)) AS whole, 1e300 AS huge,
                    CAST('bytes' AS BINARY) AS raw, CAST('NaN' AS DOUBLE) AS odd, CAST(NULL AS STRING) AS nothing
                  FROM {{ source("orders") }}
            """,
        }
    )
    running.drop("orders.v1", "a.jsonl", [order(1, at="2026-01-01T00:00:00.123Z")])
    running.run()
    checked = check(running.root)
    fast = source_from(compile_project(checked).streams["model.wide"], running.root).first_rows(10)
    shown = running.show("model.wide")
    assert fast == shown
    for (row,) in (fast, shown):
        told = {name: exact_json(row[name]) for name in ("price", "large", "small", "prices", "whole", "huge")}
        assert list(told.values()) == [
            "10.00",
            "12345678901234567890.12",
            "0.000000000000000000",
            "[0.10]",
            "7",
            "1e+300",
        ]


def test_columns_that_nobody_declared_are_found_in_the_files(running: Running) -> None:
    running.write(
        {
            "stream_project.yml": """
            project: {name: shop}
            sources:
              - {name: events, topic: events}
            models:
              - name: out
                sql: SELECT n + 1 AS n FROM {{ source("events") }}
            """
        }
    )
    running.drop("events", "a.jsonl", [{"n": 1}])
    running.run()
    assert running.topic("out") == [{"n": 2}]
