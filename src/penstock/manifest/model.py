"""The manifest, as versioned JSON. Equal input gives byte-identical output: no clock, no host, no absolute path."""

import hashlib
import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from penstock.config import OnError
from penstock.keyed.operators import Operator
from penstock.manifest.graph_model import Dag
from penstock.manifest.part import Part
from penstock.manifest.resources import ConnectorSpec, GatewayRule, SchemaSpec, TopicSpec
from penstock.project.yaml.secrets import mask_secrets

VERSION: Final = 2


class EventTimeSpec(Part):
    column: str
    delay_ms: int
    max_future_ms: int = 0
    """How far a time may be ahead of the clock; 0 is any far."""
    idle_ms: int | None = None
    """After how long without rows it goes on with the clock."""
    made_of: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """Spark SQL over the columns of the input, if the column is computed from them."""
    where: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """The rows that have a computed time: nobody reads the others."""


class Phase(Part):
    """A source that is read to its end. `name` is what the checkpoint knows it by."""

    name: str
    source: dict[str, Any]


class Backfill(Part):
    """What an input reads before its own source, one phase after the other."""

    phases: tuple[Phase, ...]
    offset_table: dict[str, Any] | None = None
    """Where it is said which records of the source's topic the phases have."""
    is_all: bool = False
    """Whether the input ends with them."""


class Input(Part):
    """A stream that a query reads. `name` is what the checkpoint knows it by."""

    view: str
    node: str
    name: str
    source: dict[str, Any]
    event_time: EventTimeSpec | None = None
    with_operation: bool = False
    """Whether rows without `_gs_op` are to be marked as inserts."""
    upsert_key: tuple[str, ...] = Field((), exclude_if=lambda key: not key)
    """The key by which each of its rows replaces the one before it, unless it is a delete; empty if rows are added."""
    processing_time: tuple[str, ...] = ()
    """Columns that hold the time of processing."""
    condition: str | None = None
    """What its rows must meet; others are not for this query."""
    static: bool = False
    """Whether it is a table that is looked up, and no stream."""
    ordered: bool = False
    """Whether the order of its rows is wanted."""
    any_order: bool = False
    """Whether nobody minds if its rows come in another order than they were written in."""
    on_error: OnError = "dead_letter"
    """What becomes of rows that cannot take part."""
    backfill: Backfill | None = Field(None, exclude_if=lambda backfill: backfill is None)
    cast_to: dict[str, str] = Field({}, exclude_if=lambda types: not types)
    """The columns that its rows are to have, and their types. Of a phase, and known only when it runs."""
    declared: dict[str, str] = Field({}, exclude_if=lambda types: not types)
    """The types that columns of a table are declared with, where its files say nothing of types."""

    @property
    def topic(self) -> str | None:
        """The topic of Kafka that it reads, if it comes to that."""
        ends_before = self.backfill is not None and self.backfill.is_all
        return str(self.source["topic"]) if self.source["type"] == "kafka" and not ends_before else None

    @property
    def sources(self) -> tuple[dict[str, Any], ...]:
        """Everything that it reads, in its order."""
        return (*(phase.source for phase in (self.backfill.phases if self.backfill else ())), self.source)


class Parameter(Part):
    """A parameter of SQL: a text that refers to variables, or half of the key that a variable holds."""

    kind: Literal["text", "hmac_inner", "hmac_outer"]
    of: str


class Step(Part):
    """A view made from other views by Spark SQL. Its parameters, such as keys of masks, are known only when it runs."""

    view: str
    node: str
    sql: str
    parameters: dict[str, Parameter] = {}
    unguarded: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """The SQL without guards, if it has any: state is laid out by it."""


class LateRowSpec(Part):
    """How the rows that an operator found late are told from a batch of one input, read once more.

    The SQL gives every row and the time by which it was due. It reads the input, or a view that the steps make from it.
    """

    input: str
    steps: tuple[str, ...] = ()
    sql: str
    lateness_ms: int = 0


class KeyedStep(Part):
    """A view made from other views by an operator with memory."""

    view: str
    node: str
    inputs: tuple[str, ...]
    operator: Annotated[Operator, Field(discriminator="kind")]
    late: LateRowSpec | None = None
    """Set if late rows are kept."""


class Check(Part):
    """Expressions that a query computes from single rows of a view. Rows over which one fails are kept out.

    That is so where a batch that failed cannot be worked through once more: with state, or with several inputs. And
    where a part of it is written before it fails, as in Kafka.

    The view is the input, or is made from it by the steps.
    """

    view: str
    expressions: tuple[str, ...]
    input: str
    steps: tuple[str, ...] = ()


class AskedModel(Part):
    """A model of machine learning that the SQL of a query calls as a function.

    `content` tells what its file held; None if it was not there. `answer` is the struct that the project declares, None
    if that is left to the file.
    """

    function: str
    model: str
    path: str
    content: str | None
    answer: str | None


class RowRule(Part):
    """What a test asks of single rows: a condition in Spark SQL, met by rows that may pass or where it is unknown."""

    test: str
    said: str
    condition: str


class QueryOutput(Part):
    """A view written to a sink."""

    node: str
    view: str
    sink: dict[str, Any]
    fold: tuple[str, ...] | None = None
    """Rows that come and go become changes by this key; by whole rows if it is empty."""
    latest_by: tuple[str, ...] | None = None
    """Of several changes in a batch, only the last one of a key counts, by this key."""
    on_error: OnError = "dead_letter"
    """What becomes of rows that the SQL fails over, and of those that break a rule."""
    rules: tuple[RowRule, ...] = ()
    """What rows must meet to be written."""


_NO_PART_OF_STATE: Final = {"covers", "pushdown"}
"""Fields of a query that are not recorded and not compared with those of an earlier run."""


class Every(Part):
    """A batch at regular times; one after the other if there is no time between them."""

    interval_ms: int
    ahead: bool = False
    """Whether it may begin before the progress of the last one is kept."""


class RealTime(Part):
    """No batches: rows go through one by one. Progress is kept at regular times."""

    checkpoint_ms: int


class Pushdown(Part):
    """What a query asks of its inputs. It follows from the SQL, and spares the runtime parsing it.

    The default asks for every column and every row.
    """

    columns: tuple[str, ...] | None = None
    """The names of all columns that the SQL can mean, in lower case; None if it may mean any."""
    views: dict[str, tuple[str, ...] | None] = {}
    """By view, the columns that are used of it, where an operator keeps rows; None for all."""
    conditions: dict[str, str] = {}
    """By input of a fan-out, what its rows must meet for any step to use them."""


class QuerySpec(Part):
    """One streaming query: one checkpoint, one offset log.

    With `fan_out`, every input is read once and the steps run on each batch of it, so several sinks share one read.
    """

    name: str
    inputs: tuple[Input, ...]
    steps: tuple[Step | KeyedStep, ...]
    outputs: tuple[QueryOutput, ...]
    stateful: bool = False
    timed: bool = False
    """Whether it goes by event time."""
    fan_out: bool = False
    conf: dict[str, str] = {}
    """Spark properties of this query alone."""
    hindrances: tuple[str, ...] = ()
    """Constructs of its SQL that cannot be run."""
    checks: tuple[Check, ...] = ()
    trigger: Every | RealTime | None = None
    """When a batch begins; None for at once."""
    asks: tuple[AskedModel, ...] = ()
    covers: tuple[str, ...] = Field((), exclude_if=lambda names: not names)
    """Columns, in lower case, that dead letters and errors do not show. It changes nothing of what runs."""
    pushdown: Pushdown = Field(Pushdown(), exclude_if=lambda pushdown: pushdown == Pushdown())

    @property
    def isolated(self) -> bool:
        """Whether it is that of a sink that reads for itself."""
        return any(output.sink.get("isolate") for output in self.outputs)

    def to_document(self) -> dict[str, Any]:
        """For keeping: the same when read back, without secrets."""
        whole = self.model_dump(mode="json", by_alias=True, exclude=_NO_PART_OF_STATE)
        document: dict[str, Any] = mask_secrets(whole)
        return document

    @property
    def fingerprint(self) -> str:
        canonical = json.dumps(self.to_document(), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class SparkSpec(Part):
    master: str
    config: dict[str, str | int | float | bool] = {}
    covered_log: bool = Field(False, exclude_if=lambda is_covered: not is_covered)
    """Whether its log leaves out what errors quote: a query has columns that nobody may see."""


class About(Part):
    name: str
    format: Literal["project", "pipeline"]
    version: str | None = None
    description: str | None = None


class Manifest(Part):
    """Everything that would run, and the graph it came from."""

    version: int = VERSION
    project: About
    sources: tuple[dict[str, Any], ...] = ()
    models: tuple[dict[str, Any], ...] = ()
    tests: tuple[dict[str, Any], ...] = ()
    exposures: tuple[dict[str, Any], ...] = ()
    dag: Dag
    topics: tuple[TopicSpec, ...]
    streams: dict[str, dict[str, Any]]
    """How to read each node that holds rows of its own, by node id."""
    queries: tuple[QuerySpec, ...]
    connectors: tuple[ConnectorSpec, ...] = ()
    gateway_rules: tuple[GatewayRule, ...] = ()
    schemas: tuple[SchemaSpec, ...] = ()
    spark: SparkSpec

    def to_json(self) -> str:
        document = mask_secrets(self.model_dump(mode="json", by_alias=True))
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @property
    def revision(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    def query(self, name: str) -> QuerySpec:
        return next(q for q in self.queries if q.name == name)

    def producer(self, node_id: str) -> QuerySpec | None:
        """The query that writes a model's rows."""
        return next((q for q in self.queries if any(o.node == node_id for o in q.outputs)), None)
