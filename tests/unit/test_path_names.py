"""Names as directories."""

from pathlib import Path

from penstock.clients.files.path_names import LONGEST, directory_name, short_directory_name
from penstock.plan.deployed.place import ProjectPlace


def test_a_name_that_is_too_long_for_a_directory_ends_in_a_digest() -> None:
    assert short_directory_name("pipeline.orders@app") == directory_name("pipeline.orders@app")
    assert short_directory_name("a" * LONGEST) == "a" * LONGEST
    one, other = short_directory_name("a" * 5000), short_directory_name("a" * 5001)
    assert len(one) == len(other) == LONGEST
    assert one != other


def test_state_of_long_names_is_kept_in_directories_that_can_be_made(tmp_path: Path) -> None:
    place = ProjectPlace(tmp_path, "project." + "a" * 5000, "e" * 5000, "x" * 5000)
    for folder in (place.checkpoint("q" * 5000), place.heartbeat_directory("ä" * 300)):
        folder.mkdir(parents=True)
        assert folder.is_dir()
