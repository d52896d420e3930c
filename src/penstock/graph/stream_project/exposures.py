"""Exposures of a project as nodes."""

from collections.abc import Collection, Mapping

from penstock.errors import Diagnostic
from penstock.graph.analysis import known_ids, unknown_reference
from penstock.graph.graph import Node
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration

READS = ("consumes", "depends_on")
REFERENCES = (*READS, "produces")


def exposure_node(
    declared: Declaration[written.Exposure], nodes: Mapping[str, Node], known: Collection[str]
) -> tuple[Node, list[Diagnostic]]:
    """The node of an exposure: `consumes` and `depends_on` are its inputs, `produces` its outputs."""
    exposure = declared.value
    diagnostics: list[Diagnostic] = []
    for section in REFERENCES:
        for position, reference in enumerate(getattr(exposure, section)):
            if reference.id not in known:
                origin = declared.origin_of(section, position)
                diagnostics.append(unknown_reference(reference.id, known, declared, section, origin))
    reads = [r.id for r in (*exposure.consumes, *exposure.depends_on)]
    node = Node(
        f"exposure.{exposure.name}",
        "exposure",
        exposure.name,
        exposure,
        declared.origin,
        inputs=known_ids(reads, nodes),
        outputs=known_ids((r.id for r in exposure.produces), nodes),
        owner=exposure.owner,
        group=exposure.group,
        tags=exposure.tags,
        description=exposure.description,
    )
    return node, diagnostics
