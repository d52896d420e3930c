"""Chooses the materialization of a model, and the reason."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from penstock.connectors import registry
from penstock.errors import Diagnostic, Severity, nearest
from penstock.project import stream_project as written
from penstock.project.runtime import ConnectClusters
from penstock.project.validation.declaration import Declaration
from penstock.sql.analyze.statefulness import Construct
from penstock.sql.types.inference_overrides import MODEL_CALLS


def choose_materialization(
    model: written.Model, constructs: Sequence[Construct], gateway: bool, *, reads_once: bool, calls: Sequence[str] = ()
) -> tuple[written.Materialized, str]:
    """The materialization, and the rule that chose it. The first matching rule applies. `calls` are user functions."""
    if model.materialized is not None:
        return model.materialized, "`materialized` is given"
    if model.advanced.connector is not None:
        return "sink", "it has a connector"
    if model.gateway is not None and model.gateway.virtual_topic is not None:
        return "virtual_topic", "`gateway.virtual_topic` is given"
    if model.sql is None and model.from_:
        return "sink", "`from` without SQL"
    if constructs:
        names = ", ".join(dict.fromkeys(construct.name for construct in constructs))
        why = "asks a model" if all(construct.name in MODEL_CALLS for construct in constructs) else "keeps state"
        return "spark", f"the SQL {why}: {names}"
    if model.sql is None:
        return "topic", "neither SQL nor `from`: a topic that others write"
    if gateway and calls:
        return "topic", "the SQL calls a user function, which a gateway cannot run"
    if gateway and reads_once:
        return "virtual_topic", "the SQL keeps no state, and there is a gateway"
    if gateway:
        return "topic", "the SQL keeps no state, and reads more than a gateway can"
    return "topic", "the SQL keeps no state"


def foreign_connector(
    model: written.Model, materialized: str | None, connect: ConnectClusters | None
) -> written.ModelConnector | None:
    """The connector of a sink, if it belongs to Kafka Connect."""
    connector = model.advanced.connector
    return connector if materialized == "sink" and connector is not None and connector.is_foreign(connect) else None


def _nearest_sink(type_: str) -> str | None:
    """The Penstock sink with the nearest name. Connectors of Kafka Connect have longer names."""
    known = registry.types("sink")
    close = nearest(type_, known) if type_ not in known else None
    return close if close is not None and SequenceMatcher(None, type_, close).ratio() >= _SLIP else None


_SLIP: Final = 0.85


def placement_notes(
    declared: Declaration[written.Model], materialized: written.Materialized, gateway: bool
) -> list[Diagnostic]:
    """Diagnostics about the materialization and connector of a model."""
    connector = declared.value.advanced.connector
    notes: list[Diagnostic] = []
    if materialized == "sink" and connector is None:
        text = "a sink needs a connector to write with"
        hint = "add `advanced: {connector: {type: …, config: {…}}}`, or `sql:` if this is no sink"
        path, params = declared.label_of("advanced", "connector"), {"field": "connector"}
        notes.append(Diagnostic("missing-field", text, declared.origin, path, hint, params=params))
    if materialized != "sink" and connector is not None:
        text = f"a model that is materialized as `{materialized}` has no connector"
        hint = "write `materialized: sink`, or leave it out"
        notes.append(declared.diagnostic("invalid-value", text, hint, at=("advanced", "connector")))
    if connector is not None and (near := _nearest_sink(connector.type)) is not None:
        text, hint = f"Penstock has no sink `{connector.type}`, so Kafka Connect runs it", f"did you mean `{near}`?"
        place, kind = ("advanced", "connector", "type"), connector.type
        notes.append(declared.diagnostic("unknown-type", text, hint, at=place, severity=Severity.WARNING, value=kind))
    if materialized == "virtual_topic" and not gateway:
        text = "without a gateway this is a view inside the queries that read it"
        hint = "configure `runtime.conduktor.gateway` if others are to read it"
        at = ("materialized",) if declared.has_field("materialized") else ("gateway", "virtual_topic")
        notes.append(declared.diagnostic("gateway-absent", text, hint, at=at, severity=Severity.INFO))
    return notes
