"""Checkpoints with damaged files: what is said of each, and what a repair makes of it."""

import json
from pathlib import Path

import pytest

from penstock.errors import QueryFailed
from penstock.plan.deployed.checkpoint_damage import DAMAGES, find_damage
from penstock.plan.deployed.state import batch_outputs, read_deployed_state, record_query
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.runtime.checkpoint.layout import batch_offsets, checkpoint_id, set_aside
from penstock.runtime.checkpoint.repair import repair
from penstock.workflow.stages import check, compile_project
from tests.support import write

ID = "137139da-bd9a-4b59-9e56-42709e9042a8"
HEADER = '{"batchWatermarkMs":7,"batchTimestampMs":1794963145096,"conf":{"a":"b"}}'


def offsets(number: int) -> str:
    return f'v2\n{HEADER}\nsource_s_json:{{"logOffset":{number}}}'


class Subject:
    """A checkpoint after two batches, and the topic that it writes."""

    def __init__(self, root: Path, *, committed: int = 1, with_ledger: bool = True) -> None:
        self.checkpoint, self.topic = root / "checkpoints" / "m", root / "topics" / "m"
        files = {"metadata": json.dumps({"id": ID})}
        for number in (0, 1):
            entry = {"path": f"file:///{number}.json", "timestamp": 1, "batchId": number}
            files |= {
                f"offsets/{number}": offsets(number),
                f"sources/source_s_json/{number}": f"v1\n{json.dumps(entry)}",
            }
            files |= {f"commits/{number}": 'v1\n{"nextBatchWatermarkMs":9}'} if number <= committed else {}
        write(self.checkpoint, files)
        for number in (0, 1) if with_ledger else ():
            noted = list(batch_offsets(self.checkpoint, number))
            note = {"query": "m", "output": "model.m", "checkpoint_id": ID, "batch_id": number, "offsets": noted}
            write(self.topic, {f"{ID}-{number:012d}-00000000/_batch.json": json.dumps(note)})

    @property
    def code(self) -> str | None:
        found = find_damage(self.checkpoint, (self.topic,))
        return None if found is None else found.code

    def damage(self, file: str, content: bytes | None) -> None:
        path = self.checkpoint / file
        path.unlink() if content is None else path.write_bytes(content)
        write(path.parent, {f".{path.name}.crc": "old"})

    def repair(self) -> list[str]:
        return [damage.code for damage in repair(self.checkpoint, "m", (self.topic,))]


NOISE = bytes(range(128, 256))
DAMAGED, MISSING = "checkpoint-offsets-damaged", "checkpoint-offsets-missing"


@pytest.mark.parametrize("content", [b"", NOISE, b"{", None])
def test_a_lost_id_is_found_in_the_ledger_of_the_output(tmp_path: Path, content: bytes | None) -> None:
    subject = Subject(tmp_path)
    assert subject.code is None
    subject.damage("metadata", content)
    assert subject.code == "checkpoint-metadata-damaged"
    assert subject.repair() == ["checkpoint-metadata-damaged"]
    assert checkpoint_id(subject.checkpoint) == ID
    assert subject.code is None
    assert not (subject.checkpoint / ".metadata.crc").exists()


def test_an_id_that_was_set_aside_is_not_taken(tmp_path: Path) -> None:
    subject = Subject(tmp_path)
    subject.damage("metadata", b"")
    write(subject.checkpoint.with_name(f"m@{ID[:8]}"), {"metadata": json.dumps({"id": ID})})
    assert subject.repair() == ["checkpoint-metadata-damaged"]
    assert checkpoint_id(subject.checkpoint) != ID


@pytest.mark.parametrize(("content", "code"), [(NOISE, DAMAGED), (b"", DAMAGED), (b"v2\n{", DAMAGED), (None, MISSING)])
def test_offsets_of_a_committed_batch_are_written_again_from_the_ledger(
    tmp_path: Path, content: bytes | None, code: str
) -> None:
    subject = Subject(tmp_path)
    subject.damage("offsets/1", content)
    assert subject.repair() == [code]
    assert (subject.checkpoint / "offsets/1").read_text().splitlines()[2:] == offsets(1).splitlines()[2:]
    assert subject.code is None


def test_how_state_is_kept_is_not_guessed(tmp_path: Path) -> None:
    subject = Subject(tmp_path)
    write(subject.checkpoint, {"state/0/0/1.delta": ""})
    for number in (0, 1):
        subject.damage(f"offsets/{number}", NOISE)
    found = find_damage(subject.checkpoint, (subject.topic,))
    assert found is not None
    assert found.repair is None


def test_offsets_of_a_committed_batch_that_nobody_noted_are_gone(tmp_path: Path) -> None:
    subject = Subject(tmp_path, with_ledger=False)
    subject.damage("offsets/1", NOISE)
    found = find_damage(subject.checkpoint)
    assert found is not None
    assert (found.repair, found.lost) == (None, "how far its inputs were read is lost")
    assert found.failure("m").hint == "`--allow-rebuild m` starts over"
    assert subject.repair() == ["checkpoint-offsets-damaged"]
    assert (subject.checkpoint / "offsets/1").read_bytes() == NOISE


def test_a_batch_that_was_only_planned_is_planned_anew(tmp_path: Path) -> None:
    subject = Subject(tmp_path, committed=0, with_ledger=False)
    subject.damage("offsets/1", NOISE)
    assert subject.repair() == ["checkpoint-offsets-damaged"]
    assert not (subject.checkpoint / "offsets/1").exists()
    assert (subject.checkpoint / "offsets/.1.damaged").read_bytes() == NOISE
    assert subject.code is None


@pytest.mark.parametrize("content", [NOISE, None])
def test_older_offsets_matter_only_as_far_as_spark_reads_them(tmp_path: Path, content: bytes | None) -> None:
    subject = Subject(tmp_path, with_ledger=False)
    subject.damage("offsets/0", content)
    assert subject.repair() == [MISSING if content is None else DAMAGED]
    assert (subject.checkpoint / "offsets/0").read_text() == offsets(1)


@pytest.mark.parametrize("content", [NOISE, b"", b"v1\n"])
def test_a_commit_is_written_again_with_a_watermark_that_is_not_too_far(tmp_path: Path, content: bytes) -> None:
    subject = Subject(tmp_path)
    subject.damage("commits/1", content)
    assert subject.repair() == ["checkpoint-commits-damaged"]
    assert (subject.checkpoint / "commits/1").read_text() == 'v1\n{"nextBatchWatermarkMs": 7}'


@pytest.mark.parametrize("content", [NOISE, b"", b"v1\n{"])
def test_nobody_guesses_which_files_were_read(tmp_path: Path, content: bytes) -> None:
    subject = Subject(tmp_path)
    subject.damage("sources/source_s_json/1", content)
    found = find_damage(subject.checkpoint)
    assert found is not None
    assert (found.code, found.repair) == ("checkpoint-sources-damaged", None)


def test_other_logs_of_readers_are_left_to_them(tmp_path: Path) -> None:
    subject = Subject(tmp_path)
    write(subject.checkpoint, {"sources/kafka/0": b'\0v1\n{"t":{"0":1}}', "sources/plugin/0": "its own words"})
    assert subject.code is None


@pytest.mark.parametrize(
    ("note", "can_be_repaired"),
    [
        ("topics.json", True),
        ("looked-through.json", True),
        ("kept/source_s/schemas.json", True),
        ("phases.json", False),
        ("kept/source_s/begin.json", False),
    ],
)
def test_notes_of_ours_are_begun_anew_where_that_loses_nothing(
    tmp_path: Path, note: str, can_be_repaired: bool
) -> None:
    subject = Subject(tmp_path)
    write(subject.checkpoint, {note: "{}", "operators.json": "", "kept/source_s/other.json": ""})
    assert subject.code is None
    (subject.checkpoint / note).write_bytes(b"")
    assert subject.repair() == ["checkpoint-note-damaged"]
    assert (subject.checkpoint / note).exists() != can_be_repaired
    assert (subject.code is None) == can_be_repaired


def test_the_ledger_of_an_unfinished_batch_is_written_again(tmp_path: Path) -> None:
    subject = Subject(tmp_path, committed=0)
    note = subject.topic / f"{ID}-000000000001-00000000" / "_batch.json"
    before = json.loads(note.read_text())
    note.write_text("")
    assert subject.repair() == ["batch-note-damaged"]
    assert json.loads(note.read_text()) == before
    finished = Subject(tmp_path / "other")
    (finished.topic / note.relative_to(subject.topic)).write_text("")
    assert finished.code is None


def test_a_damaged_checkpoint_can_be_set_aside(tmp_path: Path) -> None:
    subject = Subject(tmp_path)
    subject.damage("metadata", b"")
    set_aside(subject.checkpoint)
    assert subject.checkpoint.with_name("m@damaged").is_dir()


def test_a_plan_holds_what_is_damaged_and_nothing_else(tmp_path: Path) -> None:
    project = """
        project: {name: p}
        sources: [{name: s, topic: s.v1, columns: [{name: id, type: BIGINT}]}]
        models:
          - {name: m, sql: "SELECT id FROM {{ source('s') }}"}
          - {name: n, sql: "SELECT id FROM {{ source('s') }}"}
        """
    write(tmp_path, {"stream_project.yml": project})
    checked = check(tmp_path)
    manifest, place = compile_project(checked), checked.place
    for query in manifest.queries:
        record_query(checked.store, place, manifest.revision, query)
        write(place.checkpoint(query.name), {"metadata": '{"id":"a"}', "offsets/0": offsets(0), "commits/0": "v1\n{}"})
    (place.checkpoint("m") / "offsets/0").write_bytes(NOISE)
    plan = diff(manifest, read_deployed_state(checked.store, place))
    lines = [line for line in map(explain, plan.steps) if line.subject == "query"]
    assert [(line.action, line.name) for line in lines] == [("hold", "m"), ("resume", "n")]
    assert "offsets/0 is unreadable" in lines[0].reason
    allowed = diff(manifest, read_deployed_state(checked.store, place), allow_rebuild=["m"])
    assert [line.action for line in map(explain, allowed.steps) if line.subject == "query"] == ["rebuild", "resume"]
    assert batch_outputs(manifest.queries[0], place) == (place.topics / "m",)


def test_every_kind_of_damage_has_a_code_that_is_explained() -> None:
    for code in DAMAGES:
        assert QueryFailed(code, "").code == code
