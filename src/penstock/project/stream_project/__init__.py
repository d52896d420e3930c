"""The project format: models of `stream_project.yml` and of the files next to it."""

from penstock.project.stream_project.advanced import Advanced, Interval, ModelConnector, ModelTopic, SparkJob
from penstock.project.stream_project.environment import EnvironmentFile, EnvironmentHeader, Safety
from penstock.project.stream_project.exposure import Exposure, Sla
from penstock.project.stream_project.header import Defaults, ProjectHeader, TopicDefaults, Variables
from penstock.project.stream_project.model import Materialized, MlOutput, Model, ModelSchema
from penstock.project.stream_project.parts import (
    ColumnCheck,
    ColumnSpec,
    EventTime,
    NodeReference,
    Waiver,
    Watermark,
)
from penstock.project.stream_project.rules import Rules
from penstock.project.stream_project.security import Access, Classification, Mask, Security
from penstock.project.stream_project.source import Freshness, SchemaReference, Source
from penstock.project.stream_project.tests import Assertion, DataTest

__all__ = [
    "Access",
    "Advanced",
    "Assertion",
    "Classification",
    "ColumnCheck",
    "ColumnSpec",
    "DataTest",
    "Defaults",
    "EnvironmentFile",
    "EnvironmentHeader",
    "EventTime",
    "Exposure",
    "Freshness",
    "Interval",
    "Mask",
    "Materialized",
    "MlOutput",
    "Model",
    "ModelConnector",
    "ModelSchema",
    "ModelTopic",
    "NodeReference",
    "ProjectHeader",
    "Rules",
    "Safety",
    "SchemaReference",
    "Security",
    "Sla",
    "Source",
    "SparkJob",
    "TopicDefaults",
    "Variables",
    "Waiver",
    "Watermark",
]
