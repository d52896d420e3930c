"""Requests against a real server, which fails as it is told to."""

import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest

from penstock.backoff import delay_secs
from penstock.clients.http import pool
from penstock.clients.http.connection import EndpointConnection
from penstock.clients.http.endpoint import Endpoint, Failure, Response
from penstock.clients.http.failures import parse_retry_after
from penstock.clients.http.pool import Outcome, send_with_retry
from penstock.errors import ServiceError
from tests import endpoint as servers
from tests.endpoint import HANG, RESET, Says


@pytest.fixture
def server() -> Iterator[servers.Endpoint]:
    with servers.endpoint() as found:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "delay_secs", partial(delay_secs, first_secs=0.001))


def send(
    url: str, *, timeout: float = 10, retry: float = 20, patient: bool = True, **more: Any
) -> tuple[Failure | None, int]:
    line = EndpointConnection(Endpoint(url, {"Content-Type": "application/json"}, timeout, retry, **more))
    body, headers = b'[{"id":1}]\n', {"Idempotency-Key": "k"}
    try:
        return failed(send_with_retry(line, body, headers, threading.Event(), retries_answers=patient))
    finally:
        line.close()


def failed(outcome: Outcome) -> tuple[Failure | None, int]:
    """Why a request failed, None if it did not, and how often it was retried."""
    return None if isinstance(outcome.result, Response) else outcome.result, outcome.retries


def post(line: EndpointConnection) -> Failure | None:
    result = line.post(b"", {})
    return None if isinstance(result, Response) else result


def test_a_request_is_posted_with_its_headers(server: servers.Endpoint) -> None:
    assert send(server.url + "?a=b") == (None, 0)
    (request,) = server.taken
    assert (request.path, request.body) == ("/notify?a=b", b'[{"id":1}]\n')
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Idempotency-Key"] == "k"


@pytest.mark.parametrize("says", [Says(500), Says(503), Says(408), Says(429), RESET])
def test_what_may_pass_is_tried_again_under_the_same_key(server: servers.Endpoint, says: Says) -> None:
    server.plan = [says, says, says]
    assert send(server.url) == (None, 3)
    assert [request.headers["Idempotency-Key"] for request in server.received] == ["k"] * 4
    assert len({request.body for request in server.received}) == 1


def test_a_server_that_hangs_is_not_waited_for_longer_than_said(server: servers.Endpoint) -> None:
    server.plan = [HANG]
    assert send(server.url, timeout=2) == (None, 1)


def test_a_server_that_hangs_for_ever_is_given_up(server: servers.Endpoint) -> None:
    server.always = HANG
    failure, _ = send(server.url, timeout=0.1, retry=0.2)
    assert failure is not None
    assert (failure.code, failure.retriable, failure.answered) == ("unreachable", True, False)
    assert "0.1 s" in failure.message


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", None),
        (
            b"HTTP/1.1 400 \x1b[31mNo\r\nContent-Length: 1000\r\n\r\n\x1b[31mno\0",
            "answered 400 \ufffd[31mNo: \ufffd[31mno\ufffd",
        ),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", "did not answer within 2 s"),
        (b"\x1bNOT HTTP\r\n", "does not speak HTTP: \ufffdNOT HTTP"),
    ],
)
def test_an_answer_may_come_byte_after_byte_and_have_anything_in_it(answer: bytes, said: str | None) -> None:
    """It is an answer once its head is there; its end is waited for as long as one is waited for at all."""
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)
            while answer.startswith(b"HTTP") and not over.wait(0.02):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=drip, args=(listening,))
        server.start()
        try:
            failure, _ = send(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=2, retry=0)
        finally:
            over.set()
            server.join()
    assert (None if failure is None else failure.message) == said


def test_nobody_there_may_pass() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens here, and nobody else can
        failure, tries = send(f"http://127.0.0.1:{free.getsockname()[1]}/", retry=0.05)
    assert failure is not None
    assert (failure.code, failure.retriable) == ("unreachable", True)
    assert tries > 0


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_a_refusal_is_final_and_shows_what_was_said(server: servers.Endpoint, status: int) -> None:
    server.always = Says(status, b'{"error":\n "no such thing"}', {"Content-Type": "application/json"})
    failure, tries = send(server.url)
    assert failure is not None
    assert (failure.code, failure.retriable, tries, len(server.received)) == ("http-refused", False, 0, 1)
    assert f"answered {status}" in failure.message
    assert '{"error": "no such thing"}' in failure.message


def test_a_redirection_is_not_followed(server: servers.Endpoint) -> None:
    server.always = Says(301, headers={"Location": server.url + "/new"})
    failure, _ = send(server.url)
    assert failure is not None
    assert (failure.code, len(server.received)) == ("http-refused", 1)
    assert failure.hint is not None
    assert "`url`" in failure.hint


def test_of_a_page_only_its_title_is_shown(server: servers.Endpoint) -> None:
    page = b"<!doctype html><html><head><title>Not\n here &amp; there</title></head><body>" + b"x" * 100_000
    server.always = Says(404, page, {"Content-Type": "text/html; charset=utf-8"})
    failure, _ = send(server.url)
    assert failure is not None
    assert failure.message.endswith("an HTML page, “Not here & there”")


def test_what_an_answer_says_does_not_matter_if_it_is_yes(server: servers.Endpoint) -> None:
    server.always = Says(200, b"<html>OK</html>" * 10_000, {"Content-Type": "text/html"})
    assert send(server.url) == (None, 0)


class Waits(threading.Event):
    """Notes how long it is waited for, and is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.asked.append(timeout)
        return False


def waited(server: servers.Endpoint, *says: Says) -> list[float]:
    """How long it is waited for after each of these answers, before the server takes the request."""
    server.plan = [*says]
    line, waits = EndpointConnection(Endpoint(server.url, {}, 10, 20)), Waits()
    assert failed(send_with_retry(line, b"", {}, waits, retries_answers=True)) == (None, len(says))
    line.close()
    return waits.asked


def test_a_server_is_left_alone_for_as_long_as_it_says(server: servers.Endpoint) -> None:
    assert waited(server, Says(429, headers={"Retry-After": "100"})) == [100]


def test_it_is_waited_longer_each_time_by_chance_and_never_very_long(
    server: servers.Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "delay_secs", delay_secs)
    longest = [min(0.1 * 2**n, 30) for n in range(14)]
    parts = [wait / most for wait, most in zip(waited(server, *[Says(503)] * 14), longest, strict=True)]
    assert all(0.5 <= part <= 1 for part in parts)
    assert len({round(part, 6) for part in parts}) > 1


@pytest.mark.parametrize(("text", "seconds"), [(None, 0), ("", 0), ("7", 7), ("soon", 0), ("999999", 600)])
def test_a_wish_is_in_seconds(text: str | None, seconds: float) -> None:
    assert parse_retry_after(text) == seconds


def test_a_wish_may_be_a_moment() -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < parse_retry_after(moment) <= 100
    assert parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0


def test_who_is_not_patient_takes_the_first_answer_but_tries_on_without_one(server: servers.Endpoint) -> None:
    server.plan = [RESET, Says(503)]
    failure, tries = send(server.url, patient=False)
    assert failure is not None
    assert (failure.code, tries) == ("http-failed", 1)


def test_trying_again_ends_when_nobody_cares_any_more(server: servers.Endpoint) -> None:
    server.always = Says(503, headers={"Retry-After": "500"})
    ended = threading.Event()
    line = EndpointConnection(Endpoint(server.url, {}, 10, 1000))
    threading.Timer(0.2, ended.set).start()
    failure, _ = failed(send_with_retry(line, b"", {}, ended, retries_answers=True))
    line.close()
    assert failure is not None
    assert len(server.received) == 1


def test_a_connection_is_kept_and_opened_again_if_it_was_closed(server: servers.Endpoint) -> None:
    line = EndpointConnection(Endpoint(server.url, {}, 10, 0))
    assert [post(line) for _ in range(3)] == [None] * 3
    assert server.connections == 1
    server.plan = [RESET]
    assert post(line) is None
    assert server.connections == 2
    line.close()


@pytest.mark.parametrize("before", [0, 1])
def test_an_aborted_request_comes_back_at_once(server: servers.Endpoint, before: int) -> None:
    line = EndpointConnection(Endpoint(server.url, {}, servers.HANG_SECS, 0))
    for _ in range(before):
        assert post(line) is None
    server.always = HANG

    def abort() -> None:
        while len(server.received) <= before:
            time.sleep(0.01)
        line.abort()

    threading.Thread(target=abort).start()
    failure = post(line)
    assert failure is not None
    assert failure.code == "unreachable"
    assert "did not answer" not in failure.message
    assert post(line) is not None
    assert len(server.received) == before + 1
    line.close()


def test_whether_somebody_listens_can_be_checked_without_a_request(server: servers.Endpoint) -> None:
    Endpoint(server.url, {}, 1, 0).check()
    assert server.received == []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(ServiceError) as caught:
            Endpoint(f"http://127.0.0.1:{free.getsockname()[1]}/secret", {}, 1, 0).check()
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)
    assert "secret" not in caught.value.message


def test_a_name_and_a_password_in_the_address_are_sent_as_a_header(server: servers.Endpoint) -> None:
    assert send(server.url.replace("://", "://me:pa%20ss@")) == (None, 0)
    assert server.taken[0].headers["Authorization"] == "Basic bWU6cGEgc3M="


def test_messages_show_neither_the_path_nor_a_secret(server: servers.Endpoint) -> None:
    server.always = Says(403, b"the key hunter2 is not known")
    where = Endpoint(server.url.replace("://", "://me:pw@"), {"X-Key": "hunter2"}, 1, 0, ("hunter2",))
    line = EndpointConnection(where)
    failure = post(line)
    line.close()
    assert failure is not None
    assert "the key **** is not known" in failure.message
    assert where.name == server.url.removesuffix("/notify")
    assert "hunter2" not in repr(where)
    assert "notify" not in repr(where)
