"""The services of `penstock dev`: their names, their order of start, and their connection settings."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from penstock.dev import clickhouse, connect, kafka, postgres, registry
from penstock.dev.processes import RunningService, find, stop

Begin = Callable[[Path, Mapping[str, RunningService]], RunningService]

SERVICES: Final[Mapping[str, Begin]] = {
    "kafka": lambda home, _: kafka.up(home, settings=kafka.AUTO_CREATE),
    "registry": lambda home, _: registry.up(home),
    "connect": lambda home, running: connect.up(home, str(running["kafka"].about["bootstrap_servers"])),
    "postgres": lambda home, _: postgres.up(home),
    "clickhouse": lambda home, _: clickhouse.up(home),
}
"""The services in the order in which they start."""
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {"connect": ("kafka",)}


def up(
    home: Path, names: Iterable[str], began: Callable[[str], None], *, auto_create_topics: bool = True
) -> dict[str, RunningService]:
    """Start the services that do not run yet, and those that they need. `began` gets each name before the start.

    With `auto_create_topics`, Kafka creates topics on the first write to them.
    """
    wanted = {need for name in names for need in (name, *NEEDS.get(name, ()))}
    running: dict[str, RunningService] = {}
    services = SERVICES if auto_create_topics else {**SERVICES, "kafka": lambda home, _: kafka.up(home)}
    for name, begin in services.items():
        if name in wanted:
            found = find(home / name)
            if found is None:
                began(name)
                found = begin(home / name, running)
            running[name] = found
    return running


def down(home: Path, names: Iterable[str]) -> list[str]:
    """Stop the services that run, in reverse order of start. Returns their names."""
    return [name for name in reversed(list(SERVICES)) if name in set(names) and stop(home / name)]


def status(home: Path) -> dict[str, RunningService]:
    return {name: found for name in SERVICES if (found := find(home / name)) is not None}


def report(running: Mapping[str, RunningService]) -> dict[str, Any]:
    """Return what clients need to know, by service."""
    return {name: dict(service.about) for name, service in running.items()}
