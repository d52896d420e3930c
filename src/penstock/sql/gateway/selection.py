"""The selection that a gateway applies to the records of one topic: fields, and conditions on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from penstock.sql.types.columns import Columns


@dataclass(frozen=True, slots=True)
class SelectedOutput:
    """One output: a field, or CASE over fields. `of` is the input column that it shows, in lower case."""

    name: str
    text: str
    of: str | None = None
    is_field: bool = True

    def __str__(self) -> str:
        return self.text if self.text == self.name else f"{self.text} AS {self.name}"


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection that a gateway applies to a topic. `outputs` is None if the records stay unchanged."""

    outputs: tuple[SelectedOutput, ...] | None = None
    conditions: tuple[str, ...] = ()

    @property
    def where(self) -> str | None:
        return " AND ".join(self.conditions) or None

    def statement(self, topic: str) -> str:
        outputs = "*" if self.outputs is None else ", ".join(map(str, self.outputs))
        return f'SELECT {outputs} FROM "{topic}"' + (f" WHERE {self.where}" if self.where else "")


EVERYTHING: Final = Selection()


@dataclass(frozen=True, slots=True)
class GatewayInput:
    """The input of a query: its known columns, its masked columns, and the gateway's selection so far."""

    columns: Columns | None = None
    masked: frozenset[str] = frozenset()
    selection: Selection = EVERYTHING

    @property
    def outputs(self) -> Mapping[str, SelectedOutput]:
        return MappingProxyType({output.name.casefold(): output for output in self.selection.outputs or ()})
