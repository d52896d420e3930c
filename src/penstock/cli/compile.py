from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import options, output
from penstock.errors import ServiceError
from penstock.graph.graph import Graph, Node
from penstock.graph.lineage import describe_changes
from penstock.manifest.artifacts import artifacts, written_files
from penstock.manifest.compile import compile
from penstock.manifest.model import Manifest
from penstock.workflow.stages import check

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to write. Default: `generated` in the project.", show_default=False),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, without writing it.")]


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    folder: OutputOption = None,
    dry_run: DryRunOption = False,
    strict: options.StrictOption = False,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Write the manifest and its parts: the SQL that Spark would run, topics, connectors and schemas."""
    wanted = options.target(path, directory, env, var, strict=strict, config=config)
    checked = check(replace(wanted, remember=not dry_run))
    manifest = compile(checked.graph, checked.digests)
    folder = folder or checked.root / "generated"
    if not dry_run:
        _write(folder, manifest)
    if form is options.OutputFormat.JSON:
        output.put(manifest.to_json().rstrip())
        return
    output.show_diagnostics(checked.notes)
    output.put(f"{'Would write' if dry_run else 'Wrote'} {folder}: revision {manifest.revision}")
    for heading, names in _contents(manifest, checked.graph):
        if names:
            output.put(f"{heading} ({len(names)}):")
            for name in names:
                output.put(f"  - {name}")


def _contents(manifest: Manifest, graph: Graph) -> list[tuple[str, list[str]]]:
    decided = {node.id: f" ({_about(node)})" for node in graph.nodes.values() if node.decided_by}

    def query(spec_name: str, outputs: tuple[str, ...]) -> str:
        return spec_name + "".join(decided.get(node_id, "") for node_id in outputs)

    return [
        ("Schemas", [f"{schema.subject} ({schema.schema_type})" for schema in manifest.schemas]),
        ("Topics", [topic.name for topic in manifest.topics]),
        ("Queries", [query(q.name, tuple(o.node for o in q.outputs)) for q in manifest.queries]),
        ("Connectors", [query(c.name, (c.node,)) for c in manifest.connectors]),
        ("Gateway rules", [query(rule.name, (rule.node,)) for rule in manifest.gateway_rules]),
    ]


def _about(node: Node) -> str:
    """How a model is materialized and why, and whether its rows are changes."""
    changes = describe_changes(node)
    return f"{node.materialized}: {node.decided_by}" + (f"; {changes}" if changes else "")


def _write(folder: Path, manifest: Manifest) -> None:
    """Write every file atomically, the manifest last. Then remove files of an earlier run that are no longer part of
    it."""
    files = artifacts(manifest)
    try:
        stale = written_files(folder) - files.keys()
        for name, text in files.items():
            file = folder / name
            staged = file.with_name(f".{file.name}.new")
            file.parent.mkdir(parents=True, exist_ok=True)
            staged.write_text(text, encoding="utf-8")
            staged.replace(file)
        for name in sorted(stale):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        text = f"cannot write {error.filename or folder}: {error.strerror}"
        raise ServiceError("not-writable", text, hint="choose another with -o") from error
