"""Tests of a project."""

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from penstock.config import Duration, FrozenModel, Names, Number, Whole, refuse_crossed_bounds
from penstock.project.stream_project.failure import OnFailure
from penstock.project.stream_project.parts import Bounds, Name, Waiver


class NotNull(FrozenModel):
    """Every row has a value."""

    columns: Names = Field(min_length=1)
    """The columns."""


class AcceptedValuesOf(FrozenModel):
    """A column has one of these values."""

    column: str
    """The column."""
    values: tuple[Any, ...] = Field(min_length=1)
    """The accepted values."""


class AcceptedTypes(FrozenModel):
    """Columns have these types."""

    types: dict[str, str] = Field(min_length=1)
    """Columns and their types: `string`, `number`, `int`, `bigint`, `boolean`, `timestamp`, `date`, `time`, or SQL.
    `accepted_types: {a: string}` is short for `accepted_types: {types: {a: string}}`."""

    @model_validator(mode="before")
    @classmethod
    def _from_columns(cls, value: Any) -> Any:
        is_short = isinstance(value, dict) and value and not isinstance(value.get("types"), dict)
        return {"types": value} if is_short else value


class RangeOf(FrozenModel):
    """A number lies between bounds."""

    column: str
    """The column."""
    min: Number | None = None
    """The minimum."""
    max: Number | None = None
    """The maximum."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min", "max"))
        return self


class UniqueKey(FrozenModel):
    """No key occurs twice."""

    key: Names = Field(min_length=1)
    """The columns of the key."""
    window: str | None = None
    """The time within which a key must be unique."""
    tolerance: Number = Field(0.0, ge=0, le=1)
    """The accepted share of duplicates."""


class ForeignKey(FrozenModel):
    """Every value is a key of another model."""

    column: str
    """The column."""
    ref_model: str
    """The other model."""
    ref_key: str
    """The column there."""
    window: str | None = None
    """The time within which the other row must arrive."""
    match_rate: Number | None = Field(None, ge=0, le=1)
    """The minimum share of rows with a match."""


class MaxLag(FrozenModel):
    """Rows are not older than this when they arrive."""

    column: str | None = None
    """The column with the time of a row. Default: the event time."""
    max_seconds: Number = Field(gt=0, validation_alias=AliasChoices("max_seconds", "seconds"))
    """The maximum age. `seconds` is the same field."""


class Throughput(FrozenModel):
    """The rows per second are within bounds."""

    min_per_second: Number | None = Field(None, ge=0)
    """The minimum rows per second."""
    max_per_second: Number | None = Field(None, ge=0)
    """The maximum rows per second."""
    min_per_minute: Number | None = Field(None, ge=0)
    """The minimum rows per minute."""
    max_per_minute: Number | None = Field(None, ge=0)
    """The maximum rows per minute."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min_per_second", "max_per_second"), ("min_per_minute", "max_per_minute"))
        return self


class Bucket(Bounds):
    """A range of numbers, and the expected share of rows in it."""

    expected_ratio: Number = Field(ge=0, le=1)
    """The expected share of rows."""
    tolerance: Number = Field(0.0, ge=0, le=1)
    """The accepted deviation from that share."""


class Distribution(FrozenModel):
    """Numbers have the expected distribution."""

    column: str
    """The column."""
    buckets: tuple[Bucket, ...] = Field(min_length=1)
    """The ranges."""


class CustomSql(FrozenModel):
    """A custom query: `sql` with its expected result, or a condition that bad rows meet."""

    name: str = "custom"
    """The name of the failures."""
    sql: str | None = None
    """A SELECT over `{{ ref("name") }}`."""
    expect: Any = None
    """The expected result."""
    max_failures: Whole | None = Field(None, ge=0)
    """The maximum number of rows in the result."""
    where: str | None = None
    """The condition that a bad row meets."""
    detail_column: str | None = None
    """The column that identifies a row."""

    @model_validator(mode="after")
    def _check_one_query(self) -> Self:
        if (self.sql is None) == (self.where is None):
            raise ValueError("give `sql`, or `where`")
        return self


class Positive(FrozenModel):
    """A number is above zero."""

    columns: Names = Field(min_length=1, validation_alias=AliasChoices("columns", "column"))
    """The columns."""
    allow_zero: bool = False
    """Whether zero is accepted."""


class FreshWithin(FrozenModel):
    """The newest row is not older than this."""

    max_seconds: Number | None = Field(
        None, gt=0, validation_alias=AliasChoices("max_seconds", "max_age_seconds", "max_lag_seconds")
    )
    """The maximum age in seconds."""
    max_age_minutes: Number | None = Field(None, gt=0)
    """The maximum age in minutes."""
    column: str | None = None
    """The column with the time of a row. Default: the event time."""

    @model_validator(mode="after")
    def _check_one_age(self) -> Self:
        if (self.max_seconds is None) == (self.max_age_minutes is None):
            raise ValueError("give `max_seconds`, or `max_age_minutes`")
        return self


class Assertion(FrozenModel):
    """One assertion, by its name."""

    not_null: NotNull | None = None
    """Every row has a value in these columns."""
    accepted_values: AcceptedValuesOf | None = None
    """A column has one of these values."""
    accepted_types: AcceptedTypes | None = None
    """Columns have these types."""
    range: RangeOf | None = None
    """A number lies between bounds."""
    unique_key: UniqueKey | None = None
    """No key occurs twice."""
    foreign_key: ForeignKey | None = None
    """Every value is a key of another model."""
    max_lag: MaxLag | None = None
    """Rows are not older than this when they arrive."""
    throughput: Throughput | None = None
    """The rows per second are within bounds."""
    distribution: Distribution | None = None
    """Numbers have the expected distribution."""
    custom_sql: CustomSql | None = None
    """A custom query."""
    positive: Positive | None = None
    """A number is above zero."""
    freshness: FreshWithin | None = None
    """The newest row is not older than this."""

    @model_validator(mode="after")
    def _check_one_assertion(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give one assertion per entry, and begin each entry with `- `")
        if getattr(self, self.kind) is None:
            raise ValueError(f"`{self.kind}` needs its settings")
        return self

    @property
    def kind(self) -> str:
        return next(iter(self.model_fields_set))

    @property
    def body(self) -> FrozenModel:
        body = getattr(self, self.kind)
        assert isinstance(body, FrozenModel)
        return body


def _wrap_list(value: object) -> object:
    return [value] if isinstance(value, dict) else value


class DataTest(FrozenModel):
    """A test of a model or a source."""

    name: Name
    """Its name."""
    model: str
    """The model or source that it tests."""
    type: Literal["schema", "sample", "continuous"]
    """`schema`: tests the columns in `validate`. `sample`: tests some rows on demand (not run). `continuous`: tests
    every row."""
    description: str | None = None
    """A description."""
    owner: str | None = None
    """The owner."""
    group: str | None = None
    """The group for `access`. Default: the group of the tested model."""
    tags: tuple[str, ...] = ()
    """Tags, for selection and search."""
    assertions: Annotated[
        tuple[Assertion, ...], BeforeValidator(_wrap_list, json_schema_input_type=list[Assertion])
    ] = ()
    """The assertions."""
    sample_size: Whole | None = Field(None, ge=1)
    """`sample`: the number of rows that it reads."""
    timeout: Duration | None = None
    """`sample`: how long it waits for rows."""
    flink_cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    on_failure: OnFailure = OnFailure()
    """What to do when it fails."""
    waivers: tuple[Waiver, ...] = ()
    """Waivers: rules that it may break, each with a reason."""
