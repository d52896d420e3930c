"""Whether a recorded query kept state."""

from penstock.manifest.model import KeyedStep, QuerySpec, Step
from penstock.sql.analyze.statefulness import stateful_constructs
from penstock.sql.parse.dialects import SPARK
from penstock.sql.parse.query import Problem, parse


def keeps_state(query: QuerySpec) -> bool:
    """Whether a recorded query keeps state. Older releases also recorded joins with lookup tables as stateful. If the
    SQL does not tell, the record decides."""
    lookups = frozenset(entry.view.casefold() for entry in query.inputs if entry.static)
    if not query.stateful or not lookups or any(isinstance(step, KeyedStep) for step in query.steps):
        return query.stateful
    return any(_keeps_state(step, lookups) for step in query.steps if isinstance(step, Step))


def _keeps_state(step: Step, lookups: frozenset[str]) -> bool:
    parsed = parse(step.sql, SPARK)
    return isinstance(parsed, Problem) or bool(stateful_constructs(parsed, lookups=lookups))
