"""Known types in a tree, and the families that they belong to."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from penstock.sql.parse.window_calls import find_window_calls
from penstock.sql.types.flink_inference import TIMESTAMPS
from penstock.sql.types.inference_overrides import doubtful_nodes

Family: TypeAlias = Literal["number", "text", "time", "date", "truth", "bytes", "nested"]

MEMBERS: Final[Mapping[Family, frozenset[exp.DType]]] = {
    "number": frozenset(exp.DataType.NUMERIC_TYPES),
    "text": frozenset(exp.DataType.TEXT_TYPES),
    "time": frozenset(TIMESTAMPS),
    "date": frozenset({exp.DType.DATE}),
    "truth": frozenset({exp.DType.BOOLEAN}),
    "bytes": frozenset({exp.DType.BINARY, exp.DType.VARBINARY}),
    "nested": frozenset({exp.DType.ARRAY, exp.DType.MAP, exp.DType.STRUCT}),
}
_FAMILIES: Final[Mapping[exp.DType, Family]] = {kind: family for family, kinds in MEMBERS.items() for kind in kinds}


class KnownTypes:
    """The types of an annotated tree. Columns are identified by name: a doubtful one is doubtful everywhere."""

    def __init__(self, typed: exp.Expr) -> None:
        self._unsure: set[int] = set()
        columns: dict[str, list[exp.Column]] = {}
        for column in typed.find_all(exp.Column):
            columns.setdefault(column.name.casefold(), []).append(column)
        for node in doubtful_nodes(typed):
            self._mark_doubtful(node)
        doubted = {
            call.time.name.casefold()
            for call in find_window_calls(typed.find_all(exp.Anonymous))
            if isinstance(call.time, exp.Column) and _family(call.time) != "time"
        }  # a window may turn it into event time
        inner = [select for select in typed.find_all(exp.Select) if select is not typed]
        known: set[str] = set()
        while True:
            for name in doubted - known:
                for column in columns.get(name, []):
                    self._mark_doubtful(column)
            known |= doubted
            doubted = {e.alias_or_name.casefold() for s in inner for e in s.expressions if not self._is_sure(e)}
            if doubted <= known:
                return

    def _mark_doubtful(self, node: exp.Expr | None) -> None:
        """Mark a node and everything that contains it as doubtful."""
        while node is not None and id(node) not in self._unsure:
            self._unsure.add(id(node))
            node = node.parent

    def _is_sure(self, node: exp.Expr) -> bool:
        return id(node) not in self._unsure

    def type_of(self, node: exp.Expr) -> exp.DataType | None:
        return node.type if node.type is not None and self._is_sure(node) else None

    def family_of(self, node: exp.Expr) -> Family | None:
        return _family(node) if self._is_sure(node) else None


def _family(node: exp.Expr) -> Family | None:
    return None if node.type is None else family_of_type(node.type)


def family_of_type(kind: exp.Expr) -> Family | None:
    return _FAMILIES.get(kind.this)
