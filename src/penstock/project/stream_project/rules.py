"""Rules for the elements of the project."""

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
        raise ValueError(f"this is not a valid regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
"""A regular expression."""


class TopicRules(FrozenModel):
    """Rules for the topics that the project writes, defaults applied."""

    min_partitions: Whole | None = Field(None, ge=1)
    """The minimum number of partitions."""
    max_partitions: Whole | None = Field(None, ge=1)
    """The maximum number of partitions."""
    min_replication_factor: Whole | None = Field(None, ge=1)
    """The minimum replication factor."""
    max_replication_factor: Whole | None = Field(None, ge=1)
    """The maximum replication factor."""
    naming_pattern: Pattern | None = None
    """A regular expression that the whole name must match."""
    forbidden_prefixes: tuple[str, ...] = ()
    """Forbidden prefixes of a name."""
    forbidden_suffixes: tuple[str, ...] = ()
    """Forbidden suffixes of a name."""
    required_config: tuple[str, ...] = ()
    """Required settings, such as `retention.ms`."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(
            self, ("min_partitions", "max_partitions"), ("min_replication_factor", "max_replication_factor")
        )
        return self


class ModelRules(FrozenModel):
    """Rules for models."""

    require_description: bool = False
    """A model must have a description."""
    require_owner: bool = False
    """A model must have an owner."""
    min_description_length: Whole | None = Field(None, ge=1)
    """The minimum length of a description, in characters."""
    require_tests: bool = False
    """A model must have a test with an assertion."""
    min_tests: Whole | None = Field(None, ge=0)
    """The minimum number of tests with assertions."""
    max_dependencies: Whole | None = Field(None, ge=0)
    """The maximum number of sources and models that a model reads."""
    max_sql_length: Whole | None = Field(None, ge=1)
    """The maximum length of the SQL, in characters."""
    allowed_materializations: tuple[
        Annotated[Materialized, BeforeValidator(replace_flink, json_schema_input_type=Materialized | Literal["flink"])],
        ...,
    ] = ()
    """The allowed materializations."""
    required_tags: tuple[str, ...] = ()
    """Required tags. `tier` matches `tier`, `tier-1` and `tier:1`."""
    allowed_tags: tuple[str, ...] = ()
    """The allowed tags."""


class SourceRules(FrozenModel):
    """Rules for sources."""

    require_description: bool = False
    """A source must have a description."""
    require_owner: bool = False
    """A source must have an owner."""
    require_schema: bool = False
    """A source must have a schema."""
    require_columns: bool = False
    """A source must declare its columns, or have a schema with columns."""
    require_freshness: bool = False
    """A source must set `freshness`."""
    max_freshness_warn: Duration | None = None
    """The maximum of `freshness.warn_after`."""
    max_freshness_error: Duration | None = None
    """The maximum of `freshness.error_after`."""
    required_tags: tuple[str, ...] = ()
    """Required tags."""


class ExposureRules(FrozenModel):
    """Rules for exposures."""

    require_description: bool = False
    """An exposure must have a description."""
    require_owner: bool = False
    """An exposure must have an owner."""
    require_sla: bool = False
    """An exposure must have an `sla`."""
    require_contacts: bool = False
    """An exposure must have contacts."""
    max_latency_p99_ms: Number | None = Field(None, ge=0)
    """The maximum of `sla.latency_p99_ms`."""
    min_availability: Number | None = Field(None, ge=0, le=100)
    """The minimum of `sla.availability`, in percent."""
    required_tags: tuple[str, ...] = ()
    """Required tags."""


class TestRules(FrozenModel):
    """Rules for tests."""

    __test__ = False

    require_schema_tests: bool = False
    """Every model must have a test of type `schema`."""
    min_assertions_per_test: Whole | None = Field(None, ge=0)
    """The minimum number of assertions of a test."""
    require_continuous_for_critical: bool = False
    """Every model with the tag `critical` must have a test of type `continuous`."""
    require_description: bool = False
    """A test must have a description."""


class SecurityRules(FrozenModel):
    """Rules for sensitive columns."""

    require_classification: bool = False
    """Every declared column must have a classification."""
    allowed_classifications: tuple[Classification, ...] = ()
    """The allowed classifications."""
    sensitive_columns_require_masking: bool = False
    """A column that is `sensitive` or higher, or that comes from such a column, must be masked."""
    highly_sensitive_columns_require_encryption: bool = False
    """A column that is `highly_sensitive` must have a strong mask: `tokenize`, `redact`, `null`, or `hash` with SHA-256
    and a salt."""
    pii_column_patterns: tuple[Pattern, ...] = ()
    """Regular expressions for names of personal data. Such columns must be classified as `sensitive` or higher."""
    require_access_level: bool = False
    """A model must set `access`."""


class Rules(FrozenModel):
    """Rules that every element must follow. `waivers` of an element allow exceptions."""

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
    """Rules for sensitive columns."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all rules, as violations and waivers use them: `topics.min_partitions`."""
        groups = {name: field.annotation for name, field in cls.model_fields.items()}
        return tuple(
            f"{group}.{rule}"
            for group, model in groups.items()
            if isinstance(model, type) and issubclass(model, FrozenModel)
            for rule in model.model_fields
        )
