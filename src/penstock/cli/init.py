from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
import yaml

from penstock.cli import output
from penstock.cli.options import FormatOption, OutputFormat
from penstock.cli.sample import write_minute
from penstock.errors import PlanRefused, ServiceError

MINUTES = 10
ORDERS_A_MINUTE = 1000


def command(
    target: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Where to write the project; created if it does not exist.")
    ],
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Write a small example project with sources, models, exposures and data."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise PlanRefused("target-exists", f"{target} exists and is not empty", hint="choose another directory")
    try:
        written = write_project(target, target.resolve().name)
        for minute in range(MINUTES):
            write_minute(target, minute, ORDERS_A_MINUTE)
    except OSError as error:
        raise ServiceError("not-writable", f"cannot write to {target}: {error.strerror}") from error
    if form is OutputFormat.JSON:
        output.put_json({"directory": str(target), "files": written})
        return
    output.put(f"Wrote {target} with {MINUTES * ORDERS_A_MINUTE:,} orders to read. Next:")
    output.put(f"  cd {target}\n  penstock lineage\n  penstock run --once\n  penstock show revenue_by_minute")


def write_project(target: Path, name: str) -> list[str]:
    """Write the files of the quickstart with another project name."""
    written = []
    for path, text in template_files():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("__NAME__", _yaml_text(name)), encoding="utf-8")
        written.append(path)
    return written


def _yaml_text(name: str) -> str:
    """A name as YAML: in quotes where YAML would read a number or a boolean."""
    return yaml.safe_dump(name, allow_unicode=True).splitlines()[0]


def template_files() -> Iterator[tuple[str, str]]:
    root = Path(str(files("penstock.cli"))) / "quickstart"
    for file in sorted(root.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(root)), file.read_text(encoding="utf-8")
