"""What must be true of the rows."""

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from penstock.config import Duration, FrozenModel, Names, Number, Whole, refuse_crossed_bounds
from penstock.project.stream_project.failure import OnFailure
from penstock.project.stream_project.parts import Name, Waiver


class NotNull(FrozenModel):
    """Every row has a value."""

    columns: Names = Field(min_length=1)
    """The columns."""


class AcceptedValuesOf(FrozenModel):
    """A column has one of these values."""

    column: str
    """The column."""
    values: tuple[Any, ...] = Field(min_length=1)
    """Every value that is allowed."""


class AcceptedTypes(FrozenModel):
    """Columns are of these types."""

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
    """The smallest."""
    max: Number | None = None
    """The largest."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min", "max"))
        return self


class UniqueKey(FrozenModel):
    """No key comes twice."""

    key: Names = Field(min_length=1)
    """The columns of the key."""
    window: str | None = None
    """The time in which it may not."""
    tolerance: Number = Field(0.0, ge=0, le=1)
    """The share of rows that may be duplicates."""


class ForeignKey(FrozenModel):
    """Every value is a key of another model."""

    column: str
    """The column."""
    ref_model: str
    """The other model."""
    ref_key: str
    """The column there."""
    window: str | None = None
    """The time within which the other row must be found."""
    match_rate: Number | None = Field(None, ge=0, le=1)
    """The share of rows that must have one."""


class MaxLag(FrozenModel):
    """Rows are not older than this when they are seen."""

    column: str | None = None
    """The column with the time of a row; the event time when left out."""
    max_seconds: Number = Field(gt=0, validation_alias=AliasChoices("max_seconds", "seconds"))
    """How old they may be. `seconds` is the same field."""


class Throughput(FrozenModel):
    """So many rows come in a second."""

    min_per_second: Number | None = Field(None, ge=0)
    """At least."""
    max_per_second: Number | None = Field(None, ge=0)
    """At most."""
    min_per_minute: Number | None = Field(None, ge=0)
    """At least, in a minute."""
    max_per_minute: Number | None = Field(None, ge=0)
    """At most, in a minute."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min_per_second", "max_per_second"), ("min_per_minute", "max_per_minute"))
        return self


class Bucket(FrozenModel):
    """A part of the numbers, and the share of rows in it."""

    min: Number | None = None
    """From here."""
    max: Number | None = None
    """To here."""
    expected_ratio: Number = Field(ge=0, le=1)
    """The share of rows that it should have."""
    tolerance: Number = Field(0.0, ge=0, le=1)
    """How far the share may be off."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min", "max"))
        return self


class Distribution(FrozenModel):
    """Numbers are spread as expected."""

    column: str
    """The column."""
    buckets: tuple[Bucket, ...] = Field(min_length=1)
    """The parts."""


class CustomSql(FrozenModel):
    """A query of your own: with `sql` and what it is expected to give, or with a condition that bad rows meet."""

    name: str = "custom"
    """What failures are called."""
    sql: str | None = None
    """A SELECT over `{{ ref("name") }}`."""
    expect: Any = None
    """What it is to give."""
    max_failures: Whole | None = Field(None, ge=0)
    """How many rows it may give."""
    where: str | None = None
    """The condition that a bad row meets."""
    detail_column: str | None = None
    """The column that tells which row it was."""

    @model_validator(mode="after")
    def _some_query(self) -> Self:
        if (self.sql is None) == (self.where is None):
            raise ValueError("give `sql`, or `where`")
        return self


class Positive(FrozenModel):
    """A number is above zero."""

    columns: Names = Field(min_length=1, validation_alias=AliasChoices("columns", "column"))
    """The columns."""
    allow_zero: bool = False
    """Whether it may be zero as well."""


class FreshWithin(FrozenModel):
    """The newest row is not older than this."""

    max_seconds: Number | None = Field(
        None, gt=0, validation_alias=AliasChoices("max_seconds", "max_age_seconds", "max_lag_seconds")
    )
    """How old it may be."""
    max_age_minutes: Number | None = Field(None, gt=0)
    """How old it may be, in minutes."""
    column: str | None = None
    """The column with the time of a row; the event time when left out."""

    @model_validator(mode="after")
    def _some_age(self) -> Self:
        if (self.max_seconds is None) == (self.max_age_minutes is None):
            raise ValueError("give `max_seconds`, or `max_age_minutes`")
        return self


class Assertion(FrozenModel):
    """One thing that must be true, by its name."""

    not_null: NotNull | None = None
    """Every row has a value in these columns."""
    accepted_values: AcceptedValuesOf | None = None
    """A column has one of these values."""
    accepted_types: AcceptedTypes | None = None
    """Columns are of these types."""
    range: RangeOf | None = None
    """A number lies between bounds."""
    unique_key: UniqueKey | None = None
    """No key comes twice."""
    foreign_key: ForeignKey | None = None
    """Every value is a key of another model."""
    max_lag: MaxLag | None = None
    """Rows are not older than this when they are seen."""
    throughput: Throughput | None = None
    """So many rows come in a second."""
    distribution: Distribution | None = None
    """Numbers are spread as expected."""
    custom_sql: CustomSql | None = None
    """A query of your own."""
    positive: Positive | None = None
    """A number is above zero."""
    freshness: FreshWithin | None = None
    """The newest row is not older than this."""

    @model_validator(mode="after")
    def _one_assertion(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("name one assertion an entry, each with `- ` before it")
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
    """The model or source that it looks at."""
    type: Literal["schema", "sample", "continuous"]
    """`schema`: the columns, as the project is checked. `sample`: some rows, on demand. `continuous`: every row."""
    description: str | None = None
    """What it is for."""
    owner: str | None = None
    """Who answers for it."""
    group: str | None = None
    """The group it belongs to; that of the tested model when left out."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    assertions: Annotated[
        tuple[Assertion, ...], BeforeValidator(_wrap_list, json_schema_input_type=list[Assertion])
    ] = ()
    """What must be true."""
    sample_size: Whole | None = Field(None, ge=1)
    """`sample`: how many rows it reads."""
    timeout: Duration | None = None
    """`sample`: how long it waits for them."""
    flink_cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    on_failure: OnFailure = OnFailure()
    """What to do when it fails."""
    waivers: tuple[Waiver, ...] = ()
    """Rules that it may break for a while."""
