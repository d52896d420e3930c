import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from penstock.cli import options, output
from penstock.cli.readiness import Finding, connector_findings, finding
from penstock.errors import PenstockError, ServiceError
from penstock.manifest.model import QuerySpec
from penstock.plan.deployed.checkpoint_damage import Damage
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import batch_outputs, read_deployed_state
from penstock.project.runtime import Runtime
from penstock.workflow.stages import CheckedProject, Target, check, compile_project

MEMORY_GB = 2
DISK_GB = 1
CONNECT_SECS = 3


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair damaged checkpoints where that loses no rows.")
    ] = False,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Check this machine, the checkpoints, and the connection to every system that the project names."""
    wanted = options.target(path, directory, env, var, config=config)
    findings = [*_machine(wanted.path), *_project(wanted, repair)]
    healthy = all(f.fine for f in findings)
    if form is options.OutputFormat.JSON:
        listed = [{"check": f.what, "ok": f.fine, "detail": f.detail} for f in findings]
        output.put_json({"healthy": healthy, "checks": listed})
    else:
        width = max(len(f.what) for f in findings)
        for f in findings:
            output.put(f"{'ok  ' if f.fine else 'FAIL'}  {f.what:<{width}}  {f.detail}")
    if not healthy:
        raise typer.Exit(ServiceError.exit_code)


def _machine(path: Path) -> Iterator[Finding]:
    from penstock.clients.jvm.java import find_java

    found = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", sys.version_info >= (3, 11), found)
    yield finding("java", lambda: str(find_java()))
    yield Finding("pyspark", True, version("pyspark"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield Finding("memory", memory >= MEMORY_GB, f"{memory:.1f} GB; {MEMORY_GB} GB are needed")
    folder = next(p for p in (path.absolute(), *path.absolute().parents) if p.is_dir())
    free = shutil.disk_usage(folder).free / 2**30
    yield Finding("disk", free >= DISK_GB, f"{free:.1f} GB free; {DISK_GB} GB are needed")
    writable = os.access(folder, os.W_OK)
    yield Finding("directory", writable, f"{folder} can{'' if writable else 'not'} be written")


def _project(wanted: Target, repair: bool) -> Iterator[Finding]:
    try:
        checked = check(wanted)
    except PenstockError as error:
        yield Finding("project", False, str(error).splitlines()[0])
        return
    yield Finding("project", True, f"{checked.graph.format} '{checked.graph.name}' is valid")
    for what, address in _addresses(checked.graph.runtime):
        yield finding(what, partial(_reach, address))
    yield from _checkpoints(checked, repair)
    yield from connector_findings(checked, compile_project(checked))


def _checkpoints(checked: CheckedProject, repair: bool) -> Iterator[Finding]:
    """Report damaged checkpoints, or repair them. The lock keeps a checkpoint in use from being repaired."""
    from penstock.runtime.run.lock import run_lock

    place = checked.place
    deployed = read_deployed_state(checked.store, place)
    damaged = {name: query for name, query in deployed.queries.items() if name in deployed.damaged}
    if not damaged:
        if deployed.checkpoints:
            yield Finding("checkpoints", True, f"{len(deployed.checkpoints)} are intact")
        return
    with run_lock(place.lock_file) if repair else nullcontext():
        for name, query in damaged.items():
            yield from _repair_checkpoint(query, place) if repair else [_damage(name, deployed.damaged[name])]


def _repair_checkpoint(query: QuerySpec, place: ProjectPlace) -> Iterator[Finding]:
    from penstock.runtime.checkpoint import repair

    for damage in repair.repair(place.checkpoint(query.name), query.name, batch_outputs(query, place)):
        done = damage.repair is not None
        yield Finding(f"checkpoint {query.name}", True, f"repaired: {damage}") if done else _damage(query.name, damage)


def _damage(name: str, damage: Damage) -> Finding:
    failure = damage.failure(name)
    return Finding(f"checkpoint {name}", False, f"{damage} ({failure.hint})")


def _addresses(runtime: Runtime) -> Iterator[tuple[str, str]]:
    if runtime.kafka:
        yield from (("kafka", server) for server in runtime.kafka.bootstrap_servers)
    if runtime.schema_registry:
        yield from (("schema registry", url) for url in runtime.schema_registry.url)
    for name, cluster in (runtime.connect.clusters if runtime.connect else {}).items():
        if cluster.rest_url:
            yield f"connect {name}", cluster.rest_url
    if runtime.conduktor and runtime.conduktor.gateway and runtime.conduktor.gateway.admin_url:
        yield "gateway", runtime.conduktor.gateway.admin_url


def _reach(address: str) -> str:
    parts = urlsplit(address if "//" in address else f"//{address}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECS):
            return f"{parts.hostname}:{port} answers"
    except OSError as error:
        text = f"{parts.hostname}:{port} does not answer: {error.strerror or error}"
        raise ServiceError("unreachable", text, retriable=True) from error
