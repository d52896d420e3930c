"""Parts that several elements share."""

from datetime import date
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, Number, Whole, check_name, refuse_crossed_bounds
from penstock.project.stream_project.security import Classification

Name = Annotated[str, Field(min_length=1), AfterValidator(check_name)]
"""The name of an element. Names become quoted identifiers, so any script and any word is allowed."""


class Waiver(FrozenModel):
    """A permission to break a rule, with a reason and until a day."""

    rule: str
    """The rule, as its violation names it: `topics.min_partitions`. Or the warning `state-unbounded`, of a model."""
    reason: str = Field(min_length=1)
    """The reason."""
    until: date | None = None
    """The last day of the waiver. It is required for a rule and optional for a warning."""


LONGEST_MS: Final = 10 * 366 * 86_400_000
"""Ten years. A longer time is a mistake, and Spark's timestamps have a limit."""


def _refuse_custom(strategy: object) -> object:
    if strategy == "custom":
        raise ValueError(
            "`custom` is not supported: Spark's watermark is the latest event time minus a delay, not an expression; "
            "write `bounded_out_of_orderness` with `max_out_of_orderness_ms`"
        )
    return strategy


class Watermark(FrozenModel):
    """The watermark: how late rows may be."""

    strategy: Annotated[
        Literal["bounded_out_of_orderness", "monotonously_increasing", "monotonous"], BeforeValidator(_refuse_custom)
    ] = "bounded_out_of_orderness"
    """`monotonous` (or `monotonously_increasing`) means that rows arrive in order."""
    max_out_of_orderness_ms: Whole = Field(5000, ge=0, le=LONGEST_MS)
    """The delay of the watermark behind the largest time seen, in milliseconds."""
    idle_ms: Whole | None = Field(None, ge=1, le=LONGEST_MS)
    """After this many milliseconds without rows, event time advances with the clock. By default it waits for rows."""

    @property
    def delay_ms(self) -> int:
        return self.max_out_of_orderness_ms if self.strategy == "bounded_out_of_orderness" else 0


class EventTime(FrozenModel):
    """The column with the event time."""

    column: str
    """The column's name. Text is read as a timestamp, a whole number as milliseconds since 1970."""
    watermark: Watermark = Watermark()
    """The watermark: how late rows may be."""
    allowed_lateness_ms: Whole | None = Field(None, ge=0, le=LONGEST_MS)
    """How long after the watermark a late row still corrects its window, in milliseconds."""
    late: Literal["drop", "dead_letter"] = "drop"
    """What happens to late rows: `drop` counts them; `dead_letter` also keeps them as dead letters."""
    max_future_ms: Whole = Field(86_400_000, ge=0, le=LONGEST_MS)
    """How far ahead of the clock a time may be, in milliseconds. A row beyond that is rejected and does not move the
    watermark. 0 allows any time."""


class AcceptedValues(FrozenModel):
    """The accepted values of a column."""

    values: tuple[Any, ...] = Field(min_length=1)
    """The accepted values."""


class Bounds(FrozenModel):
    """The range of a numeric column."""

    min: Number | None = None
    """The minimum."""
    max: Number | None = None
    """The maximum."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min", "max"))
        return self


class Nothing(FrozenModel):
    """No settings."""


class ColumnCheck(FrozenModel):
    """A check of a column: `not_null`, `unique`, `accepted_values` or `range`."""

    not_null: Nothing | None = None
    """Every row has a value."""
    unique: Nothing | None = None
    """No value occurs twice."""
    accepted_values: AcceptedValues | None = None
    """The accepted values."""
    range: Bounds | None = None
    """The range of its numbers."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        """A check without settings is written as its name."""
        match value:
            case str():
                return {value: {}}
            case dict():
                return {k: {} if v is None and k in ("not_null", "unique") else v for k, v in value.items()}
            case _:
                return value

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give one check per entry")
        kind = next(iter(self.model_fields_set))
        if getattr(self, kind) is None:
            raise ValueError(f"`{kind}` needs its settings")
        return self


class ColumnSpec(FrozenModel):
    """A column and its metadata."""

    name: Name
    """The column's name."""
    type: str | None = None
    """An SQL type: `STRING`, `BIGINT`, `DECIMAL(10, 2)`, `TIMESTAMP(3)`, `ARRAY<STRING>`, … In a source, the default is
    the type of the schema, or `STRING` without a schema. In a model, it must be the type that the SQL gives."""
    description: str | None = None
    """A description."""
    classification: Classification | None = None
    """The sensitivity. It follows the column through every model."""
    proctime: bool = False
    """Whether it is the processing time, which is not in the records: Spark sets it when a batch is read."""
    tests: tuple[ColumnCheck, ...] = ()
    """Checks of the column."""


class NodeReference(FrozenModel):
    """A source or a model by name."""

    source: str | None = None
    """The name of a source."""
    ref: str | None = None
    """The name of a model."""

    @model_validator(mode="after")
    def _check_one_name(self) -> Self:
        if (self.source is None) == (self.ref is None):
            raise ValueError("give exactly one of `source` and `ref`")
        return self

    @property
    def id(self) -> str:
        return f"source.{self.source}" if self.source is not None else f"model.{self.ref}"


def _normalize_references(value: object) -> object:
    """Normalize `from: x` and a list of names to a list of `{ref: x}` and `{source: y}`."""
    if isinstance(value, str | dict):
        value = [value]
    return [{"ref": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


References = Annotated[
    tuple[NodeReference, ...],
    BeforeValidator(_normalize_references, json_schema_input_type=str | NodeReference | list[str | NodeReference]),
]
