"""Sources with a key: tables of the latest row of every key, deletes included, in embedded topics."""

from collections import defaultdict
from typing import Any

from tests.spark.running import Running, parquet_rows

PROJECT = """
project: {name: p}
sources:
  - name: accounts
    topic: accounts.v1
    key: id
    columns: [{name: id, type: BIGINT}, {name: country, type: STRING}, {name: amount, type: DOUBLE}]
models:
  - name: by_country
    sql: SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM {{ source("accounts") }} GROUP BY country
  - name: rich
    sql: SELECT id, amount FROM {{ source("accounts") }} WHERE amount > 5
"""


def latest(running: Running, topic: str, key: str) -> dict[Any, tuple[Any, ...]]:
    """The latest row of every key, by batch."""
    folders = sorted((running.root / ".penstock" / "topics" / topic).glob("*-*"), key=lambda f: f.name)
    found: dict[Any, tuple[Any, ...]] = {}
    for folder in folders:
        rows = parquet_rows(folder)
        seen = defaultdict(int)
        for row in rows:
            seen[row[key]] += 1
            if row.pop("_gs_op") == "d":
                found.pop(row[key], None)
            else:
                found[row[key]] = tuple(row.values())
        assert set(seen.values()) <= {1}
    return found


def test_a_row_replaces_the_one_before_it_and_a_delete_takes_it_out(running: Running) -> None:
    running.write({"stream_project.yml": PROJECT})
    running.drop(
        "accounts.v1",
        "1.json",
        [
            {"id": 1, "country": "DE", "amount": 10},
            {"id": 2, "country": "DE", "amount": 3},
            {"id": 3, "country": "FR", "amount": 7},
            {"id": 3, "country": "DE", "amount": 8},
        ],
    )
    running.run()
    assert latest(running, "by_country", "country") == {"DE": ("DE", 3, 21.0)}
    assert latest(running, "rich", "id") == {1: (1, 10.0), 3: (3, 8.0)}

    running.drop("accounts.v1", "2.json", [{"id": 1, "_gs_op": "d"}, {"id": 3, "country": "FR", "amount": 1}])
    running.write({".penstock/topics/accounts.v1/3.csv": "id,country,amount\n4,FR,9\n"})
    running.run()
    assert latest(running, "by_country", "country") == {"DE": ("DE", 1, 3.0), "FR": ("FR", 2, 10.0)}
    assert latest(running, "rich", "id") == {4: (4, 9.0)}
    assert {row["id"] for row in running.show("source.accounts")} == {1, 2, 3, 4}
