"""link: Project -> Graph. Names are resolved and ordered; columns follow where they are known."""

from collections.abc import Mapping
from datetime import date

from penstock.errors import Diagnostic
from penstock.graph.analysis_cache import AnalysisCache
from penstock.graph.graph import Graph
from penstock.graph.pipeline.link import link_pipeline
from penstock.graph.stream_project.link import link_project
from penstock.project.parse import Project
from penstock.project.project import StreamProject
from penstock.sql.types.columns import Columns

Schemas = Mapping[str, Columns]
"""The known columns of outside systems, by node id. A missing node is unknown."""


def link(project: Project, schemas: Schemas, memory: AnalysisCache, today: date) -> tuple[Graph, list[Diagnostic]]:
    """Link a project or pipeline. `memory` only saves time; `today` decides which waivers have ended."""
    if isinstance(project, StreamProject):
        return link_project(project, schemas, memory, today)
    return link_pipeline(project, schemas)
