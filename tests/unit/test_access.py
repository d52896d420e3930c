"""Who may read whom: by `ref()`, by `from`, by an exposure, by a test."""

from collections.abc import Iterable

import pytest

from penstock.errors import Diagnostic, Severity
from penstock.workflow.stages import Target
from penstock.workflow.stages import check as checked_by
from tests.support import codes, only, plain, spot, write
from tests.unit.conftest import MAIN, Findings

HEAD = """\
project: {name: p}
sources: [{name: s, topic: t, columns: [{name: id, type: BIGINT}]}]
models:
"""
READERS = {
    "a model, by ref()": ("  - {{name: r, {who}sql: 'SELECT id FROM {{{{ ref(\"m\") }}}}'}}\n", "{{ ref"),
    "a model, by from": ("  - {{name: r, {who}from: [{{ref: m}}], connector: print}}\n", "{ref: m}"),
    "an exposure, by consumes": ("exposures: [{{name: r, {who}consumes: [m]}}]\n", "m]"),
    "an exposure, by depends_on": ("exposures: [{{name: r, {who}depends_on: [{{ref: m}}]}}]\n", "{ref: m}"),
    "a test": ("tests: [{{name: r, {who}model: m, type: sample}}]\n", "m, type"),
}


def model(access: str, more: str = "group: g1, ") -> str:
    return f"{HEAD}  - {{name: m, access: {access}, {more}sql: 'SELECT id FROM {{{{ source(\"s\") }}}}'}}\n"


def reader(kind: str, who: str) -> str:
    return READERS[kind][0].format(who=who)


def denials(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [d for d in found if d.code == "access-denied"]


CLOSED = [
    "private",
    "protected",
    "{level: protected, allowed_groups: [g9]}",
    "{level: protected}",
    "{allowed_groups: [g9]}",
]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("access", CLOSED)
def test_another_group_may_not_read_what_is_closed(project: Findings, kind: str, access: str) -> None:
    text = model(access) + reader(kind, "group: g2, ")
    found = only(denials(project(text)))
    assert (found.severity, found.params) == (Severity.ERROR, {"model": "m", "reader": "r"})
    assert found.origin == spot(MAIN, text, READERS[kind][1])
    assert found.hint is not None
    assert "access: public" in found.hint
    assert "group: g1" in found.hint
    assert "allowed_groups" in found.hint


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("who", ["group: g1, ", "owner: g1, "])
def test_its_own_group_may_always_read_it(project: Findings, kind: str, who: str) -> None:
    for access in [*CLOSED, "public"]:
        assert denials(project(model(access) + reader(kind, who))) == []


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("who", ["", "group: g2, "])
def test_anybody_may_read_what_is_public_or_says_nothing(project: Findings, kind: str, who: str) -> None:
    assert denials(project(model("public") + reader(kind, who))) == []
    assert denials(project(model("public").replace("access: public, ", "") + reader(kind, who))) == []


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("who", ["group: g2, ", "owner: g2, ", "group: g5, owner: g2, "])
def test_an_allowed_group_may_read_what_is_protected(project: Findings, kind: str, who: str) -> None:
    text = model("{level: protected, allowed_groups: [g2, g3]}") + reader(kind, who)
    assert denials(project(text)) == []


@pytest.mark.parametrize("kind", [kind for kind in READERS if not kind.startswith("a test")])
def test_a_reader_of_no_group_is_no_member(project: Findings, kind: str) -> None:
    for access in CLOSED:
        assert len(denials(project(model(access) + reader(kind, "")))) == 1


def test_a_test_of_nobody_in_particular_is_the_models_own(project: Findings) -> None:
    assert denials(project(model("private") + reader("a test", ""))) == []


def test_what_is_private_and_of_no_group_is_for_the_project_but_not_for_exposures(project: Findings) -> None:
    own = model("private", "")
    assert denials(project(own + reader("a model, by ref()", ""))) == []
    assert denials(project(own + reader("a model, by from", ""))) == []
    assert len(denials(project(own + reader("an exposure, by consumes", "")))) == 1


def test_what_an_exposure_writes_is_not_read_by_it(project: Findings) -> None:
    assert denials(project(model("private") + "exposures: [{name: r, produces: [m]}]\n")) == []


def test_every_reader_is_judged_on_its_own(project: Findings) -> None:
    text = model("private") + reader("a model, by ref()", "group: g2, ")
    text += "  - {name: q, group: g1, sql: 'SELECT id FROM {{ ref(\"m\") }}'}\n"
    text += '  - {name: z, group: g3, sql: \'SELECT id FROM {{ ref("m") }} UNION ALL SELECT id FROM {{ ref("m") }}\'}\n'
    assert [d.params["reader"] for d in denials(project(text))] == ["r", "z"]


def test_a_place_is_that_of_the_call_and_not_of_another_word(project: Findings) -> None:
    text = model("private").replace("name: m,", "name: id,") + (
        "  - name: r\n    group: g2\n    sql: |\n      SELECT id\n      FROM {{ ref('id') }}\n"
    )
    assert only(denials(project(text))).origin == spot(MAIN, text, "{{ ref")


def test_a_reader_of_a_reader_is_not_judged(project: Findings) -> None:
    text = model("private") + "  - {name: open, group: g1, sql: 'SELECT id FROM {{ ref(\"m\") }}'}\n"
    assert denials(project(text + "  - {name: r, group: g2, sql: 'SELECT id FROM {{ ref(\"open\") }}'}\n")) == []


@pytest.mark.parametrize(
    "assertion",
    [
        "{foreign_key: {column: id, ref_model: m, ref_key: id}}",
        "{custom_sql: {sql: 'SELECT id FROM {{ ref(\"m\") }}', expect: 0}}",
    ],
)
def test_a_test_may_not_read_by_its_assertions_what_it_may_not_read_itself(project: Findings, assertion: str) -> None:
    text = model("private") + "  - {name: r, group: g2, sql: 'SELECT id FROM {{ source(\"s\") }}'}\n"
    text += f"tests: [{{name: t, group: g2, model: r, type: sample, assertions: [{assertion}]}}]\n"
    assert len(denials(project(text))) == 1


def test_an_unknown_level_is_refused_with_the_nearest(project: Findings) -> None:
    found = only(project(model("privat")))
    assert (found.code, found.hint) == ("unknown-value", "did you mean `private`?")


def test_looking_at_a_project_is_possible_although_somebody_reads_what_is_closed(tmp_path: object) -> None:
    from pathlib import Path

    root = Path(str(tmp_path))
    write(root, {MAIN: plain(model("private") + reader("a model, by ref()", "group: g2, "))})
    notes = checked_by(Target(root), governed=False).notes
    assert codes(notes) == ["access-denied"]
    assert notes[0].severity is Severity.WARNING
