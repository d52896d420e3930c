from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.line import check, compiled
from penstock.cli.options import DirectoryOption, Format, FormatOption, PathArgument, chosen_path
from penstock.errors import ServiceError

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to write. Default: `generated` in the project.", show_default=False),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be written, write nothing.")]


def command(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    target: OutputOption = None,
    dry_run: DryRunOption = False,
    form: FormatOption = Format.TEXT,
) -> None:
    """Write the manifest. It holds the graph and the queries that Spark would run."""
    checked = check(chosen_path(path, directory))
    manifest = compiled(checked)
    folder = target or checked.root / "generated"
    file = folder / "manifest.json"
    if not dry_run:
        _write(file, manifest.to_json())
    if form is Format.JSON:
        output.put(manifest.to_json().rstrip())
        return
    output.show_diagnostics(checked.notes)
    output.put(f"{'Would write' if dry_run else 'Wrote'} {file}: revision {manifest.revision}")
    for query in manifest.queries:
        inputs = ", ".join(i.node for i in query.inputs)
        output.put(f"  {query.name}: {inputs} -> {', '.join(o.node for o in query.outputs)}")


def _write(file: Path, text: str) -> None:
    """The whole file or none of it."""
    staged = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        staged.write_text(text, encoding="utf-8")
        staged.replace(file)
    except OSError as error:
        raise ServiceError(
            "not-writable", f"cannot write {file}: {error.strerror}", hint="choose another with -o"
        ) from error
