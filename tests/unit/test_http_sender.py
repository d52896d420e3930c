"""The rows of a task as requests to a real server, without Spark."""

import json
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from penstock.backoff import delay_secs
from penstock.clients.http import pool
from penstock.clients.http.endpoint import Endpoint
from penstock.clients.http.sender import OnRefusal, Sender
from tests import endpoint as servers
from tests.endpoint import HANG, Received, Says


@pytest.fixture
def server() -> Iterator[servers.Endpoint]:
    with servers.endpoint() as found:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "delay_secs", partial(delay_secs, first_secs=0.001))


def sender(server: servers.Endpoint, rows: int, in_flight: int = 5, on_refusal: OnRefusal = "stop") -> Sender:
    return Sender(Endpoint(server.url, {}, servers.HANG_SECS, 5), "a batch", rows, in_flight, False, on_refusal)


def batches(keys: list[int], at_a_time: int) -> Iterator[pa.RecordBatch]:
    """Rows that are numbered, with these keys."""
    for start in range(0, len(keys), at_a_time):
        some = keys[start : start + at_a_time]
        rows = [json.dumps({"id": start + place, "key": key}) for place, key in enumerate(some)]
        yield pa.RecordBatch.from_pydict({"row": rows, "key": pa.array(some, pa.int64())})


def tally(results: Iterator[pa.RecordBatch]) -> dict[str, Any]:
    return list(results)[-1].to_pylist()[0]


def test_requests_take_rows_in_their_order_whatever_they_come_in() -> None:
    one = Sender(Endpoint("http://x/", {}, 1, 1), "a batch", 4, 1, False, "stop")
    for at_a_time in (1, 3, 4, 9, 100):
        found = list(one.requests(batches([0] * 10, at_a_time)))
        assert [[row["id"] for row in json.loads(request.body)] for request in found] == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
            [8, 9],
        ]
        assert [request.number for request in found] == [0, 1, 2]
    assert list(one.requests([])) == []


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_key_are_never_overtaken(server: servers.Endpoint, seed: int) -> None:
    chance = random.Random(seed)
    keys = [chance.randrange(40) for _ in range(300)]
    server.judge = lambda request: chance.choice([Says(503), Says(), Says(does="slow"), None])
    found = tally(sender(server, 3)(batches(keys, 50)))
    assert (found["sent"], found["refused"], found["requests"], found["failure"]) == (300, 0, 100, None)
    assert found["retries"] == len(server.received) - 100
    for key in set(keys):
        seen = [row["id"] for request in server.taken for row in request.rows if row["key"] == key]
        assert seen == sorted(seen)
    assert server.most_at_once > 1


def test_one_key_alone_is_sent_one_request_at_a_time(server: servers.Endpoint) -> None:
    server.always = Says(does="slow")
    tally(sender(server, 2)(batches([7] * 10, 10)))
    assert server.most_at_once == 1
    assert server.ids == list(range(10))


def test_after_a_failure_nothing_new_is_sent_and_nobody_is_waited_for(server: servers.Endpoint) -> None:
    def judge(request: Received) -> Says | None:
        number = request.rows[0]["id"]
        return Says(400, b"bad") if number == 6 else HANG if number > 3 else None

    server.judge = judge
    found = tally(sender(server, 1)(batches(list(range(1000)), 10)))
    failure = json.loads(found["failure"])
    assert (failure["code"], failure["rows"]) == ("http-refused", 1)
    assert len(server.received) < 20


def test_rows_that_are_to_be_kept_come_back_and_the_rest_is_sent(server: servers.Endpoint) -> None:
    server.plan = [Says(503)] * 2
    server.judge = lambda request: Says(422, b"no") if request.rows[0]["id"] == 4 else None
    *kept, last = list(sender(server, 2, on_refusal="dead_letter")(batches(list(range(10)), 10)))
    dead_letters = [dead_letter for batch in kept for dead_letter in batch.to_pylist()]
    assert [json.loads(dead_letter["row"])["id"] for dead_letter in dead_letters] == [4, 5]
    assert dead_letters[0]["message"].endswith("answered 422 Unprocessable Entity: no")
    assert (last.to_pylist()[0]["sent"], last.to_pylist()[0]["refused"]) == (8, 2)


def test_what_may_pass_is_skipped_but_not_kept(server: servers.Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    server.always = Says(500)
    assert tally(sender(server, 2, on_refusal="skip")(batches([0] * 4, 4)))["refused"] == 4
    told = capsys.readouterr().err.splitlines()
    assert [line.startswith("skipping failed webhook delivery: ") for line in told] == [True, True]
    assert [line.endswith(" (2 rows)") for line in told] == [True, True]
    kept = Sender(Endpoint(server.url, {}, 5, 0), "a batch", 2, 1, False, "dead_letter")
    assert json.loads(tally(kept(batches([0] * 4, 4)))["failure"])["code"] == "http-failed"
