import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import options, output
from penstock.clients.extras import require
from penstock.errors import ServiceError
from penstock.manifest.compile import compile
from penstock.workflow.stages import Target, check

app = options.command_group("The documentation of a project.")
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to write. Default: `site` in the project.", show_default=False),
]


@app.command("generate")
def generate(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    folder: OutputOption = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Write a site that describes the project. It opens from disk and needs no network."""
    site = _generate_site(options.target(path, directory, env, var), folder)
    if form is options.OutputFormat.JSON:
        output.put_json({"directory": str(site), "index": str(site / "index.html")})
    else:
        output.put(f"Wrote {site}. Open {site / 'index.html'}.")


@app.command("serve")
def serve(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    folder: OutputOption = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 chooses a free one.")] = 8080,
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write the site and serve it on this machine until Ctrl-C."""
    from penstock.site.serve import serve as bind

    site = _generate_site(options.target(path, directory, env, var), folder)
    try:
        server = bind(site, port)
    except OSError as error:
        text = f"port {port} cannot be used: {error.strerror}"
        raise ServiceError("unreachable", text, hint="choose another with --port") from error
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    output.say(f"Serving {site} at {address} until Ctrl-C.")
    if browse:
        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        output.say()
    finally:
        server.server_close()


def _generate_site(wanted: Target, folder: Path | None) -> Path:
    from penstock.site.describe import describe
    from penstock.site.write import write_site

    require("fast_sugiyama", extra="docs")
    checked = check(wanted, ignore_runtime=True, governed=False)
    output.show_diagnostics(checked.notes)
    environment = checked.environment.name if checked.environment else None
    site = folder or checked.root / "site"
    try:
        write_site(describe(checked.graph, compile(checked.graph, checked.digests), checked.notes, environment), site)
    except OSError as error:
        text = f"cannot write {error.filename or site}: {error.strerror}"
        raise ServiceError("not-writable", text, hint="choose another with -o") from error
    return site
