"""Who is outside."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, Number, Whole, refuse_crossed_bounds
from penstock.project.stream_project.parts import Name, References, Waiver


def _strip_percent(value: object) -> object:
    return value.strip().removesuffix("%").strip() if isinstance(value, str) else value


class Sla(FrozenModel):
    """What was promised."""

    availability: Annotated[
        float | None, Field(ge=0, le=100), BeforeValidator(_strip_percent, json_schema_input_type=float | str | None)
    ] = None
    """The share of time that it works, in percent: `99.9` or `"99.9%"`."""
    latency_p50_ms: Number | None = Field(None, ge=0)
    """The latency that half of the rows keep."""
    latency_p99_ms: Number | None = Field(None, ge=0)
    """The latency that 99 of 100 rows keep."""
    throughput_per_second: Number | None = Field(None, ge=0)
    """Rows a second."""
    freshness_seconds: Number | None = Field(None, ge=0)
    """How old the newest row may be."""
    max_lag_seconds: Number | None = Field(None, ge=0)
    """How far it may be behind, in seconds."""
    max_lag_minutes: Number | None = Field(None, ge=0)
    """How far it may be behind, in minutes."""
    max_lag_messages: Whole | None = Field(None, ge=0)
    """How far it may be behind, in rows."""
    max_produce_latency_ms: Number | None = Field(None, ge=0)
    """How long writing may take."""
    max_end_to_end_latency_ms: Number | None = Field(None, ge=0)
    """How long the whole way may take."""
    max_error_rate: Number | None = Field(None, ge=0, le=1)
    """The share of rows that may fail."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("latency_p50_ms", "latency_p99_ms"))
        return self


class Contracts(FrozenModel):
    """The schema that it counts on."""

    schema_: str | None = Field(None, alias="schema")
    """The subject in the registry."""
    compatibility: str | None = None
    """What a change must be compatible with, such as `BACKWARD`."""


class ExposureAccess(FrozenModel):
    """Who works with it."""

    roles: tuple[str, ...] = ()
    """The roles."""
    purpose: str | None = None
    """What for."""


class ExposureFreshness(FrozenModel):
    """How old its rows may be."""

    max_lag_seconds: Number | None = Field(None, ge=0)
    """In seconds."""
    max_lag_minutes: Number | None = Field(None, ge=0)
    """In minutes."""
    warn_after_seconds: Number | None = Field(None, ge=0)
    """After how long there is a warning."""


class Contact(FrozenModel):
    """Somebody to ask."""

    name: str | None = None
    """Who."""
    email: str | None = None
    """By mail."""
    slack: str | None = None
    """By chat."""
    pagerduty: str | None = None
    """By pager."""


class Exposure(FrozenModel):
    """Somebody outside who reads or writes the streams of this project."""

    name: Name
    """Its name."""
    type: Literal["application", "dashboard", "ml_training", "ml_inference", "api"] = "application"
    """What kind of thing it is."""
    role: Literal["producer", "consumer", "both"] | None = None
    """Whether it reads, writes, or both."""
    description: str | None = None
    """What it is."""
    owner: str | None = None
    """Who answers for it."""
    group: str | None = None
    """The group it belongs to; `access` goes by it."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    url: str | None = None
    """Where to find it."""
    repo: str | None = None
    """Where its code is."""
    language: str | None = None
    """What it is written in."""
    tool: str | None = None
    """What it is made with."""
    consumes: References = ()
    """The models and sources it reads."""
    depends_on: References = ()
    """The models and sources it needs in another way."""
    produces: References = ()
    """The sources and models it writes."""
    consumer_group: str | None = None
    """The Kafka consumer group it reads with."""
    sla: Sla | None = None
    """What was promised."""
    contracts: Contracts | None = None
    """The schema that it counts on."""
    access: ExposureAccess | None = None
    """Who works with it."""
    freshness: ExposureFreshness | None = None
    """How old its rows may be."""
    schedule: str | None = None
    """When it runs, as cron writes it."""
    data_requirements: dict[str, Any] = {}
    """What else it needs."""
    contacts: tuple[Contact, ...] = ()
    """Whom to ask."""
    waivers: tuple[Waiver, ...] = ()
    """Rules that it may break for a while."""
