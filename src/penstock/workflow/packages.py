"""Packages of the JVM that connectors need, fetched before Spark starts."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.cli import output
from penstock.clients.jvm.maven import Package, fetch, is_fetched
from penstock.connectors.registry import Role, packages
from penstock.manifest.model import Manifest
from penstock.project.variables import Environ, resolved


def packages_of(manifest: Manifest, environ: Environ) -> tuple[Package, ...]:
    """What the connectors of a manifest need, its variables filled in."""
    configs: list[tuple[Role, Mapping[str, Any]]] = [
        *(("source", config) for config in manifest.streams.values()),
        *(("source", source) for query in manifest.queries for entry in query.inputs for source in entry.sources),
        *(("sink", output.sink) for query in manifest.queries for output in query.outputs),
    ]
    return packages((role, resolved(dict(config), environ)[0]) for role, config in configs)


def fetched(wanted: Iterable[Package]) -> list[Path]:
    """The files of packages. The first time that takes a while, so it is said."""
    found = list(wanted)
    if found and not is_fetched(found):
        output.say("Fetching packages …")
    return fetch(found) if found else []
