"""What is read of a table that is followed, on a real PostgreSQL and without a query of Spark."""

import random
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.clients.postgres.cdc import change_rows, pgoutput, replication_slots, snapshots, spark_source
from penstock.clients.postgres.cdc.published_table import PublishedTable
from penstock.clients.postgres.tables import quote_identifier
from penstock.connectors.postgres_cdc import PostgresCdcSource
from penstock.dev import postgres as server
from penstock.errors import ServiceError
from tests.services import postgres
from tests.services.postgres import Database, Shop, shop_of


@pytest.fixture
def shop(database: Database) -> Iterator[Shop]:
    with shop_of(database) as found:
        yield found


class Following:
    """Reads a table on and on, without Spark."""

    def __init__(self, shop: Shop, directory: Path, **settings: Any) -> None:
        self._source = PostgresCdcSource.model_validate(shop.source(**settings))
        self._directory = directory
        self._db = shop.db
        self.again()

    def again(self) -> "Following":
        """As a new run sees the table."""
        self.followed: PublishedTable = self._source._published_table(self._directory)
        self.schema = _arrow(self.followed.schema)
        return self

    def begin(self) -> list[dict[str, Any]]:
        begun = snapshots.begin_snapshot(self.followed, self.schema)
        self.at = replication_slots.lsn_number(begun.lsn)
        pages = [snapshots.page_path(self.followed, number) for number in range(begun.pages)]
        return [row for page in pages for batch in snapshots.page_rows(page, self.schema) for row in batch.to_pylist()]

    def changes(self, end: int | None = None) -> list[dict[str, Any]]:
        """What has changed since the last time."""
        end = end or replication_slots.flushed_lsn(self._db)
        found = self.between(self.at, end)
        replication_slots.confirm(self._db, self.followed, end)
        self.at = end
        return found

    def between(self, begin: int, end: int) -> list[dict[str, Any]]:
        return [
            row
            for batch in change_rows.read_changes(self.followed, begin, end, self.schema)
            for row in batch.to_pylist()
        ]


def _arrow(ddl: str) -> pa.Schema:
    return to_arrow_schema(StructType.fromDDL(ddl), timezone="UTC")


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """Types are read by Spark."""


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Operation first."""
    return [(row["_gs_op"], *(value for name, value in row.items() if name != "_gs_op")) for row in rows]


ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text)"

TYPES: dict[str, tuple[str, str, Any]] = {
    "small": ("smallint", "-7", -7),
    "big": ("bigint", "9223372036854775807", 2**63 - 1),
    "real_": ("real", "1.5", 1.5),
    "double_": ("double precision", "'-Infinity'", float("-inf")),
    "yes": ("boolean", "true", True),
    "price": ("numeric(12,3)", "-123456789.125", Decimal("-123456789.125")),
    "exact": ("numeric", "1234567890.00000000000000000000000000000001", "1234567890.00000000000000000000000000000001"),
    "wide": ("numeric(78,0)", str(2**255), str(2**255)),
    "day": ("date", "'0001-02-03'", date(1, 2, 3)),
    "moment": ("timestamptz", "'2024-05-06 07:08:09.000001+02'", datetime(2024, 5, 6, 5, 8, 9, 1, UTC)),
    "wall": ("timestamp(3)", "'2024-05-06 07:08:09.123'", datetime(2024, 5, 6, 7, 8, 9, 123000, UTC)),
    "clock": ("time", "'07:08:09.5'", "07:08:09.5"),
    "span": ("interval", "'1 day 2 hours'", "1 day 02:00:00"),
    "raw": ("bytea", r"'\x00ff5c22'", b'\x00\xff\\"'),
    "words": ("text", "E'a,\"b\"\\n\\\\N ü\\t '", 'a,"b"\n\\N ü\t '),
    "none": ("text", "''", ""),
    "code": ("char(4)", "'ab'", "ab  "),
    "ident": ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "doc": ("json", "'{\"a\":  [1, null]}'", '{"a":  [1, null]}'),
    "docb": ("jsonb", "'{\"a\":  [1, null]}'", '{"a": [1, null]}'),
    "mood": ("mood", "'sad'", "sad"),
    "positive": ("positive", "5", Decimal("5.00")),
    "numbers": ("int[]", "'{1,NULL,3}'", [1, None, 3]),
    "empty": ("bigint[]", "'{}'", []),
    "texts": ("text[]", "ARRAY['a,b', NULL, 'q\"\\', 'NULL', '']", ["a,b", None, 'q"\\', "NULL", ""]),
    "raws": ("bytea[]", r"ARRAY['\x01ff'::bytea]", [b"\x01\xff"]),
    "moments": ("timestamptz[]", "ARRAY['2024-05-06 00:00+00'::timestamptz]", [datetime(2024, 5, 6, tzinfo=UTC)]),
    "shifted": ("int[]", "'[5:6]={7,8}'", [7, 8]),
    'odd "name"': ("text", "'x'", "x"),
}  # fmt: skip


def test_values_of_every_type_are_the_same_from_the_table_and_from_the_log(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN positive AS numeric(6,2) CHECK (VALUE > 0)")
    columns = ", ".join(f"{quote_identifier(name)} {kind}" for name, (kind, _, _) in TYPES.items())
    shop.do(f"CREATE TABLE orders (id int PRIMARY KEY, {columns}, twice int GENERATED ALWAYS AS (id * 2) STORED)")
    values = ", ".join(text for _, text, _ in TYPES.values())
    shop.do(f"INSERT INTO orders VALUES (1, {values})", "INSERT INTO orders (id) VALUES (2)")
    following = Following(shop, tmp_path)
    first = following.begin()
    shop.do(f"INSERT INTO orders VALUES (3, {values})", "INSERT INTO orders (id) VALUES (4)")
    later = following.changes()
    whole = {name: value for name, (_, _, value) in TYPES.items()}
    nothing = dict.fromkeys(TYPES)
    assert first == [{"id": 1, **whole, "_gs_op": "i"}, {"id": 2, **nothing, "_gs_op": "i"}]
    assert later == [{"id": 3, **whole, "_gs_op": "i"}, {"id": 4, **nothing, "_gs_op": "i"}]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("timestamptz", "'infinity'", "`infinity`, which is no TIMESTAMP"),
        ("date", "'0044-03-15 BC'", "`0044-03-15 BC`, which is no DATE"),
        ("numeric(4,2)", "'NaN'", r"`NaN`, which is no DECIMAL\(4, 2\)"),
        ("int[]", "'{{1,2},{3,4}}'", "which is no ARRAY<INT>"),
    ],
)
def test_a_value_that_spark_has_none_for_is_told_and_can_be_read_as_text(
    kind: str, value: str, said: str, shop: Shop, tmp_path: Path
) -> None:
    shop.do(f"CREATE TABLE orders (id int PRIMARY KEY, name {kind})")
    following = Following(shop, tmp_path)
    following.begin()
    shop.do("INSERT INTO orders VALUES (1, NULL)", f"INSERT INTO orders VALUES (2, {value})")
    with pytest.raises(ServiceError, match=said) as caught:
        following.changes()
    assert (caught.value.code, caught.value.hint) == ("value-unsupported", "`as_text: [name]` reads the column as text")
    with pytest.raises(ServiceError, match=said):
        Following(shop, tmp_path / "other").begin()
    following = Following(shop, tmp_path / "text", as_text="name")
    assert {row["name"] for row in following.begin()} == {None, value.strip("'")}


def test_a_changed_key_is_a_row_that_goes_and_one_that_comes(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS, "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    following = Following(shop, tmp_path)
    following.begin()
    shop.do(
        "UPDATE orders SET name = 'z' WHERE id = 2",
        "UPDATE orders SET id = id + 10, name = 'moved'",
        "DELETE FROM orders WHERE id = 11",
    )
    assert told(following.changes()) == [
        ("u", 2, "z"),
        ("d", 1, None),
        ("i", 11, "moved"),
        ("d", 2, None),
        ("i", 12, "moved"),
        ("d", 11, None),
    ]


def test_with_full_identity_deletes_have_the_whole_row_and_large_values_stay(shop: Shop, tmp_path: Path) -> None:
    shop.do(
        "CREATE TABLE orders (id int PRIMARY KEY, n int, body text)",
        "ALTER TABLE orders ALTER body SET STORAGE EXTERNAL",
        "INSERT INTO orders VALUES (1, 0, repeat('x', 9000)), (2, 0, 'short')",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    )
    following = Following(shop, tmp_path)
    assert [len(row["body"]) for row in following.begin()] == [9000, 5]
    shop.do(
        "UPDATE orders SET n = n + 1",
        "UPDATE orders SET id = 3 WHERE id = 1",
        "DELETE FROM orders WHERE id = 3",
    )
    large = "x" * 9000
    assert told(following.changes()) == [
        ("u", 1, 1, large),
        ("u", 2, 1, "short"),
        ("d", 1, 1, large),
        ("i", 3, 1, large),
        ("d", 3, 1, large),
    ]


def test_without_a_key_rows_are_known_by_all_their_values(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TABLE orders (name text)", "ALTER TABLE orders REPLICA IDENTITY FULL")
    shop.do("INSERT INTO orders VALUES (NULL), ('a'), ('a')")
    following = Following(shop, tmp_path)
    assert told(following.begin()) == [("i", None), ("i", "a"), ("i", "a")]
    shop.do("UPDATE orders SET name = 'b' WHERE name = 'a'", "DELETE FROM orders WHERE name IS NULL")
    assert told(following.changes()) == [("d", "a"), ("i", "b"), ("d", "a"), ("i", "b"), ("d", None)]


def test_a_large_value_that_an_update_leaves_out_is_never_null_in_silence(shop: Shop, tmp_path: Path) -> None:
    shop.do(
        "CREATE TABLE orders (id int PRIMARY KEY, n int, body text)",
        "ALTER TABLE orders ALTER body SET STORAGE EXTERNAL",
    )
    following = Following(shop, tmp_path)
    following.begin()
    shop.do("INSERT INTO orders VALUES (1, 0, repeat('x', 9000))")
    assert len(following.changes()[0]["body"]) == 9000
    shop.do("UPDATE orders SET n = 1")
    with pytest.raises(ServiceError, match="comes without its value of body") as caught:
        following.changes()
    assert caught.value.code == "change-unusable"
    assert caught.value.hint is not None
    assert 'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL' in caught.value.hint
    with pytest.raises(ServiceError, match="stores apart from their rows") as caught:
        following.again()
    assert caught.value.hint == 'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL'


def test_columns_that_are_not_read_may_be_as_they_like(shop: Shop, tmp_path: Path) -> None:
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, name text, other int)")
    following = Following(shop, tmp_path, columns="id, name")
    following.begin()
    shop.do("ALTER TABLE orders DROP other", "ALTER TABLE orders ADD more text", "INSERT INTO orders VALUES (1, 'a')")
    assert told(following.changes()) == [("i", 1, "a")]


def test_a_new_column_stops_the_run_and_the_next_one_has_it(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS)
    following = Following(shop, tmp_path)
    following.begin()
    shop.do("INSERT INTO orders VALUES (1, 'a')", "ALTER TABLE orders ADD n int")
    shop.do("INSERT INTO orders VALUES (2, 'b', 5)")
    with pytest.raises(ServiceError, match="has changed: it has a new column n") as caught:
        following.changes()
    assert caught.value.code == "schema-changed"
    assert told(following.again().changes()) == [("i", 1, "a", None), ("i", 2, "b", 5)]
    shop.do("INSERT INTO orders VALUES (3, 'c', 6)", "ALTER TABLE orders DROP n", "INSERT INTO orders VALUES (4, 'd')")
    with pytest.raises(ServiceError, match="no longer the column n"):
        following.changes()
    assert told(following.again().changes()) == [("i", 3, "c"), ("i", 4, "d")]


def test_another_name_or_type_of_a_column_is_told(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS)
    following = Following(shop, tmp_path)
    following.begin()
    shop.do("INSERT INTO orders VALUES (1, 'a')", "ALTER TABLE orders ALTER id TYPE bigint")
    shop.do("INSERT INTO orders VALUES (5000000000, 'b')")
    with pytest.raises(ServiceError, match="another type has id"):
        following.changes()
    assert told(following.again().changes()) == [("i", 1, "a"), ("i", 5_000_000_000, "b")]
    shop.do("INSERT INTO orders VALUES (2, 'c')", "ALTER TABLE orders RENAME name TO title")
    with pytest.raises(ServiceError, match="a column may have got another name") as caught:
        following.again().changes()
    assert caught.value.code == "schema-changed"


def test_truncate_stops_unless_it_is_to_be_passed_over(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS, "CREATE TABLE other (id int PRIMARY KEY)")
    following = Following(shop, tmp_path)
    skipping = Following(shop, tmp_path / "skipping", on_truncate="skip")
    following.begin()
    skipping.begin()
    shop.do("INSERT INTO orders VALUES (1, 'a')", "TRUNCATE other, orders", "INSERT INTO orders VALUES (2, 'b')")
    with pytest.raises(ServiceError, match="was truncated") as caught:
        following.changes()
    assert caught.value.code == "change-unusable"
    assert told(skipping.changes()) == [("i", 1, "a"), ("i", 2, "b")]


def test_a_publication_of_several_tables_with_a_condition(shop: Shop, tmp_path: Path) -> None:
    shop.do(
        ORDERS,
        "CREATE TABLE other (id int PRIMARY KEY, name text)",
        "CREATE PUBLICATION ours FOR TABLE other, orders WHERE (id > 10)",
        "INSERT INTO orders VALUES (1, 'a'), (11, 'b')",
    )
    following = Following(shop, tmp_path, publication_name="ours", slot_name="ours_" + shop.name)
    assert told(following.begin()) == [("i", 11, "b")]
    shop.do("INSERT INTO other VALUES (12, 'x')", "INSERT INTO orders VALUES (2, 'a'), (13, 'c')", "DELETE FROM other")
    assert told(following.changes()) == [("i", 13, "c")]


def test_a_range_can_be_read_again_and_ranges_never_overlap(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_rows, "_FIRST_ROWS", 3)
    monkeypatch.setattr(change_rows, "_AT_ONCE_BYTES", 100)
    shop.do(ORDERS)
    following = Following(shop, tmp_path, max_rows_per_trigger=10)
    following.begin()
    for number in range(12):
        shop.do(f"INSERT INTO orders SELECT {number} * 10 + n, 'x' FROM generate_series(0, {number % 4}) n")
    target, begin, parts = replication_slots.flushed_lsn(shop.db), following.at, []
    while begin < target:
        ahead = replication_slots.find_batch_end(shop.db, following.followed, target)
        part = following.between(begin, ahead.end)
        assert part == following.between(begin, ahead.end)
        parts.append(len(part))
        following.at = begin
        following.changes(ahead.end)
        begin = ahead.end
    assert len(parts) > 3
    assert sum(parts) == 30
    assert all(0 < count <= 13 for count in parts[:-1])


@pytest.mark.parametrize("at_once", [pgoutput._MOST_BYTES, 50])
def test_the_seam_between_rows_and_changes_has_no_gap_and_no_duplicate(
    shop: Shop, tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write all the time. Every change must fit what came before it, and the end must be the table."""
    monkeypatch.setattr(pgoutput, "_MOST_BYTES", at_once)
    shop.do(
        "CREATE TABLE orders (id int PRIMARY KEY, n int)",
        "INSERT INTO orders SELECT n, 0 FROM generate_series(1, 300) n",
    )
    stop = threading.Event()

    def write(seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(shop.address) as db:
            while not stop.is_set():
                for _ in range(dice.randint(1, 5)):
                    number = dice.randrange(400) * 4 + seed
                    db.execute(
                        dice.choice(
                            (
                                "INSERT INTO orders VALUES (%s, 1) ON CONFLICT DO NOTHING",
                                "UPDATE orders SET n = n + 1 WHERE id = %s",
                                "DELETE FROM orders WHERE id = %s",
                            )
                        ),
                        (number,),
                    )
                db.execute("ROLLBACK" if dice.random() < 0.1 else "COMMIT")
                stop.wait(0.005)  # all that is written must be read while more is written

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for writer in writers:
        writer.start()
    try:
        following = Following(shop, tmp_path, primary_key="id")
        mirror: dict[int, int] = {}
        for row in following.begin():
            assert row["id"] not in mirror
            mirror[row["id"]] = row["n"]
        for _ in range(5):
            _apply(mirror, following.changes())
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    _apply(mirror, following.changes())
    assert mirror == dict(shop.rows("SELECT id, n FROM orders"))


def _apply(mirror: dict[int, int], rows: list[dict[str, Any]]) -> None:
    for row in rows:
        match row["_gs_op"]:
            case "i":
                assert row["id"] not in mirror
                mirror[row["id"]] = row["n"]
            case "u":
                assert mirror[row["id"]] + 1 == row["n"]
                mirror[row["id"]] = row["n"]
            case "d":
                del mirror[row["id"]]


# Connections that break


def ended(shop: Shop, *, kind: str) -> int:
    """End the connections of one kind that we have to the database; how many there were."""
    ours = "application_name = 'penstock' AND datname = current_database() AND backend_type = %s"
    return len(
        shop.db.execute(
            f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE {ours}", [kind]
        ).fetchall()
    )


def test_a_range_whose_connection_breaks_is_read_again_from_its_begin(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_rows, "_FIRST_ROWS", 3)
    shop.do(ORDERS)
    following = Following(shop, tmp_path)
    following.begin()
    for number in range(40):
        shop.do(f"INSERT INTO orders VALUES ({number}, repeat('x', 100))")
    begin, end = following.at, replication_slots.flushed_lsn(shop.db)
    batches = change_rows.read_changes(following.followed, begin, end, following.schema)
    assert len(next(batches)) < 40
    assert ended(shop, kind="client backend") > 0
    with pytest.raises(ServiceError) as caught:
        list(batches)
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)
    assert [number for _, number, _ in told(following.changes())] == list(range(40))


@pytest.mark.parametrize("kind", ["client backend", "walsender"])
def test_first_rows_whose_connection_breaks_come_once_with_every_change_since(
    kind: str, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that reads the rows, or the one that keeps the moment at which they are read."""
    shop.do(ORDERS, "INSERT INTO orders SELECT n, repeat('x', 20000) FROM generate_series(1, 1000) n")
    following = Following(shop, tmp_path, max_rows_per_trigger=400)
    page_path, breaks = snapshots.page_path, [kind]

    def breaking(followed: PublishedTable, page: int) -> Path:
        if breaks:
            shop.do("INSERT INTO orders VALUES (1001, 'y')")
            assert ended(shop, kind=breaks.pop()) > 0
        return page_path(followed, page)

    monkeypatch.setattr(snapshots, "page_path", breaking)
    if kind == "client backend":
        with pytest.raises(ServiceError) as caught:
            following.begin()
        assert (caught.value.code, caught.value.retriable) == ("unreachable", True)
    found = told([*following.begin(), *following.changes()])
    assert sorted(number for _, number, _ in found) == list(range(1, 1002))
    assert {operation for operation, _, _ in found} == {"i"}


def test_a_server_soon_lets_go_of_a_connection_that_is_lost(shop: Shop, tmp_path: Path) -> None:
    """A slot and a lock are those of a connection. By itself the server asks after two hours if somebody is there."""
    names = ("idle", "interval", "count")
    shop.do(ORDERS)
    with Following(shop, tmp_path).followed.server.connect() as db:
        found = [db.execute(f"SELECT current_setting('tcp_keepalives_{name}')::int").fetchone() for name in names]
    assert found == [(5,), (5,), (3,)]


# What cannot be followed


KEYED = "TABLE orders (id int PRIMARY KEY, n int)"
COMPUTED = "TABLE orders (id int PRIMARY KEY, n int GENERATED ALWAYS AS (id) STORED)"


@pytest.mark.parametrize(
    ("made", "settings", "code", "said", "hint"),
    [
        ("TABLE other (id int)", {}, "table-mismatch", 'has no table "public"."orders"', "see `schema` and `table`"),
        ("TABLE orders (id int)", {}, "replication-refused", "no primary key and no replica identity", "FULL"),
        ("VIEW orders AS SELECT 1 AS id", {}, "table-mismatch", "is a view", None),
        ("UNLOGGED TABLE orders (id int PRIMARY KEY)", {}, "table-mismatch", "is unlogged", "SET LOGGED"),
        ("TABLE orders (id int) PARTITION BY RANGE (id)", {}, "table-mismatch", "partitioned", "partitions"),
        (KEYED, {"columns": "id, amuont"}, "table-mismatch", "no column `amuont`", "there are"),
        (KEYED, {"columns": "n"}, "table-mismatch", "leaves out id", None),
        (KEYED, {"primary_key": "n"}, "replication-refused", "have only id", "FULL"),
        (COMPUTED, {"columns": "id, n"}, "table-mismatch", "is computed", "transform"),
        ("TABLE orders (id int PRIMARY KEY, _gs_op text)", {}, "table-mismatch", "`_gs_op` of its own", "columns"),
    ],
)
def test_a_table_that_cannot_be_followed(
    made: str, settings: dict[str, Any], code: str, said: str, hint: str | None, shop: Shop, tmp_path: Path
) -> None:
    shop.do(f"CREATE {made}")
    with pytest.raises(ServiceError, match=said) as caught:
        Following(shop, tmp_path, **settings)
    assert caught.value.code == code
    assert caught.value.hint == hint if hint is None else hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("publication", "said", "hint"),
    [
        ("FOR TABLE other", "does not have the table", 'ALTER PUBLICATION "ours" ADD TABLE "public"."orders"'),
        ("FOR TABLE orders WITH (publish = 'insert')", "not publish every kind of change", "SET (publish ="),
        ("FOR TABLE orders (id)", "does not have the columns name", "choose `columns`"),
    ],
)
def test_a_publication_that_does_not_tell_everything(
    publication: str, said: str, hint: str, shop: Shop, tmp_path: Path
) -> None:
    shop.do(ORDERS, "CREATE TABLE other (id int PRIMARY KEY)", f"CREATE PUBLICATION ours {publication}")
    with pytest.raises(ServiceError, match=said) as caught:
        Following(shop, tmp_path, publication_name="ours").begin()
    assert caught.value.code == "replication-refused"
    assert hint in (caught.value.hint or "")


def test_rights_that_are_missing_are_told_with_the_statement_that_helps(shop: Shop, tmp_path: Path) -> None:
    reader = f"reader_{shop.name}"
    shop.do(ORDERS, f"CREATE USER {reader} PASSWORD 'x'", f"GRANT SELECT ON orders TO {reader}")
    login = {"user": reader, "password": "x"}
    with pytest.raises(ServiceError, match="has no right to read changes") as caught:
        Following(shop, tmp_path, **login)
    assert caught.value.hint == f'ALTER ROLE "{reader}" REPLICATION'
    shop.do(f"ALTER ROLE {reader} REPLICATION")
    with pytest.raises(ServiceError, match="it cannot be created: permission denied") as caught:
        Following(shop, tmp_path, publication_name="ours", **login).begin()
    assert caught.value.code == "replication-refused"
    assert 'CREATE PUBLICATION "ours" FOR TABLE "public"."orders"' in (caught.value.hint or "")
    shop.do("CREATE PUBLICATION ours FOR TABLE orders", "INSERT INTO orders VALUES (1, 'a')")
    following = Following(shop, tmp_path, publication_name="ours", **login)
    assert told(following.begin()) == [("i", 1, "a")]
    with pytest.raises(ServiceError, match="authentication failed") as caught:
        Following(shop, tmp_path, password="wrong-word")
    assert (caught.value.code, caught.value.retriable) == ("database-refused", False)
    assert "wrong-word" not in str(caught.value)


def test_rows_that_a_policy_hides_are_an_error_and_not_left_out(shop: Shop, tmp_path: Path) -> None:
    reader = f"reader_{shop.name}"
    shop.do(
        ORDERS,
        "INSERT INTO orders VALUES (1, 'a'), (2, 'b')",
        "CREATE PUBLICATION ours FOR TABLE orders",
        f"CREATE USER {reader} PASSWORD 'x' REPLICATION",
        f"GRANT SELECT ON orders TO {reader}",
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY first ON orders USING (id = 1)",
    )
    with pytest.raises(ServiceError, match="row-level security policy"):
        Following(shop, tmp_path, publication_name="ours", user=reader, password="x").begin()


def test_a_server_that_does_not_note_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(server._SETTINGS, "wal_level", "replica")
    with postgres.running(tmp_path / "server") as database, shop_of(database) as shop:
        shop.do(ORDERS)
        with pytest.raises(ServiceError, match="its `wal_level` is `replica`") as caught:
            Following(shop, tmp_path)
        assert "wal_level = logical" in (caught.value.hint or "")


# Slots


def test_a_slot_that_is_gone_or_was_moved_is_an_error_and_never_a_jump(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS)
    following = Following(shop, tmp_path)
    following.begin()
    shop.do("INSERT INTO orders VALUES (1, 'a')")
    begin, slot = following.at, following.followed.slot
    shop.do(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    for ask in (following.changes, lambda: replication_slots.confirm(shop.db, following.followed, begin)):
        with pytest.raises(ServiceError, match="another client has advanced the slot") as caught:
            ask()
        assert caught.value.code == "records-gone"
    shop.do(f"SELECT pg_drop_replication_slot('{slot}')")
    with pytest.raises(ServiceError, match="is gone, and with it the changes since") as caught:
        following.changes()
    assert (caught.value.code, caught.value.retriable) == ("records-gone", False)


def test_a_slot_that_lost_its_changes_is_an_error(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS)
    following = Following(shop, tmp_path)
    following.begin()
    slot = following.followed.slot
    shop.do("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
    try:
        for number in range(100):
            shop.do(f"INSERT INTO orders VALUES ({number}, 'a')", "SELECT pg_switch_wal()")
            if number % 4 == 3:
                shop.do("CHECKPOINT")  # by one who may not have heard of the setting yet
            if shop.rows(f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{slot}'") == [("lost",)]:
                break
        with pytest.raises(ServiceError, match="the server has deleted changes") as caught:
            following.changes()
    finally:
        shop.do("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    assert caught.value.code == "records-gone"


def test_a_slot_that_somebody_else_uses_is_told(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_slots, "_PATIENCE_SECS", 0.5)
    shop.do(ORDERS)
    following = Following(shop, tmp_path)
    following.begin()
    other = following.followed.server.open_connection(replicating=True)
    try:
        begin = f"START_REPLICATION SLOT {following.followed.slot} LOGICAL 0/0"
        answer = other.pgconn.exec_(f"{begin} (proto_version '1', publication_names 'x')".encode())
        assert answer.status == psycopg.pq.ExecStatus.COPY_BOTH
        with pytest.raises(ServiceError, match=r"is in use: .*is active for PID") as caught:
            following.changes()
    finally:
        other.close()
    assert (caught.value.code, caught.value.retriable) == ("replication-refused", True)
    with psycopg.connect(shop.address) as first, psycopg.connect(shop.address) as second:
        replication_slots.lock_slot(first, following.followed)
        with pytest.raises(ServiceError, match="another query reads it") as caught:
            replication_slots.lock_slot(second, following.followed)
    assert caught.value.retriable, "it may be our own, of a connection that is lost"


def test_changes_of_other_tables_make_batches_only_when_the_log_grows(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.do(ORDERS, "CREATE TABLE other (id int)")
    following = Following(shop, tmp_path)
    following.begin()
    follower, start = spark_source._Follower(following.followed), {"lsn": replication_slots.lsn_text(following.at)}
    try:
        shop.do("INSERT INTO other VALUES (1)")
        assert follower.next_offset(start, None) == start
        monkeypatch.setattr(spark_source, "_UNCONFIRMED_BYTES", 1)
        shop.do("INSERT INTO other VALUES (2)")
        moved = follower.next_offset(start, None)
        assert replication_slots.offset_lsn(moved) > following.at
        assert replication_slots.check_slot(shop.db, following.followed, following.at) == following.at
        follower.next_offset(moved, None)
        assert replication_slots.check_slot(
            shop.db, following.followed, replication_slots.offset_lsn(moved)
        ) == replication_slots.offset_lsn(moved)
        shop.do(
            f"ALTER PUBLICATION {following.followed.publication} DROP TABLE orders", "INSERT INTO orders VALUES (1)"
        )
        with pytest.raises(ServiceError, match="does not have the table"):
            follower.next_offset(moved, None)
    finally:
        follower.close()


def test_what_was_left_by_a_run_that_never_began_is_made_anew(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    following = Following(shop, tmp_path)
    following.begin()
    (tmp_path / "begin.json").unlink()
    shop.do("INSERT INTO orders VALUES (2, 'b')")
    assert told(following.begin()) == [("i", 1, "a"), ("i", 2, "b")]
    assert following.changes() == []
    named = Following(shop, tmp_path / "named", slot_name=f"ours_{shop.name}")
    named.begin()
    (tmp_path / "named" / "begin.json").unlink()
    shop.do("INSERT INTO orders VALUES (3, 'c')")
    assert told(named.begin()) == [("i", 1, "a"), ("i", 2, "b"), ("i", 3, "c")]
    shop.do("INSERT INTO orders VALUES (4, 'd')")
    assert told(named.changes()) == [("i", 4, "d")]


def test_without_rows_that_are_there_a_slot_goes_on_where_it_stands(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    following = Following(shop, tmp_path, snapshot="never")
    assert following.begin() == []
    shop.do("INSERT INTO orders VALUES (2, 'b')")
    (tmp_path / "begin.json").unlink()
    assert following.begin() == []
    assert told(following.changes()) == [("i", 2, "b")]


def test_an_update_comes_with_the_row_that_it_replaces_if_that_is_asked_for(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS)
    with pytest.raises(ServiceError, match="emit_update_before_row") as refused:
        Following(shop, tmp_path, emit_update_before_row=True)
    assert "REPLICA IDENTITY FULL" in (refused.value.hint or "")
    shop.do("ALTER TABLE orders REPLICA IDENTITY FULL", "INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    following = Following(shop, tmp_path, emit_update_before_row=True)
    assert told(following.begin()) == [("i", 1, "a"), ("i", 2, "b")]
    shop.do("UPDATE orders SET name = name || '!'", "UPDATE orders SET id = 3 WHERE id = 1", "DELETE FROM orders")
    assert told(following.changes()) == [
        ("d", 1, "a"),
        ("u", 1, "a!"),
        ("d", 2, "b"),
        ("u", 2, "b!"),
        ("d", 1, "a!"),
        ("i", 3, "a!"),
        ("d", 2, "b!"),
        ("d", 3, "a!"),
    ]
    shop.do("ALTER TABLE orders REPLICA IDENTITY DEFAULT", "INSERT INTO orders VALUES (4, 'd')")
    shop.do("UPDATE orders SET name = 'e'")
    with pytest.raises(ServiceError, match="without the row that it replaces"):
        following.changes()


def test_a_publication_is_not_made_if_it_is_not_to_be(shop: Shop, tmp_path: Path) -> None:
    shop.do(ORDERS)
    following = Following(shop, tmp_path, auto_create_publication=False, publication_name="mine")
    with pytest.raises(ServiceError, match="no publication `mine`") as refused:
        following.begin()
    shop.do((refused.value.hint or "").partition(": ")[2])
    assert following.begin() == []
