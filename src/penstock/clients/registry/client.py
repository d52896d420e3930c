"""A client for schema registries with Confluent's interface."""

import ssl
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from penstock.clients.http.auth import ServiceAddress, credentials, split_credentials
from penstock.clients.http.json_api import NoAnswerError, StatusError, request_json
from penstock.clients.registry.columns import columns_of, key_of
from penstock.clients.registry.references import inline_references
from penstock.errors import ServiceError
from penstock.sql.types.columns import Columns

TIMEOUT_SECS: Final = 5.0
_PASSING: Final = (408, 429)
"""Client errors that a retry may help against."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id."""

    number: int
    text: str
    kind: str = "AVRO"


@dataclass(frozen=True, slots=True)
class SubjectRows:
    """The columns of rows, None if the schema does not define them, and the key columns."""

    columns: Columns | None
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Registry:
    """The addresses and the login of a registry. The first address that answers is used."""

    urls: Sequence[str]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_location: str | None = None
    said_in: str = "runtime.schema_registry"
    """The setting that has the address, for hints."""

    def rows(self, subject: str, version: int | str = "latest") -> SubjectRows:
        """Return the columns and the key of a subject's rows.

        LookupError if there is no such subject, ValueError for an invalid schema, ServiceError if the registry does not
        answer.
        """
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        text, form = self._resolve_text(found), str(found.get("schemaType") or "AVRO").lower()
        return SubjectRows(columns_of(text, form), key_of(text) if form == "avro" else ())

    def versions(self, subject: str) -> dict[int, RegisteredSchema]:
        """Return every version of a subject's schema. LookupError if there is no such subject."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = {int(version): self._get(f"{path}/{version}") for version in self._get(path)}
        return {version: self._parse_schema(int(told["id"]), told) for version, told in found.items()}

    def schema(self, number: int) -> RegisteredSchema:
        """Return a schema by its id. LookupError if there is none."""
        return self._parse_schema(number, self._ask("GET", f"/schemas/ids/{number}", absent=(400, 404, 406, 422)))

    def _parse_schema(self, number: int, told: Mapping[str, Any]) -> RegisteredSchema:
        return RegisteredSchema(number, self._resolve_text(told), str(told.get("schemaType") or "AVRO"))

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """Register a schema as the latest of a subject, unless it is there, and return its id.

        ValueError if it is not compatible.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return int(self._ask("POST", path, {"schema": schema, "schemaType": kind})["id"])

    def newest(self, subject: str) -> str | None:
        """Return the text of the latest schema of a subject; None if there is no such subject."""
        try:
            return str(self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")["schema"])
        except LookupError:
            return None

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the latest schema of a subject; None if there is no such subject."""
        try:
            found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        except LookupError:
            return None
        return self._parse_schema(int(found["id"]), found)

    def compatibility(self, subject: str) -> str | None:
        """Return the compatibility level that is set for a subject itself."""
        try:
            return str(self._get(f"/config/{quote(subject, safe='')}")["compatibilityLevel"])
        except LookupError:
            return None

    def set_compatibility(self, subject: str, level: str) -> None:
        self._ask("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def complaints(self, subject: str, schema: str, kind: str = "AVRO") -> tuple[str, ...]:
        """Return why a schema is not compatible with the latest one of a subject."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        try:
            told = self._ask("POST", path, {"schema": schema, "schemaType": kind})
        except ValueError as error:
            return (str(error),)
        if told["is_compatible"]:
            return ()
        return tuple(map(str, told.get("messages") or ())) or ("the registry gives no reason",)

    def _resolve_text(self, told: Mapping[str, Any]) -> str:
        """Return the text of a schema, with the types that it references inlined."""
        others = self._fetch_references(told) if str(told.get("schemaType") or "AVRO") == "AVRO" else {}
        return inline_references(str(told["schema"]), others.values())

    def _fetch_references(self, told: Mapping[str, Any]) -> dict[tuple[str, int], str]:
        """Fetch the schemas that a schema references, directly or not, by subject and version."""
        found: dict[tuple[str, int], str] = {}
        left = list(told.get("references") or ())
        while left:
            reference = left.pop()
            subject, version = str(reference["subject"]), int(reference["version"])
            if (subject, version) not in found:
                other = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
                found[subject, version] = str(other["schema"])
                left += other.get("references") or ()
        return found

    def _get(self, path: str) -> Any:
        return self._ask("GET", path)

    def _ask(self, method: str, path: str, body: object = None, *, absent: Container[int] = (404,)) -> Any:
        """Ask each address until one answers. LookupError for the statuses in `absent`, ValueError for 409 and 422."""
        failures: list[str] = []
        for address in map(split_credentials, self.urls):
            url, headers, trust = address.url, self._headers(address), self._trust(address.url)
            target = url.rstrip("/") + path
            try:
                return request_json(method, target, body, headers=headers, timeout_secs=TIMEOUT_SECS, trust=trust)
            except StatusError as error:
                if error.status in absent:
                    raise LookupError(path) from None
                if error.status in (409, 422):
                    raise ValueError(str(error)) from None
                if 400 <= error.status < 500 and error.status not in _PASSING:
                    raise _refusal(url, error) from None
                failures.append(f"{url} answers {error.status}")
            except NoAnswerError as error:
                if error.untrusted:
                    text = f"the certificate of the schema registry at {url} is not trusted: {error}"
                    hint = "see `runtime.schema_registry.ssl.ca_location`"
                    raise ServiceError("registry-refused", text, hint=hint) from None
                failures.append(f"{url} does not answer: {error}")
        text = f"the schema registry does not answer: {'; '.join(failures)}"
        raise ServiceError("unreachable", text, hint=f"see `{self.said_in}`", retriable=True)

    def _headers(self, address: ServiceAddress) -> dict[str, str]:
        kind = "application/vnd.schemaregistry.v1+json"
        user = (address.username, address.password) if self.username is None else (self.username, self.password)
        return {"Accept": f"{kind}, application/json", "Content-Type": kind, **credentials(*user)}

    def _trust(self, url: str) -> ssl.SSLContext | None:
        if not url.startswith("https"):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_location)
        except ssl.SSLError as error:
            text = f"{self.ca_location} has no PEM certificate"
            raise ServiceError("certificate-unreadable", text) from error
        except OSError as error:
            text = f"{self.ca_location} cannot be read: {error.strerror}"
            raise ServiceError("certificate-unreadable", text) from error


def _refusal(url: str, error: StatusError) -> ServiceError:
    """Return the error for an answer that a retry would not change."""
    if error.status in (401, 403):
        hint = "see the user and the password of the registry"
        text = f"the schema registry at {url} refused the user or the password: it answers {error.status}"
    else:
        hint = "check that it is the address of a schema registry"
        text = f"the schema registry at {url} refused a request: it answers {error.status}: {error}"
    return ServiceError("registry-refused", text, hint=hint)
