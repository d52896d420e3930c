"""The manifest, as versioned JSON. Equal input gives byte-identical output: no clock, no host, no absolute path."""

import hashlib
import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from penstock.config import OnError
from penstock.keyed.operators import Operator
from penstock.manifest.calls import AskedModel, CalledFunction
from penstock.manifest.graph_model import Dag
from penstock.manifest.part import Part
from penstock.manifest.resources import ConnectorSpec, GatewayRule, SchemaSpec, TopicSpec
from penstock.project.yaml.secrets import mask_secrets

VERSION: Final = 2


class EventTimeSpec(Part):
    column: str
    delay_ms: int
    max_future_ms: int = 0
    """How far ahead of the clock a time may be; 0: no limit."""
    idle_ms: int | None = None
    """After how long without rows it advances with the clock."""
    made_of: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """Spark SQL over the columns of the input, if the column is computed from them."""
    where: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """The condition of rows with a computed time. Other rows are not read."""


class Phase(Part):
    """A bounded source of a backfill. `name` is its name in the checkpoint."""

    name: str
    source: dict[str, Any]


class Backfill(Part):
    """The phases that an input reads before its own source, one after the other."""

    phases: tuple[Phase, ...]
    offset_table: dict[str, Any] | None = None
    """The table with the offsets of the topic that the phases cover."""
    is_all: bool = False
    """Whether the input ends after the phases."""


class Input(Part):
    """A stream that a query reads. `name` is its name in the checkpoint."""

    view: str
    node: str
    name: str
    source: dict[str, Any]
    event_time: EventTimeSpec | None = None
    with_operation: bool = False
    """Whether to mark rows without `_gs_op` as inserts."""
    upsert_key: tuple[str, ...] = Field((), exclude_if=lambda key: not key)
    """The upsert key: a row replaces the previous row with the same key. Empty for append-only rows."""
    processing_time: tuple[str, ...] = ()
    condition: str | None = None
    """The condition that its rows must meet. Other rows are skipped."""
    static: bool = False
    """Whether it is a lookup table and not a stream."""
    ordered: bool = False
    """Whether the order of its rows matters to a sink."""
    any_order: bool = False
    """Whether its rows may be read in any order."""
    on_error: OnError = "dead_letter"
    """What happens to rows that cannot be processed."""
    backfill: Backfill | None = Field(None, exclude_if=lambda backfill: backfill is None)
    cast_to: dict[str, str] = Field({}, exclude_if=lambda types: not types)
    """The columns and types to cast a phase to. They are known only at run time."""
    declared: dict[str, str] = Field({}, exclude_if=lambda types: not types)
    """The declared column types of a lookup table whose files have no types."""

    @property
    def topic(self) -> str | None:
        """The Kafka topic that it reads, if any."""
        ends_before = self.backfill is not None and self.backfill.is_all
        return str(self.source["topic"]) if self.source["type"] == "kafka" and not ends_before else None

    @property
    def sources(self) -> tuple[dict[str, Any], ...]:
        """All sources that it reads, in order."""
        return (*(phase.source for phase in (self.backfill.phases if self.backfill else ())), self.source)


class Parameter(Part):
    """A parameter of SQL: a text that refers to variables, or half of a key in a variable."""

    kind: Literal["text", "hmac_inner", "hmac_outer"]
    of: str


class Step(Part):
    """A view that Spark SQL computes from other views. Parameters, such as mask keys, are known only at run time."""

    view: str
    node: str
    sql: str
    parameters: dict[str, Parameter] = {}
    unguarded: str | None = Field(default=None, exclude_if=lambda text: text is None)
    """The SQL without guards, if it has any. It defines the layout of state."""


class LateRowSpec(Part):
    """How to find the rows that an operator counted as late in a batch that is read again. The SQL gives every row and
    the time at which it was due. It reads the input, or a view that the steps compute from it."""

    input: str
    steps: tuple[str, ...] = ()
    sql: str
    lateness_ms: int = 0


class KeyedStep(Part):
    """A view that a stateful operator computes from other views."""

    view: str
    node: str
    inputs: tuple[str, ...]
    operator: Annotated[Operator, Field(discriminator="kind")]
    late: LateRowSpec | None = None
    """Set if late rows become dead letters."""


class Check(Part):
    """Expressions that a query computes from single rows of a view. Rows on which one fails are filtered out. Checks
    are used where a failed batch cannot be processed again (with state, or with several inputs), and where a part of it
    is written before it fails, as in Kafka. The view is the input, or the steps compute it from the input."""

    view: str
    expressions: tuple[str, ...]
    input: str
    steps: tuple[str, ...] = ()


class RowRule(Part):
    """A row rule of a test: a condition in Spark SQL. Rows pass if it is true or null."""

    test: str
    said: str
    condition: str


class QueryOutput(Part):
    """A view written to a sink."""

    node: str
    view: str
    sink: dict[str, Any]
    fold: tuple[str, ...] | None = None
    """The key by which signed rows are folded into changes; whole rows if it is empty."""
    latest_by: tuple[str, ...] | None = None
    """The key by which only the last change of a batch is written."""
    on_error: OnError = "dead_letter"
    """What happens to rows on which the SQL fails, and to rows that break a rule."""
    rules: tuple[RowRule, ...] = ()


_NO_PART_OF_STATE: Final = {"covers", "pushdown"}
"""Fields of a query that are not recorded and not compared with those of an earlier run."""


class Every(Part):
    """Batches at regular intervals; without pause if the interval is zero."""

    interval_ms: int
    ahead: bool = False
    """Whether a batch may begin before the progress of the last one is committed."""


class RealTime(Part):
    """Real-time mode: rows are processed one by one. Progress is committed at regular intervals."""

    checkpoint_ms: int


class Pushdown(Part):
    """What a query asks of its inputs, found by its SQL at compile time. The default asks for everything."""

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
    """Whether it uses event time."""
    fan_out: bool = False
    conf: dict[str, str] = {}
    """Spark properties of this query alone."""
    hindrances: tuple[str, ...] = ()
    """Constructs of its SQL that cannot run."""
    checks: tuple[Check, ...] = ()
    trigger: Every | RealTime | None = None
    """When a batch begins; None: as soon as possible."""
    asks: tuple[AskedModel, ...] = ()
    functions: tuple[CalledFunction, ...] = Field((), exclude_if=lambda functions: not functions)
    covers: tuple[str, ...] = Field((), exclude_if=lambda names: not names)
    """Columns, in lower case, that dead letters and errors hide. It does not affect the query."""
    pushdown: Pushdown = Field(Pushdown(), exclude_if=lambda pushdown: pushdown == Pushdown())

    @property
    def streams(self) -> list[Input]:
        """The inputs without lookup tables."""
        return [entry for entry in self.inputs if not entry.static]

    def input(self, view: str) -> Input:
        return next(entry for entry in self.inputs if entry.view == view)

    @property
    def isolated(self) -> bool:
        """Whether it is the query of an isolated sink."""
        return any(output.sink.get("isolate") for output in self.outputs)

    def to_document(self) -> dict[str, Any]:
        """The query as a JSON document for the state store: lossless, without secrets."""
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
    """Whether Spark's log hides values in errors, because a query has sensitive columns."""


class About(Part):
    name: str
    format: Literal["project", "pipeline"]
    version: str | None = None
    description: str | None = None


class Manifest(Part):
    """Everything that would run, and its graph."""

    version: int = VERSION
    project: About
    sources: tuple[dict[str, Any], ...] = ()
    models: tuple[dict[str, Any], ...] = ()
    tests: tuple[dict[str, Any], ...] = ()
    exposures: tuple[dict[str, Any], ...] = ()
    dag: Dag
    topics: tuple[TopicSpec, ...]
    streams: dict[str, dict[str, Any]]
    """How to read each node that stores rows, by node id."""
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
