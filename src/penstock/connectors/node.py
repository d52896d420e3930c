"""The fields that all nodes of a pipeline share: sources, transforms and sinks."""

import re
from collections.abc import Mapping
from inspect import get_annotations
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, field_validator

from penstock.config import FlushInterval, FrozenModel, Key, Whole

MOST_LABELS: Final = 20
LONGEST_VALUE: Final = 256
"""The maximum length of a label's value, in bytes of UTF-8."""
_LABEL: Final = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_RESERVED: Final = frozenset({"id", "topology_node_type", "operator_type", "service_instance_id"})


def _at_least_one(value: int) -> int:
    if value < 1:
        raise ValueError("parallelism must be at least 1")
    return value


Parallelism = Annotated[Whole, AfterValidator(_at_least_one), Field(json_schema_extra={"minimum": 1})]


class TelemetryEventTime(FrozenModel):
    """The event-time column for metrics."""

    column: str = Field(min_length=1)
    """The name of the column."""
    unit: Literal["seconds", "milliseconds", "microseconds"] | None = None
    """The unit, if the column is an integer."""


class Telemetry(FrozenModel):
    """The metrics of a node."""

    event_time: TelemetryEventTime | None = None
    """The event-time column that the lag of rows is measured by."""
    labels: dict[str, str] = {}
    """Labels of every metric of the node: up to 20; names consist of letters, digits and `_`."""

    @field_validator("labels")
    @classmethod
    def _can_be_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        if len(labels) > MOST_LABELS:
            raise ValueError(f"declares {len(labels)} labels; the per-node cap is {MOST_LABELS}")
        for key, value in labels.items():
            if not _LABEL.fullmatch(key) or key.startswith("__"):
                raise ValueError(f"label key '{key}' must be of letters, digits and `_`, and not begin with `__`")
            if len(value.encode()) > LONGEST_VALUE:
                raise ValueError(f"the value of label '{key}' is longer than {LONGEST_VALUE} bytes")
            if _CONTROL.search(value):
                raise ValueError(f"the value of label '{key}' has control characters")
        return labels


class PipelineNode(FrozenModel):
    """The base class of sources, transforms and sinks."""

    inert: ClassVar[Mapping[str, str]] = {"telemetry": "metrics of single nodes are not sent anywhere"}
    """Fields that are accepted and have no effect, each with the reason. A class that declares a field again gives it
    an effect, unless its own `inert` lists it."""
    own_labels: ClassVar[frozenset[str]] = frozenset()
    """Labels that metrics of this type have in addition to those of every node."""

    type: str
    """The type of the node."""
    primary_key: Key = ()
    """The columns that identify a row, separated by commas."""
    batch_size: Whole | None = Field(None, ge=1)
    """The number of rows that are processed together."""
    batch_flush_interval: FlushInterval | None = None
    """How long to wait for rows: for a sink, the interval between batches. The shortest interval of a query applies."""
    parallelism: Parallelism | None = None
    """The number of parallel workers."""
    telemetry: Telemetry | None = None
    """The metrics of the node: `{event_time: {column, unit}, labels: {…}}`."""

    @field_validator("telemetry")
    @classmethod
    def _leaves_labels_alone(cls, telemetry: Telemetry | None) -> Telemetry | None:
        of_plugins = frozenset() if cls.__module__.startswith("penstock.") else frozenset({"type"})
        for key in telemetry.labels if telemetry is not None else ():
            if key in _RESERVED | cls.own_labels | of_plugins:
                raise ValueError(f"declares reserved label key '{key}'")
        return telemetry


def inert_fields(node: type[PipelineNode]) -> dict[str, str]:
    """Return the fields that have no effect in a type of node, with the reasons."""
    found: dict[str, str] = {}
    for cls in reversed(node.__mro__):
        if issubclass(cls, PipelineNode):
            meant = get_annotations(cls).keys()
            found = {field: why for field, why in found.items() if field not in meant}
            found |= vars(cls).get("inert", {})
    return found
