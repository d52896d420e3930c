"""Models that get another name, and keep their state."""

from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from penstock.clients.dead_letters.model import FIELDS
from penstock.plan.changes.renames import record_rename
from penstock.plan.deployed.state import record_query, record_replay_progress
from penstock.plan.explain import explain
from penstock.plan.leftovers import find_leftovers
from penstock.plan.steps import CarryQuery, Plan
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import CheckedProject, check, compile_project, plan_project
from tests.support import write

PROJECT = """
    project: {name: p}
    sources:
      - {name: o, topic: o.v1, columns: [{name: id, type: BIGINT}, {name: v, type: BIGINT}]}
    models:
      - {name: big, sql: "SELECT id, v FROM {{ source('o') }} WHERE v > 1", advanced: {topic: big}}
      - name: totals
        key: id
        sql: SELECT id, SUM(v) AS v FROM {{ ref('big') }} GROUP BY id
        advanced: {topic: totals}
      - {name: shown, sql: "SELECT t.id FROM {{ ref('totals') }} AS t"}
    """


def run_before(root: Path) -> None:
    """A project that ran, as it lies on disk."""
    write(root, {"stream_project.yml": PROJECT})
    checked = check(root)
    manifest = compile_project(checked)
    for query in manifest.queries:
        record_query(checked.store, checked.place, manifest.revision, query)
        begun = {"metadata": '{"id":"a"}', "offsets/0": "v1\n{}\n", "commits/0": "v1\n{}"}
        write(checked.place.checkpoint(query.name), begun)
        write(root, {f".penstock/topics/{query.name}/a-000000000000-00000000/_batch.json": "{}"})


def renamed(root: Path, old: str, new: str, text: str = PROJECT) -> CheckedProject:
    for word in (f"name: {old}", f"ref('{old}')"):
        text = text.replace(word, word.replace(old, new))
    write(root, {"stream_project.yml": text})
    return check(root)


def actions(plan: Plan) -> list[str]:
    return [f"{line.sign} {line.action} {line.subject} {line.name}" for line in map(explain, plan.steps)]


def test_a_model_and_its_reader_are_renamed_together(tmp_path: Path) -> None:
    run_before(tmp_path)
    text = PROJECT.replace("name: big", "name: large").replace("ref('big')", "ref('large')")
    checked = renamed(tmp_path, "totals", "sums", text)
    offered = plan_project(checked, compile_project(checked))
    assert [offer.params for offer in offered.offers] == [
        {"old": "big", "new": "large"},
        {"old": "totals", "new": "sums"},
    ]
    both = "add `--carry big=large --carry totals=sums` to resume from its checkpoint"
    assert {r.params["name"]: (r.hint or "").startswith(both) for r in offered.refusals}["sums"]

    alone = replace(checked, carries=(("totals", "sums"),))
    (refusal,) = [r for r in plan_project(alone, compile_project(alone)).refusals if r.code == "carry-refused"]
    assert refusal.hint == "add `--carry big=large --carry totals=sums`"

    carrying = replace(checked, carries=(("big", "large"), ("totals", "sums")))
    plan = plan_project(carrying, compile_project(carrying))
    assert plan.refusals == ()
    carried = ["~ carry query large", "~ carry query sums"]
    assert sorted(actions(plan)) == sorted([*carried, *(f"= resume query {n}" for n in ("large", "sums", "shown"))])
    for step in plan.steps:
        if isinstance(step, CarryQuery):
            record_rename(checked.store, carrying.place, step.rename)
    again = check(tmp_path)
    assert {line for line in actions(plan_project(again, compile_project(again))) if "resume" not in line} == set()


@pytest.mark.parametrize(("old", "new"), [("big", "large"), ("totals", "sums")])
def test_a_renamed_model_is_recognised_and_goes_on(tmp_path: Path, old: str, new: str) -> None:
    run_before(tmp_path)
    before = check(tmp_path).place.checkpoint(old)
    checked = renamed(tmp_path, old, new)
    offered = plan_project(checked, compile_project(checked))
    assert [(offer.code, offer.params) for offer in offered.offers] == [("model-renamed", {"old": old, "new": new})]
    assert f"! rebuild query {new}" in actions(offered)
    hints = {refusal.params["name"]: refusal.hint or "" for refusal in offered.refusals}
    assert hints[new].startswith(
        f"add `--carry {old}={new}` to resume from its checkpoint; or add `--allow-rebuild {new}`"
    )
    assert all(hint.startswith(f"add `--carry {old}={new}`") for hint in hints.values())

    carrying = replace(checked, carries=((old, new),))
    plan = plan_project(carrying, compile_project(carrying))
    assert plan.refusals == ()
    others = [name for name in ("big", "totals", "shown") if name != old]
    assert sorted(actions(plan)) == sorted([f"~ carry query {new}", *(f"= resume query {n}" for n in (new, *others))])
    assert carrying.place.checkpoint(new) == before
    for step in plan.steps:
        if isinstance(step, CarryQuery):
            record_rename(checked.store, carrying.place, step.rename)
    again = check(tmp_path)
    assert again.place.checkpoint(new) == before
    assert {line for line in actions(plan_project(again, compile_project(again))) if "resume" not in line} == set()

    back = renamed(tmp_path, old, old)
    assert [offer.params for offer in plan_project(back, compile_project(back)).offers] == [{"old": new, "new": old}]
    carrying = replace(back, carries=((new, old),))
    assert plan_project(carrying, compile_project(carrying)).refusals == ()
    assert carrying.place.checkpoint(old) == before


def test_another_model_of_the_old_name_has_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    run_before(tmp_path)
    carrying = replace(renamed(tmp_path, "shown", "seen"), carries=(("shown", "seen"),))
    assert carrying.place.checkpoint("shown") != carrying.place.checkpoint("seen")


def test_a_topic_that_is_called_like_its_model_must_keep_its_name(tmp_path: Path) -> None:
    run_before(tmp_path)
    checked = renamed(tmp_path, "shown", "seen")
    (offer,) = plan_project(checked, compile_project(checked)).offers
    assert "advanced: {topic: shown}" in str(offer.hint)
    plan = plan_project(replace(checked, carries=(("shown", "seen"),)), compile_project(checked))
    assert [refusal.code for refusal in plan.refusals] == ["carry-refused"]


def test_other_sql_is_no_rename(tmp_path: Path) -> None:
    run_before(tmp_path)
    checked = renamed(tmp_path, "big", "large", PROJECT.replace("v > 1", "v > 2"))
    plan = plan_project(replace(checked, carries=(("big", "large"),)), compile_project(checked))
    assert plan.offers == ()
    assert "carry-refused" in [refusal.code for refusal in plan.refusals]


def test_an_unfinished_batch_ends_under_its_old_name(tmp_path: Path) -> None:
    run_before(tmp_path)
    (check(tmp_path).place.checkpoint("big") / "commits/0").unlink()
    checked = renamed(tmp_path, "big", "large")
    plan = plan_project(replace(checked, carries=(("big", "large"),)), compile_project(checked))
    (refusal,) = [refusal for refusal in plan.refusals if refusal.code == "carry-refused"]
    assert refusal.message == "the last batch of `big` is unfinished"


def keep(root: Path, topic: str, node: str, *codes: str) -> None:
    """Dead letters of a node, as a batch leaves them."""
    rows = [{**dict.fromkeys(FIELDS), "node": node, "code": code, "owner": None} for code in codes]
    columns = {name: pyarrow.array([row[name] for row in rows], pyarrow.string()) for name in rows[0]}
    folder = root / ".penstock" / "topics" / topic / "a-0"
    write(folder, {"_batch.json": '{"checkpoint_id": "a"}'})
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "1.parquet")


def waiting(root: Path, node: str | None = None) -> list[tuple[str, str, str]]:
    return [
        (dead_letter.kept_in, dead_letter.node, dead_letter.code)
        for dead_letter in pending_dead_letters(check(root), node)
    ]


def rename(root: Path, old: str, new: str) -> None:
    checked = replace(renamed(root, "big", new), carries=((old, new),))
    (step,) = [s for s in plan_project(checked, compile_project(checked)).steps if isinstance(s, CarryQuery)]
    record_rename(checked.store, checked.place, step.rename)


def test_dead_letters_are_found_under_the_new_names_of_their_model(tmp_path: Path) -> None:
    run_before(tmp_path)
    keep(tmp_path, "big.errors", "model.big", "row-failed", "rule-failed")
    keep(tmp_path, "o.errors", "model.big", "not-json", "not-text")
    checked = check(tmp_path)
    record_replay_progress(
        checked.marks, checked.place, [x for x in pending_dead_letters(checked, None) if x.code == "not-json"]
    )
    rename(tmp_path, "big", "large")
    keep(tmp_path, "large.errors", "model.large", "row-failed")
    rename(tmp_path, "large", "huge")
    kept = [("big.errors", "model.huge", "row-failed"), ("big.errors", "model.huge", "rule-failed")]
    unread = ("o.errors", "model.huge", "not-text")
    assert waiting(tmp_path, "huge") == [*kept, ("large.errors", "model.huge", "row-failed"), unread]
    assert waiting(tmp_path, "o") == [unread]

    checked = check(tmp_path)
    names = {
        leftover.name
        for leftover in find_leftovers(compile_project(checked), checked.place, checked.store, checked.clusters)
    }
    assert not {name for name in names if name.endswith(".errors")}
    record_replay_progress(checked.marks, checked.place, pending_dead_letters(checked, "o"))
    assert waiting(tmp_path, "o") == []
    rename(tmp_path, "huge", "big")
    assert [code for *_, code in waiting(tmp_path)] == ["row-failed", "rule-failed", "row-failed"]
