"""How far a query is, by what its checkpoint says."""

import json
from pathlib import Path

import pytest

from penstock.batch import PartRead
from penstock.runtime.run.completion import CompletionTracker, _TaskProgress, part_size


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (PartRead(before='{"t": {"0": 10, "1": 5}}', after='{"t": {"0": 110, "1": 25}}'), 120),
        (PartRead(before='{"key": "-5"}', after='{"key": "1000000000000000000005"}'), 1_000_000_000_000_000_000_010),
        (PartRead(before='{"rows": 10, "at_ms": 1}', after='{"rows": 30, "at_ms": 99999}'), 20),
        (PartRead(before=None, after='{"t": {"0": 7}}'), 7),
        (PartRead(before="odd", after=None), 0),
    ],
)
def test_a_part_is_as_large_as_its_positions_lie_apart(part: PartRead, expected: int) -> None:
    assert part_size(part) == expected


def test_a_part_of_files_is_as_large_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "a b.json"
    file.write_text("x" * 42)
    assert part_size(PartRead(files=(file.as_uri(), (tmp_path / "gone").as_uri()))) == 42


def batch(checkpoint: Path, number: int, end: int, *, committed: bool) -> None:
    for log in ("offsets", "commits", "sources/s"):
        (checkpoint / log).mkdir(parents=True, exist_ok=True)
    (checkpoint / "sources" / "s" / "0").write_text('v1\n{"t": {"0": 0}}')
    (checkpoint / "offsets" / str(number)).write_text("v2\n{}\ns:" + json.dumps({"t": {"0": end}}))
    if committed:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")


def test_the_part_grows_with_what_tasks_have_read_and_never_shrinks(tmp_path: Path) -> None:
    batch(tmp_path, 0, 1000, committed=True)
    extent = CompletionTracker(tmp_path)
    batch(tmp_path, 1, 3000, committed=False)
    seen = [
        extent._estimate_batch(1, 0, work)
        for work in (
            _TaskProgress(),
            _TaskProgress(0.25, 0),
            _TaskProgress(0.25, 1500),
            _TaskProgress(),
            _TaskProgress(1.0, 2000),
        )
    ]
    assert [found.part for found in seen if found] == [0, 0.25, 0.75, 0.75, 1]
    assert [found.rows for found in seen if found] == [0, 0, 1500, 0, 2000]
    assert seen[0] is not None
    assert seen[0].left_secs is None
    assert seen[2] is not None
    assert seen[2].left_secs is not None
    batch(tmp_path, 1, 3000, committed=True)
    last = extent._estimate_batch(1, 1, _TaskProgress())
    assert last is not None
    assert (last.part, last.rows) == (1, 0)


def test_a_source_may_know_of_more_than_is_planned(tmp_path: Path) -> None:
    extent = CompletionTracker(tmp_path, total=4000)
    batch(tmp_path, 0, 1000, committed=True)
    found = extent._estimate_batch(0, 0, _TaskProgress())
    assert found is not None
    assert found.part == 0.25
