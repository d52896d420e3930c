"""A client for Conduktor's gateway: topic aliases, and interceptors that filter and mask."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from penstock.clients.http.auth import credentials
from penstock.clients.http.json_api import NoAnswerError, StatusError, request_json
from penstock.clients.retry import wait_until
from penstock.errors import ServiceError

TIMEOUT_SECS: Final = 10.0
PATIENCE_SECS: Final = 30.0
API: Final = "gateway/v2"
DEFAULT_CLUSTER: Final = "passthrough"
"""The virtual cluster if none is named."""
_REFUSED: Final = (400, 404, 409)


@dataclass(frozen=True, slots=True)
class GatewayInterceptor:
    """An interceptor of records that are read. The one with the lowest priority runs first."""

    plugin: str
    priority: int
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GatewayState:
    """The aliases of a virtual cluster with their topics, and its interceptors without a narrower scope, by name."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    interceptors: Mapping[str, GatewayInterceptor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConduktorGateway:
    """A gateway, and the virtual cluster that the project uses. Every failure is a ServiceError that names it."""

    url: str
    username: str
    password: str = field(repr=False)
    cluster: str = DEFAULT_CLUSTER

    def read_state(self, cluster: str) -> GatewayState:
        try:
            aliases, interceptors = dict[str, str](), dict[str, GatewayInterceptor]()
            for metadata, spec in ((each["metadata"], each["spec"]) for each in self._ask("GET", "/alias-topic")):
                if (metadata.get("vCluster") or DEFAULT_CLUSTER) == cluster:
                    aliases[metadata["name"]] = spec["physicalName"]
            for metadata, spec in ((each["metadata"], each["spec"]) for each in self._ask("GET", "/interceptor")):
                scope = {key: value for key, value in (metadata.get("scope") or {}).items() if value is not None}
                if scope == _scope(cluster):
                    found = GatewayInterceptor(spec["pluginClass"], spec["priority"], spec["config"])
                    interceptors[metadata["name"]] = found
            return GatewayState(aliases, interceptors)
        except (KeyError, TypeError, AttributeError) as error:
            text = f"the service at {self.url} is not a gateway of version 3 or later"
            raise ServiceError("gateway-failed", text, hint="see `runtime.conduktor.gateway.admin_url`") from error

    def problems(self, name: str, physical: str, interceptors: Mapping[str, GatewayInterceptor]) -> list[str]:
        """Return why the gateway would refuse a virtual topic (dry run)."""
        asked = [("/interceptor", self._interceptor(named, wanted)) for named, wanted in interceptors.items()]
        asked.append(("/alias-topic", self._alias(name, physical)))
        said = [self._refusal(path, body) for path, body in asked]
        return [f"{body['metadata']['name']}: {why}" for (_, body), why in zip(asked, said, strict=True) if why]

    def put(self, name: str, physical: str, interceptors: Mapping[str, GatewayInterceptor]) -> None:
        """Create or change a virtual topic, and wait until it is visible.

        The last interceptor is created first, and the alias at the end: nobody can read records that are not filtered
        and masked.
        """
        for named, wanted in sorted(interceptors.items(), key=lambda entry: -entry[1].priority):
            self._ask("PUT", "/interceptor", self._interceptor(named, wanted))
        self._ask("PUT", "/alias-topic", self._alias(name, physical))
        wait_until(lambda: self._has_topic(name, physical, interceptors), PATIENCE_SECS)

    def delete(self, cluster: str, name: str | None, interceptors: list[str]) -> None:
        """Delete an alias and then its interceptors, and wait until they are gone. They may not exist."""
        if name is not None:
            self._ask("DELETE", "/alias-topic", {"name": name, "vCluster": cluster}, missing_ok=True)
        for named in interceptors:
            self._ask("DELETE", f"/interceptor/{quote(named, safe='')}", _scope(cluster), missing_ok=True)
        wait_until(lambda: self._is_gone(cluster, name, interceptors), PATIENCE_SECS)

    def _has_topic(self, name: str, physical: str, interceptors: Mapping[str, GatewayInterceptor]) -> bool:
        there = self.read_state(self.cluster)
        return there.aliases.get(name) == physical and interceptors.items() <= there.interceptors.items()

    def _is_gone(self, cluster: str, name: str | None, interceptors: list[str]) -> bool:
        there = self.read_state(cluster)
        return name not in there.aliases and there.interceptors.keys().isdisjoint(interceptors)

    def _alias(self, name: str, physical: str) -> dict[str, Any]:
        return _resource("AliasTopic", {"name": name, "vCluster": self.cluster}, {"physicalName": physical})

    def _interceptor(self, name: str, wanted: GatewayInterceptor) -> dict[str, Any]:
        spec = {"pluginClass": wanted.plugin, "priority": wanted.priority, "config": dict(wanted.config)}
        return _resource("Interceptor", {"name": name, "scope": _scope(self.cluster)}, spec)

    def _refusal(self, path: str, body: Mapping[str, Any]) -> str | None:
        try:
            self._send("PUT", f"{path}?dryMode=true", body)
        except StatusError as error:
            if error.status in _REFUSED:
                return str(error)
            raise self._status_error(error) from None
        return None

    def _ask(self, method: str, path: str, body: object = None, *, missing_ok: bool = False) -> Any:
        try:
            return self._send(method, path, body)
        except StatusError as error:
            if error.status == 404 and missing_ok:
                return None
            raise self._status_error(error) from None

    def _send(self, method: str, path: str, body: object) -> Any:
        url, headers = f"{self.url.rstrip('/')}/{API}{path}", credentials(self.username, self.password)
        try:
            return request_json(method, url, body, headers=headers, timeout_secs=TIMEOUT_SECS)
        except NoAnswerError as error:
            text = f"the gateway at {self.url} does not answer: {error}"
            hint = "see `runtime.conduktor.gateway.admin_url`"
            raise ServiceError("unreachable", text, hint=hint, retriable=True) from error

    def _status_error(self, error: StatusError) -> ServiceError:
        text = f"the gateway at {self.url} answers {error.status}: {error}"
        unknown = error.status in (401, 403)
        hint = "see the user and the password in `runtime.conduktor.gateway`" if unknown else None
        return ServiceError("gateway-failed", text, hint=hint, retriable=error.status >= 500)


def _resource(kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": API, "metadata": dict(metadata), "spec": dict(spec)}


def _scope(cluster: str) -> dict[str, str]:
    """The scope of a whole virtual cluster. Gateways before 3.11 delete nothing without it."""
    return {"vCluster": cluster}
