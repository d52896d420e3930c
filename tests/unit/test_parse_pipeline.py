import json
from pathlib import Path

import pytest

from penstock.connectors.postgres_cdc import PostgresCdcPlugin
from penstock.errors import Origin, ProjectInvalid
from penstock.workflow.stages import check, compile_project
from tests.support import codes, errors, only, spot, write
from tests.unit.conftest import PIPELINE, Check, Findings, Link

NUMBERS = "{type: generator, columns: {id: {kind: sequence}}}"


def test_unknown_keys_are_reported_at_every_level_and_all_at_once(pipeline: Findings) -> None:
    text = f"""
        version: 1
        sources:
          a: {{type: generator, columns: {{id: {{kind: sequence, strt: 1}}}}, row: 5}}
          b: {{type: file, path: x, format: csv, mode: {{type: bounded}}}}
        transforms:
          t: {{type: sql, primary_key: id, sequel: x, sql: SELECT id FROM a}}
        sinks:
          o: {{type: print, from: t, sample: 3}}
          p: {{type: file, from: b, path: out, format: csv, pth: x}}
        sorces:
          x: {NUMBERS}
    """
    found = pipeline(text)
    assert codes(found) == ["unknown-field"] * 7
    assert [(d.path, d.hint) for d in found] == [
        ("version", "available: sinks, sources, transforms"),
        ("sorces", "did you mean `sources`?"),
        ("sources.a.columns.id.strt", "did you mean `start`?"),
        ("sources.a.row", "did you mean `rows`?"),
        (
            "transforms.t.sequel",
            "fields: batch_flush_interval, batch_size, parallelism, primary_key, sql, telemetry, type",
        ),
        ("sinks.o.sample", "did you mean `sample_every`?"),
        ("sinks.p.pth", "did you mean `path`?"),
    ]
    assert [d.origin for d in found] == [spot(PIPELINE, text, d.params["field"]) for d in found]


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        ("{kind: integer, mn: 3}", "did you mean `min`?"),
        ("{kind: uniform, decimal: 3}", "did you mean `decimals`?"),
        ("{kind: choice, values: [a], value: b}", "did you mean `values`?"),
        ("{kind: boolean, probabilty: 1}", "did you mean `probability`?"),
    ],
)
def test_the_nearest_field_is_sought_among_those_of_the_kind_that_was_chosen(
    pipeline: Findings, column: str, hint: str
) -> None:
    found = pipeline(f"sources: {{a: {{type: generator, columns: {{c: {column}}}}}}}\nsinks: {{}}\n")
    assert only(found, "unknown-field").hint == hint


@pytest.mark.parametrize(
    ("node", "code", "path"),
    [
        ("{type: prnt, from: a}", "unknown-type", "sinks.o.type"),
        ("{type: 3, from: a}", "missing-field", "sinks.o.type"),
        ("{from: a}", "missing-field", "sinks.o.type"),
        ("{type: print}", "missing-field", "sinks.o.from"),
        ("hello", "wrong-shape", "sinks.o"),
        ("", "wrong-shape", "sinks.o"),
        ("{type: file, from: a, format: csv}", "missing-field", "sinks.o.path"),
        ("{type: file, from: a, path: x, format: orc}", "unknown-value", "sinks.o.format"),
        ("{type: print, from: a, sample_every: 0}", "invalid-value", "sinks.o.sample_every"),
        ("{type: print, from: [a]}", "wrong-type", "sinks.o.from"),
    ],
)
def test_a_sink_that_cannot_be_used_is_reported(pipeline: Findings, node: str, code: str, path: str) -> None:
    found = only(pipeline(f"sources:\n  a: {NUMBERS}\nsinks:\n  o: {node}\n"))
    assert (found.code, found.path) == (code, path)
    assert found.origin is not None
    assert found.origin.line == 4


def test_an_unknown_type_is_reported_with_the_nearest_and_all_there_are(pipeline: Findings) -> None:
    text = """
        sources:
          a: {type: genrator}
          b: {type: pulsar}
        transforms:
          t: {type: sqll}
        sinks:
          o: {type: blackhol, from: a}
    """
    found = pipeline(text)
    assert codes(found) == ["unknown-type"] * 4
    assert [d.params["type"] for d in found] == ["genrator", "pulsar", "sqll", "blackhol"]
    assert [d.origin for d in found] == [spot(PIPELINE, text, d.params["type"]) for d in found]
    assert [d.hint for d in found] == [
        "did you mean `generator`?",
        None,
        "did you mean `sql`?",
        "did you mean `blackhole`?",
    ]
    there = "clickhouse, file, generator, hybrid, kafka, postgres_cdc, postgres_cdc_source, topic"
    assert f"`pulsar` is not available as a source; there are {there}" in found[1].message


def test_a_source_of_postgres_is_a_table_that_is_followed(tmp_path: Path) -> None:
    followed = "{type: postgres, table: orders, user: me, database: shop, primary_key: id}"
    write(tmp_path, {"p.yml": f"sources: {{a: {followed}}}\nsinks: {{o: {{type: blackhole, from: a}}}}\n"})
    (entry,) = compile_project(check(tmp_path / "p.yml")).query("a").inputs
    assert (entry.source["type"], entry.source["table"]) == ("postgres_cdc", "orders")
    write(tmp_path, {"p.yml": f"sources: {{a: {followed.replace('table', 'tabel')}}}\nsinks: {{}}\n"})
    with pytest.raises(ProjectInvalid) as refused:
        check(tmp_path / "p.yml")
    assert "did you mean `table`?" in [found.hint for found in refused.value.diagnostics]


def test_the_nearest_field_is_sought_among_those_of_the_mode_that_was_chosen(pipeline: Findings) -> None:
    mode = "{type: continuous, pol_interval: 5s}"
    found = pipeline(f"sources: {{a: {{type: file, path: x, format: csv, mode: {mode}}}}}\nsinks: {{}}\n")
    assert only(found, "unknown-field").hint == "did you mean `poll_interval`?"


def test_a_wrong_kind_of_column_is_reported_at_the_word(pipeline: Findings) -> None:
    text = """
        sources:
          a: {type: generator, columns: {id: {kind: sequnce}}}
          b: {type: file, path: x, format: csv, mode: {type: bonded}}
        sinks: {}
    """
    found = pipeline(text)
    assert codes(found) == ["unknown-value"] * 2
    assert [d.hint for d in found] == ["did you mean `sequence`?", "did you mean `bounded`?"]
    assert [d.origin for d in found] == [spot(PIPELINE, text, "sequnce"), spot(PIPELINE, text, "bonded")]


def test_a_column_without_a_kind_is_a_missing_field(pipeline: Findings) -> None:
    found = only(pipeline("sources:\n  a: {type: generator, columns: {id: {}}}\nsinks: {}\n"))
    assert found.code == "missing-field"
    assert found.params == {"field": "kind"}


def test_sections_that_are_no_mappings_are_reported_each(pipeline: Findings) -> None:
    found = pipeline("sources: []\ntransforms: x\nsinks: 3\n")
    assert [(d.code, d.path) for d in found] == [
        ("wrong-shape", "sources"),
        ("wrong-shape", "transforms"),
        ("wrong-shape", "sinks"),
    ]
    assert all(d.hint for d in found)


@pytest.mark.parametrize("section", ["sources", "sinks"])
def test_a_pipeline_without_sources_or_sinks_is_reported(pipeline: Findings, section: str) -> None:
    other = "sinks" if section == "sources" else "sources"
    found = only(pipeline(f"{other}: {{}}\n"))
    assert (found.code, found.params) == ("missing-field", {"field": section})
    assert found.origin == Origin(PIPELINE, 1, 1)


def test_a_list_at_top_level_is_the_wrong_shape(pipeline: Findings) -> None:
    found = only(pipeline("- sources\n"))
    assert (found.code, found.origin) == ("wrong-shape", Origin(PIPELINE, 1, 1))


def test_a_pipeline_may_stand_below_definition(check: Check) -> None:
    text = f"""
        definition:
          sources: {{a: {NUMBERS}}}
          sinks: {{o: {{type: print, from: b}}}}
    """
    found = only(check({PIPELINE: text}, PIPELINE)[1])
    assert (found.code, found.path) == ("unknown-upstream", "sinks.o.from")
    assert found.origin == spot(PIPELINE, text, "b}}")


def test_what_stands_beside_definition_changes_nothing_unless_it_is_a_section(pipeline: Findings) -> None:
    wrapped = f"definition: {{sources: {{a: {NUMBERS}}}, sinks: {{o: {{type: print, from: a}}}}}}\n"
    found = pipeline(f"name: feed\nresource_size: s\n{wrapped}")
    assert [(note.code, note.severity.value, note.path) for note in found] == [
        ("no-effect", "info", "name"),
        ("no-effect", "info", "resource_size"),
    ]
    assert "definition" in [note.path for note in pipeline(f"sinks: {{}}\n{wrapped}") if note.code == "unknown-field"]


def test_json_is_read_like_yaml(check: Check) -> None:
    text = '{"sources": {"a": {"type": "generator", "columns": {"id": {"kind": "sequence"}}}},\n "sinks": {"o": 3}}\n'
    found = only(check({"feed.json": text}, "feed.json")[1])
    assert (found.code, found.origin) == ("wrong-shape", Origin("feed.json", 2, 17))


def test_names_are_shared_by_all_nodes_whatever_their_case(pipeline: Findings) -> None:
    text = f"""
        sources:
          a: {NUMBERS}
          A: {NUMBERS}
        transforms:
          a: {{type: sql, primary_key: id, sql: SELECT id FROM a}}
        sinks:
          a: {{type: print, from: a}}
    """
    found = pipeline(text)
    assert codes(found) == ["duplicate-name"] * 3
    assert [d.path for d in found] == ["sources.A", "transforms.a", "sinks.a"]
    assert [d.params["name"] for d in found] == ["A", "a", "a"]
    assert all(f"{PIPELINE}:2:3" in d.message for d in found)


def test_two_equal_keys_in_a_pipeline_are_reported_with_both_lines(pipeline: Findings) -> None:
    text = f"sources:\n  a: {NUMBERS}\n  a: {NUMBERS}\nsinks:\n  o: {{type: print, from: a}}\n"
    found = only(pipeline(text))
    assert (found.code, found.path) == ("yaml-duplicate-key", "sources.a")
    assert found.origin == Origin(PIPELINE, 3, 3)
    assert "line 2" in found.message


def test_a_reference_to_a_node_that_could_not_be_read_is_no_second_mistake(pipeline: Findings) -> None:
    text = """
        sources:
          a: {type: generatr}
        transforms:
          t: {type: sql, primary_key: id, sql: SELECT id FROM a}
        sinks:
          o: {type: print, from: t}
          p: {type: print, from: a}
    """
    assert codes(pipeline(text)) == ["unknown-type"]


CDC = """
sources:
  orders:
    type: postgres_cdc_source
    user: beside
    options: {{user: inside, database: shop, table: public.orders, port: "5433"{more}}}
sinks:
  out: {{type: blackhole, from: orders}}
"""


def test_fields_of_a_plugin_may_stand_below_options_and_those_beside_are_stronger(pipeline_graph: Link) -> None:
    source = pipeline_graph(CDC.format(more=", slot_name: mine"))["source.orders"].element
    assert isinstance(source, PostgresCdcPlugin)
    found = (source.user, source.database, source.table, source.port, source.slot_name)
    assert found == ("beside", "shop", "public.orders", 5433, "mine")


def test_a_mistake_below_options_is_reported_there(pipeline: Findings) -> None:
    text = CDC.format(more=", slot_name: Not Mine, colour: red")
    assert [(d.code, d.path, d.origin) for d in pipeline(text)] == [
        ("invalid-value", "sources.orders.options.slot_name", spot(PIPELINE, text, "Not Mine")),
        ("unknown-field", "sources.orders.options.colour", spot(PIPELINE, text, "colour")),
    ]


def test_what_a_plugin_would_do_otherwise_is_told(pipeline: Findings) -> None:
    found = only(pipeline(CDC.format(more=", memory_backpressure_enabled: 'false'")))
    assert (found.code, found.path) == ("no-effect", "sources.orders.options.memory_backpressure_enabled")


def test_a_plugin_takes_the_names_that_it_has_elsewhere(pipeline_graph: Link) -> None:
    text = CDC.replace("user: beside", "username: beside").replace("user: inside, ", "")
    more = ", auto_create_publication: false, emit_update_before_row: true"
    source = pipeline_graph(text.format(more=more))["source.orders"].element
    assert isinstance(source, PostgresCdcPlugin)
    assert (source.user, source.auto_create_publication, source.emit_update_before_row) == ("beside", False, True)


HYBRID = """
sources:
  orders:
    type: hybrid
    bounded_sources: [{phase}]
    unbounded_source: {{source_type: kafka, topic: t}}
    telemetry: {{labels: {{path: a}}}}
sinks:
  out: {{type: blackhole, from: orders}}
"""


def test_only_files_have_the_label_path(pipeline: Findings) -> None:
    table = "{source_type: clickhouse, table_name: orders}"
    files = "{source_type: file, path: in, format: json}"
    assert codes(pipeline(HYBRID.format(phase=table))) == ["no-effect"]
    found = only(pipeline(HYBRID.format(phase=files)), "invalid-value")
    assert "declares reserved label key 'path'" in found.message
    found = only(pipeline(HYBRID.format(phase="{source_type: postgres, table_name: orders}")), "invalid-value")
    assert "bounded source type 'postgres' is not supported for hybrid sources" in found.message


@pytest.mark.parametrize(
    ("source", "field", "said"),
    [
        ("type: kafka, topic: t, data_format: xml", "data_format", "unsupported Kafka format: xml"),
        (
            "type: kafka, topic: t, data_format: json, schema: {id: int63}",
            "schema.id",
            "unsupported data type 'int63' in schema; supported types: int8, ",
        ),
        (
            "type: kafka, topic: t, data_format: json, schema: {id: 'decimal256(76,50)'}",
            "schema.id",
            "Declare it as `string` and put its numbers in quotes",
        ),
        ("type: kafka, topic: t, schema: {id: int64}", "", "`schema` is only supported with data_format: json"),
        (
            "type: kafka, topic: t, schema_id_overrides: [{from: 1, to: 2}, {from: 1, to: 3}]",
            "",
            "contains duplicate `from` value",
        ),
        (
            "type: kafka, topic: t, telemetry: {lables: {}}",
            "telemetry.lables",
            "Failed to deserialize 'kafka' source: unknown field `lables` in `telemetry`",
        ),
    ],
)
def test_the_words_for_a_source_that_cannot_be_used(pipeline: Findings, source: str, field: str, said: str) -> None:
    found = only(errors(pipeline(f"sources: {{a: {{{source}}}}}\nsinks: {{out: {{type: blackhole, from: a}}}}\n")))
    assert found.path == ".".join(filter(None, ("sources.a", field)))
    assert said in found.message


def test_the_words_for_conditions_of_updates(pipeline: Findings) -> None:
    text = """
    sources: {a: {type: generator, columns: {id: {kind: sequence}}}}
    sinks:
      one: {type: postgres, from: a, table: t, primary_key: id, update_where: {id: "~"}}
      two: {type: postgres, from: a, table: t, primary_key: id, update_where: {idd: ">"}}
    """
    found = {d.path: d for d in pipeline(text)}
    assert found.keys() == {"sinks.one.update_where.id", "sinks.two.update_where.idd"}
    assert "update_where validation failed for sink 'one': `~`" in found["sinks.one.update_where.id"].message
    assert "update_where validation failed for sink 'two'" in found["sinks.two.update_where.idd"].message


def test_sql_that_cannot_be_parsed_is_shown(pipeline: Findings) -> None:
    for sql in ("SELEC * FORM a", "SELECT id FROM a WHERE (id > 1"):
        text = f"""
        sources: {{a: {{type: generator, columns: {{id: {{kind: sequence}}}}}}}}
        transforms: {{b: {{type: sql, primary_key: id, sql: "{sql}"}}}}
        sinks: {{out: {{type: blackhole, from: b}}}}
        """
        found = only(pipeline(text))
        assert found.message.startswith("failed to parse SQL")
        assert found.message.endswith(f"\n--- SQL ---\n{sql}")


def test_types_that_do_not_go_together_are_told_with_the_sinks_that_would_fail(pipeline: Findings) -> None:
    text = """
    sources: {a: {type: generator, columns: {id: {kind: sequence}}}}
    transforms:
      b: {type: sql, primary_key: id, sql: "SELECT id, id + true AS n FROM a"}
      c: {type: sql, primary_key: id, sql: SELECT id FROM b}
    sinks: {one: {type: blackhole, from: b}, two: {type: blackhole, from: c}, three: {type: blackhole, from: a}}
    """
    found = only(pipeline(text))
    assert found.code == "sql-argument"
    assert found.message.startswith(
        "SQL validation failed for sink [one, two]: the query plan contains type errors that would crash at runtime: +"
    )


@pytest.mark.parametrize(
    "text",
    [
        "{sources: null, sinks: null}",
        "{sources: {}, sinks: {}}",
        "{sources: {}, transforms: {}, sinks: null}",
        "{definition: {sources: null, sinks: {}}}",
    ],
)
def test_a_pipeline_without_nodes_is_refused(pipeline: Findings, text: str) -> None:
    found = only(pipeline(text + "\n"))
    assert (found.code, found.path, found.params) == ("missing-field", "sources", {"field": "sources"})
    assert found.message == "a pipeline needs at least one source and one sink"
    assert found.origin == spot(PIPELINE, text, "sources")


UNSEEN = ["", " ", " x", "x ", "a\nb", "a\tb", "\u202eevil", "a\u200bb", "a\u0085b"]


@pytest.mark.parametrize("name", UNSEEN)
def test_what_cannot_be_seen_is_no_name_of_a_node(pipeline: Findings, name: str) -> None:
    quoted = json.dumps(name)
    sinks = f"{{o: {{type: print, from: t}}, p: {{type: print, from: {quoted}}}}}"
    transforms = "{t: {type: sql, primary_key: id, sql: SELECT id FROM a}}"
    text = f"sources: {{a: {NUMBERS}, {quoted}: {NUMBERS}}}\ntransforms: {transforms}\nsinks: {sinks}\n"
    found = only(pipeline(text))
    assert (found.code, found.path) == ("invalid-value", f"sources.{quoted}")
    assert found.message.startswith("a name ")
    assert found.origin == spot(PIPELINE, text, f"{quoted}:")


@pytest.mark.parametrize("section", ["transforms", "sinks"])
def test_no_kind_of_node_has_a_name_that_cannot_be_seen(pipeline: Findings, section: str) -> None:
    node = {"transforms": "{type: sql, primary_key: id, sql: SELECT id FROM a}", "sinks": "{type: print, from: a}"}
    sections = {"transforms": "{}", "sinks": "{o: {type: print, from: a}}", section: f'{{"\\u202ex": {node[section]}}}'}
    text = f"sources: {{a: {NUMBERS}}}\n" + "".join(f"{key}: {said}\n" for key, said in sections.items())
    assert only(pipeline(text)).path == f'{section}."\\u202ex"'


def test_a_name_is_no_longer_than_that_of_a_directory(pipeline: Findings) -> None:
    def found(name: str, sink: str = "o", more: str = "") -> list[str]:
        sinks = f"{{{sink}: {{type: print, from: {name}{more}}}}}"
        return codes(pipeline(f"sources:\n  ? {name}\n  : {NUMBERS}\nsinks: {sinks}\n"))

    assert found("n" * 255) == found("ж" * 42) == found("a", "n" * 256) == []
    assert found("n" * 256) == found("ж" * 43) == found("a", "ж" * 43, ", isolate: true") == ["invalid-value"]


TWICE = "the column `{}` is there twice; names are not case-sensitive"


@pytest.mark.parametrize(("key", "name"), [("id,id", "id"), ("id, ID", "ID"), ("n, id, Id,", "Id")])
def test_a_key_has_each_of_its_columns_once(pipeline: Findings, key: str, name: str) -> None:
    source = f"{{type: generator, primary_key: '{key}', columns: {{id: {{kind: sequence}}, n: {{kind: sequence}}}}}}"
    transform = f"{{type: sql, primary_key: '{key}', sql: SELECT id FROM a}}"
    shown, kept = (f"{{type: {kind}, from: t, primary_key: '{key}'}}" for kind in ("print", "clickhouse, table: t"))
    sinks = f"{{o: {shown}, p: {kept}}}"
    found = pipeline(f"sources: {{a: {source}}}\ntransforms: {{t: {transform}}}\nsinks: {sinks}\n")
    assert {(d.code, d.message) for d in found} == {("invalid-value", TWICE.format(name))}
    assert [d.path for d in found] == [
        f"{node}.primary_key" for node in ("sources.a", "transforms.t", "sinks.o", "sinks.p")
    ]


@pytest.mark.parametrize("key", ["''", "' , '", "[]"])
def test_a_transform_that_leaves_its_key_to_what_it_reads_must_get_one(pipeline: Findings, key: str) -> None:
    transform = f"{{type: sql, primary_key: {key}, sql: SELECT id FROM a}}"
    text = f"sources: {{a: {NUMBERS}}}\ntransforms: {{t: {transform}}}\nsinks: {{o: {{type: print, from: t}}}}\n"
    found = only(pipeline(text))
    assert (found.code, found.path, found.hint) == ("missing-field", "transforms.t.primary_key", "add `primary_key: …`")
    assert found.message == "this field is required: none of the keys of its inputs is in its output"
    assert found.origin == spot(PIPELINE, text, key)
    assert pipeline(text.replace("type: generator", "type: generator, primary_key: id")) == ()


def of_topic(more: str) -> str:
    source = f"{{type: kafka, topic: t, data_format: json, {more}}}"
    return f"sources: {{a: {source}}}\nsinks: {{o: {{type: blackhole, from: a}}}}\n"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{id: int64, ID: int64}", TWICE.format("ID")),
        ("{id: int64, _gs_op: int64}", "`_gs_op` is BIGINT, not a string: its values are `i`, `u` and `d`"),
        ("{id: int64, _GS_OP: bool}", "`_gs_op` is BOOLEAN, not a string: its values are `i`, `u` and `d`"),
    ],
)
def test_columns_of_a_topic_are_told_apart_and_the_operation_is_a_text(
    pipeline: Findings, schema: str, message: str
) -> None:
    found = only(pipeline(of_topic(f"schema: {schema}")))
    assert (found.code, found.path, found.message) == ("invalid-value", "sources.a.schema", message)
    assert pipeline(of_topic("schema: {id: int64, _gs_op: string}")) == ()


def test_generated_columns_are_told_apart(pipeline: Findings) -> None:
    source = "{type: generator, columns: {id: {kind: sequence}, ID: {kind: sequence}}}"
    found = only(pipeline(f"sources: {{a: {source}}}\nsinks: {{o: {{type: print, from: a}}}}\n"))
    assert (found.code, found.message) == ("invalid-value", TWICE.format("ID"))


PHASES = "{type: hybrid, bounded_sources: %s, unbounded_source: {source_type: kafka, topic: %s, start_at: %s}}"
TABLE = "[{source_type: clickhouse, table_name: t}]"
BEGINNING = "a topic is read from `earliest`, `latest`, or a time in milliseconds since 1970"
TOPIC = (
    "the name of a topic has up to 249 letters (a to z, in either case), digits, `.`, `_` and `-`,"
    " and is not `.` or `..`"
)


@pytest.mark.parametrize(
    ("source", "path", "message"),
    [
        (PHASES % (TABLE, "t", "sometimes"), "unbounded_source.start_at", BEGINNING),
        (PHASES % (TABLE, "t", "-5"), "unbounded_source.start_at", BEGINNING),
        (PHASES % (TABLE, "a b", "latest"), "unbounded_source.topic", TOPIC),
        (PHASES % ("[]", "t", "latest"), "bounded_sources", "this needs at least 1 entry"),
        ("{type: kafka, topic: t, starting_offsets: soon}", "starting_offsets", BEGINNING),
        ("{type: kafka, topic: a b}", "topic", TOPIC),
        (
            "{type: postgres, table: t, user: me, database: shop, slot_name: My Slot}",
            "slot_name",
            "the name of a slot has up to 63 small letters (a to z), digits and `_`",
        ),
    ],
)
def test_what_a_text_must_be_like_is_said_in_words(pipeline: Findings, source: str, path: str, message: str) -> None:
    found = only(pipeline(f"sources: {{a: {source}}}\nsinks: {{o: {{type: blackhole, from: a}}}}\n"))
    assert (found.code, found.path, found.message) == ("invalid-value", f"sources.a.{path}", message)


def test_the_name_of_a_secret_is_not_repeated(pipeline: Findings) -> None:
    sink = "{type: webhook, from: a, url: 'https://x.example', secret_name: 'hunter/2'}"
    found = only(pipeline(f"sources: {{a: {NUMBERS}}}\nsinks: {{o: {sink}}}\n"))
    assert found.message == (
        "the name of a secret has letters (a to z, in either case) and digits, and single `_` between them"
    )
    assert "hunter" not in str(found)
