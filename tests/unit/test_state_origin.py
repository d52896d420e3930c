"""What the state of a checkpoint was begun with."""

from pathlib import Path

from penstock.plan.deployed.state_origin import StateOrigin, read_origin, write_origin
from penstock.runtime.checkpoint.layout import state_partitions
from penstock.runtime.checkpoint.state_schema import relax_nullability


def begun(checkpoint: Path, directories: int, *, committed: bool) -> Path:
    """A checkpoint whose first batch has written the state of some partitions."""
    for log in ("offsets", *(["commits"] if committed else [])):
        (checkpoint / log).mkdir(parents=True)
        (checkpoint / log / "0").touch()
    for number in range(directories):
        (checkpoint / "state" / "0" / str(number)).mkdir(parents=True)
    return checkpoint


def test_a_batch_that_died_does_not_change_the_number_of_state_partitions(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path, 3, committed=False)
    write_origin(checkpoint, StateOrigin(8))
    assert state_partitions(checkpoint) == 8


def test_directories_are_counted_only_after_a_commit_where_nothing_is_written_down(tmp_path: Path) -> None:
    assert state_partitions(begun(tmp_path / "died", 3, committed=False)) is None
    assert state_partitions(begun(tmp_path / "done", 3, committed=True)) == 3
    assert state_partitions(tmp_path / "none") is None
    planned = begun(tmp_path / "planned", 3, committed=False)
    metadata = planned / "state" / "0" / "_metadata"
    metadata.mkdir()
    (metadata / "metadata").write_text('v1\n{"stateStoreInfo": [{"numPartitions": 8}]}')
    assert state_partitions(planned) == 8


def test_a_number_of_a_start_that_came_to_nothing_does_not_count(tmp_path: Path) -> None:
    write_origin(tmp_path, StateOrigin(8))
    assert state_partitions(tmp_path) is None


def test_what_cannot_be_read_is_as_if_nothing_was_written_down(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"partitions": null}'):
        (tmp_path / "state-origin.json").write_text(text)
        assert read_origin(tmp_path) is None


def test_columns_that_spark_may_refuse_count_once_a_batch_is_committed_with_them(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path, 3, committed=True)
    old, new = (StateOrigin(3, {"model.p": {"v": type_}}) for type_ in ("BIGINT", "DECIMAL(10, 2)"))
    write_origin(checkpoint, old)
    write_origin(checkpoint, new, before=old)
    assert read_origin(checkpoint) == old
    (checkpoint / "commits" / "1").touch()
    assert read_origin(checkpoint) == new


def test_schemas_of_state_are_relaxed_without_changing_their_length(tmp_path: Path) -> None:
    schema = b'\x00\x02v2\x00\x00{"name":"ts","nullable":false,"metadata":{}},{"containsNull":false,"nullable":true}'
    files = [tmp_path / "state" / "0" / "0" / "_metadata", tmp_path / "state" / "1" / "0" / "left" / "_metadata"]
    for folder in files:
        folder.mkdir(parents=True)
        (folder / "schema").write_bytes(schema)
        (folder / ".schema.crc").touch()
    relax_nullability(tmp_path)
    for folder in files:
        relaxed = (folder / "schema").read_bytes()
        assert len(relaxed) == len(schema)
        assert b"false" not in relaxed
        assert [path.name for path in folder.iterdir()] == ["schema"]
