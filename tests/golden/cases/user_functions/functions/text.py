"""Functions of SQL, as a guide would show them."""

import pyarrow.compute as pc

from penstock.functions import DECIMAL, STRING

from .rates import _rate


def initials(name: STRING) -> STRING:
    """The first letter of a name."""
    return pc.utf8_upper(pc.utf8_slice_codeunits(name, 0, 1))


def vat(country: STRING, net: DECIMAL(10, 2)) -> DECIMAL(18, 4):
    return pc.multiply(net, _rate(country))
