"""A double of Conduktor's gateway: a real HTTP server, written from the public description of its interface.

No gateway can run here, because it needs a licence and an image. This server takes what that description (version 2 of
the interface, gateways of version 3) allows and nothing else: unknown fields, kinds and plugins are refused, and so is
SQL beyond what the documentation names. It moves no records.
"""

import base64
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

USER, PASSWORD = "admin", "s3cret-of-the-gateway"
PASSTHROUGH = "passthrough"
NAME = re.compile(r"[a-zA-Z0-9._-]+")
LAG_SECS = 0.15
"""Changes show this much later than they are answered."""
CONDITION = r"""[A-Za-z_][\w.]* (?:=|<>|>=|<=|>|<|REGEXP) (?:'(?:[^']|'')*'|[0-9.]+)"""
CONDITIONS = rf"{CONDITION}(?: AND {CONDITION})*"
VALUE = r"(?:'(?:[^']|'')*'|[0-9.]+)"
OUTPUT = rf"(?:[A-Za-z_][\w.]*|CASE(?: WHEN {CONDITIONS} THEN {VALUE})+ ELSE {VALUE} END)(?: AS [A-Za-z_]\w*)?"
STATEMENT = re.compile(rf'SELECT (?:\*|{OUTPUT}(?:, {OUTPUT})*) FROM "[a-zA-Z0-9._-]+"(?: WHERE {CONDITIONS})?')


class BadRequestError(Exception):
    """What the interface does not allow, with the status and the words of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def fields(value: Any, what: str, *, needs: set[str], may: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    """A mapping with just these keys."""
    if not isinstance(value, Mapping):
        raise BadRequestError(400, f"{what} is no object")
    if missing := needs - value.keys():
        raise BadRequestError(400, f"{what} lacks {', '.join(sorted(missing))}")
    if unknown := value.keys() - needs - may:
        raise BadRequestError(400, f"{what} has unknown fields: {', '.join(sorted(unknown))}")


def resource(body: Any, kind: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    fields(body, kind, needs={"kind", "apiVersion", "metadata", "spec"})
    if (body["kind"], body["apiVersion"]) != (kind, "gateway/v2"):
        raise BadRequestError(400, f"{body['kind']} of {body['apiVersion']} is not known here")
    return body["metadata"], body["spec"]


def registry_settings(config: Mapping[str, Any]) -> None:
    if "schemaRegistryConfig" in config:
        may = {"cacheSize", "additionalConfigs", "type"}
        fields(config["schemaRegistryConfig"], "schemaRegistryConfig", needs={"host"}, may=may)


def sql_topic(config: Any) -> None:
    fields(config, "config", needs={"virtualTopic", "statement"}, may={"schemaRegistryConfig"})
    registry_settings(config)
    if not STATEMENT.fullmatch(config["statement"]):
        raise BadRequestError(400, f"cannot parse {config['statement']}")


def masking(config: Any) -> None:
    fields(config, "config", needs={"policies"}, may={"topic", "schemaRegistryConfig", "errorPolicy"})
    registry_settings(config)
    re.compile(config.get("topic", ".*"))
    for policy in config["policies"]:
        fields(policy, "policy", needs={"name", "fields", "rule"})
        fields(policy["rule"], "rule", needs={"type"}, may={"maskingChar", "numberOfChars"})
        kind = policy["rule"]["type"]
        if kind not in ("MASK_ALL", "MASK_FIRST_N", "MASK_LAST_N"):
            raise BadRequestError(400, f"there is no masking type {kind}")
        if kind != "MASK_ALL" and "numberOfChars" not in policy["rule"]:
            raise BadRequestError(400, f"{kind} needs numberOfChars")


PLUGINS = {
    "io.conduktor.gateway.interceptor.VirtualSqlTopicPlugin": sql_topic,
    "io.conduktor.gateway.interceptor.FieldLevelDataMaskingPlugin": masking,
}


class GatewayDouble(ThreadingHTTPServer):
    """What it was given, by what identifies it; and every request that changed something, in order."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.clusters = {PASSTHROUGH}
        self.password = PASSWORD
        self.find_failure: str | None = None
        """Words with which every interceptor is refused."""
        self.broken_at: str | None = None
        """What it fails to keep, though it has nothing against it."""
        self.lag_secs = LAG_SECS
        self.aliases: dict[tuple[str, str], dict[str, Any]] = {}
        self.interceptors: dict[tuple[str, str | None, str | None, str | None], dict[str, Any]] = {}
        self.changes: list[str] = []
        self._before: list[tuple[float, list[Any], list[Any]]] = []
        self.guarded = threading.RLock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def shown(self, kind: str) -> list[Any]:
        """What a list tells, which is behind what was done."""
        with self.guarded:
            late = [kept for kept in self._before if kept[0] > time.monotonic() - self.lag_secs]
            now = (0.0, list(self.aliases.values()), list(self.interceptors.values()))
            return (late[0] if late else now)[1 if kind == "alias-topic" else 2]

    def changing(self, what: str) -> None:
        self._before.append((time.monotonic(), list(self.aliases.values()), list(self.interceptors.values())))
        self.changes.append(what)

    def names(self) -> tuple[list[str], list[str]]:
        """The aliases and the interceptors that it has, by name."""
        return sorted(name for name, _ in self.aliases), sorted(key[0] for key in self.interceptors)

    def put_alias(self, body: Any, *, dry: bool) -> dict[str, Any]:
        metadata, spec = resource(body, "AliasTopic")
        fields(metadata, "metadata", needs={"name"}, may={"vCluster"})
        fields(spec, "spec", needs={"physicalName"}, may={"physicalCluster"})
        if not NAME.fullmatch(metadata["name"]) or not NAME.fullmatch(spec["physicalName"]):
            raise BadRequestError(400, "that is no name of a topic")
        cluster = self.known(metadata.get("vCluster", PASSTHROUGH))
        if (spec["physicalName"], cluster) in self.aliases:
            raise BadRequestError(409, "an alias cannot point to an alias")
        kept = {**body, "metadata": {"name": metadata["name"], "vCluster": cluster}}
        return self.keep(self.aliases, (metadata["name"], cluster), kept, f"alias {metadata['name']}", dry=dry)

    def put_interceptor(self, body: Any, *, dry: bool) -> dict[str, Any]:
        metadata, spec = resource(body, "Interceptor")
        fields(metadata, "metadata", needs={"name"}, may={"scope"})
        fields(spec, "spec", needs={"pluginClass", "priority", "config"}, may={"comment"})
        if spec["pluginClass"] not in PLUGINS:
            raise BadRequestError(400, f"there is no plugin {spec['pluginClass']}")
        if self.find_failure is not None:
            raise BadRequestError(400, self.find_failure)
        PLUGINS[spec["pluginClass"]](spec["config"])
        scope = self.scope(metadata.get("scope") or {"vCluster": PASSTHROUGH})
        kept = {**body, "metadata": {"name": metadata["name"], "scope": scope}}
        key = (metadata["name"], scope["vCluster"], scope["group"], scope["username"])
        return self.keep(self.interceptors, key, kept, f"interceptor {metadata['name']}", dry=dry)

    def keep(self, among: dict[Any, Any], key: Any, body: Any, what: str, *, dry: bool) -> dict[str, Any]:
        result = "CREATED" if key not in among else "NOT_CHANGED" if among[key] == body else "UPDATED"
        if not dry:
            if what == self.broken_at:
                raise BadRequestError(409, "not now")
            self.changing(f"put {what}")
            among[key] = body
        return {"resource": body, "upsertResult": result}

    def delete_alias(self, body: Any) -> None:
        fields(body, "AliasTopicId", needs={"name"}, may={"vCluster"})
        self.drop(self.aliases, (body["name"], body.get("vCluster", PASSTHROUGH)), f"alias {body['name']}")

    def delete_interceptor(self, name: str, body: Any) -> None:
        scope = self.scope(body or {})
        key = (name, scope["vCluster"], scope["group"], scope["username"])
        self.drop(self.interceptors, key, f"interceptor {name}")

    def drop(self, among: dict[Any, Any], key: Any, what: str) -> None:
        if key not in among:
            raise BadRequestError(404, f"there is no {what}")
        self.changing(f"delete {what}")
        del among[key]

    def scope(self, given: Any) -> dict[str, Any]:
        fields(given, "scope", needs=set(), may={"vCluster", "group", "username"})
        if given.get("vCluster") is not None:
            self.known(given["vCluster"])
        return {key: given.get(key) for key in ("vCluster", "group", "username")}

    def known(self, cluster: str) -> str:
        if cluster not in self.clusters:
            raise BadRequestError(404, f"there is no virtual cluster {cluster}")
        return cluster


class _Handler(BaseHTTPRequestHandler):
    server: GatewayDouble  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    titles: ClassVar[dict[int, str]] = {
        400: "The request is not valid",
        401: "The given credentials are not valid",
        404: "The given resource does not exist",
        409: "The request conflicts with what is there",
    }

    def do_GET(self) -> None:
        self._answer("GET")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._authenticate()
            with self.server.guarded:
                self._send(*self._result(method, json.loads(data) if data else None))
        except BadRequestError as refused:
            self._send(refused.status, {"title": self.titles[refused.status], "msg": str(refused)})
        except ValueError as error:
            self._send(400, {"title": self.titles[400], "msg": str(error)})

    def _authenticate(self) -> None:
        expected = base64.b64encode(f"{USER}:{self.server.password}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {expected}":
            raise BadRequestError(401, "who are you?")

    def _result(self, method: str, body: Any) -> tuple[int, Any]:
        url = urlsplit(self.path)
        dry = parse_qs(url.query).get("dryMode") == ["true"]
        match method, url.path.removeprefix("/gateway/v2/").split("/"):
            case "GET", [("alias-topic" | "interceptor") as kind]:
                return 200, self.server.shown(kind)
            case "PUT", ["alias-topic"]:
                return 200, self.server.put_alias(body, dry=dry)
            case "PUT", ["interceptor"]:
                return 200, self.server.put_interceptor(body, dry=dry)
            case "DELETE", ["alias-topic"]:
                self.server.delete_alias(body)
            case "DELETE", ["interceptor", name]:
                self.server.delete_interceptor(unquote(name), body)
            case _:
                raise BadRequestError(404, f"{method} {url.path}")
        return 204, None

    def _send(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is written to the terminal."""


@contextmanager
def running() -> Iterator[GatewayDouble]:
    double = GatewayDouble()
    thread = threading.Thread(target=double.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        double.shutdown()
        double.server_close()
        thread.join()
