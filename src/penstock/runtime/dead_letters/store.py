"""Stores of dead letters: directories, or Kafka topics."""

from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.batch import BatchRef
from penstock.clients.clusters import Cluster
from penstock.clients.dead_letters.model import HEADER, OWNER, WITHHELD
from penstock.clients.files.batch_directory import observe_count, publish
from penstock.clients.files.formats import FORMATS
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.rows.topic_names import dead_letter_topic

_ABOUT: Final = ("topic", "partition", "offset", "timestamp", "code", "message", "node", "time")
_HEADERS: Final = "array<struct<key: string, value: binary>>"
_LARGEST: Final = 64 * 2**20


class DeadLetterStore(Protocol):
    """Stores dead letters: rows with their reason and origin."""

    def write(self, node: str, dead_letters: DataFrame, ref: BatchRef) -> int:
        """Store dead letters for a node. Returns their number."""


class DirectoryDeadLetters:
    """Stores dead letters as Parquet files next to the embedded topics, once even if a batch is retried.

    Keys and values are stored as text; those of replayed records that fail again arrive as bytes.
    """

    def __init__(self, topics: Path, owner: str) -> None:
        self._topics = topics
        self._owner = owner

    def write(self, node: str, dead_letters: DataFrame, ref: BatchRef) -> int:
        texts = {name: f.col(name).cast("string") for name in ("key", "value")}
        found = dead_letters.drop("headers").withColumns({**texts, OWNER: f.lit(self._owner)})
        return publish(self._topics / dead_letter_topic(node), ref, found, FORMATS["parquet"])


class KafkaDeadLetters:
    """Stores dead letters in a topic: key and value unchanged, everything else in headers.

    A retried batch writes them again; topic, partition, offset and time identify them as the same. If a replayed record
    becomes a dead letter again, the headers of the earlier dead letter are removed.
    """

    def __init__(self, cluster: Cluster, owner: str) -> None:
        self._cluster = cluster
        self._owner = owner
        self._created_topics: set[str] = set()

    def write(self, node: str, dead_letters: DataFrame, ref: BatchRef) -> int:
        topic = dead_letter_topic(node)
        if topic not in self._created_topics:
            self._admin.create(topic, 1, -1, {"max.message.bytes": str(_LARGEST), "retention.ms": "-1"})
            self._created_topics.add(topic)
        named = [name for name in (*_ABOUT, WITHHELD) if name in dead_letters.columns]
        about = f.array(_header(OWNER, f.lit(self._owner)), *(_header(name, f.col(name)) for name in named))
        headers = f.filter(about, lambda header: header["value"].isNotNull())
        if "headers" in dead_letters.columns:
            own = f.filter("headers", lambda header: ~header["key"].startswith(HEADER))
            headers = f.concat(headers, f.coalesce(own, f.array().cast(_HEADERS)))
        key, value = (f.col(name).cast("binary") for name in ("key", "value"))
        rows, count = observe_count(dead_letters.select(key, value, headers.alias("headers")))
        options = {"kafka.max.request.size": str(_LARGEST), "includeHeaders": "true", "topic": topic}
        rows.write.format("kafka").mode("append").options(**self._cluster.kafka.spark_options(), **options).save()
        return count()

    @cached_property
    def _admin(self) -> KafkaAdmin:
        return KafkaAdmin(self._cluster.kafka)


def _header(name: str, value: Column) -> Column:
    value = f.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSX") if name in ("timestamp", "time") else value
    return f.struct(f.lit(HEADER + name).alias("key"), value.cast("string").cast("binary").alias("value"))
