from contextlib import nullcontext
from typing import Annotated

import typer

from penstock.cli import options, output
from penstock.cli.plan import destructive_refusal
from penstock.plan.deployed.state import forget_retired_queries
from penstock.plan.leftovers import Leftover, find_leftovers, remove_leftover
from penstock.workflow.stages import check, compile_project


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    remove: Annotated[bool, typer.Option("--remove", help="Delete what is listed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete even if the environment forbids it.")] = False,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """List checkpoints and topics that no query uses any more, and delete them with --remove."""
    from penstock.runtime.run.lock import run_lock

    checked = check(options.target(path, directory, env, var, config=config))
    place, store = checked.place, checked.store
    if remove and checked.environment is not None and not checked.environment.allow_destructive and not force:
        raise destructive_refusal(f"`{checked.environment.name}` forbids deleting")
    with run_lock(place.lock_file) if remove else nullcontext():
        found = find_leftovers(compile_project(checked), place, store, checked.clusters)
        listed = [(leftover, leftover.bytes) for leftover in found]
        if remove:
            for leftover in found:
                remove_leftover(leftover, checked.clusters)
            forget_retired_queries(store, place)
    if form is options.OutputFormat.JSON:
        output.put_json({"removed": remove, "leftovers": [_json(leftover, size) for leftover, size in listed]})
        return
    if not found:
        output.put("There is nothing to remove.")
        return
    for leftover, size in listed:
        shown = "" if size is None else f" ({size / 2**20:,.1f} MB)"
        output.put(f"  - {leftover.kind} {leftover.name}{shown}: {leftover.reason}")
    output.put(f"{len(found)} removed." if remove else f"{len(found)} can be removed: `penstock clean --remove`.")


def _json(leftover: Leftover, size: int | None) -> dict[str, object]:
    return {"kind": leftover.kind, "name": leftover.name, "reason": leftover.reason, "bytes": size}
