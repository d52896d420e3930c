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
"""What is known of the columns outside, by node id. A node that is not here is simply not known."""


def link(project: Project, schemas: Schemas, memory: AnalysisCache, today: date) -> tuple[Graph, list[Diagnostic]]:
    """`memory` spares work and changes nothing; `today` is the day that waivers are judged by."""
    if isinstance(project, StreamProject):
        return link_project(project, schemas, memory, today)
    return link_pipeline(project, schemas)
