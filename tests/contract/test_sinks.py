"""Every built-in sink, put through the public contract with the real service behind it."""

import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.connectors.contract import Sink
from penstock.connectors.registry import BUILT_INS, find_sink
from penstock.testing.contract import LINES, OF_A_PROCESS, OF_VALUES, SinkContract
from penstock.testing.values import Value, same
from tests.contract.services import Mortal
from tests.contract.subjects import SUBJECTS, World

CHECKS = [name for name in LINES if name not in (*OF_VALUES, *OF_A_PROCESS)]
CHANGED: dict[str, Mapping[str, list[str]]] = {}
"""What became of the values that each sink was given: they are written once for all checks."""


def sink_of(subject: str) -> type[Sink]:
    found = find_sink(subject.partition(" ")[0])
    assert found is not None
    return found


def cases(checks: list[str]) -> Iterator[Any]:
    """A case for each line of the contract. One that is waived must fail, or the waiver is stale."""
    for subject in SUBJECTS:
        for check in checks:
            reason = sink_of(subject).waives.get(check)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)]
            yield pytest.param(subject, check, marks=marks, id=f"{subject}-{check}")


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, service: Callable[[type[Mortal]], Any]) -> World:
    return World(tmp_path / "out", spark, service)


@pytest.mark.parametrize(("subject", "check"), list(cases(CHECKS)))
def test_contract(subject: str, check: str, world: World) -> None:
    with SUBJECTS[subject](world) as contract:
        getattr(contract, check)()


@pytest.mark.parametrize(("subject", "check"), list(cases(list(OF_VALUES))))
def test_values(subject: str, check: str, world: World) -> None:
    if subject not in CHANGED:
        with SUBJECTS[subject](world) as contract:
            CHANGED[subject] = contract.changed_values()
    assert CHANGED[subject][check] == []


def test_every_sink_is_under_contract() -> None:
    assert {b.type for b in BUILT_INS if b.role == "sink"} == {subject.partition(" ")[0] for subject in SUBJECTS}


def test_every_line_has_a_check() -> None:
    found = {name for name in vars(SinkContract) if name.startswith(("writes_", "keeps_", "a_", "an_"))}
    assert found == LINES.keys() - {*OF_VALUES, *OF_A_PROCESS}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_is_waived_agrees_with_what_the_sink_says_of_itself(subject: str, world: World) -> None:
    with SUBJECTS[subject](world) as contract:
        contract.check_waivers()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_sink_can_be_pickled_and_written_back(subject: str, world: World) -> None:
    with SUBJECTS[subject](world) as contract:
        sink = contract.sink
        assert type(sink).model_validate(sink.model_dump(mode="json", by_alias=True, exclude_defaults=True)) is not None
        assert pickle.loads(pickle.dumps(sink)).model_dump() == sink.model_dump()


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Value("a", "BIGINT", 2**53 + 1), float(2**53)),
        (Value("a", "DECIMAL(38,0)", 10**38 - 1), 1e38),
        (Value("a", "STRING", "ä"), "a"),
        (Value("a", "BINARY", b"\xff"), "\\xfe"),
        (Value("a", "ARRAY<INT>", [1, None]), [1, 0]),
        (Value("a", "MAP<STRING, INT>", {"k": 1}), {"k": None}),
        (Value("a", "DOUBLE", float("nan")), 0.0),
        (Value("a", "STRING", ""), None),
        (Value("a", "STRING", None), ""),
    ],
)
def test_a_value_that_was_changed_is_not_the_same(wanted: Value, found: Any) -> None:
    assert not same(wanted.value, found)
