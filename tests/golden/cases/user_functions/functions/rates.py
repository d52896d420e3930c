from decimal import Decimal

import pyarrow as pa


def _rate(country):
    return pa.array([Decimal("0.19")] * len(country))
