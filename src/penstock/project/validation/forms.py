"""Tables of alternative places and spellings of fields, and of fields without effect on Spark. One row is one
alternative. A value moves to its canonical place before the models read it, and `written_path` maps a diagnostic back
to the place in the file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from penstock.project.yaml.documents import Document, PathStep

FieldPath: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """`old` is an alternative for `new`. A deprecated form gives a warning."""

    old: FieldPath
    new: FieldPath
    deprecated: bool = False

    @property
    def shown(self) -> str:
        """The new place, as text for messages."""
        return "".join(f"{{{step}: " for step in self.new).removeprefix("{") + "…" + "}" * (len(self.new) - 1)


SOURCE_FORMS: Final = (
    Form(("advanced", "event_time"), ("event_time",)),
    Form(("advanced", "watermark"), ("event_time", "watermark")),
    Form(("event_time", "watermark", "allowed_lateness_ms"), ("event_time", "allowed_lateness_ms")),
)
MODEL_FORMS: Final = (
    Form(("topic",), ("advanced", "topic"), deprecated=True),
    Form(("flink",), ("advanced", "spark"), deprecated=True),
    Form(("advanced", "flink"), ("advanced", "spark")),
    Form(("connector",), ("advanced", "connector")),
    Form(("sink",), ("advanced", "connector")),
    Form(("advanced", "sink"), ("advanced", "connector")),
    Form(("advanced", "connector", "connector"), ("advanced", "connector", "type")),
    Form(("advanced", "materialized"), ("materialized",)),
    Form(("advanced", "gateway"), ("gateway",)),
    Form(("advanced", "virtual_topic"), ("gateway", "virtual_topic")),
    Form(("advanced", "security"), ("security",)),
    Form(("advanced", "access"), ("access",)),
    Form(("advanced", "event_time"), ("event_time",)),
    Form(("event_time", "watermark", "allowed_lateness_ms"), ("event_time", "allowed_lateness_ms")),
    Form(("advanced", "spark", "cluster"), ("advanced", "flink_cluster")),
    Form(("advanced", "spark", "checkpoint_interval"), ("advanced", "spark", "checkpoint_interval_ms")),
    Form(("advanced", "spark", "checkpoint_timeout"), ("advanced", "spark", "checkpoint_timeout_ms")),
)
FORMS: Final[Mapping[str, tuple[Form, ...]]] = {"sources": SOURCE_FORMS, "models": MODEL_FORMS}

_BY_BATCH: Final = "Spark commits its progress after every batch"
_BY_NEXT_RUN: Final = "a failed query ends the run, and the next run resumes from its checkpoint"
_ON_SPARK: Final = "queries run on Spark, and `runtime.spark.master` says where"
_SPARK_JOB: Final = ("advanced", "spark")
INERT: Final[Mapping[str, Mapping[FieldPath, str]]] = {
    "sources": {("cluster",): "there is one Kafka cluster, `runtime.kafka`"},
    "models": {
        (*_SPARK_JOB, "checkpoint_interval_ms"): _BY_BATCH,
        (*_SPARK_JOB, "checkpoint_timeout_ms"): _BY_BATCH,
        (*_SPARK_JOB, "checkpoint_min_pause_ms"): _BY_BATCH,
        (*_SPARK_JOB, "max_concurrent_checkpoints"): _BY_BATCH,
        (*_SPARK_JOB, "checkpoint"): _BY_BATCH,
        (*_SPARK_JOB, "restart_strategy"): _BY_NEXT_RUN,
        (*_SPARK_JOB, "restart"): _BY_NEXT_RUN,
        (*_SPARK_JOB, "state"): "set `state_backend`, or Spark properties in `runtime.spark.config`",
        (*_SPARK_JOB, "resources"): "set Spark's resources in `runtime.spark.config`",
        (*_SPARK_JOB, "savepoint"): "a checkpoint is kept when a query is rebuilt",
        ("advanced", "flink_cluster"): _ON_SPARK,
        ("version",): "it is only shown in the documentation",
        ("deprecation",): "it is only shown in the documentation",
    },
    "tests": {("flink_cluster",): _ON_SPARK},
    "defaults": {
        ("models", "cluster"): _ON_SPARK,
        ("models", "flink_cluster"): _ON_SPARK,
        ("tests", "flink_cluster"): _ON_SPARK,
    },
    "runtime": {("flink",): _ON_SPARK, ("conduktor", "console"): "Penstock does not use the console"},
}
"""Fields without effect, and the reason."""
_UNLESS: Final[Mapping[FieldPath, tuple[FieldPath, str]]] = {
    (*_SPARK_JOB, "checkpoint_interval_ms"): ((*_SPARK_JOB, "trigger"), "realtime"),
}
"""Fields that have an effect if another field has this value."""


def inert_fields(section: str, raw: Any) -> Iterator[tuple[FieldPath, str]]:
    """The given fields of a section without effect, and the reason."""
    for field, why in INERT.get(section, {}).items():
        other, value = _UNLESS.get(field, ((), None))
        if has_path(raw, field) and not (other and look_up(raw, other) == value):
            yield field, why


@dataclass(frozen=True, slots=True)
class NormalizedForm:
    """A value with everything at its canonical place. `twice` has the forms that were given in two places."""

    value: Any
    used: tuple[Form, ...] = ()
    twice: tuple[Form, ...] = ()


def normalize_forms(raw: Any, forms: Sequence[Form]) -> NormalizedForm:
    used: list[Form] = []
    twice: list[Form] = []
    value = raw
    for form in forms:
        found = look_up(value, form.old)
        if found is _ABSENT or not _can_place(value, form.new):
            continue
        used.append(form)
        value = _remove_path(value, form.old)
        present = look_up(value, form.new)
        if present is _ABSENT:
            value = _set_path(value, form.new, found)
        elif isinstance(present, dict) and isinstance(found, dict) and not present.keys() & found.keys():
            value = _set_path(value, form.new, {**found, **present})
        else:
            twice.append(form)
    return NormalizedForm(value, tuple(used), tuple(twice))


def written_path(
    document: Document, base: tuple[PathStep, ...], steps: Sequence[PathStep], used: Sequence[Form]
) -> tuple[PathStep, ...]:
    """The path at which the value of `steps` was written."""
    candidates: list[tuple[PathStep, ...]] = [tuple(steps)]
    for form in reversed(used):
        length = len(form.new)
        candidates += [form.old + path[length:] for path in candidates if path[:length] == form.new]
    return max(candidates, key=lambda path: document.depth(*base, *path) - len(path))


_ABSENT: Final = object()


def look_up(value: Any, path: FieldPath) -> Any:
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def has_path(value: Any, path: FieldPath) -> bool:
    return look_up(value, path) is not _ABSENT


def _can_place(value: Any, path: FieldPath) -> bool:
    """Whether every step on the way to `path` is a mapping or absent."""
    on_the_way = (look_up(value, path[:length]) for length in range(len(path)))
    return all(found is _ABSENT or isinstance(found, dict) for found in on_the_way)


def _remove_path(value: Any, path: FieldPath) -> Any:
    head, *rest = path
    if not rest:
        return {key: inner for key, inner in value.items() if key != head}
    inner = _remove_path(value[head], tuple(rest))
    return {**value, head: inner} if inner else {key: kept for key, kept in value.items() if key != head}


def _set_path(value: Any, path: FieldPath, new: Any) -> Any:
    head, *rest = path
    return {**value, head: _set_path(value.get(head, {}), tuple(rest), new) if rest else new}
