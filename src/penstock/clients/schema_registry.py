"""A schema registry with the interface of Confluent's: what a subject says about columns."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from penstock.clients.schema_text import columns_of
from penstock.errors import ServiceError
from penstock.sql.types import Columns

TIMEOUT_SECS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Registry:
    """Where the registry answers, and as whom to ask. Of several addresses the first that answers is taken."""

    urls: Sequence[str]
    username: str | None = None
    password: str | None = None
    ca_location: str | None = None

    def columns(self, subject: str, version: int | str = "latest") -> Columns | None:
        """The columns of a subject's rows; None where its schema does not tell.

        A subject that is not there raises LookupError, a schema that is none ValueError, a registry that does not
        answer ServiceError.
        """
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        return columns_of(str(found["schema"]), str(found.get("schemaType") or "AVRO").lower())

    def _get(self, path: str) -> Any:
        failures: list[str] = []
        for url in self.urls:
            request = urllib.request.Request(url.rstrip("/") + path, headers=self._headers())
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECS, context=self._trust(url)) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    raise LookupError(path) from None
                failures.append(f"{url} answers {error.code}")
            except (OSError, ValueError) as error:
                failures.append(f"{url} does not answer: {getattr(error, 'reason', error)}")
        text = f"the schema registry cannot be asked: {'; '.join(failures)}"
        raise ServiceError("unreachable", text, hint="see `runtime.schema_registry`", retriable=True)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.username is not None:
            word = base64.b64encode(f"{self.username}:{self.password or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {word}"
        return headers

    def _trust(self, url: str) -> ssl.SSLContext | None:
        return ssl.create_default_context(cafile=self.ca_location) if url.startswith("https") else None
