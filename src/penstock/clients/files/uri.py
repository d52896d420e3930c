"""Locations of files: local paths, and URIs that Hadoop supports."""

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from penstock.clients.jvm.maven import Package, spark_jars

SCHEMES: Final = ("s3", "s3a", "gs", "hdfs", "file")
_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SDK: Final = "2.35.4"
"""The release of Amazon's SDK that Hadoop 3.5 is built with. The parts that Hadoop needs are 18 MB; all are 600 MB."""


def _check_scheme(value: object) -> object:
    text = str(value) if isinstance(value, Path) else value
    if isinstance(text, str) and "\0" in text:
        raise ValueError("a path has no NUL character")
    found = _ADDRESS.match(text) if isinstance(text, str) else None
    if found and found[1].lower() not in SCHEMES:
        raise ValueError(f"unsupported scheme `{found[1]}`; there are {', '.join(SCHEMES)}")
    return text


FileLocation = Annotated[str, BeforeValidator(_check_scheme), Field(min_length=1)]
"""A path, or a URI with a supported scheme."""


def scheme(place: str) -> str | None:
    """Return the scheme of a URI; None for a path."""
    found = _ADDRESS.match(place)
    return found[1].lower() if found else None


def local_path(place: str) -> Path | None:
    """Return the path if it is local, else None."""
    if place.lower().startswith("file://"):
        return Path(place[len("file://") :])
    return None if scheme(place) else Path(place)


def hadoop_address(place: str) -> str:
    """Return the URI for Hadoop, whose scheme for S3 is `s3a`."""
    return re.sub("^s3://", "s3a://", place, flags=re.IGNORECASE)


def resolve_location(place: str, root: Path) -> str:
    """Resolve a relative path against `root`."""
    path = local_path(place)
    return hadoop_address(place) if path is None else str(root / path)


def packages(place: str) -> tuple[Package, ...]:
    """Return the packages that Hadoop needs to access a location, in addition to those that come with PySpark."""
    match scheme(place):
        case "s3" | "s3a":
            parts = ("s3", "s3-transfer-manager", "sts", "apache-client")
            return (
                Package("org.apache.hadoop", "hadoop-aws", _hadoop(), alone=True),
                *(Package("software.amazon.awssdk", part, _SDK) for part in parts),
                Package("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", alone=True),
            )
        case "gs":
            return (Package("org.apache.hadoop", "hadoop-gcp", _hadoop(), alone=True),)
        case _:
            return ()


def _hadoop() -> str:
    """Return the release of the Hadoop that comes with PySpark."""
    names = [path.name for path in spark_jars("hadoop-client-api-*.jar")]
    found = re.search(r"-(\d+\.\d+\.\d+)\.jar$", names[0]) if names else None
    return found[1] if found else "3.5.0"
