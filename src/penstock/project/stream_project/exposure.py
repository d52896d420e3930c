"""Exposures: applications and people that use the streams."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, Number, Whole, refuse_crossed_bounds
from penstock.project.stream_project.parts import Name, References, Waiver


def _strip_percent(value: object) -> object:
    return value.strip().removesuffix("%").strip() if isinstance(value, str) else value


class Sla(FrozenModel):
    """The service levels."""

    availability: Annotated[
        float | None, Field(ge=0, le=100), BeforeValidator(_strip_percent, json_schema_input_type=float | str | None)
    ] = None
    """The availability in percent: `99.9` or `"99.9%"`."""
    latency_p50_ms: Number | None = Field(None, ge=0)
    """The median latency."""
    latency_p99_ms: Number | None = Field(None, ge=0)
    """The 99th percentile of the latency."""
    throughput_per_second: Number | None = Field(None, ge=0)
    """The rows per second."""
    freshness_seconds: Number | None = Field(None, ge=0)
    """The maximum age of the newest row."""
    max_lag_seconds: Number | None = Field(None, ge=0)
    """The maximum lag in seconds."""
    max_lag_minutes: Number | None = Field(None, ge=0)
    """The maximum lag in minutes."""
    max_lag_messages: Whole | None = Field(None, ge=0)
    """The maximum lag in rows."""
    max_produce_latency_ms: Number | None = Field(None, ge=0)
    """The maximum time for writing."""
    max_end_to_end_latency_ms: Number | None = Field(None, ge=0)
    """The maximum end-to-end latency."""
    max_error_rate: Number | None = Field(None, ge=0, le=1)
    """The maximum share of failed rows."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("latency_p50_ms", "latency_p99_ms"))
        return self


class Contracts(FrozenModel):
    """The schema that it depends on."""

    schema_: str | None = Field(None, alias="schema")
    """The subject in the registry."""
    compatibility: str | None = None
    """The compatibility mode for changes, such as `BACKWARD`."""


class ExposureAccess(FrozenModel):
    """Who has access."""

    roles: tuple[str, ...] = ()
    """The roles."""
    purpose: str | None = None
    """The purpose."""


class ExposureFreshness(FrozenModel):
    """Freshness that an exposure needs."""

    max_lag_seconds: Number | None = Field(None, ge=0)
    """The maximum lag in seconds."""
    max_lag_minutes: Number | None = Field(None, ge=0)
    """The maximum lag in minutes."""
    warn_after_seconds: Number | None = Field(None, ge=0)
    """The age in seconds after which there is a warning."""


class Contact(FrozenModel):
    """A contact person or team."""

    name: str | None = None
    """The name."""
    email: str | None = None
    """The e-mail address."""
    slack: str | None = None
    """The Slack channel or user."""
    pagerduty: str | None = None
    """The PagerDuty service."""


class Exposure(FrozenModel):
    """An application, dashboard or team outside the project that reads or writes its streams."""

    name: Name
    """Its name."""
    type: Literal["application", "dashboard", "ml_training", "ml_inference", "api"] = "application"
    """The kind of exposure."""
    role: Literal["producer", "consumer", "both"] | None = None
    """Whether it reads, writes, or both."""
    description: str | None = None
    """A description."""
    owner: str | None = None
    """The owner."""
    group: str | None = None
    """The group for `access`."""
    tags: tuple[str, ...] = ()
    """Tags, for selection and search."""
    url: str | None = None
    """Its address."""
    repo: str | None = None
    """The repository of its code."""
    language: str | None = None
    """The programming language."""
    tool: str | None = None
    """The tool."""
    consumes: References = ()
    """The models and sources it reads."""
    depends_on: References = ()
    """Models and sources that it depends on indirectly."""
    produces: References = ()
    """The sources and models it writes."""
    consumer_group: str | None = None
    """The Kafka consumer group it reads with."""
    sla: Sla | None = None
    """The service levels."""
    contracts: Contracts | None = None
    """The schema that it depends on."""
    access: ExposureAccess | None = None
    """Who has access."""
    freshness: ExposureFreshness | None = None
    """The maximum age of its rows."""
    schedule: str | None = None
    """The schedule in cron syntax."""
    data_requirements: dict[str, Any] = {}
    """Other requirements on the data."""
    contacts: tuple[Contact, ...] = ()
    """Contacts."""
    waivers: tuple[Waiver, ...] = ()
    """Waivers: rules that it may break, each with a reason."""
