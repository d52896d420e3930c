import typer

from penstock.cli import output
from penstock.cli.line import check
from penstock.cli.options import DirectoryOption, Format, FormatOption, PathArgument, chosen_path
from penstock.errors import ProjectInvalid


def command(path: PathArgument = None, directory: DirectoryOption = None, form: FormatOption = Format.TEXT) -> None:
    """Check the documents: YAML, names, SQL, columns. Starts nothing."""
    try:
        checked = check(chosen_path(path, directory))
    except ProjectInvalid as invalid:
        if form is Format.TEXT:
            raise
        output.put_json(output.report(invalid.diagnostics))
        raise typer.Exit(invalid.exit_code) from None
    if form is Format.JSON:
        output.put_json(output.report(checked.notes))
        return
    output.show_diagnostics(checked.notes)
    kinds = [node.kind for node in checked.graph.nodes.values()]
    counted = [f"{kinds.count(kind)} {kind}{'s' if kinds.count(kind) != 1 else ''}" for kind in dict.fromkeys(kinds)]
    output.put(f"{checked.graph.format.capitalize()} '{checked.graph.name}' is valid: {', '.join(counted)}.")
