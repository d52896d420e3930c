"""File formats: their suffixes, and the options with which Spark reads and writes them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from csv import reader as csv_reader
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from penstock.clients.files import parquet
from penstock.sql.types.columns import Column, Columns

FormatName: TypeAlias = Literal["parquet", "json", "csv", "avro"]


@dataclass(frozen=True, slots=True)
class Format:
    """A file format. A row that does not fit stops the query (`FAILFAST`): it must never silently become nulls."""

    name: FormatName
    suffixes: tuple[str, ...]
    read_options: Mapping[str, str]
    write_options: Mapping[str, str]

    @property
    def glob(self) -> str:
        """The same selection as `matches`, as a Hadoop glob pattern."""
        return "*.{" + ",".join(self._endings) + "}"

    def matches(self, path: Path) -> bool:
        return path.name.endswith(tuple(f".{ending}" for ending in self._endings))

    @property
    def _endings(self) -> list[str]:
        return [ending for suffix in self.suffixes for ending in (suffix, f"{suffix}.gz")]


MAX_BATCH_BYTES: Final = 512 * 2**20
"""The size up to which files are read in one batch, so that catching up needs no more memory than keeping up."""

STREAM_OPTIONS: Final = {"maxBytesPerTrigger": str(MAX_BATCH_BYTES), "maxFileAge": "36500d"}
"""Options of every stream of files. By default, Spark silently skips files a week older than the newest one."""

MOST_FILES_LOOKED_AT: Final = 20
"""The most files that are inspected when a project is checked. With more of them, Spark determines the columns."""

_UNTOUCHED: Final = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Options for writing strings to CSV: by default, Spark removes white space at both ends."""
_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]X"}
JSON_OPTIONS: Final = {"ignoreNullFields": "false", **_TIMES}
"""Options for writing rows as JSON: nulls are included, times are in UTC to the microsecond."""

FORMATS: Final[Mapping[str, Format]] = {
    "parquet": Format("parquet", ("parquet",), {}, {}),
    "avro": Format("avro", ("avro",), {}, {}),
    "json": Format("json", ("json", "jsonl", "ndjson"), {"mode": "FAILFAST"}, JSON_OPTIONS),
    "csv": Format(
        "csv",
        ("csv",),
        {"mode": "FAILFAST", "header": "true", "enforceSchema": "false", "multiLine": "true", "escape": '"'},
        {"header": "true", "escape": '"', **_UNTOUCHED, **_TIMES},
    ),
}


def escape_glob(path: Path | str) -> str:
    """Escape a path for Spark, which interprets brackets, braces, stars and question marks as patterns."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", str(path))


def address_to_path(address: str) -> str:
    """Convert a file's URI, as Spark reports it, to a path for Spark."""
    parts = urlsplit(address)
    elsewhere = "" if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}"
    return escape_glob(elsewhere + unquote(parts.path))


def is_local(address: str) -> bool:
    """Whether a file's URI, as Spark reports it, is on this machine."""
    return urlsplit(address).scheme in ("", "file")


def is_gone(address: str) -> bool:
    """Whether a local file no longer exists. Other files are not checked."""
    return is_local(address) and not Path(unquote(urlsplit(address).path)).exists()


def files_under(path: Path, file_format: Format) -> Iterator[Path]:
    """Yield the data files below a directory (or the file itself), in name order, without those that Spark ignores."""
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
        if not hidden and file_format.matches(file) and file.is_file():
            yield file


def read_stamps(files: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """Return size and modification time of each file that still exists, by path."""
    found: dict[str, tuple[int, int]] = {}
    for file in files:
        with suppress(FileNotFoundError):
            stat = file.stat()
            found[str(file)] = stat.st_size, stat.st_mtime_ns
    return found


def known_columns(path: Path, file_format: Format) -> Columns | None:
    """Return the columns that the files themselves declare; None if all rows would have to be read."""
    files = list(islice(files_under(path, file_format), MOST_FILES_LOOKED_AT + 1))
    partitioned = any("=" in part for file in files for part in file.relative_to(path).parts[:-1])
    if not files or partitioned or len(files) > MOST_FILES_LOOKED_AT or file_format.name in ("json", "avro"):
        return None
    read = parquet.columns if file_format.name == "parquet" else _csv_columns
    found = {read(file) for file in files}
    return found.pop() if len(found) == 1 else None


def _csv_columns(file: Path) -> Columns | None:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            header = next(csv_reader(lines), None)
    except (OSError, UnicodeDecodeError):
        return None
    return tuple(Column(name) for name in header) if header else None
