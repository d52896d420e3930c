"""A real schema registry for tests: the one of `penstock dev`."""

import base64
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.dev import processes
from penstock.dev import registry as dev_registry


def start(home: Path) -> str:
    """Start a registry; its address."""
    return str(dev_registry.up(home).about["url"])


@contextmanager
def running(home: Path) -> Iterator[str]:
    """The address of a registry that ends with the block."""
    try:
        yield start(home)
    finally:
        processes.stop(home)


def register(
    address: str, subject: str, schema: Any, kind: str = "AVRO", refers: Mapping[str, str] | None = None
) -> int:
    """Register a schema; `refers` are the subjects that it has types from, by the name of the type."""
    references = [{"name": name, "subject": other, "version": 1} for name, other in (refers or {}).items()]
    body = json.dumps({"schema": json.dumps(schema), "schemaType": kind, "references": references}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/subjects/{subject}/versions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return int(json.load(answer)["id"])


@contextmanager
def guarded(address: str, user: str, password: str, certificate: Path | None = None) -> Iterator[str]:
    """The same registry behind a door that asks for a user and a password, and shows a certificate if it has one."""
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    host, path = f"http://{urlsplit(address).netloc}", urlsplit(address).path

    class Door(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            if self.headers.get("Authorization") != wanted:
                self._answer(401, b'{"error_code": 401, "message": "who are you?"}')
                return
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(host + self.path, body, headers, method=self.command)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    self._answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    self._answer(error.code, error.read())

        do_GET = do_POST = do_PUT = _pass_on  # noqa: N815 - names of the class that we extend

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http{'' if certificate is None else 's'}://127.0.0.1:{server.server_port}{path}"
        finally:
            server.shutdown()
