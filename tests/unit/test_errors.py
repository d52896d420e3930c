import pytest

from penstock.codes import CODES
from penstock.errors import (
    Diagnostic,
    Origin,
    PenstockError,
    PlanRefused,
    ProjectInvalid,
    QueryFailed,
    ServiceError,
    Severity,
    did_you_mean,
    has_errors,
    nearest,
)


def test_a_diagnostic_reads_as_designed() -> None:
    found = Diagnostic(
        "unknown-field",
        "a model has no such field",
        Origin("models/orders.yml", 5, 5),
        "models.orders.owner_team",
        "did you mean `owner`?",
    )
    assert str(found) == (
        "models/orders.yml:5:5  unknown-field  models.orders.owner_team: a model has no such field\n"
        "    hint: did you mean `owner`?"
    )


def test_a_diagnostic_as_json_has_everything() -> None:
    found = Diagnostic("cycle", "text", Origin("a.yml", 2, 3), "models.a", "hint", params={"path": "a -> a"})
    assert found.to_json() == {
        "code": "cycle",
        "severity": "error",
        "message": "text",
        "path": "models.a",
        "file": "a.yml",
        "line": 2,
        "column": 3,
        "hint": "hint",
        "params": {"path": "a -> a"},
    }
    assert Diagnostic("cycle", "text").to_json()["file"] is None


def test_a_code_that_nobody_knows_cannot_be_used() -> None:
    with pytest.raises(ValueError, match="no-such-code"):
        Diagnostic("no-such-code", "text")
    with pytest.raises(ValueError, match="no-such-code"):
        ServiceError("no-such-code", "text")


def test_codes_are_words_and_say_something() -> None:
    for code, text in CODES.items():
        assert code == code.lower()
        assert code.replace("-", "").isalpha()
        assert text.endswith(".")


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(PlanRefused, 3), (ServiceError, 4), (QueryFailed, 5)],
)
def test_each_kind_of_error_has_its_exit_code(error: type[PenstockError], exit_code: int) -> None:
    assert error("query-failed", "text").exit_code == exit_code


def test_an_invalid_project_carries_every_reason() -> None:
    notes = [
        Diagnostic("gateway-absent", "a note", severity=Severity.INFO),
        Diagnostic("cycle", "the first", hint="a hint"),
        Diagnostic("unknown-model", "the second"),
    ]
    error = ProjectInvalid(notes)
    assert error.exit_code == 2
    assert (error.code, error.hint) == ("cycle", "a hint")
    assert error.diagnostics == tuple(notes)
    assert "the second" in str(error)


def test_context_grows_outwards_and_reads_from_the_outside_in() -> None:
    error = ServiceError("unreachable", "no answer", hint="wait", retriable=True)
    error.with_context("batch 3 was not written to sink `kept`", node="kept").with_context(
        "query `orders` stopped", node="orders"
    )
    assert str(error).splitlines() == [
        "query `orders` stopped",
        "Caused by:",
        "    batch 3 was not written to sink `kept`",
        "    unreachable  no answer",
        "        hint: wait",
    ]
    document = error.to_json()
    assert document["context"] == ["query `orders` stopped", "batch 3 was not written to sink `kept`"]
    assert document["chain"] == ["query `orders` stopped", "batch 3 was not written to sink `kept`", "no answer"]
    assert (document["node"], document["retriable"], document["internal"]) == ("kept", True, False)


def test_an_error_without_context_is_one_line_and_its_hint() -> None:
    assert str(ServiceError("unreachable", "no answer", hint="wait")) == "unreachable  no answer\n    hint: wait"


def test_a_fault_says_which_node_what_and_the_two_flags() -> None:
    error = QueryFailed("query-failed", "KeyError: 'x'", internal=True).with_context("sink `kept` failed", node="kept")
    assert error.fault.to_json() == {
        "node": "kept",
        "code": "query-failed",
        "hint": None,
        "message": "sink `kept` failed: KeyError: 'x'",
        "internal": True,
        "retriable": False,
    }


def test_only_errors_count_as_errors() -> None:
    info = Diagnostic("gateway-absent", "text", severity=Severity.INFO)
    assert not has_errors([info])
    assert has_errors([info, Diagnostic("cycle", "text")])


@pytest.mark.parametrize(
    ("word", "expected"),
    [("oders", "orders"), ("ORDERS", "orders"), ("customer", "Customers"), ("xyz", None), ("", None)],
)
def test_the_nearest_name_is_found_whatever_its_case(word: str, expected: str | None) -> None:
    assert nearest(word, ["orders", "Customers", "visits"]) == expected


def test_a_hint_names_the_nearest_or_lists_what_there_is() -> None:
    assert did_you_mean("oders", ["orders"]) == "did you mean `orders`?"
    assert did_you_mean("xyz", ["b", "a", "b"]) == "available: a, b"
    assert did_you_mean("xyz", [], otherwise="columns") is None
    long = did_you_mean("xyz", [f"name{n}" for n in range(20)])
    assert long is not None
    assert long.endswith(", …")


def test_an_error_of_a_service_survives_a_way_on_which_only_texts_travel() -> None:
    error = ServiceError("unreachable", 'nobody "there"', hint="see\nthere", retriable=True)
    found = ServiceError.received(f"[PYTHON_EXCEPTION] at line 3\nRuntimeError: {error.to_text}\n SQLSTATE: 38000")
    assert found is not None
    assert found.to_json() == error.to_json()
    assert ServiceError.received("RuntimeError: nobody there") is None
