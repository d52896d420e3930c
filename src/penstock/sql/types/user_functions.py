"""The functions that users write in Python: their signatures, and their calls in a tree."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from sqlglot import exp

PREFIX: Final = "PENSTOCK_USER_"
"""The prefix of user functions in Spark SQL."""


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A Python function that SQL calls by name. Types are in Spark SQL.

    `file` is relative to the directory of the project. `digest` identifies the source of the function, of its file and
    of the files that it imports.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    file: str
    line: int
    digest: str
    description: str = ""
    refused: bool = False
    """Whether its source has mistakes, so that nothing is known of it but its name."""

    @property
    def spark_name(self) -> str:
        """The name in Spark SQL. It changes with the type of the result, which is a part of the SQL."""
        return f"{PREFIX}{self.name.upper()}_{zlib.crc32(self.returns.encode()):08x}".upper()

    @property
    def signature(self) -> str:
        listed = ", ".join(f"{name} {kind}" for name, kind in self.parameters)
        return f"{self.name}({listed}) -> {self.returns}"


UserFunctions: TypeAlias = Mapping[str, UserFunction]
"""User functions by name, in upper case."""
NO_FUNCTIONS: Final[UserFunctions] = MappingProxyType({})


def plain_name(word: str) -> str:
    """Return the name of a function in messages: of a user function without what Spark SQL adds to it."""
    return word.removeprefix(PREFIX).rpartition("_")[0] if word.startswith(PREFIX) else word


def user_calls(tree: exp.Expr, functions: UserFunctions) -> Iterator[tuple[exp.Anonymous, UserFunction]]:
    """Return the calls of user functions in a tree."""
    for node in tree.find_all(exp.Anonymous) if functions else ():
        function = functions.get(node.name.upper())
        if function is not None and not function.refused:
            yield node, function
