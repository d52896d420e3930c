"""A client for Kafka Connect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from penstock.clients.http.auth import credentials
from penstock.clients.http.json_api import NoAnswerError, StatusError, request_json
from penstock.clients.retry import retry, wait_until
from penstock.errors import ServiceError

TIMEOUT_SECS: Final = 10.0
PATIENCE_SECS: Final = 60.0
"""How long a rebalance may take, during which changes are refused."""


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector of a cluster. `failure` is why it or one of its tasks has failed."""

    config: Mapping[str, str]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Connect:
    """One cluster. Every failure is a ServiceError that names it."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def connectors(self) -> dict[str, ConnectorState]:
        """Return every connector by name."""
        found = self._ask("GET", "/connectors?expand=info&expand=status").items()
        return {name: ConnectorState(of["info"]["config"], _failure(of.get("status", {}))) for name, of in found}

    def problems(self, config: Mapping[str, str]) -> list[str]:
        """Validate a configuration; return its errors as `key: error`."""
        kind = config["connector.class"]
        known = {plugin["class"] for plugin in self._ask("GET", "/connector-plugins?connectorsOnly=true")}
        if not any(kind in (name, name.rpartition(".")[2]) for name in known):
            return [f"connector.class: no worker at {self.url} has `{kind}`; it has {', '.join(sorted(known))}"]
        answer = self._ask("PUT", f"/connector-plugins/{quote(kind, safe='')}/config/validate", config)
        found = [entry["value"] for entry in answer["configs"] if entry["value"]["errors"]]
        return [f"{value['name']}: {error}" for value in found for error in value["errors"]]

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector or replace its configuration, and wait until it is visible."""
        self._ask("PUT", f"/connectors/{quote(name, safe='')}/config", config)
        wait_until(lambda: name in (there := self.connectors()) and there[name].config == config, PATIENCE_SECS)

    def restart(self, name: str) -> None:
        """Restart a connector and its failed tasks."""
        self._ask("POST", f"/connectors/{quote(name, safe='')}/restart?includeTasks=true&onlyFailed=true")

    def delete(self, name: str) -> None:
        """Delete a connector, and wait until it is gone. It may be gone already."""
        self._ask("DELETE", f"/connectors/{quote(name, safe='')}", missing_ok=True)
        wait_until(lambda: name not in self.connectors(), PATIENCE_SECS)

    def _ask(self, method: str, path: str, body: object = None, *, missing_ok: bool = False) -> Any:
        """Send a request, and again while the workers rebalance."""
        ask = partial(self._request, method, path, body, missing_ok=missing_ok)
        return retry(ask, PATIENCE_SECS, passing=_Rebalancing)

    def _request(self, method: str, path: str, body: object, *, missing_ok: bool) -> Any:
        url, headers = self.url.rstrip("/") + path, credentials(self.username, self.password)
        try:
            return request_json(method, url, body, headers=headers, timeout_secs=TIMEOUT_SECS)
        except StatusError as error:
            if error.status == 404 and missing_ok:
                return None
            text = f"Kafka Connect at {self.url} answers {error.status}: {error}"
            if error.status == 409:
                raise _Rebalancing("connect-failed", text, retriable=True) from None
            hint = "see the user and the password in `runtime.connect`" if error.status in (401, 403) else None
            raise ServiceError("connect-failed", text, hint=hint) from None
        except NoAnswerError as error:
            text = f"Kafka Connect at {self.url} does not answer: {error}"
            raise ServiceError("unreachable", text, hint="see `runtime.connect`", retriable=True) from error


class _Rebalancing(ServiceError):
    """The workers agree on who runs what, and refuse changes meanwhile."""


def _failure(status: Mapping[str, Any]) -> str | None:
    """Return the first line of a failure, if there is one."""
    parts = [status.get("connector", {}), *status.get("tasks", [])]
    failed = next((part for part in parts if part.get("state") == "FAILED"), None)
    return None if failed is None else (str(failed.get("trace") or "").splitlines() or ["no reason is given"])[0]
