"""Fetches the JVM packages of connectors before Spark starts."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.clients.jvm.maven import Package, fetch, is_fetched
from penstock.connectors.registry import Role, packages
from penstock.manifest.model import Manifest
from penstock.project.yaml.variables import Environ, resolve_variables


def packages_of(manifest: Manifest, environ: Environ) -> tuple[Package, ...]:
    """The packages that the connectors of a manifest need, with variables resolved."""
    configs: list[tuple[Role, Mapping[str, Any]]] = [
        *(("source", config) for config in manifest.streams.values()),
        *(("source", source) for query in manifest.queries for entry in query.inputs for source in entry.sources),
        *(("sink", output.sink) for query in manifest.queries for output in query.outputs),
    ]
    return packages((role, resolve_variables(dict(config), environ)[0]) for role, config in configs)


def fetch_packages(packages: Iterable[Package], say: Callable[[str], None]) -> list[Path]:
    """The files of packages. `say` is called before a download."""
    wanted = list(packages)
    if wanted and not is_fetched(wanted):
        say("Fetching packages …")
    return fetch(wanted) if wanted else []
