"""ClickHouse's engine behind the parts of its HTTP interface that clients use. It runs as a process: PORT DIRECTORY.

It is the engine without the server: one statement at a time, one user, no replication.
"""

import base64
import json
import re
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from penstock.dev.clickhouse import DATABASE, USER

_NOT_SETTINGS: Final = frozenset({
    "query", "database", "default_format", "user", "password", "query_id", "role", "quota_key", "compress",
    "decompress", "buffer_size", "wait_end_of_query", "session_id", "session_check", "session_timeout",
    "client_protocol_version",
})  # fmt: skip
_INSERT: Final = re.compile(rb"(?is)\s*(INSERT\s+INTO\s.*?)\s+FORMAT\s+(\w+)\s*;?\s*")
_CODE: Final = re.compile(r"Code: (\d+)\. ")
_STATUS: Final = {516: 403, 497: 403, 60: 404, 81: 404, 47: 400, 62: 400, 115: 400}
_CODECS: Final = {"gzip": "gzip", "zstd": "zstd", "lz4": "lz4", "br": "brotli"}


class Engine:
    """A session of the engine, which runs one statement at a time."""

    def __init__(self, directory: str) -> None:
        from chdb.session import Session

        self._session: Any = Session(directory)  # type: ignore[no-untyped-call]
        self._lock = threading.Lock()

    def run(self, sql: bytes, data: bytes, said: Mapping[str, str], form: str) -> tuple[bytes, dict[str, str]]:
        settings = [name for name in said if name not in _NOT_SETTINGS and not name.startswith("param_")]
        params = {name.removeprefix("param_"): value for name, value in said.items() if name.startswith("param_")}
        with self._lock:
            try:
                self._session.query(f"USE {_name(said.get('database') or DATABASE)}")
                for name in settings:
                    self._session.query(f"SET {_name(name)} = {_text(said[name])}")
                if insert := _INSERT.fullmatch(sql):
                    return b"", self._insert(insert[1].decode(), insert[2].decode(), data)
                found = self._session.query((sql + data).decode(), form, params=params or None)
                return found.bytes(), {"read_rows": str(found.rows_read()), "written_rows": str(found.rows_written())}
            finally:
                for name in settings:
                    self._forget(name)

    def _insert(self, sql: str, form: str, data: bytes) -> dict[str, str]:
        """Insert rows from a file: if a constraint rejects one, directly passed rows are lost without an error."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            done = self._session.query(f"{sql} FROM INFILE {_text(file.name)} FORMAT {form}")
            return {"written_rows": str(done.rows_written())}

    def _forget(self, setting: str) -> None:
        with suppress(RuntimeError):  # there is no such setting, which was reported before
            self._session.query(f"SET {_name(setting)} = DEFAULT")

    def close(self) -> None:
        with self._lock:
            self._session.close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        said = dict(parse_qsl(address.query, keep_blank_values=True))
        try:
            body = self._body()
        except EOFError:  # the client has disconnected: the part of an INSERT that has arrived is not the whole
            self.close_connection = True
            return
        if address.path == "/ping" or not (said.get("query") or body):
            self._answer(200, b"Ok.\n", {})
            return
        user, password = self._login(said)
        if (user, password) != (USER, ""):
            self._fail(516, f"Code: 516. DB::Exception: {user}: Authentication failed. (AUTHENTICATION_FAILED)")
            return
        sql, data = (said["query"].encode(), body) if said.get("query") else (body, b"")
        form = said.get("default_format") or self.headers.get("X-ClickHouse-Format") or "TabSeparated"
        try:
            found, summary = self.engine.run(sql, data, said, form)
        except (RuntimeError, ValueError) as error:
            code = _CODE.search(str(error))
            self._fail(int(code[1]) if code else 1002, str(error))
            return
        self._answer(200, found, {"X-ClickHouse-Format": form, "X-ClickHouse-Summary": json.dumps(summary)})

    do_POST = do_GET  # noqa: N815 - the names are http.server's

    def _login(self, said: Mapping[str, str]) -> tuple[str, str]:
        given = self.headers.get("Authorization", "")
        if given.startswith("Basic "):
            user, _, password = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
            return user, password
        user = self.headers.get("X-ClickHouse-User") or said.get("user") or USER
        return user, self.headers.get("X-ClickHouse-Key") or said.get("password") or ""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self._line().split(b";")[0], 16):
                parts.append(self._exactly(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(parts)
        else:
            raw = self._exactly(int(self.headers.get("Content-Length") or 0))
        codec = _CODECS.get(self.headers.get("Content-Encoding", ""))
        return pa.CompressedInputStream(pa.BufferReader(raw), codec).read() if raw and codec else raw

    def _line(self) -> bytes:
        if not (line := self.rfile.readline()).endswith(b"\n"):
            raise EOFError
        return line

    def _exactly(self, size: int) -> bytes:
        if len(data := self.rfile.read(size)) < size:
            raise EOFError
        return data

    def _fail(self, code: int, text: str) -> None:
        self._answer(_STATUS.get(code, 500), f"{text}\n".encode(), {"X-ClickHouse-Exception-Code": str(code)})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        own = {"Content-Length": str(len(body)), "X-ClickHouse-Query-Id": str(uuid.uuid4())}
        for name, value in {**own, "X-ClickHouse-Timezone": "UTC", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _name(text: str) -> str:
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def serve(port: int, directory: str) -> None:
    Handler.engine = Engine(directory)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server.serve_forever()
    finally:
        Handler.engine.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
