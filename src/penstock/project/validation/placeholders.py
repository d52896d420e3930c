"""Placeholders for environment variables that are not set, so that the rest of an element is still checked. Only
`validate` uses them: commands that run or write refuse a variable that is not set.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from pydantic import ValidationError

from penstock.project.validation.mistakes import existing_steps
from penstock.project.yaml.documents import PathStep
from penstock.project.yaml.variables import Environ, UnsetVariable, resolve_variables

_NAMING: Final = frozenset(
    {
        "columns", "column", "consumes", "definition", "depends_on", "event_time", "from", "group", "key", "model",
        "name", "primary_key", "produces", "ref", "source", "sql", "type", "where",
    }
)  # fmt: skip
"""Fields that are names or SQL: a stand-in for one would cause a second error."""
_NUMBER: Final = "1"


def fill_stand_ins(
    raw: Any, environ: Environ, unset: Sequence[UnsetVariable], later: Callable[[tuple[PathStep, ...]], bool]
) -> Iterator[Any]:
    """The value with stand-ins: names of variables at first, numbers then."""
    if any(step in _NAMING for reference in unset for step in reference.path):
        return
    for number in (None, _NUMBER):
        given = {reference.name: number or reference.name for reference in unset}
        yield resolve_variables(raw, {**environ, **given}, later)[0]


def is_stand_in_error(error: ValidationError, value: Any, unset: Sequence[UnsetVariable]) -> bool:
    """Whether an error is about a stand-in, or about a value that contains one."""
    at = [reference.path for reference in unset]
    wrong = [existing_steps(value, detail["loc"]) for detail in error.errors(include_url=False, include_input=False)]
    return any(path[: len(steps)] == steps for steps in wrong for path in at)
