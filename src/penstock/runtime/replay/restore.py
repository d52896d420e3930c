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
_AT: Final = "dead_letter INT, file STRING, line BIGINT, written TIMESTAMP, digest STRING"


def restore_records(
    dead_letters: Sequence[DeadLetter], read: QueryInput, session: SparkSession, cluster: Cluster | None
) -> tuple[list[DeadLetter], list[DeadLetter]]:
    """Return the dead letters with their records, and those whose records no longer exist."""
    withheld = [x for x in dead_letters if x.about.get(WITHHELD) is not None]
    rows = _find_rows([x for x in withheld if x.about[WITHHELD] != BY_PLACE], read, session)
    records = _fetch_records([x for x in withheld if x.about[WITHHELD] == BY_PLACE], cluster)
    found: list[DeadLetter] = []
    gone: list[DeadLetter] = []
    for dead_letter in dead_letters:
        if dead_letter.about.get(WITHHELD) is None:
            found.append(dead_letter)
        elif (record := records.get(dead_letter.at)) is not None:
            headers = tuple((name, value) for name, value in record.headers() or () if value is not None)
            found.append(replace(dead_letter, key=record.key(), value=record.value(), headers=headers))
        elif (text := rows.get(dead_letter.at)) is not None:
            found.append(replace(dead_letter, value=text.encode()))
        else:
            gone.append(dead_letter)
    return found, gone


def _fetch_records(placed: Sequence[DeadLetter], cluster: Cluster | None) -> Mapping[DeadLetterKey, Any]:
    """Read Kafka records, by dead letter. A topic that was created again has other records at the same offsets."""
    if not placed or cluster is None:
        return {}
    places = {(str(x.about["topic"]), int(x.about["partition"]), int(x.about["offset"])) for x in placed}
    found = read_records_at(KafkaAdmin(cluster.kafka), places)
    records = {x.at: found.get((x.about["topic"], x.about["partition"], x.about["offset"])) for x in placed}
    return {x.at: record for x in placed if (record := records[x.at]) is not None and _is_record_of(record, x)}


def _is_record_of(record: Any, dead_letter: DeadLetter) -> bool:
    noted = _record_time(dead_letter)
    if noted is None:
        return True
    written = datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC)
    return abs((noted - written).total_seconds()) < 0.001


def _record_time(dead_letter: DeadLetter) -> datetime | None:
    noted = dead_letter.about["timestamp"]
    return None if noted is None else datetime.fromisoformat(str(noted)).astimezone(UTC)


def _find_rows(dead_letters: Sequence[DeadLetter], read: QueryInput, session: SparkSession) -> dict[DeadLetterKey, str]:
    """Find rows of an embedded topic as text, by dead letter.

    A row is identified by its file and line, unless the file was changed, or by the digest of its text.
    """
    rows = read.reread(session, None) if dead_letters else None
    if rows is None:
        return {}
    places = [(number, x.about["topic"], x.about["offset"], _record_time(x)) for number, x in enumerate(dead_letters)]
    marked = [(*place, x.about[WITHHELD]) for place, x in zip(places, dead_letters, strict=True)]
    wanted = session.createDataFrame(marked, _AT)
    if ORIGIN in rows.columns:
        texts = [f.col(f"{ORIGIN}.value").cast("string")]
        there = [f.col(f"{ORIGIN}.{part}").alias(part) for part in ("topic", "offset", "timestamp")]
    else:
        texts = list(_row_texts(rows, dead_letters))
        there = []
    candidates = rows.select(f.explode(f.array(*texts)).alias(_ROW), *there)
    matches: Column = f.col("digest") == f.concat(f.lit(BY_DIGEST), f.sha2(_ROW, 256))
    if there:
        same_place = (f.col("topic") == f.col("file")) & (f.col("offset") == f.col("line"))
        matches = matches | (same_place & (f.col("timestamp") == f.col("written")))
    found = candidates.join(f.broadcast(wanted), matches).dropDuplicates(["dead_letter"]).select("dead_letter", _ROW)
    return {dead_letters[row["dead_letter"]].at: row[_ROW] for row in found.collect()}


def _row_texts(rows: DataFrame, dead_letters: Iterable[DeadLetter]) -> Iterable[Column]:
    """Encode rows as JSON, with all columns, and with the columns that they had when dead letters were written."""
    names = {tuple(rows.columns)}
    for dead_letter in dead_letters:
        fields = json.loads(dead_letter.about["value"]) if dead_letter.about["value"] else {}
        names.add(tuple(fields))
    for some in sorted(names):
        if some and set(some) <= set(rows.columns):
            yield row_json(rows.select(*map(quote_spark_identifier, some)))
