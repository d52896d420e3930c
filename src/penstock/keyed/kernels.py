"""The kernel of every operator."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.keyed.aggregate import AggregateKernel
from penstock.keyed.kernel import Kernel
from penstock.keyed.latest import LatestKernel
from penstock.keyed.operators import Aggregate, Latest, Operator, Ranking
from penstock.keyed.ranking import RankingKernel


def kernel_for(operator: Operator, schemas: Sequence[pa.Schema]) -> Kernel:
    """What does the work of an operator on rows of these schemas, one for each input."""
    match operator:
        case Aggregate():
            return AggregateKernel(operator, schemas[0])
        case Ranking():
            return RankingKernel(operator, schemas[0])
        case Latest():
            return LatestKernel(operator, schemas[0])
    raise NotImplementedError(f"no kernel for {type(operator).__name__}")
