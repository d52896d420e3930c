"""The project format: models of `stream_project.yml` and of the files next to it."""

from penstock.project.stream_project.advanced import Interval, ModelConnector
from penstock.project.stream_project.exposure import Exposure
from penstock.project.stream_project.header import Defaults, EnvironmentFile, EnvironmentHeader, ProjectHeader, Safety
from penstock.project.stream_project.model import Materialized, MlOutput, Model, ModelSchema
from penstock.project.stream_project.parts import EventTime, Waiver, Watermark
from penstock.project.stream_project.rules import Rules
from penstock.project.stream_project.security import Classification, Mask
from penstock.project.stream_project.source import SchemaReference, Source
from penstock.project.stream_project.tests import Assertion, DataTest

__all__ = [
    "Assertion",
    "Classification",
    "DataTest",
    "Defaults",
    "EnvironmentFile",
    "EnvironmentHeader",
    "EventTime",
    "Exposure",
    "Interval",
    "Mask",
    "Materialized",
    "MlOutput",
    "Model",
    "ModelConnector",
    "ModelSchema",
    "ProjectHeader",
    "Rules",
    "Safety",
    "SchemaReference",
    "Source",
    "Waiver",
    "Watermark",
]
