"""A real HTTP server that takes rows, and fails as a test tells it to."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG_SECS = 300


@dataclass(frozen=True, slots=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.json if isinstance(self.json, list) else [self.json]


@dataclass(frozen=True, slots=True)
class Says:
    """An answer, or what a server does in place of one."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    does: str = "answer"


HANG = Says(does="hang")
RESET = Says(does="reset")


class Endpoint:
    """`plan` says what to do with the next requests, one after the other; afterwards `always` is done.

    `judge` may decide by the request. `received` has every request, `taken` those that were answered with 2xx.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.plan: list[Says] = []
        self.always = Says()
        self.judge: Callable[[Received], Says | None] = lambda request: None
        self.received: list[Received] = []
        self.taken: list[Received] = []
        self.connections = 0
        self.at_once = 0
        self.most_at_once = 0
        self.released = threading.Event()
        self._lock = threading.Lock()

    def next(self, request: Received) -> Says:
        with self._lock:
            self.received.append(request)
            says = self.judge(request) or (self.plan.pop(0) if self.plan else self.always)
            if 200 <= says.status < 300 and says.does in ("answer", "slow", "wait"):
                self.taken.append(request)
            return says

    def busy(self, change: int) -> None:
        with self._lock:
            self.at_once += change
            self.most_at_once = max(self.most_at_once, self.at_once)

    @property
    def ids(self) -> list[int]:
        return [row["id"] for request in self.taken for row in request.rows]


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            served.connections += 1

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            if len(body := self.rfile.read(size)) < size:
                self.close_connection = True  # its client was stopped while it sent: that is no request
                return
            request = Received(self.path, dict(self.headers), body)
            served.busy(1)
            try:
                self._do(served.next(request))
            finally:
                served.busy(-1)

        def _do(self, says: Says) -> None:
            if says.does == "hang":
                served.released.wait(HANG_SECS)
                self.close_connection = True
                return
            if says.does == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                return
            if says.does == "slow":
                time.sleep(0.05)
            if says.does == "wait":
                served.released.wait(HANG_SECS)
            self.send_response(says.status)
            for name, value in says.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(says.body)))
            self.end_headers()
            self.wfile.write(says.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that has let go is part of the test

    server = Server(("127.0.0.1", 0), Handler)
    served = Endpoint(f"http://127.0.0.1:{server.server_address[1]}/notify")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
