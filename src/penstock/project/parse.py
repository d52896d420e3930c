"""parse: Documents -> Project. Plain values become frozen models; every mistake is a diagnostic, all at once."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from penstock.errors import Diagnostic
from penstock.project.functions.read import read_functions
from penstock.project.load import Documents
from penstock.project.parse_pipeline import PipelineReader
from penstock.project.parse_project import ProjectReader
from penstock.project.project import Pipeline, StreamProject

Project: TypeAlias = StreamProject | Pipeline


def parse(
    documents: Documents, variables: Mapping[str, Any] = MappingProxyType({}), *, stand_ins: bool = False
) -> tuple[Project | None, list[Diagnostic]]:
    """The project, or None if too little could be read. `variables` override those of the project.

    With `stand_ins`, elements with environment variables that are not set are read too; such a project must not run.
    """
    if not documents.files:
        return None, []
    functions, notes = read_functions(documents.functions)
    if documents.format == "project":
        project_reader = ProjectReader(documents.environ, stand_ins=stand_ins)
        project = project_reader.stream_project(documents, variables)
        return project and replace(project, functions=functions), [*project_reader.diagnostics, *notes]
    pipeline_reader = PipelineReader(documents.environ, documents.settings, stand_ins=stand_ins)
    pipeline = pipeline_reader.pipeline(documents)
    return pipeline and replace(pipeline, functions=functions), [*pipeline_reader.diagnostics, *notes]
