"""The manifest, as versioned JSON. Equal input gives byte-identical output: no clock, no host, no absolute path."""

import hashlib
import json
import re
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

VERSION: Final = 1


_SECRET_KEY: Final = re.compile(r"pass(word|wd)?$|secret|token|credential|private.?key|api.?key", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\$\{[^}]+\}")


def masked(value: Any, key: str = "") -> Any:
    """The value with secrets covered that were written out; a reference such as `${NAME}` gives nothing away."""
    if isinstance(value, dict):
        return {name: masked(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner, key) for inner in value]
    hide = _SECRET_KEY.search(key) and value not in (None, "") and not _REFERENCE.fullmatch(str(value))
    return "****" if hide else value


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class DagColumn(Part):
    name: str
    type: str | None = None


class DagNode(Part):
    """A node of the graph, with what a reader of lineage wants to know."""

    id: str
    type: str
    name: str
    materialized: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None
    columns: tuple[DagColumn, ...] | None = None


class DagEdge(Part):
    from_: str = Field(alias="from")
    to: str


class Dag(Part):
    nodes: tuple[DagNode, ...]
    edges: tuple[DagEdge, ...]


class EventTimeSpec(Part):
    column: str
    delay_ms: int


class Input(Part):
    """A stream that a query reads. `name` is what the checkpoint knows it by."""

    view: str
    node: str
    name: str
    source: dict[str, Any]
    event_time: EventTimeSpec | None = None
    with_operation: bool = False
    """Whether rows without `_gs_op` are to be marked as inserts."""


class Step(Part):
    """A view made from other views by Spark SQL."""

    view: str
    node: str
    sql: str


class Output(Part):
    """A view written to a sink."""

    node: str
    view: str
    sink: dict[str, Any]


class QuerySpec(Part):
    """One streaming query: one checkpoint, one offset log.

    With `fan_out`, every input is read once and the steps run on each batch of it, so several sinks share one read.
    """

    name: str
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    stateful: bool = False
    fan_out: bool = False

    def to_document(self) -> dict[str, Any]:
        """For keeping: the same when read back, without secrets."""
        document: dict[str, Any] = masked(self.model_dump(mode="json", by_alias=True))
        return document

    @property
    def fingerprint(self) -> str:
        canonical = json.dumps(self.to_document(), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class TopicSpec(Part):
    """A topic that the project writes and therefore owns."""

    name: str
    node: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: dict[str, str | int | float | bool] = {}


class SparkSpec(Part):
    master: str
    config: dict[str, str | int | float | bool] = {}


class About(Part):
    name: str
    format: Literal["project", "pipeline"]


class Manifest(Part):
    """Everything that would run, and the graph it came from."""

    version: int = VERSION
    project: About
    dag: Dag
    topics: tuple[TopicSpec, ...]
    streams: dict[str, dict[str, Any]]
    """How to read each node that holds rows of its own, by node id."""
    queries: tuple[QuerySpec, ...]
    spark: SparkSpec

    def to_json(self) -> str:
        document = masked(self.model_dump(mode="json", by_alias=True))
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @property
    def revision(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    def query(self, name: str) -> QuerySpec:
        return next(q for q in self.queries if q.name == name)

    def producer(self, node_id: str) -> QuerySpec | None:
        """The query that writes a model's rows."""
        return next((q for q in self.queries if any(o.node == node_id for o in q.outputs)), None)
