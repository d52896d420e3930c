"""Restores the records of masked dead letters, by reading them again at their origin."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.clusters import Cluster
from penstock.clients.dead_letters.masking import BY_DIGEST, BY_PLACE
from penstock.clients.dead_letters.model import WITHHELD, DeadLetter, DeadLetterKey
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.record_reader import read_records_at
from penstock.connectors.contract import ORIGIN
from penstock.runtime.dead_letters.rows import row_json
from penstock.runtime.query.inputs import QueryInput
from penstock.sql.parse.dialects import quote_spark_identifier

_ROW: Final = "_row"
_AT: Final = "letter INT, file STRING, line BIGINT, written TIMESTAMP, digest STRING"


def restore_records(
    letters: Sequence[DeadLetter], read: QueryInput, session: SparkSession, cluster: Cluster | None
) -> tuple[list[DeadLetter], list[DeadLetter]]:
    """Return the dead letters with their records, and those whose records no longer exist."""
    withheld = [letter for letter in letters if letter.about.get(WITHHELD) is not None]
    placed = [letter for letter in withheld if letter.about[WITHHELD] == BY_PLACE]
    rows = _find_rows([letter for letter in withheld if letter.about[WITHHELD] != BY_PLACE], read, session)
    records = _fetch_records(placed, cluster)
    found: list[DeadLetter] = []
    gone: list[DeadLetter] = []
    for letter in letters:
        if letter.about.get(WITHHELD) is None:
            found.append(letter)
        elif (record := records.get(letter.at)) is not None:
            headers = tuple((name, value) for name, value in record.headers() or () if value is not None)
            found.append(replace(letter, key=record.key(), value=record.value(), headers=headers))
        elif (text := rows.get(letter.at)) is not None:
            found.append(replace(letter, value=text.encode()))
        else:
            gone.append(letter)
    return found, gone


def _fetch_records(placed: Sequence[DeadLetter], cluster: Cluster | None) -> Mapping[DeadLetterKey, Any]:
    """Read Kafka records, by dead letter. A topic that was created again has other records at the same offsets."""
    if not placed or cluster is None:
        return {}
    places = {(str(x.about["topic"]), int(x.about["partition"]), int(x.about["offset"])) for x in placed}
    found = read_records_at(KafkaAdmin(cluster.kafka), places)
    records = {x.at: found.get((x.about["topic"], x.about["partition"], x.about["offset"])) for x in placed}
    return {x.at: record for x in placed if (record := records[x.at]) is not None and _is_record_of(record, x)}


def _is_record_of(record: Any, letter: DeadLetter) -> bool:
    noted = _record_time(letter)
    if noted is None:
        return True
    written = datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC)
    return abs((noted - written).total_seconds()) < 0.001


def _record_time(letter: DeadLetter) -> datetime | None:
    noted = letter.about["timestamp"]
    return None if noted is None else datetime.fromisoformat(str(noted)).astimezone(UTC)


def _find_rows(letters: Sequence[DeadLetter], read: QueryInput, session: SparkSession) -> dict[DeadLetterKey, str]:
    """Find rows of an embedded topic as text, by dead letter.

    A row is identified by its file and line, unless the file was changed, or by the digest of its text.
    """
    rows = read.reread(session, None) if letters else None
    if rows is None:
        return {}
    places = [(number, x.about["topic"], x.about["offset"], _record_time(x)) for number, x in enumerate(letters)]
    marked = [(*place, x.about[WITHHELD]) for place, x in zip(places, letters, strict=True)]
    wanted = session.createDataFrame(marked, _AT)
    if ORIGIN in rows.columns:
        texts = [f.col(f"{ORIGIN}.value").cast("string")]
        there = [f.col(f"{ORIGIN}.{part}").alias(part) for part in ("topic", "offset", "timestamp")]
    else:
        texts = list(_row_texts(rows, letters))
        there = []
    candidates = rows.select(f.explode(f.array(*texts)).alias(_ROW), *there)
    matches: Column = f.col("digest") == f.concat(f.lit(BY_DIGEST), f.sha2(_ROW, 256))
    if there:
        same_place = (f.col("topic") == f.col("file")) & (f.col("offset") == f.col("line"))
        matches = matches | (same_place & (f.col("timestamp") == f.col("written")))
    found = candidates.join(f.broadcast(wanted), matches).dropDuplicates(["letter"]).select("letter", _ROW)
    return {letters[row["letter"]].at: row[_ROW] for row in found.collect()}


def _row_texts(rows: DataFrame, letters: Iterable[DeadLetter]) -> Iterable[Column]:
    """Encode rows as JSON, with all columns, and with the columns that they had when dead letters were written."""
    names = {tuple(rows.columns)}
    for letter in letters:
        fields = json.loads(letter.about["value"]) if letter.about["value"] else {}
        names.add(tuple(fields))
    for some in sorted(names):
        if some and set(some) <= set(rows.columns):
            yield row_json(rows.select(*map(quote_spark_identifier, some)))
