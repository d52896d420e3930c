"""Which transforms there are."""

from collections.abc import Mapping
from typing import Final

from penstock.connectors.node import PipelineNode
from penstock.transforms.sql import SqlTransform

TRANSFORMS: Final[Mapping[str, type[PipelineNode]]] = {"sql": SqlTransform}
