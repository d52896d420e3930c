"""Fetch what can be known about outside columns, without Spark, before linking."""

from collections.abc import Mapping
from pathlib import Path

from penstock.connectors.topic import TopicSource
from penstock.project.parse import Project
from penstock.project.parse_project import StreamProject
from penstock.sql.types import Columns


def discover(project: Project, root: Path) -> Mapping[str, Columns]:
    """Columns by node id; what cannot be told is left out."""
    if isinstance(project, StreamProject):
        undeclared = [s.value for s in project.sources if not s.value.columns and project.runtime.kafka is None]
        sources = {s.name: TopicSource(topic=s.topic) for s in undeclared}
        found = {f"source.{name}": source.rooted_at(root).known_columns() for name, source in sources.items()}
    else:
        found = {f"source.{name}": s.value.rooted_at(root).known_columns() for name, s in project.sources.items()}
    return {node_id: columns for node_id, columns in found.items() if columns is not None}
