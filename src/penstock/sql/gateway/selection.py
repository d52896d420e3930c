"""What a gateway selects from the records of one topic: fields, and conditions on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from penstock.sql.types.columns import Columns


@dataclass(frozen=True, slots=True)
class SelectedOutput:
    """One output: a field, or CASE over fields. `of` is the column of the input that it shows, folded."""

    name: str
    text: str
    of: str | None = None
    is_field: bool = True

    def __str__(self) -> str:
        return self.text if self.text == self.name else f"{self.text} AS {self.name}"


@dataclass(frozen=True, slots=True)
class Selection:
    """What a gateway is to do with the records of a topic. `outputs` is None if they stay as they are."""

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
    """What a query reads: its columns, where they are known, what of it is masked, and what a gateway makes of it."""

    columns: Columns | None = None
    masked: frozenset[str] = frozenset()
    selection: Selection = EVERYTHING

    @property
    def outputs(self) -> Mapping[str, SelectedOutput]:
        return MappingProxyType({output.name.casefold(): output for output in self.selection.outputs or ()})
