import resource
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ServiceError
from penstock.manifest.model import Input, QuerySpec
from penstock.plan.deployed.offsets import OffsetStore, readers
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import NOTHING, Checkpoint, forget_query, read_deployed_state, record_query
from penstock.plan.deployed.stores import MemoryStore, SqliteStore, state_store
from penstock.settings import StateBackend

QUERY = QuerySpec(name="orders", inputs=(), steps=(), outputs=(), stateful=True)


@pytest.fixture
def place(tmp_path: Path) -> ProjectPlace:
    return ProjectPlace(tmp_path, "shop")


@pytest.fixture
def store(place: ProjectPlace) -> SqliteStore:
    return SqliteStore(place.state_file)


def test_reading_makes_nothing(store: SqliteStore, place: ProjectPlace, tmp_path: Path) -> None:
    assert store.get("shop/default", "") == {}
    assert read_deployed_state(store, place) == NOTHING
    assert list(tmp_path.iterdir()) == []


def test_documents_come_back_by_namespace_and_prefix(store: SqliteStore) -> None:
    store.put("one", {"query:a": {"x": [1, None, "ü"]}, "query:b": 2, "queries": 3, "run": 4})
    store.put("other", {"query:a": 5})
    assert store.get("one", "query:") == {"query:a": {"x": [1, None, "ü"]}, "query:b": 2}
    assert store.get("other", "") == {"query:a": 5}


@pytest.mark.parametrize("prefix", ["%", "_", "query%"])
def test_a_prefix_is_plain_text(store: SqliteStore, prefix: str) -> None:
    store.put("one", {"query:a": 1})
    assert store.get("one", prefix) == {}


def test_writing_again_replaces(store: SqliteStore) -> None:
    store.put("one", {"a": 1})
    store.put("one", {"a": 2})
    assert store.get("one", "") == {"a": 2}


def test_documents_are_written_together_or_not_at_all(store: SqliteStore) -> None:
    store.put("one", {"a": 1})
    with pytest.raises(TypeError):
        store.put("one", {"a": 2, "b": object()})
    assert store.get("one", "") == {"a": 1}


def test_removing_what_is_not_there_is_fine(store: SqliteStore) -> None:
    store.put("one", {"a": 1, "b": 2})
    store.remove("one", ["a", "c"])
    assert store.get("one", "") == {"b": 2}


def test_the_table_is_the_documented_one(store: SqliteStore, place: ProjectPlace) -> None:
    store.put("one", {"a": {"b": 1}})
    connection = sqlite3.connect(place.state_file)
    try:
        row = connection.execute("SELECT namespace, key, data, created_at FROM state").fetchone()
    finally:
        connection.close()
    assert row[:3] == ("one", "a", '{"b": 1}')
    assert row[3] is not None


def test_a_file_that_is_no_database_is_an_error_with_its_name(store: SqliteStore, place: ProjectPlace) -> None:
    place.state_file.parent.mkdir()
    place.state_file.write_text("this is not a database, and long enough to be taken for one" * 20)
    with pytest.raises(ServiceError) as caught:
        store.get("one", "")
    assert caught.value.code == "state-unreadable"
    assert "state.db" in caught.value.message


def test_a_path_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServiceError) as caught:
        SqliteStore(tmp_path / "file" / "state.db").put("one", {"a": 1})
    assert caught.value.code == "not-writable"


def test_a_state_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    with pytest.raises(ServiceError) as caught:
        SqliteStore(tmp_path / "state.db").put("one", {"a": 1})
    assert caught.value.code == "not-writable"


def test_a_recorded_query_is_deployed_until_it_is_forgotten(store: SqliteStore, place: ProjectPlace) -> None:
    record_query(store, place, "abc", QUERY)
    store.put(place.namespace, {"progress:orders": {"batches": 1}})
    (place.topics / "orders.v1").mkdir(parents=True)
    (place.topics / "a file").write_text("")
    checkpoint = place.checkpoint("orders")
    checkpoint.mkdir(parents=True)
    deployed = read_deployed_state(store, place)
    assert (deployed.queries, deployed.topics) == ({"orders": QUERY}, frozenset({"orders.v1"}))
    assert deployed.checkpoints == {}
    (checkpoint / "metadata").write_text("{}")
    assert read_deployed_state(store, place).checkpoints == {"orders": Checkpoint(begun=False, unfinished=False)}
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir()
        (checkpoint / log / "0").touch()
    (checkpoint / "offsets" / "1").touch()
    assert read_deployed_state(store, place).checkpoints == {"orders": Checkpoint(begun=True, unfinished=True)}
    forget_query(store, place, "orders")
    assert read_deployed_state(store, place).queries == {}
    assert list(store.get(place.namespace, "")) == ["revision", "root"]


def test_a_project_that_was_moved_says_where_it_was(store: SqliteStore, place: ProjectPlace, tmp_path: Path) -> None:
    record_query(store, place, "abc", QUERY)
    assert read_deployed_state(store, place).moved_from is None
    elsewhere = replace(place, root=tmp_path / "elsewhere")
    assert read_deployed_state(store, elsewhere).moved_from == str(place.root)


def test_a_record_of_another_shape_is_named(store: SqliteStore, place: ProjectPlace) -> None:
    store.put(place.namespace, {"query:orders": {"of": "another version"}})
    with pytest.raises(ServiceError) as caught:
        read_deployed_state(store, place)
    assert caught.value.code == "state-unreadable"


def test_projects_that_share_a_directory_stay_apart(store: SqliteStore, tmp_path: Path) -> None:
    record_query(store, ProjectPlace(tmp_path, "shop"), "abc", QUERY)
    assert read_deployed_state(store, ProjectPlace(tmp_path, "feed")) == NOTHING
    assert ProjectPlace(tmp_path, "shop").checkpoint("q") != ProjectPlace(tmp_path, "feed").checkpoint("q")


@pytest.mark.parametrize("name", ["raw.orders", "a/b", "..", "ä b", "%2F"])
def test_any_name_of_a_query_has_a_checkpoint_of_its_own_below_the_project(tmp_path: Path, name: str) -> None:
    place = ProjectPlace(tmp_path, "my project/1")
    checkpoint = place.checkpoint(name)
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text("{}")
    assert list(place.existing_checkpoints()) == [name]
    assert checkpoint.resolve().parent.name == "checkpoints"
    assert checkpoint.resolve().is_relative_to(tmp_path / ".penstock")


def test_a_store_that_does_not_last_knows_of_no_checkpoint(place: ProjectPlace) -> None:
    (place.checkpoint("orders") / "commits").mkdir(parents=True)
    (place.checkpoint("orders") / "metadata").write_text("{}")
    assert "orders" in read_deployed_state(SqliteStore(place.state_file), place).checkpoints
    assert read_deployed_state(MemoryStore(), place).checkpoints == {}


def test_documents_in_memory_come_back_by_namespace_and_prefix() -> None:
    store = MemoryStore()
    store.put("one", {"query:a": 1, "queries": 3})
    store.put("other", {"query:a": 5})
    assert store.get("one", "query:") == {"query:a": 1}
    store.remove("one", ["query:a", "nothing"])
    assert (store.get("one", ""), store.get("other", "")) == ({"queries": 3}, {"query:a": 5})


@pytest.mark.parametrize(
    ("said", "file"),
    [({}, ".penstock/state.db"), ({"sqlite": {"database_path": "./kept/s.db", "state_table_name": "t"}}, "kept/s.db")],
)
def test_a_file_is_ours_unless_settings_name_one(place: ProjectPlace, said: dict[str, Any], file: str) -> None:
    store = state_store(StateBackend.model_validate(said), place)
    store.put("one", {"a": 1})
    assert store.get("one", "") == {"a": 1}
    assert [str(path.relative_to(place.root)) for path in place.root.rglob("*.db")] == [file]


def test_offsets_are_kept_by_reader_topic_and_partition(place: ProjectPlace, store: SqliteStore) -> None:
    kafka = {"type": "kafka", "topic": "orders"}
    inputs = (Input(view="v", node="source.shop", name="n", source=kafka),)
    query = QuerySpec(name="shop", inputs=inputs, steps=(), outputs=())
    offsets = OffsetStore(store, replace(place, application="app").offsets_namespace)
    offsets.put("shop", {("orders", 0): 7, ("orders", 12): 1})
    offsets.put("other", {("orders", 0): 9})
    offsets.put("shop", {("orders", 0): 8})
    found = store.get("app", "")
    assert {key: document["offset"] for key, document in found.items()} == {
        "other:orders:0": 9,
        "shop:orders:0": 8,
        "shop:orders:12": 1,
    }
    assert list(readers(query)) == [("shop", "orders")]
    assert offsets.of("shop", "orders") == {0: 8, 12: 1}
    assert offsets.known_readers() == {("shop", "orders"), ("other", "orders")}
    store.put("app", {"clickhouse_source:archive": {}, "shop": {}})  # of others who share the namespace
    offsets.put_phases("shop", ["a", "b"])
    offsets.put_phases("a_v1", [])
    offsets.put_id("shop", "orders", "Xy")
    offsets.put_id("shop", "more", None)
    assert (offsets.id_of("shop", "orders"), offsets.id_of("shop", "more")) == ("Xy", None)
    assert offsets.known_readers() == {("shop", "orders"), ("other", "orders")}
    assert offsets.phases() == {"shop": {"a", "b"}, "a_v1": frozenset()}
    offsets.forget("shop")
    assert offsets.id_of("shop", "orders") is None
    left = ["clickhouse_source:archive", "hybrid_source_a_v1_v1", "other:orders:0"]
    assert [key for key in store.get("app", "") if key != "shop"] == left


def test_what_others_keep_beside_offsets_is_passed_over_and_left(place: ProjectPlace, store: SqliteStore) -> None:
    theirs = {
        "hybrid_source_orders_v1": {"current_phase": 0, "completed_phases": []},
        "clickhouse_source:orders": {"sorting_keys": ["id"], "args": [7]},
        "shop:orders:watermark": {"offset": 3},
        "shop:more:orders:0": {"offset": 4, "updated_at": 1764785420620},
        "shop:orders:1": "a text",
        "shop:orders:2": {"offset": None},
        "shop:orders:3": {"offset": 5, "updated_at": "2025-12-03T18:10:20+00:00"},
    }
    store.put("app", theirs)
    place = replace(place, name="pipeline.shop", application="app")
    offsets = OffsetStore(store, place.offsets_namespace)
    before = datetime.now(UTC)
    offsets.put("shop", {("orders", 0): 7})
    assert read_deployed_state(store, place).offsets == {("shop", "orders"), ("shop:more", "orders")}
    assert offsets.of("shop", "orders") == {0: 7, 3: 5}
    told_at = store.get("app", "shop:orders:0")["shop:orders:0"]["updated_at"]
    assert type(told_at) is int
    assert before <= datetime.fromtimestamp((told_at + 1) / 1000, UTC) <= datetime.now(UTC) + timedelta(milliseconds=1)
    offsets.forget("shop")
    assert store.get("app", "").keys() == theirs.keys() - {"shop:orders:3"}


def test_a_full_disk_is_named_and_may_have_space_again(store: SqliteStore) -> None:
    """The largest size of a file stands for the size of a disk."""
    store.put("shop", {"a": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (store.file.stat().st_size, before[1]))
    try:
        with pytest.raises(ServiceError) as full:
            store.put("shop", {"b": "x" * 100_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (full.value.code, full.value.retriable) == ("disk-full", True)
    store.put("shop", {"b": 2})
    assert store.get("shop", "") == {"a": 1, "b": 2}
