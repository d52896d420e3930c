"""The kernel of every operator."""

import pyarrow as pa

from penstock.keyed.aggregate import AggregateKernel
from penstock.keyed.change_join import ChangeJoinKernel
from penstock.keyed.interval_join import IntervalJoinKernel
from penstock.keyed.kernel import Kernel
from penstock.keyed.latest import LatestKernel
from penstock.keyed.operators import (
    Aggregate,
    ChangeJoin,
    IntervalJoin,
    LatestPerKey,
    Operator,
    OverWindow,
    Ranking,
    VersionJoin,
)
from penstock.keyed.over import OverKernel
from penstock.keyed.ranking import RankingKernel
from penstock.keyed.version_join import VersionJoinKernel


def kernel_for(operator: Operator, schemas: tuple[pa.Schema, ...]) -> Kernel:
    """What does the work of an operator on rows of these schemas, one for each input."""
    match operator:
        case Aggregate():
            return AggregateKernel(operator, schemas[0])
        case Ranking():
            return RankingKernel(operator, schemas[0])
        case LatestPerKey():
            return LatestKernel(operator, schemas[0])
        case OverWindow():
            return OverKernel(operator, schemas)
        case VersionJoin():
            return VersionJoinKernel(operator, schemas)
        case ChangeJoin():
            return ChangeJoinKernel(operator, schemas)
        case IntervalJoin():
            return IntervalJoinKernel(operator, schemas)
