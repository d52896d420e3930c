"""Pipelines: generated and file rows through SQL into several sinks."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.file_sink import FileSink
from penstock.runtime.delivery.sink_progress import NOTE
from penstock.runtime.replay.output_replay import ReplayResult
from penstock.runtime.replay.replay import replay_dead_letters
from penstock.testing import memory
from penstock.testing.contract import FIRST
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check, compile_project
from tests.spark.running import Running


@pytest.fixture
def pipeline(running: Running) -> Running:
    return Running(running.root, running.spark, "pipeline.yml")


def json_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in folder.glob("*/part-*.json") for line in file.read_text().splitlines()]


GENERATOR = """
sources:
  raw.events:
    type: generator
    rows: 50
    seed: 3
    columns:
      id: {kind: sequence, start: 1}
      amount: {kind: integer, min: 1, max: 6}
      word: {kind: choice, values: [a, b]}
"""


def test_a_generator_makes_the_same_rows_for_the_same_seed(pipeline: Running) -> None:
    document = GENERATOR + "transforms: {}\nsinks:\n  out: {type: file, from: raw.events, path: %s, format: json}\n"
    pipeline.write({"pipeline.yml": document % "one"}).run()
    first = json_rows(pipeline.root / "one")
    other = Running(pipeline.root, pipeline.spark, "second.yml").write({"second.yml": document % "two"})
    other.run()
    assert sorted(row["id"] for row in first) == list(range(1, 51))
    assert {row["amount"] for row in first} == {1, 2, 3, 4, 5, 6}
    assert sorted(first, key=lambda r: r["id"]) == sorted(json_rows(pipeline.root / "two"), key=lambda r: r["id"])


def test_a_batch_is_as_many_files_as_are_wanted_at_most(pipeline: Running) -> None:
    rows = pipeline.spark.range(0, 8, 1, 4)
    for tasks, files in ((None, 4), (1, 1)):
        folder = pipeline.root / str(files)
        said = {"from": "a", "path": str(folder), "format": "json", "parallelism": tasks}
        assert FileSink.model_validate(said).write(rows, FIRST).rows == 8
        assert len(list(folder.glob("*/part-*.json"))) == files
        assert [row["id"] for row in sorted(json_rows(folder), key=lambda row: row["id"])] == [*range(8)]


def test_a_finished_bounded_pipeline_has_nothing_left_to_do(pipeline: Running) -> None:
    pipeline.write({"pipeline.yml": GENERATOR + "transforms: {}\nsinks:\n  out: {type: blackhole, from: raw.events}\n"})
    assert pipeline.run()["raw.events"].rows_out == 50
    assert pipeline.run()["raw.events"].rows_in == 0


def test_a_job_over_files_that_is_done_does_nothing_when_it_is_run_again(
    pipeline: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "sources:\n  numbers: {type: file, path: in, format: json, mode: {type: bounded}}\n"
    sink = "transforms: {}\nsinks:\n  out: {type: file, from: numbers, path: out, format: json}\n"
    rows = "".join(f'{{"id": {number}}}\n' for number in range(1000))
    pipeline.write({"pipeline.yml": source + sink, "in/a.json": rows})
    first = pipeline.run_on()["numbers"]
    assert (first.state, first.rows_out, first.part) == ("finished", 1000, 1.0)
    written = sorted((pipeline.root / "out").rglob("*"))
    again = pipeline.run_on()["numbers"]
    assert (again.state, again.rows_out, again.batches) == ("finished", 0, 0)
    assert sorted((pipeline.root / "out").rglob("*")) == written
    assert sorted(row["id"] for row in json_rows(pipeline.root / "out")) == [*range(1000)]
    with monkeypatch.context() as forgetful:
        forgetful.setenv("PENSTOCK__STATE_BACKEND__BACKEND_TYPE", "InMemory")
        assert [pipeline.run_on()["numbers"].rows_out for _ in range(2)] == [1000, 1000]
    assert pipeline.run_on()["numbers"].rows_out == 0, "a run that remembers nothing takes no checkpoint away"


def test_several_sinks_share_one_read(pipeline: Running, capsys: pytest.CaptureFixture[str]) -> None:
    shown = """
transforms:
  small:
    type: sql
    primary_key: id
    sql: SELECT id FROM raw.events WHERE id <= 3
sinks:
  shown: {type: print, from: small}
"""
    kept = "  kept: {type: file, from: raw.events, path: kept, format: parquet}\n"
    pipeline.write({"pipeline.yml": GENERATOR + shown + kept})
    progress = pipeline.run()["raw.events"]
    assert (progress.rows_in, progress.rows_out) == (50, 53)
    assert sorted(capsys.readouterr().out.splitlines()) == [f'INSERT {{"id":{n}}}' for n in (1, 2, 3)]
    pipeline.uncommit("raw.events", 0)
    assert pipeline.run()["raw.events"].rows_in == 50
    assert capsys.readouterr().out == "", "what one of them has of a batch, it gets once"
    pipeline.uncommit("raw.events", 0)
    pipeline.write({"pipeline.yml": GENERATOR + shown})
    assert pipeline.run()["raw.events"].rows_in == 50
    assert capsys.readouterr().out == "", "also when the other one is taken out"


def test_two_sinks_may_write_below_one_directory(pipeline: Running) -> None:
    pipeline.write(
        {
            "pipeline.yml": GENERATOR
            + """
transforms:
  low: {type: sql, primary_key: id, sql: SELECT id FROM raw.events WHERE id <= 5}
  high: {type: sql, primary_key: id, sql: SELECT id FROM raw.events WHERE id > 5}
sinks:
  one: {type: file, from: low, path: out, format: json}
  two: {type: file, from: high, path: out, format: json}
"""
        }
    )
    pipeline.run()
    assert sorted(row["id"] for row in json_rows(pipeline.root / "out")) == list(range(1, 51))


def test_a_cte_that_is_called_like_a_source_is_the_cte(pipeline: Running) -> None:
    pipeline.write(
        {
            "pipeline.yml": """
            sources:
              a: {type: generator, rows: 10, columns: {id: {kind: sequence}}}
              b: {type: generator, rows: 1, columns: {id: {kind: sequence, start: 777}}}
            transforms:
              t: {type: sql, primary_key: id, sql: WITH b AS (SELECT * FROM a WHERE id > 7) SELECT * FROM b}
            sinks:
              kept: {type: file, from: t, path: kept, format: json}
              rest: {type: blackhole, from: b}
            """
        }
    )
    pipeline.run()
    assert sorted(row["id"] for row in json_rows(pipeline.root / "kept")) == [8, 9]


def test_sources_with_different_columns_are_united(pipeline: Running) -> None:
    pipeline.write(
        {
            "pipeline.yml": """
            sources:
              a: {type: generator, rows: 2, columns: {id: {kind: sequence}, x: {kind: boolean}}}
              b: {type: generator, rows: 3, columns: {name: {kind: text}, id: {kind: sequence, start: 10}}}
            transforms:
              both:
                type: sql
                primary_key: id
                sql: SELECT id FROM a UNION ALL SELECT id FROM b
            sinks:
              all: {type: file, from: both, path: all, format: json}
              only_b: {type: file, from: b, path: b, format: csv}
            """
        }
    )
    pipeline.run()
    rows = json_rows(pipeline.root / "all")
    assert sorted(row["id"] for row in rows) == [0, 1, 10, 11, 12]
    assert {row["_gs_op"] for row in rows} == {"i"}
    lines = [ln for f in (pipeline.root / "b").glob("*/part-*.csv") for ln in f.read_text().splitlines()]
    assert sum(line.startswith("name,id,_gs_op") for line in lines) >= 1


def test_the_operation_of_a_row_is_kept_and_never_doubled(
    pipeline: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.write(
        {
            "in/rows.json": "".join(
                f'{{"id": {n}, "_gs_op": {word}}}\n'
                for n, word in enumerate(('"d"', '"u"', '"i"', '"D"', '"U"', '"x"', "null"), 1)
            ),
            "pipeline.yml": """
            sources:
              changes: {type: file, path: in, format: json, mode: {type: bounded}}
            transforms:
              renamed:
                type: sql
                primary_key: key
                sql: SELECT id AS key FROM (SELECT id FROM changes) AS inner_rows
            sinks:
              out: {type: print, from: renamed}
            """,
        }
    )
    pipeline.run()
    lines = sorted(capsys.readouterr().out.splitlines())
    kinds = {"DELETE": (1, 4), "INSERT": (3, 6, 7), "UPDATE": (2, 5)}
    assert lines == [f'{kind} {{"key":{key}}}' for kind, keys in kinds.items() for key in keys]


def test_branches_of_a_union_have_the_operation_at_the_same_place(pipeline: Running) -> None:
    memory.forget()
    pipeline.write(
        {
            "in/rows.json": '{"_gs_op": "d", "name": "a"}\n',
            "pipeline.yml": """
            sources:
              changes: {type: file, path: in, format: json, mode: {type: bounded}}
              new: {type: generator, rows: 1, columns: {name: {kind: choice, values: [b]}}}
            transforms:
              both:
                type: sql
                primary_key: name
                sql: SELECT *, 1 AS n FROM changes UNION ALL (SELECT name, 2 FROM new)
            sinks:
              kept: {type: memory, from: both}
            """,
        }
    )
    pipeline.run()
    rows = sorted((row["name"], row["_gs_op"]) for row in memory.kept_rows("kept"))
    assert rows == [("a", "d"), ("b", "i")]


def test_a_json_document_with_its_transforms_in_any_order(pipeline: Running) -> None:
    memory.forget()
    document = {
        "definition": {
            "sources": {"raw.events": {"type": "generator", "rows": 3, "columns": {"id": {"kind": "sequence"}}}},
            "transforms": {
                "z.last": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM a.first WHERE id > 0"},
                "a.first": {"type": "sql", "primary_key": "id", "sql": "SELECT * EXCEPT(id), id FROM raw.events"},
            },
            "sinks": {"kept": {"type": "memory", "from": "z.last"}},
        }
    }
    pipeline.write({"pipeline.json": json.dumps(document)})
    Running(pipeline.root, pipeline.spark, "pipeline.json").run()
    assert sorted(memory.kept_rows("kept"), key=lambda row: row["id"]) == [
        {"id": 1, "_gs_op": "i"},
        {"id": 2, "_gs_op": "i"},
    ]


@pytest.mark.parametrize("file_format", ["parquet", "json", "csv", "avro"])
def test_a_file_sink_writes_what_a_file_source_reads(pipeline: Running, file_format: str) -> None:
    pipeline.write(
        {
            "pipeline.yml": GENERATOR
            + f"transforms: {{}}\nsinks:\n  out: {{type: file, from: raw.events, path: out, format: {file_format}}}\n",
            "back.yml": f"""
            sources:
              written: {{type: file, path: out, format: {file_format}, mode: {{type: bounded}}, primary_key: id}}
            transforms: {{}}
            sinks:
              counted: {{type: file, from: written, path: back, format: json}}
            """,
        }
    )
    pipeline.run()
    back = Running(pipeline.root, pipeline.spark, "back.yml")
    assert back.run()["written"].rows_in == 50
    assert sorted(int(row["id"]) for row in json_rows(pipeline.root / "back")) == list(range(1, 51))


def test_a_transform_can_be_shown(pipeline: Running) -> None:
    pipeline.write(
        {
            "pipeline.yml": GENERATOR
            + """
transforms:
  small: {type: sql, primary_key: id, sql: SELECT id FROM raw.events WHERE id <= 3}
sinks:
  out: {type: blackhole, from: small}
"""
        }
    )
    assert sorted(row["id"] for row in pipeline.show("transform.small")) == [1, 2, 3]


def test_a_memory_sink_keeps_rows_for_a_test(pipeline: Running) -> None:
    memory.forget()
    document = GENERATOR + "transforms: {}\nsinks:\n  kept: {type: memory, from: raw.events, exclude_gs_op: true}\n"
    pipeline.write({"pipeline.yml": document}).run()
    rows = memory.kept_rows("kept")
    assert sorted(row["id"] for row in rows) == list(range(1, 51))
    assert rows[0].keys() == {"id", "amount", "word"}
    pipeline.uncommit("raw.events", 0)
    assert pipeline.run()["raw.events"].rows_out == 0
    assert len(memory.kept_rows("kept")) == 50
    memory.forget()
    assert memory.kept_rows("kept") == []


def test_a_run_ends_when_enough_rows_were_printed(pipeline: Running, capsys: pytest.CaptureFixture[str]) -> None:
    endless = GENERATOR.replace("rows: 50", "rows_per_second: 1000")
    sinks = "transforms: {}\nsinks:\n  shown: {type: print, from: raw.events, num_records_before_stop: 20}\n"
    pipeline.write({"pipeline.yml": endless + sinks})
    progress = pipeline.run_on()["raw.events"]
    assert progress.state == "stopped"
    assert len(capsys.readouterr().out.splitlines()) >= 20


def test_only_every_nth_row_is_printed(pipeline: Running, capsys: pytest.CaptureFixture[str]) -> None:
    source = "numbers: {type: file, path: in, format: json, mode: {type: continuous, poll_interval: 20ms}}"
    sink = "shown: {type: print, from: numbers, sample_every: 5}"
    pipeline.write({"pipeline.yml": f"sources:\n  {source}\ntransforms: {{}}\nsinks:\n  {sink}\n"})
    commits = pipeline.place.checkpoint("numbers") / "commits"

    def after_three_batches() -> bool:
        done = len([path for path in commits.glob("*") if path.name.isdigit()]) if commits.is_dir() else 0
        rows = "".join(f'{{"id": {number}}}\n' for number in range(3 * done, 3 * done + 3))
        if done < 3 and not (pipeline.root / "in" / f"{done}.json").exists():
            pipeline.write({f"in/{done}.json": rows})
        return done >= 3

    after_three_batches()
    assert pipeline.run_on(after_three_batches)["numbers"].batches == 3
    assert capsys.readouterr().out.splitlines() == ['INSERT {"id":0}', 'INSERT {"id":5}']


FUNCTIONS = """
sources:
  raw.events:
    type: generator
    rows: 6
    seed: 3
    columns:
      id: {kind: sequence, start: 1}
      word: {kind: choice, values: ['{"k": "a"}', '{"k": ["a"]}', 'broken']}
transforms:
  said:
    type: sql
    primary_key: id
    sql: |
      SELECT * EXCEPT (_gs_op), id / 2 AS half, json_value(word, '$.k') AS k, _gs_keccak256(word) AS hash,
        uuid7() AS own, (string_to_array(word, '"'))[9] AS gone
      FROM raw.events WHERE json_exists(word, '$.k', 'FALSE') AND id / 2 < 3
sinks:
  out: {type: file, from: said, path: out, format: json}
"""


def test_functions_of_pipelines_run_in_a_stream(pipeline: Running) -> None:
    counts = pipeline.write({"pipeline.yml": FUNCTIONS}).run()["raw.events"]
    rows = json_rows(pipeline.root / "out")
    assert counts.rows_out == len(rows) > 1
    assert {row["_gs_op"] for row in rows} == {"i"}
    assert {row["id"] for row in rows} <= {1, 2, 3, 4, 5}
    assert {(row["id"], row["half"]) for row in rows} == {(row["id"], row["id"] // 2) for row in rows}
    assert {(row["word"], row.get("k")) for row in rows} <= {('{"k": "a"}', "a"), ('{"k": ["a"]}', None)}
    assert len({row["own"] for row in rows}) == len(rows)
    assert {len(row["hash"]) for row in rows} == {66}
    assert [row.get("gone") for row in rows] == [None] * len(rows)


TWO_FILES = """
sources:
  words: {type: file, path: words, format: json, mode: {type: bounded}, primary_key: id}
  others: {type: file, path: others, format: json, mode: {type: bounded}, primary_key: id}
"""
WORDS = [*({"id": number, "word": str(number)} for number in range(1, 5)), {"id": 5, "word": "five"}]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def ids_of_dead_letters(running: Running, topic: str) -> list[int]:
    return sorted(json.loads(dead_letter["value"])["id"] for dead_letter in running.topic(topic))


def test_each_of_several_sinks_keeps_the_rows_that_it_fails_over_and_the_others_go_on(pipeline: Running) -> None:
    document = """
transforms:
  numbers: {type: sql, primary_key: id, sql: "SELECT id, CAST(word AS INT) AS number FROM words"}
  shares: {type: sql, primary_key: id, sql: "SELECT id, 100 / (id - 2) AS share FROM words WHERE id < 5"}
  both:
    type: sql
    primary_key: id
    sql: SELECT id, CAST(word AS INT) AS n FROM words UNION ALL SELECT id, 10 / (id - 100) FROM others
sinks:
  first: {type: file, from: numbers, path: first, format: json}
  all: {type: file, from: words, path: all, format: json}
  skipping: {type: file, from: shares, path: skipping, format: json, on_error: skip}
  last: {type: file, from: both, path: last, format: json}
"""
    others = lines([{"id": number} for number in (100, 101)])
    files = {"words/a.json": lines(WORDS) + "{broken\n", "others/a.json": others}
    pipeline.write({"pipeline.yml": TWO_FILES + document, **files})

    def written(sink: str) -> list[int]:
        return sorted(row["id"] for row in json_rows(pipeline.root / sink))

    progress = pipeline.run()["words"]
    assert (progress.rows_out, progress.rejected) == (4 + 5 + 3 + 5, 1 + 1 + 2 + 1)
    assert progress.kept_in == ("first.errors", "last.errors", "words.errors")
    for _ in range(2):
        assert written("first") == [1, 2, 3, 4]
        assert written("all") == [1, 2, 3, 4, 5]
        assert written("skipping") == [1, 3, 4]
        assert written("last") == [1, 2, 3, 4, 101]
        assert ids_of_dead_letters(pipeline, "first.errors") == [5]
        assert ids_of_dead_letters(pipeline, "last.errors") == [5, 100]
        assert {dead_letter["node"] for dead_letter in pipeline.topic("last.errors")} == {"sink.last"}
        assert [dead_letter["value"] for dead_letter in pipeline.topic("words.errors")] == ["{broken"]
        assert not (pipeline.place.topics / "skipping.errors").exists()
        pipeline.uncommit("words", 0)
        (pipeline.place.checkpoint("words") / NOTE).unlink()
        assert pipeline.run()["words"].rows_out == 0


def test_rows_that_one_of_several_sinks_failed_over_are_delivered_again_to_it_alone(pipeline: Running) -> None:
    document = """
sources:
  words: {type: file, path: words, format: json, mode: {type: bounded}, primary_key: id}
transforms:
  numbers: {type: sql, primary_key: id, sql: "SELECT id, CAST(word AS INT) AS number FROM words"}
sinks:
  all: {type: file, from: words, path: all, format: json}
  kept: {type: file, from: numbers, path: kept, format: json}
"""
    pipeline.write({"pipeline.yml": document, "words/a.json": lines(WORDS)}).run()
    pipeline.write({"pipeline.yml": document.replace("CAST(", "TRY_CAST(")})
    checked = check(pipeline.root / pipeline.entry)
    (dead_letter,) = pending_dead_letters(checked, None)
    sent = (compile_project(checked), "sink.kept", [dead_letter], pipeline.spark, checked.place, checked.store)
    assert replay_dead_letters(*sent, checked.environ, checked.clusters) == ReplayResult(1, 0)
    for sink in ("all", "kept"):
        assert sorted(row["id"] for row in json_rows(pipeline.root / sink)) == [1, 2, 3, 4, 5]
    assert pending_dead_letters(checked, None) == []


def test_rows_that_fail_in_one_of_two_united_sources_are_kept(pipeline: Running) -> None:
    document = """
transforms:
  both:
    type: sql
    primary_key: id
    sql: SELECT id, CAST(word AS INT) AS n FROM words UNION ALL SELECT id, 10 / (id - 100) FROM others
sinks:
  kept: {type: file, from: both, path: kept, format: json}
"""
    pipeline.write({"pipeline.yml": TWO_FILES + document, "words/a.json": lines(WORDS), "others/a.json": '{"id": 100}'})
    progress = pipeline.run()["words"]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (6, 4, 2)
    assert sorted(row["id"] for row in json_rows(pipeline.root / "kept")) == [1, 2, 3, 4]
    assert ids_of_dead_letters(pipeline, "kept.errors") == [5, 100]
