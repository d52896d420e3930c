"""`ML_PREDICT` and `ML_EVALUATE`: find the models that a query calls, and replace the calls by Spark functions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from penstock.sql.parse.query import Query
from penstock.sql.types.inference_overrides import MODEL_CALLS


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of a machine learning model. `model` is empty if the first argument does not name one.

    `arguments` is the number of values passed to the model; `as_table` is whether the call is used as a table.
    """

    function: str
    model: str
    offset: int
    arguments: int
    as_table: bool


def model_calls(query: Query) -> tuple[ModelCall, ...]:
    """Return the calls in the order of the text."""
    found: list[ModelCall] = []
    for call in _calls(query.tree):
        arguments, offset = max(len(call.expressions) - 1, 0), call.meta.get("start", 0)
        as_table = isinstance(call.find_ancestor(exp.Select, exp.Lateral, exp.Table), exp.Lateral | exp.Table)
        found.append(ModelCall(call.name.upper(), _model_name(call), offset, arguments, as_table))
    return tuple(sorted(found, key=lambda call: call.offset))


def name_models(query: Query) -> Query:
    """Replace the names of models by string literals, because a bare word there is not a column."""

    def edit(tree: exp.Query) -> exp.Query:
        for call in list(_calls(tree)):
            if call.expressions and isinstance(call.expressions[0], exp.Column):
                call.expressions[0].replace(exp.Literal.string(_model_name(call)))
        return tree

    return query.with_edit(edit)


def with_functions(query: Query, functions: Mapping[str, str]) -> Query:
    """Replace each call by a Spark function. `functions` has the function names by model."""

    def edit(tree: exp.Query) -> exp.Query:
        for call in list(_calls(tree)):
            if (function := functions.get(_model_name(call))) is not None:
                call.replace(exp.Anonymous(this=function, expressions=call.expressions[1:]))
        return tree

    return query.with_edit(edit)


def _calls(tree: exp.Expr) -> Iterator[exp.Anonymous]:
    return (node for node in tree.find_all(exp.Anonymous) if node.name.upper() in MODEL_CALLS)


def _model_name(call: exp.Anonymous) -> str:
    match call.expressions[:1]:
        case [exp.Literal() as literal] if literal.is_string:
            return literal.name
        case [exp.Column() as column]:
            return ".".join(part.name for part in column.parts)
        case _:
            return ""
