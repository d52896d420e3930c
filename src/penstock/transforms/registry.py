"""Which transforms there are."""

from collections.abc import Mapping
from typing import Final

from penstock.config import Frozen
from penstock.transforms.sql import SqlTransform

TRANSFORMS: Final[Mapping[str, type[Frozen]]] = {"sql": SqlTransform}
