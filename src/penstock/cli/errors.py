from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.line import Checked, check, compiled, node_named
from penstock.cli.options import ConfigOption, DirectoryOption, EnvOption, Format, FormatOption, PathArgument, target
from penstock.cli.packages import fetched, packages_of
from penstock.cli.table import lines
from penstock.clients.letters import Delivered, Letter, in_directories, outstanding
from penstock.clients.topic_names import error_topic
from penstock.errors import Diagnostic, ProjectInvalid
from penstock.plan.state import read_delivered

app = typer.Typer(
    help="Rows and records that could not be used: what they are, why, and deliver them again.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="NODE", help="Only those of this source, model or sink.")
]


@app.command("list")
def list_(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    config: ConfigOption = None,
    env: EnvOption = None,
    node: NodeOption = None,
    form: FormatOption = Format.TEXT,
) -> None:
    """List the records that wait: where they came from, and what was wrong."""
    found = letters_of(check(target(path, directory, env, config=config)), node)
    if form is Format.JSON:
        output.put_json([letter.to_json() for letter in found])
        return
    rows = [_row(number, letter) for number, letter in enumerate(found, 1)]
    for line in lines(rows, None):
        output.put(line)
    output.say(f"{len(found)} record{'s' if len(found) != 1 else ''}.")


@app.command("show")
def show(
    number: Annotated[int, typer.Argument(help="The number that `errors list` shows.", min=1)],
    path: PathArgument = None,
    directory: DirectoryOption = None,
    config: ConfigOption = None,
    env: EnvOption = None,
    node: NodeOption = None,
    form: FormatOption = Format.TEXT,
) -> None:
    """Show one record, whole."""
    found = letters_of(check(target(path, directory, env, config=config)), node)
    if number > len(found):
        text = f"there is no record {number}: {len(found)} wait"
        raise ProjectInvalid([Diagnostic("unknown-node", text, hint="see `penstock errors list`")])
    letter = found[number - 1].to_json()
    if form is Format.JSON:
        output.put_json(letter)
        return
    for name, value in letter.items():
        output.put(f"{name:<10} {'' if value is None else value}")


@app.command("replay")
def replay(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    config: ConfigOption = None,
    env: EnvOption = None,
    node: NodeOption = None,
    form: FormatOption = Format.TEXT,
) -> None:
    """Deliver the records that wait once more, each of them once. What fails again waits again."""
    checked = check(target(path, directory, env, config=config))
    waiting = letters_of(checked, node)
    result = _replayed(checked, waiting) if waiting else []
    if form is Format.JSON:
        output.put_json(result)
        return
    if not result:
        output.put("Nothing waits.")
    for row in result:
        failed = f", {row['failed']:,} failed again" if row["failed"] else ""
        output.put(f"{row['node']}: {row['records']:,} delivered again, {row['rows']:,} rows out{failed}")


def _replayed(checked: Checked, waiting: list[Letter]) -> list[dict[str, Any]]:
    from penstock.clients.java import find_java

    manifest = compiled(checked)
    by_node = {node: [x for x in waiting if x.node == node] for node in dict.fromkeys(x.node for x in waiting)}
    find_java()
    jars = fetched(packages_of(manifest, checked.environ))
    output.say("Starting Spark …")
    from penstock.runtime.replay import replayed
    from penstock.runtime.session import spark_session

    store = checked.store
    result = []
    with spark_session(manifest.spark, checked.place.logs, jars) as spark:
        for name, letters in by_node.items():
            done = replayed(manifest, name, letters, spark, checked.place, store, checked.environ, checked.clusters)
            result.append({"node": name, "records": len(letters), "rows": done.written, "failed": done.failed})
    return result


def letters_of(checked: Checked, node: str | None) -> list[Letter]:
    """The letters that wait, of one node or of all."""
    wanted = None if node is None else node_named(checked.graph, node).id
    nodes = [n.id for n in checked.graph.nodes.values() if n.kind != "exposure"]
    topics = [error_topic(node_id) for node_id in nodes]
    sink = checked.clusters.sink
    if sink is not None:
        from penstock.clients.kafka.letters import in_topics

        found: Iterable[Letter] = in_topics(sink.kafka, topics)
    else:
        found = in_directories(checked.place.topics, topics)
    delivered = {key: Delivered(parts) for key, parts in _delivered(checked).items()}
    chosen = [x for x in found if wanted is None or wanted == x.node or error_topic(wanted) == x.kept_in]
    return outstanding((x for x in chosen if x.node in nodes), delivered)


def _delivered(checked: Checked) -> Mapping[tuple[str, str], Mapping[str, int]]:
    return read_delivered(checked.store, checked.place)


def _row(number: int, letter: Letter) -> dict[str, Any]:
    about = letter.about
    place = about["topic"] if about["offset"] is None else f"{about['topic']}/{about['partition']}/{about['offset']}"
    value = str(about["value"] or "")
    return {
        "": number,
        "record": place,
        "code": about["code"],
        "node": letter.node,
        "time": about["time"],
        "value": value if len(value) <= 40 else value[:39] + "…",
    }
