"""What a query asks of its inputs: the columns and rows that its SQL can use, found once, when it is compiled."""

from penstock.manifest.model import Pushdown, QuerySpec, Step
from penstock.manifest.queries.input_columns import has_operators, used_view_columns
from penstock.sql.pushdown.source_needs import referenced_names, shared_condition


def with_pushdown(query: QuerySpec) -> QuerySpec:
    """The query with what its inputs need to give."""
    columns = _referenced_columns(query)
    used = used_view_columns(query) if has_operators(query) else {}
    pushdown = Pushdown(
        columns=None if columns is None else tuple(sorted(columns)),
        views={view: None if names is None else tuple(sorted(names)) for view, names in sorted(used.items())},
        conditions=_shared_conditions(query) if query.fan_out else {},
    )
    return query.model_copy(update={"pushdown": pushdown})


def _referenced_columns(query: QuerySpec) -> frozenset[str] | None:
    """The names of all columns that a query can mean, in lower case; None if it may mean any."""
    inputs, steps = {entry.view for entry in query.inputs}, [s for s in query.steps if isinstance(s, Step)]
    if len(steps) < len(query.steps) or any(output.view in inputs for output in query.outputs):
        return None
    conditions = (f"SELECT 1 WHERE {entry.condition}" for entry in query.inputs if entry.condition is not None)
    texts = (text for e in query.inputs if (t := e.event_time) is not None for text in (t.made_of, t.where) if text)
    computed = (f"SELECT {text}" for text in texts)
    named = referenced_names([*(step.sql for step in steps), *conditions, *computed])
    times = (entry.event_time.column.lower() for entry in query.inputs if entry.event_time is not None)
    return None if named is None else named.union(times)


def _shared_conditions(query: QuerySpec) -> dict[str, str]:
    """By input, what its rows must meet for any step to use them. Inputs of which all rows may be used are left out."""
    steps = [step for step in query.steps if isinstance(step, Step)]
    if any(step.parameters for step in steps):
        return {}
    written = {output.view for output in query.outputs}
    views = (entry.view for entry in query.streams if entry.view not in written)
    found = {view: shared_condition(view, [step.sql for step in steps]) for view in views}
    return {view: condition for view, condition in found.items() if condition is not None}
