"""The choice of the kernel for an operator."""

import pyarrow as pa

from penstock.keyed.aggregates.aggregate import AggregateKernel
from penstock.keyed.joins.changelog_join import ChangeJoinKernel
from penstock.keyed.joins.interval_join import IntervalJoinKernel
from penstock.keyed.joins.temporal_join import VersionJoinKernel
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
from penstock.keyed.window_functions.over import OverKernel
from penstock.keyed.window_functions.top_n import RankingKernel


def kernel_for(operator: Operator, schemas: tuple[pa.Schema, ...]) -> Kernel:
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
