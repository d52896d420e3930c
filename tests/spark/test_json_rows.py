"""JSON decoded by our own reader: row for row what the strict check and Spark's parser give together."""

import json
import random
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.jvm.strict_json import checked_json, json_row
from penstock.spark_internals.expressions import java_column, java_struct

pytestmark = pytest.mark.as_deployed

SCHEMA = """
    id BIGINT, small INT, tiny TINYINT, short SMALLINT, yes BOOLEAN, text STRING, real DOUBLE,
    price DECIMAL(10, 2), most DECIMAL(18, 0), wide DECIMAL(38, 10), at TIMESTAMP, local TIMESTAMP_NTZ, day DATE,
    `größe` STRING, place STRUCT<street: STRING, zip: INT, spot: STRUCT<x: DOUBLE, at: TIMESTAMP>>,
    items ARRAY<STRUCT<sku: STRING, n: INT>>, amounts ARRAY<DECIMAL(6, 3)>, tags MAP<STRING, STRING>,
    marks MAP<STRING, ARRAY<BIGINT>>
"""
TO_JSON = {**JSON_OPTIONS, "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}
INTEGERS = ["0", "7", "-1", "-0", "127", "128", "-129", "32768", "2147483648", "-2147483649", "999999999999999999",
    "9223372036854775807", "9223372036854775808", "00", "01", "+1", "1.0", "1e3", '"5"', "1_0", "0x1", "-"]  # fmt: skip
REALS = ["0.5", "-0.0", "1.", ".5", "1e400", "1E-5", "123456789.125", "0.1234567890123456", "3.0000000000000001", "NaN",
    '"NaN"', "Infinity", '"-Infinity"', "123456789012345678901234567890123456789012.5",
    "9007199254740993.1"]  # fmt: skip
DECIMALS = ["12.34", "12.340", "12.345", '"12.34"', '"1,234.5"', '"+3"', '" 1"', "99999999.99", "100000000.00", "1.5e2",
    "-0.01", "0.00", "999999999999999999", "1000000000000000000", "12345678901234567890.0123456789",
    "1234567890123456.7890123456"]  # fmt: skip
TIMES = ["2024-02-29T12:30:00Z", "2023-02-29T12:30:00Z", "2024-01-31 23:59:59.123456", "2024-01-31T23:59:59.1234567Z",
    "2024-01-31T24:00:00Z", "2024-01-31T10:00:00+02:00", "2024-01-31T10:00:00-17:59", "2024-01-31T10:00:00+18:30",
    "2024-01-31T10:00:00+0200", "2024-01-31T10:00", "2024-01-31", "2024-1-3", "0001-01-01T00:00:00Z", "1969-12-31",
    "9999-12-31T23:59:59.999999Z", "0000-01-01", "12024-01-01", "1582-10-10", "1900-03-01", "2000-02-29", "2100-02-29",
    "2024-00-10", "2024-13-01", "2024-04-31", "2024-06-31T00:00:00", "soon", "", "2024-01-31T10:00:00 UTC", "epoch",
    "2024-01-31T10:60:00Z", "2024-01-31T10:00:60Z", "2024-01-31T10:00:00.Z", "2024-01-31T1x:00:00Z", " 2024-01-31",
    "1600-02-29T00:00:00.5-00:30"]  # fmt: skip
EPOCHS = ["0", "1704067200", "-1", "9999999999", "10000000000", "1704067200123", "-1704067200123", "50000000000",
    "1704067200123456", "1704067200123456789", "-1704067200123456789", "1704067200.5", "99999999999999999"]  # fmt: skip
TEXTS = ["", "DE", "Köln", "日本", "😀", 'a "quoted" \\ word', "tab\tnew\nline", "\u2028", "\x7f", "é" * 40, "a/b"]
OTHERS = ["null", "true", "false", "tru", "nul", "nulll", "{}", "[]", "[1, 2]", '{"a": 1}', '{"a": 1, "a": 2}', "[1,]",
    "[,1]", '{"a"}', '{"a":}', '{"a": 1,}', "'single'", '"\\x"', '"\\u12"', '"\\ud83d"', '"\\ud83d\\ude00"', "\ufeff1",
    '"\\u00e9\\/"', "", "1 2", '"open', "{", "]", '"a\tb"', "/* no */ 1", "[" * 120 + "]" * 120, "1" * 120,
    "-1.5E+10", "1e"]  # fmt: skip
POOLS: dict[str, list[str]] = {
    **dict.fromkeys(("id", "small", "tiny", "short"), INTEGERS),
    "yes": ["true", "false", '"true"', "1"],
    "real": [*REALS, *INTEGERS],
    **{name: [*DECIMALS, *INTEGERS, *REALS] for name in ("price", "most", "wide")},
    "at": [*EPOCHS, *(json.dumps(time) for time in TIMES)],
    **{name: [*(json.dumps(time) for time in TIMES), "5"] for name in ("local", "day")},
}


def written(draw: random.Random, value: Any) -> str:
    return json.dumps(value, ensure_ascii=draw.random() < 0.5)


def odd(draw: random.Random, name: str) -> str:
    """A value for a column, often one that nearly fits."""
    if name in ("text", "größe"):  # a value that is no text is copied, by from_json with other blanks
        return draw.choice([written(draw, draw.choice(TEXTS)), "null", '"\\u00e9"', '"\\q"', "nul"])
    if name == "place":
        spot = f'{{"at": {draw.choice(POOLS["at"])}, "x": {draw.choice(REALS)}}}'
        zips = f'"zip" :{draw.choice(INTEGERS)}'
        return draw.choice([f'{{"street": "a b", {zips}}}', f'{{{zips}, "spot": {spot}}}', "{}", "null", "[]", "5"])
    if name == "items":
        return draw.choice(
            [f'[{{"sku": "a", "n": {draw.choice(INTEGERS)}}}, null, {{}}]', "[]", "[[]]", '[{"n": 1}, 5]']
        )
    if name == "amounts":
        return draw.choice([f"[{draw.choice(DECIMALS)}, 0.125 , null]", "[ ]", "[1,,2]", "[1 2]", '{"a": 1}'])
    if name == "tags":
        return draw.choice(['{"a": "1", "ü": null}', '{"a": "1", "a": "2"}', "{}", '{"\\u0061": "1", "a": ""}', "[]"])
    if name == "marks":
        return draw.choice([f'{{"a": [{draw.choice(INTEGERS)}], "b" : [ ]}}', '{"a": 1}', '{"a": [1], "b": [2]}'])
    return draw.choice(POOLS[name])


def sound(name: str) -> str:
    samples: dict[str, Any] = {
        "yes": True, "text": "Köln", "größe": "L", "real": 1.25, "at": "2024-01-31T10:00:00.5Z", "day": "2024-02-29",
        "local": "2024-01-31 10:00:00", "items": [{"sku": "a", "n": 1}], "amounts": [1.125], "tags": {"a": "b"},
        "marks": {"x": [1, 2]}, "place": {"street": "x", "zip": 1, "spot": {"x": 1.5, "at": 1704067200}},
    }  # fmt: skip
    return json.dumps(samples.get(name, 12), ensure_ascii=False)


def record(draw: random.Random, names: list[str]) -> bytes:
    chosen = draw.sample(names, draw.randint(0, len(names))) if draw.random() < 0.5 else names
    at_fault = draw.choice(names)
    fields = [(name, odd(draw, name) if name == at_fault else sound(name)) for name in chosen]
    if draw.random() < 0.3:
        fields.insert(draw.randint(0, len(fields)), ("more", draw.choice(OTHERS)))
    if draw.random() < 0.1:
        fields.append((draw.choice(["payload", "id", "more", "größe", "übrig", "a\\u0062", 'q\\"']), "{}"))
    between = draw.choice([", ", ",", " ,\t", ",\r\n"])
    text = draw.choice(["", " ", "\t"]) + "{" + between.join(f'"{name}": {value}' for name, value in fields) + "}"
    text += draw.choice(["", " ", "\n"] if draw.random() < 0.9 else [" x", "{}", "\u2028", "}"])
    made = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.1:
        place = draw.randrange(len(made))
        made = (
            made[:place]
            + draw.choice([b"", b"\xff", b"\xc3", b"\xed\xa0\x80", b'"', b"\\", b"\0", b","])
            + made[place + 1 :]
        )
    return (b"\0\0\0\0\x07" if draw.random() < 0.1 else b"") + made


def plain_json_row(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """Decode only what can be decoded in one pass: null for records that must be checked and parsed."""
    return java_column("penstock.JsonRows", "row", value, java_struct(schema), None, registry, envelope)


def by_spark(value: Column, schema: str, **told: bool) -> Column:
    read = f.from_json(
        checked_json(value, schema, **told), f"{schema}, bad STRING", {"columnNameOfCorruptRecord": "bad"}
    )
    return f.when(read["bad"].isNull(), read.dropFields("bad"))


def compared(records: DataFrame, schema: str, **told: bool) -> list[Any]:
    value = f.col("value")
    by_us, plain = json_row(value, schema, **told), plain_json_row(value, schema, **told)
    found = {"ours": by_us, "spark": by_spark(value, schema, **told), "plain": plain}
    return records.select("value", *(f.to_json(row, TO_JSON).alias(name) for name, row in found.items())).collect()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_json_is_decoded_as_the_strict_check_and_spark_do_together(spark: SparkSession, zone: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    draw = random.Random(zone)
    names = [field.name for field in session.createDataFrame([], SCHEMA).schema]
    single = [f'{{"{name}": {value}}}'.encode("utf-8", "surrogatepass") for name in POOLS for value in POOLS[name]]
    others = [f'{{"id": 1, "more": {value}}}'.encode() for value in OTHERS]
    records = [*single, *others, *(record(draw, names) for _ in range(6_000))]
    rows = compared(session.createDataFrame([(text,) for text in records], "value BINARY"), SCHEMA, registry=True)
    assert [(row.value, row.ours, row.spark) for row in rows if row.ours != row.spark] == []
    assert [row.value for row in rows if row.plain is not None and row.plain != row.spark] == []
    found, plain = sum(row.ours is not None for row in rows), sum(row.plain is not None for row in rows)
    assert 0.2 * len(rows) < plain < found < 0.8 * len(rows), "not many records of each sort are compared"


def test_objects_with_very_many_keys_are_decoded_and_no_key_comes_twice(spark: SparkSession) -> None:
    schema = ", ".join([*(f"c{n} INT" for n in range(130)), "m MAP<STRING, INT>"])
    columns = {f"c{n}": n for n in range(129, -1, -1)}
    many = {f"k{n}": n for n in range(300)}
    sound = [columns, {**many, **columns}, {"c1": 1, "m": many}, {"m": dict(list(many.items())[:200]), "more": [many]}]
    texts = [json.dumps(value) for value in sound]
    twice = [text[:-1] + f', "{name}": 1}}' for text in texts[:2] for name in ("c129", "c5")]
    twice += [texts[1][:-1] + ', "k250": 1}', texts[2][:-2] + ', "k7": 1}}', texts[3][:-3] + ', "k7": 1}]}']
    rows = compared(spark.createDataFrame([(t.encode(),) for t in [*texts, *twice]], "value BINARY"), schema)
    assert [row.ours for row in rows] == [row.spark for row in rows]
    assert [row.ours is not None for row in rows] == [True] * len(texts) + [False] * len(twice)
    assert [row.plain is not None for row in rows[: len(texts)]] == [True, False, False, False]


def test_rows_in_an_envelope_are_decoded_with_it_and_without(spark: SparkSession) -> None:
    row = "STRUCT<id: BIGINT, at: TIMESTAMP>"
    records = [
        b'{"before": null, "after": {"id": 1, "at": 1704067200123}, "op": "c"}',
        b'{"schema": {"a": 1}, "payload": {"before": {"id": 2}, "after": null, "op": "d"}}',
        b'{"payload": {"after": {"id": "x"}, "op": "c"}}',
        b'{"after": {"id": 3}, "op": "c", "payload": 5}',
        b'{"after": {"payload": {"id": 9}, "id": 4}, "op": "c"}',
    ]
    frame = spark.createDataFrame([(text,) for text in records], "value BINARY")
    rows = compared(frame, f"before {row}, after {row}, op STRING", envelope=True)
    assert [row.ours for row in rows] == [row.spark for row in rows]
    assert [row.value for row in rows if row.plain is not None] == [records[0], records[4]]
    assert [row.value for row in rows if row.ours is None] == [records[2]]


def test_a_value_that_is_no_text_is_copied_into_a_column_of_texts_as_it_stands(spark: SparkSession) -> None:
    digits = "0.1234567890123456789012345678901234567890"
    records = [f'{{"x": {digits}}}', '{"x": {"a": 1.0, "b": [ ]}}', '{"x":12345678901234567890123}', '{"x": true}']
    frame = spark.createDataFrame([(text.encode(),) for text in records], "value BINARY")
    found = [row.x for row in frame.select(json_row(f.col("value"), "x STRING").alias("row")).select("row.x").collect()]
    assert found == [digits, '{"a": 1.0, "b": [ ]}', "12345678901234567890123", "true"]


def test_a_type_that_json_cannot_have_is_refused_as_spark_does(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(b"{}",)], "value BINARY")
    with pytest.raises(AnalysisException, match="INVALID_JSON_MAP_KEY_TYPE"):
        frame.select(json_row(f.col("value"), "m MAP<INT, STRING>"))
