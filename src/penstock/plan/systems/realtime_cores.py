"""Checks the cores for real-time mode. Spark does not: it silently leaves a partition without a core unread."""

import os
import re
from collections.abc import Collection, Iterator
from typing import Final

from penstock.errors import Diagnostic
from penstock.manifest.model import Input, Manifest, QuerySpec, RealTime
from penstock.plan.systems.topics import Brokers

_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


def cores_of(master: str) -> int | None:
    """The number of parallel tasks of a local master; None for a cluster."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1] or 1)


def missing_cores(
    manifest: Manifest, chosen: Collection[QuerySpec], brokers: Brokers, cores: int
) -> Iterator[Diagnostic]:
    """Refuse real-time queries that could not read some partitions. Each partition holds a core for as long as the
    query runs; batch queries share one more."""
    endless = [query for query in chosen if isinstance(query.trigger, RealTime)]
    if not endless:
        return
    needed = sum(_partitions(entry, manifest, brokers) for query in endless for entry in query.inputs)
    batches = len(chosen) > len(endless)
    if needed + batches > cores:
        names = ", ".join(f"`{query.name}`" for query in endless)
        text = f"{names} in real-time mode: {needed} partitions need a core each"
        text += f", queries in batches another one, and there are {cores}" if batches else f", and there are {cores}"
        hint = "choose fewer with --select, leave `trigger` out, or set `runtime.spark.master`, such as `local[8]`"
        yield Diagnostic("cores-missing", text, hint=hint, params={"needed": str(needed + batches)})


def _partitions(entry: Input, manifest: Manifest, brokers: Brokers) -> int:
    """The number of partitions that an input has, or will have once its topic is created."""
    name = str(entry.source.get("topic"))
    there = (brokers.source or {}).get(name)
    wanted = next((topic.partitions for topic in manifest.topics if topic.name == name), None)
    return max(there.partitions if there is not None else 1, wanted or 1)
