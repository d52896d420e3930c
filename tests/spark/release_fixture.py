"""A project that a release has begun, packed so that later editions can go on with it.

`python -m tests.spark.release_fixture` needs nothing but the standard library. Spark knows files by full path, so paths
are put in when it is unpacked.
"""

import json
import shutil
import sqlite3
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

ROOT: Final = "/project"
"""What stands in an archive for the directory of the project."""
LEFT_OUT: Final = ("logs", "cache", "warehouse", "run", "_staging")
PROJECT: Final = """
project: {name: shop}
sources:
  - name: orders
    topic: orders.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: country, type: STRING}
      - {name: amount, type: BIGINT}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 0}}
  - name: payments
    topic: payments.v1
    columns:
      - {name: order_id, type: BIGINT}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 0}}
  - name: countries
    table: {type: file, config: {path: countries, format: csv}}
    columns: [{name: code, type: STRING}, {name: name, type: STRING}]
models:
  - name: large
    sql: SELECT id, amount FROM {{ source("orders") }} WHERE amount >= 5
  - name: named
    sql: |
      SELECT o.id, c.name FROM {{ source("orders") }} AS o
      LEFT JOIN {{ source("countries") }} AS c ON o.country = c.code
  - name: hourly
    sql: |
      SELECT country, TUMBLE_START(at, INTERVAL '1' HOUR) AS hour_start, COUNT(*) AS n, SUM(amount) AS total
      FROM {{ source("orders") }} GROUP BY country, TUMBLE(at, INTERVAL '1' HOUR)
  - name: per_country
    sql: SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM {{ source("orders") }} GROUP BY country
  - name: latest
    sql: |
      SELECT id, country, amount FROM (
        SELECT id, country, amount, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at DESC) AS place
        FROM {{ source("orders") }}
      ) AS ranked WHERE place = 1
  - name: paid
    sql: |
      SELECT o.id, o.amount, p.at AS paid_at FROM {{ source("orders") }} AS o
      JOIN {{ source("payments") }} AS p
        ON o.id = p.order_id AND p.at BETWEEN o.at AND o.at + INTERVAL '2' HOUR
"""
COUNTRIES: Final = {"DE": "Germany", "FR": "France"}
BEGUN: Final = {"orders": 30, "payments": 25}
"""How many rows the release has read."""


def order(number: int) -> dict[str, Any]:
    country = ("DE", "FR", "XX")[number % 3]
    return {"id": number % 20, "country": country, "amount": number % 11, "at": moment(7 * number)}


def payment(number: int) -> dict[str, Any]:
    """An hour after the order of this number. Other orders of its id are more than two hours away."""
    return {"order_id": number % 20, "at": moment(7 * number + 60)}


def moment(minutes: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)


def drop(root: Path, topic: str, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    file = root / ".penstock" / "topics" / topic / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in rows), encoding="utf-8")


def write_project(root: Path) -> None:
    """The project, and what the release is to read."""
    (root / "countries").mkdir(parents=True)
    lines = [f"{code},{name}\n" for code, name in COUNTRIES.items()]
    (root / "countries" / "all.csv").write_text("".join(["code,name\n", *lines]), encoding="utf-8")
    (root / "stream_project.yml").write_text(PROJECT, encoding="utf-8")
    drop(root, "orders.v1", "1.json", map(order, range(BEGUN["orders"])))
    drop(root, "payments.v1", "1.json", map(payment, range(BEGUN["payments"])))


def pack(root: Path, archive: Path) -> None:
    """Pack a project that has run."""
    with tarfile.open(archive, "w:gz") as tar:
        copy = archive.with_suffix(".unpacked")
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        _replace_root(copy, str(root), ROOT)
        tar.add(copy, ".", filter=_anonymous)
        shutil.rmtree(copy)


def unpack(archive: Path, root: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")
    _replace_root(root, ROOT, str(root))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _replace_root(root: Path, before: str, after: str) -> None:
    for file in _texts(root / ".penstock"):
        text = file.read_text(encoding="utf-8")
        if before in text:
            file.write_text(text.replace(f"{before}/", f"{after}/"), encoding="utf-8")
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    with closing(sqlite3.connect(root / ".penstock" / "state.db")) as store:
        store.execute("UPDATE state SET data = ? WHERE key = 'root' AND data = ?", (f'"{after}"', f'"{before}"'))
        store.commit()
        store.execute("VACUUM")


def _texts(folder: Path) -> Iterator[Path]:
    """The files of checkpoints that name others."""
    for pattern in ("**/sources/*/*", "**/_metadata/v2/*"):
        yield from (file for file in folder.glob(pattern) if file.is_file() and file.suffix != ".crc")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", root]:
            write_project(Path(root))
        case ["pack", root, archive]:
            pack(Path(root).absolute(), Path(archive).absolute())
        case _:
            sys.exit("write DIRECTORY, or pack DIRECTORY ARCHIVE")
