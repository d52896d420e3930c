"""Rules that every element of the project is held to."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.config import Duration, FrozenModel, Number, Whole, refuse_crossed_bounds
from penstock.project.stream_project.model import Materialized, replace_flink
from penstock.project.stream_project.security import Classification


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"this is not a regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
"""A regular expression."""


class TopicRules(FrozenModel):
    """Rules for the topics that the project writes, defaults applied."""

    min_partitions: Whole | None = Field(None, ge=1)
    """The fewest partitions."""
    max_partitions: Whole | None = Field(None, ge=1)
    """The most partitions."""
    min_replication_factor: Whole | None = Field(None, ge=1)
    """The fewest copies."""
    max_replication_factor: Whole | None = Field(None, ge=1)
    """The most copies."""
    naming_pattern: Pattern | None = None
    """A regular expression that the whole name must match."""
    forbidden_prefixes: tuple[str, ...] = ()
    """What a name may not begin with."""
    forbidden_suffixes: tuple[str, ...] = ()
    """What a name may not end with."""
    required_config: tuple[str, ...] = ()
    """Settings that must be given, such as `retention.ms`."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(
            self, ("min_partitions", "max_partitions"), ("min_replication_factor", "max_replication_factor")
        )
        return self


class ModelRules(FrozenModel):
    """Rules for models."""

    require_description: bool = False
    """A model says what it is."""
    require_owner: bool = False
    """A model says who answers for it."""
    min_description_length: Whole | None = Field(None, ge=1)
    """The fewest characters of a description."""
    require_tests: bool = False
    """A model has a test with an assertion."""
    min_tests: Whole | None = Field(None, ge=0)
    """The fewest tests with assertions."""
    max_dependencies: Whole | None = Field(None, ge=0)
    """The most sources and models that a model reads."""
    max_sql_length: Whole | None = Field(None, ge=1)
    """The most characters of SQL."""
    allowed_materializations: tuple[
        Annotated[Materialized, BeforeValidator(replace_flink, json_schema_input_type=Materialized | Literal["flink"])],
        ...,
    ] = ()
    """The only ways to be materialized."""
    required_tags: tuple[str, ...] = ()
    """Tags that a model must have; `tier` is there with `tier`, `tier-1` or `tier:1`."""
    allowed_tags: tuple[str, ...] = ()
    """The only tags that a model may have."""


class SourceRules(FrozenModel):
    """Rules for sources."""

    require_description: bool = False
    """A source says what it is."""
    require_owner: bool = False
    """A source says who answers for it."""
    require_schema: bool = False
    """A source has a schema."""
    require_columns: bool = False
    """A source declares its columns, or has a schema with columns."""
    require_freshness: bool = False
    """A source says how long it may be silent."""
    max_freshness_warn: Duration | None = None
    """The longest `freshness.warn_after`."""
    max_freshness_error: Duration | None = None
    """The longest `freshness.error_after`."""
    required_tags: tuple[str, ...] = ()
    """Tags that a source must have."""


class ExposureRules(FrozenModel):
    """Rules for exposures."""

    require_description: bool = False
    """An exposure says what it is."""
    require_owner: bool = False
    """An exposure says who answers for it."""
    require_sla: bool = False
    """An exposure says what was promised."""
    require_contacts: bool = False
    """An exposure says whom to ask."""
    max_latency_p99_ms: Number | None = Field(None, ge=0)
    """The slowest promise."""
    min_availability: Number | None = Field(None, ge=0, le=100)
    """The lowest promise, in percent."""
    required_tags: tuple[str, ...] = ()
    """Tags that an exposure must have."""


class TestRules(FrozenModel):
    """Rules for tests."""

    __test__ = False

    require_schema_tests: bool = False
    """Every model has a test of type `schema`."""
    min_assertions_per_test: Whole | None = Field(None, ge=0)
    """The fewest assertions of a test."""
    require_continuous_for_critical: bool = False
    """Every model with the tag `critical` has a test of type `continuous`."""
    require_description: bool = False
    """A test says what it is for."""


class SecurityRules(FrozenModel):
    """Rules for what is delicate."""

    require_classification: bool = False
    """Every column that is declared says how delicate it is."""
    allowed_classifications: tuple[Classification, ...] = ()
    """The only classifications."""
    sensitive_columns_require_masking: bool = False
    """A column that is `sensitive` or more, also by where it comes from, is masked before it is written."""
    highly_sensitive_columns_require_encryption: bool = False
    """A column that is `highly_sensitive` is tokenized, or hashed with SHA-256 and a salt, before it is written."""
    pii_column_patterns: tuple[Pattern, ...] = ()
    """Names, as regular expressions, of personal data: such columns must be classified `sensitive` or more."""
    require_access_level: bool = False
    """A model says who may read it."""


class Rules(FrozenModel):
    """What every element is held to. An element may have leave to break one: see `waivers`."""

    topics: TopicRules = TopicRules()
    """Rules for topics."""
    models: ModelRules = ModelRules()
    """Rules for models."""
    sources: SourceRules = SourceRules()
    """Rules for sources."""
    exposures: ExposureRules = ExposureRules()
    """Rules for exposures."""
    tests: TestRules = TestRules()
    """Rules for tests."""
    security: SecurityRules = SecurityRules()
    """Rules for what is delicate."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Every rule as violations and waivers call it: `topics.min_partitions`."""
        groups = {name: field.annotation for name, field in cls.model_fields.items()}
        return tuple(
            f"{group}.{rule}"
            for group, model in groups.items()
            if isinstance(model, type) and issubclass(model, FrozenModel)
            for rule in model.model_fields
        )
