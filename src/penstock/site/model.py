"""The model of a site: frozen values with everything that a page shows. It does not depend on manifests or graphs, so
the site can be built and tested alone. `None` and empty always mean "not known" or "not given", and the page then
leaves the entry out.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["source", "model", "exposure", "transform", "sink"]
TestKind = Literal["schema", "sample", "continuous"]
RuleStatus = Literal["broken", "waived", "kept"]

KINDS: tuple[Kind, ...] = ("source", "model", "transform", "sink", "exposure")
"""In the order in which data flows; lists, the sidebar and the graph use it."""


@dataclass(frozen=True, slots=True)
class SiteColumn:
    name: str
    type: str | None = None
    description: str | None = None
    classification: str | None = None
    masking: str | None = None
    tests: tuple[str, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()
    """Where the values come from: node id and column name."""


@dataclass(frozen=True, slots=True)
class SiteTest:
    name: str
    kind: TestKind
    description: str | None = None
    assertions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteRule:
    rule: str
    status: RuleStatus
    expected: str = ""
    actual: str = ""
    reason: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class SiteNote:
    """A diagnostic of the compiled project."""

    severity: str
    code: str
    message: str
    origin: str | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class SiteFunction:
    """A user function. `used_by` are the ids of the nodes whose SQL calls it."""

    name: str
    signature: str
    file: str
    description: str = ""
    used_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteNode:
    id: str
    kind: Kind
    name: str
    label: str = ""
    """One word under the name: the materialization, or the kind."""
    description: str | None = None
    owner: str | None = None
    group: str | None = None
    access: str | None = None
    tags: tuple[str, ...] = ()
    topic: str | None = None
    url: str | None = None
    origin: str | None = None
    columns: tuple[SiteColumn, ...] | None = None
    """None: the columns are not known, which is not the same as having none."""
    sql_written: str | None = None
    sql_run: str | None = None
    decided_by: str | None = None
    key: tuple[str, ...] = ()
    event_time: str | None = None
    tests: tuple[SiteTest, ...] = ()
    rules: tuple[SiteRule, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"{self.id}: {self.kind!r} is not a kind of element")


@dataclass(frozen=True, slots=True)
class Site:
    """A whole project. Ids are unique and every edge joins two nodes; origins of columns may name unknown nodes."""

    name: str
    version: str | None = None
    description: str | None = None
    environment: str | None = None
    nodes: tuple[SiteNode, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    notes: tuple[SiteNote, ...] = ()
    functions: tuple[SiteFunction, ...] = ()

    def __post_init__(self) -> None:
        known = {node.id for node in self.nodes}
        if len(known) != len(self.nodes):
            raise ValueError("two nodes of a site have one id")
        for edge in self.edges:
            if not known.issuperset(edge):
                raise ValueError(f"an edge of the site joins unknown nodes: {edge}")
