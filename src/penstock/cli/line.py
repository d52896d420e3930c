"""The line, as the commands walk it: load, parse, link, compile, plan."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import Diagnostic, Origin, PlanRefused, ProjectInvalid, did_you_mean, has_errors
from penstock.graph.graph import Graph, Node
from penstock.graph.link import link
from penstock.graph.schemas import discover
from penstock.manifest.compile import compile
from penstock.manifest.model import Manifest
from penstock.plan.diff import diff
from penstock.plan.place import Place
from penstock.plan.state import SqliteStore, read_deployed
from penstock.plan.steps import Plan
from penstock.project.load import load
from penstock.project.parse import parse


@dataclass(frozen=True, slots=True)
class Checked:
    """A sound project. `notes` are the diagnostics that are no errors."""

    root: Path
    graph: Graph
    notes: tuple[Diagnostic, ...]

    @property
    def place(self) -> Place:
        return Place(self.root, f"{self.graph.format}.{self.graph.name}")


def check(path: Path, *, ignore_runtime: bool = False) -> Checked:
    """Load, parse and link; raise ProjectInvalid with everything that is wrong, all at once.

    With `ignore_runtime`, mistakes in the project's `runtime` section do not count.
    """
    documents, diagnostics = load(path)
    if documents is None:
        raise ProjectInvalid(diagnostics)
    project, notes = parse(documents)
    diagnostics += notes
    graph = None
    if project is not None:
        graph, notes = link(project, discover(project, documents.root))
        diagnostics += notes
    counted = [d for d in diagnostics if not (ignore_runtime and d.path.partition(".")[0] == "runtime")]
    ordered = tuple(sorted(counted, key=_by_place))
    if graph is None or has_errors(ordered):
        raise ProjectInvalid(ordered)
    return Checked(documents.root, graph, ordered)


def compiled(checked: Checked) -> Manifest:
    return compile(checked.graph)


def planned(
    checked: Checked, manifest: Manifest, *, select: Collection[str] = (), allow_rebuild: Collection[str] = ()
) -> Plan:
    names = [q.name for q in manifest.queries]
    for name in (*select, *allow_rebuild):
        if name not in names:
            text = f"there is no query `{name}` in this project"
            raise PlanRefused("unknown-node", text, hint=did_you_mean(name, names))
    deployed = read_deployed(SqliteStore(checked.place.state_file), checked.place)
    return diff(manifest, deployed, select=select, allow_rebuild=allow_rebuild)


def node_named(graph: Graph, name: str) -> Node:
    node = graph.named(name)
    if node is None:
        text = f"there is no node `{name}` in this project"
        hint = did_you_mean(name, (n.name for n in graph.nodes.values()))
        raise ProjectInvalid([Diagnostic("unknown-node", text, hint=hint, params={"name": name})])
    return node


def _by_place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    origin = diagnostic.origin or Origin("")
    return origin.file, origin.line or 0, origin.column or 0
