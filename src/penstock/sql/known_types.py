"""The types in a tree, as far as they can be relied on, and the families that they belong to."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from penstock.sql.functions import is_trusted
from penstock.sql.window_calls import calls_in

Family: TypeAlias = Literal["number", "text", "time", "date", "truth", "bytes", "nested"]

_MOMENTS: Final = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ)
MEMBERS: Final[Mapping[Family, frozenset[exp.DType]]] = {
    "number": frozenset(exp.DataType.NUMERIC_TYPES),
    "text": frozenset(exp.DataType.TEXT_TYPES),
    "time": frozenset(_MOMENTS),
    "date": frozenset({exp.DType.DATE}),
    "truth": frozenset({exp.DType.BOOLEAN}),
    "bytes": frozenset({exp.DType.BINARY, exp.DType.VARBINARY}),
    "nested": frozenset({exp.DType.ARRAY, exp.DType.MAP, exp.DType.STRUCT}),
}
_FAMILIES: Final[Mapping[exp.DType, Family]] = {kind: family for family, kinds in MEMBERS.items() for kind in kinds}


class KnownTypes:
    """Types in a tree that has been annotated. A column is known by its name: if it is doubted, it is so everywhere."""

    def __init__(self, typed: exp.Expr) -> None:
        self._doubted = {
            call.time.name.casefold()
            for call in calls_in(typed.find_all(exp.Anonymous))
            if isinstance(call.time, exp.Column) and _family(call.time) != "time"
        }  # a window may make an event time of it
        inner = [select for select in typed.find_all(exp.Select) if select is not typed]
        found = -1
        while inner and found != len(self._doubted):
            found = len(self._doubted)
            self._doubted |= {
                e.alias_or_name.casefold() for select in inner for e in select.expressions if not self._is_sure(e)
            }

    def _is_sure(self, node: exp.Expr) -> bool:
        if not is_trusted(node):
            return False
        return not self._doubted or not any(c.name.casefold() in self._doubted for c in node.find_all(exp.Column))

    def type_of(self, node: exp.Expr) -> exp.DataType | None:
        return node.type if node.type is not None and self._is_sure(node) else None

    def family_of(self, node: exp.Expr) -> Family | None:
        return _family(node) if self._is_sure(node) else None


def _family(node: exp.Expr) -> Family | None:
    return None if node.type is None else family_of_type(node.type)


def family_of_type(kind: exp.Expr) -> Family | None:
    return _FAMILIES.get(kind.this)
