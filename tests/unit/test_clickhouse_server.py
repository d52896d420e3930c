"""What is made of the answers of a ClickHouse server: a real HTTP server that gives them."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa
import pytest

from penstock.clients.clickhouse.client import ClickHouse, RequestTooLarge
from penstock.errors import ServiceError


@contextmanager
def answering(status: int, code: int | None, body: bytes, promised: int | None = None) -> Iterator[ClickHouse]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            if code is not None:
                self.send_header("X-ClickHouse-Exception-Code", str(code))
            self.send_header("Content-Length", str(promised or len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield ClickHouse(f"http://127.0.0.1:{server.server_port}", "ada", "s3cret-word")
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "code", "expected", "retriable"),
    [
        (403, 516, "clickhouse-refused", False),
        (500, 497, "clickhouse-refused", False),
        (500, 164, "clickhouse-refused", False),
        (401, None, "clickhouse-refused", False),
        (500, 252, "clickhouse-failed", True),
        (503, None, "clickhouse-failed", True),
        (500, 53, "clickhouse-failed", False),
        (400, None, "clickhouse-failed", False),
    ],
)
def test_whether_an_error_may_pass_is_told_by_its_code(
    status: int, code: int | None, expected: str, retriable: bool
) -> None:
    said = b"Code: 1. DB::Exception: because.\nmore"
    with answering(status, code, said) as server, pytest.raises(ServiceError) as caught:
        server.execute("SELECT 1")
    assert (caught.value.code, caught.value.retriable) == (expected, retriable)
    assert caught.value.message.endswith("DB::Exception: because.")
    assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize("code", [159, 241, 396])
def test_what_is_too_much_for_the_server_is_told_apart(code: int) -> None:
    with answering(500, code, b"Code: 1. DB::Exception: too much.") as server, pytest.raises(RequestTooLarge):
        list(server.batches("SELECT 1"))


def test_an_answer_that_takes_too_long_is_too_much() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = ClickHouse(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_secs=0.05)
        with pytest.raises(RequestTooLarge) as caught:
            list(server.batches("SELECT 1"))
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)


def test_an_answer_that_breaks_off_may_be_asked_for_again() -> None:
    with answering(200, None, b'{"data":', promised=100) as server, pytest.raises(ServiceError) as caught:
        server.ask("SELECT 1")
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)


def stream_of(*batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_rows_are_read_as_they_come() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]})
    with answering(200, None, stream_of(batch, batch)) as server:
        assert list(server.batches("SELECT 1")) == [batch, batch]


def test_rows_that_break_off_between_two_batches_are_not_taken_for_all() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]})
    whole = stream_of(batch, batch)
    one = len(stream_of(batch)) - 8  # without the mark of the end
    with answering(200, None, whole[:one], promised=len(whole)) as server, pytest.raises(ServiceError) as caught:
        list(server.batches("SELECT 1"))
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)


def test_rows_that_break_off_inside_of_a_batch_may_be_asked_for_again() -> None:
    whole = stream_of(pa.RecordBatch.from_pydict({"id": [1, 2]}))
    with answering(200, None, whole[:-20], promised=len(whole)) as server, pytest.raises(ServiceError) as caught:
        list(server.batches("SELECT 1"))
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)


@pytest.mark.parametrize(("url", "retriable"), [("http://127.0.0.1:1", True), ("no address", False)])
def test_only_a_server_that_may_come_back_is_tried_again(url: str, retriable: bool) -> None:
    with pytest.raises(ServiceError) as failed:
        ClickHouse(url).ask("SELECT 1")
    assert (failed.value.code, failed.value.retriable) == ("unreachable", retriable)
