"""Which kernel does the work of which operator."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.keyed.aggregate import AggregateKernel
from penstock.keyed.kernel import Kernel
from penstock.keyed.operators import Operator


def kernel_for(operator: Operator, schemas: Sequence[pa.Schema]) -> Kernel:
    return AggregateKernel(operator, schemas[0])
