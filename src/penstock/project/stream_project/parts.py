"""Parts that several elements have in common."""

from datetime import date
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, Number, Whole, check_name, refuse_crossed_bounds
from penstock.project.stream_project.security import Classification

Name = Annotated[str, Field(min_length=1), AfterValidator(check_name)]
"""What an element is called. Names become identifiers in quotes, so any script and any word will do."""


def fold_case(value: object) -> object:
    """Words in capitals are the same words."""
    return value.lower() if isinstance(value, str) else value


class Waiver(FrozenModel):
    """Leave to break a rule, for a reason and for a time."""

    rule: str
    """The rule, as its violation names it: `topics.min_partitions`. Or the warning `state-unbounded`, of a model."""
    reason: str = Field(min_length=1)
    """Why it may be broken."""
    until: date | None = None
    """The last day on which it may. Only a warning can be waived without one."""


LONGEST_MS: Final = 10 * 366 * 86_400_000
"""Ten years. A longer time is a slip of the pen, and the clock of Spark has an end."""


def _refuse_custom(strategy: object) -> object:
    if strategy == "custom":
        raise ValueError(
            "`custom` cannot be done: Spark's watermark is the largest time less a delay, and never an expression; "
            "write `bounded_out_of_orderness` with `max_out_of_orderness_ms`"
        )
    return strategy


class Watermark(FrozenModel):
    """How late a row may be."""

    strategy: Annotated[
        Literal["bounded_out_of_orderness", "monotonously_increasing", "monotonous"],
        BeforeValidator(_refuse_custom),
    ] = "bounded_out_of_orderness"
    """`monotonous` (or `monotonously_increasing`) means that rows come in order."""
    max_out_of_orderness_ms: Whole = Field(5000, ge=0, le=LONGEST_MS)
    """How many milliseconds a row may come after one that happened later."""
    idle_ms: Whole | None = Field(None, ge=1, le=LONGEST_MS)
    """After so long without a row, event time goes on with the clock. Without it, it waits for rows."""

    @property
    def delay_ms(self) -> int:
        return self.max_out_of_orderness_ms if self.strategy == "bounded_out_of_orderness" else 0


class EventTime(FrozenModel):
    """The column that says when a row happened."""

    column: str
    """The column's name. Text is read as a timestamp, a whole number as milliseconds since 1970."""
    watermark: Watermark = Watermark()
    """How late a row may be."""
    allowed_lateness_ms: Whole | None = Field(None, ge=0, le=LONGEST_MS)
    """How much later than the watermark a row may still correct a result."""
    late: Literal["drop", "dead_letter"] = "drop"
    """What becomes of rows that come too late: counted, or also kept in the error topic."""
    max_future_ms: Whole = Field(86_400_000, ge=0, le=LONGEST_MS)
    """How far ahead of the clock a time may be. A row beyond that is an error, and does not move time; 0 allows any."""


class AcceptedValues(FrozenModel):
    """The values that a column may have."""

    values: tuple[Any, ...] = Field(min_length=1)
    """Every value that is allowed."""


class Bounds(FrozenModel):
    """The numbers that a column may hold."""

    min: Number | None = None
    """The smallest."""
    max: Number | None = None
    """The largest."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min", "max"))
        return self


class Nothing(FrozenModel):
    """No settings."""


class ColumnCheck(FrozenModel):
    """Something that must be true of a column: `not_null`, `unique`, `accepted_values` or `range`."""

    not_null: Nothing | None = None
    """Every row has a value."""
    unique: Nothing | None = None
    """No value comes twice."""
    accepted_values: AcceptedValues | None = None
    """The values that it may have."""
    range: Bounds | None = None
    """The numbers that it may hold."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        """A check without settings is written as its name."""
        if isinstance(value, str):
            return {value: {}}
        plain = {"not_null", "unique"}
        return (
            {k: {} if v is None and k in plain else v for k, v in value.items()} if isinstance(value, dict) else value
        )

    @model_validator(mode="after")
    def _one_check(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("name one check an entry")
        kind = next(iter(self.model_fields_set))
        if getattr(self, kind) is None:
            raise ValueError(f"`{kind}` needs its settings")
        return self


class ColumnSpec(FrozenModel):
    """A column, and what is known about it."""

    name: Name
    """The column's name."""
    type: str | None = None
    """An SQL type: `STRING`, `BIGINT`, `DECIMAL(10, 2)`, `TIMESTAMP(3)`, `ARRAY<STRING>`, … In a source
    it is that of the schema if left out, or `STRING` without a schema; in a model it is what the SQL gives, and a type
    written here must be that."""
    description: str | None = None
    """What it holds."""
    classification: Classification | None = None
    """How delicate it is. It follows the column through every model."""
    proctime: bool = False
    """Whether it is the time of processing, not part of the rows: Spark fills it in as a batch is read."""
    tests: tuple[ColumnCheck, ...] = ()
    """What must be true of it."""


class NodeReference(FrozenModel):
    """A source or a model by name."""

    source: str | None = None
    """The name of a source."""
    ref: str | None = None
    """The name of a model."""

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if (self.source is None) == (self.ref is None):
            raise ValueError("name one `source` or one `ref`")
        return self

    @property
    def id(self) -> str:
        return f"source.{self.source}" if self.source is not None else f"model.{self.ref}"


def _normalize_references(value: object) -> object:
    """`from: x`, a list of names, and a list of `{ref: x}` / `{source: y}` are the same thing."""
    if isinstance(value, str | dict):
        value = [value]
    return [{"ref": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


References = Annotated[
    tuple[NodeReference, ...],
    BeforeValidator(_normalize_references, json_schema_input_type=str | NodeReference | list[str | NodeReference]),
]
