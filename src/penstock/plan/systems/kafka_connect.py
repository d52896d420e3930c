"""Plans the connectors of Kafka Connect."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.clients.clusters import Clusters
from penstock.clients.kafka_connect import ConnectorState
from penstock.errors import Diagnostic
from penstock.manifest.model import Manifest
from penstock.manifest.resources import ConnectorSpec
from penstock.plan.steps import ChangeConnector, ConnectorStep, CreateConnector, DeleteConnector, RestartConnector
from penstock.project.yaml.secrets import COVER, is_secret_name, mask_secrets
from penstock.project.yaml.variables import Environ, resolve_variables


@dataclass(frozen=True, slots=True)
class Workers:
    """Existing connectors by cluster and name; objections to the wanted ones, and their settings, by name. Settings may
    hold passwords."""

    there: Mapping[str, Mapping[str, ConnectorState]] = field(default_factory=dict)
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)


NO_WORKERS: Final = Workers()


def ask_workers(manifest: Manifest, clusters: Clusters, deployed: Mapping[str, str], environ: Environ) -> Workers:
    """Ask the clusters about the connectors of the project. `deployed` are those that it created before. A worker
    validates the resolved settings."""
    wanted = [c for c in manifest.connectors if c.cluster in clusters.connect]
    names = {*(str(c.cluster) for c in wanted), *(name for name in deployed.values() if name in clusters.connect)}
    there = {name: clusters.connect[name].connectors() for name in sorted(names)}
    settings = {c.name: resolve_settings(c, environ) for c in wanted}
    problems = {c.name: tuple(clusters.connect[str(c.cluster)].problems(settings[c.name])) for c in wanted}
    return Workers(there, problems, settings)


def resolve_settings(connector: ConnectorSpec, environ: Environ) -> dict[str, str]:
    """The resolved settings of a connector. An unset variable stays a reference, which `plan` refuses."""
    value, _ = resolve_variables(dict(connector.config), environ)
    assert isinstance(value, dict)
    return {key: _text(setting) for key, setting in value.items()}


def connector_steps(manifest: Manifest, deployed: Mapping[str, str], workers: Workers) -> Iterator[ConnectorStep]:
    """The steps from the existing connectors to the project. Foreign connectors are never touched."""
    for connector in manifest.connectors:
        there = workers.there.get(str(connector.cluster))
        if there is None:
            continue
        state = there.get(connector.name)
        if state is None:
            yield CreateConnector(connector)
            continue
        if not _is_own(connector, deployed):
            continue
        changes = list(_changes(connector, state.config, workers.settings[connector.name]))
        if changes:
            yield ChangeConnector(connector, ", ".join(changes))
        elif state.failure is not None:
            yield RestartConnector(connector, state.failure)
    present = {connector.name for connector in manifest.connectors}
    for name, cluster in deployed.items():
        if name not in present:
            yield DeleteConnector(name, cluster)


def _is_own(connector: ConnectorSpec, deployed: Mapping[str, str]) -> bool:
    """Whether the project created the connector of that name."""
    return deployed.get(connector.name) == connector.cluster


def connector_refusals(manifest: Manifest, deployed: Mapping[str, str], workers: Workers) -> Iterator[Diagnostic]:
    for connector in manifest.connectors:
        state = workers.there.get(str(connector.cluster), {}).get(connector.name)
        if state is not None and not _is_own(connector, deployed):
            changes = list(_changes(connector, state.config, workers.settings[connector.name]))
            if changes:
                text = f"Kafka Connect has a connector `{connector.name}` that this project did not create"
                text += f", with other settings: {', '.join(changes)}"
                hint = "rename the model, or delete the connector if nobody needs it"
                yield Diagnostic("connector-taken", text, hint=hint, params={"connector": connector.name})
        if str(connector.cluster) not in workers.there:
            text = f"`{connector.name}` needs Kafka Connect, and no Connect cluster is configured"
            export = f"`penstock compile` writes the configuration for {connector.connector_class}"
            hint = f"name one in `runtime.connect`; {export}; or use --select"
            yield Diagnostic("not-runnable-here", text, hint=hint, params={"connector": connector.name})
        settings = workers.settings.get(connector.name, {})
        for problem in workers.problems.get(connector.name, ()):
            text = f"Kafka Connect rejects `{connector.name}`: {_mask_values(problem, connector, settings)}"
            params = {"connector": connector.name}
            yield Diagnostic("connector-refused", text, hint="mend `advanced.connector.config`", params=params)


def _changes(connector: ConnectorSpec, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """The differences by key. Secret values are not shown."""
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old != new:
            plain = not (_is_filled(connector, key) or is_secret_name(key))
            yield f"{key} {_describe_value(key, old)} -> {_describe_value(key, new)}" if plain else f"{key} changed"


def _describe_value(key: str, value: str | None) -> str:
    return "unset" if value is None else str(mask_secrets(value, key))


def _is_filled(connector: ConnectorSpec, key: str) -> bool:
    """Whether a setting refers to variables."""
    return "${" in str(connector.config.get(key))


def _mask_values(text: str, connector: ConnectorSpec, settings: Mapping[str, str]) -> str:
    """The message of a worker, with the values of variables masked."""
    for key, value in settings.items():
        if value and (_is_filled(connector, key) or is_secret_name(key)):
            text = text.replace(value, COVER)
    return text


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
