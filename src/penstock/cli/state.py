from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import options, output
from penstock.config import describe_duration
from penstock.errors import Diagnostic, ProjectInvalid
from penstock.graph.graph import Graph, Node
from penstock.manifest.model import Manifest, QuerySpec
from penstock.manifest.operator_words import OperatorDescription, describe_operators, window_by
from penstock.plan.deployed.state import read_deployed_state
from penstock.workflow.stages import CheckedProject, check, compile_project, find_node

if TYPE_CHECKING:
    from penstock.runtime.checkpoint.state_stats import OperatorState, QueryState

_SPARKS_OWN = {"symmetricHashJoin": "JOIN", "dedupe": "DISTINCT", "dedupeWithinWatermark": "DISTINCT"}
_WINDOWS = ("stateStoreSave", "sessionWindowStateStoreSaveExec")


def command(
    node: Annotated[str | None, typer.Argument(help="A model. Default: all queries.")] = None,
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Show the state of queries, read from their checkpoints. The queries may be running."""
    checked = check(options.target(path, directory, env, var, config=config))
    manifest = compile_project(checked)
    if node is None:
        _show_all(checked, manifest, form)
        return
    query = _query(checked, find_node(checked.graph, node), manifest)
    document = _document(checked, query)
    if document is None:
        text = f"the query of `{query.name}` has no state yet: it has not finished a batch"
        raise _no_state(text, "start it with `penstock run`", query.name)
    if form is options.OutputFormat.JSON:
        output.put_json(document)
    else:
        _print(document)


def _show_all(checked: CheckedProject, manifest: Manifest, form: options.OutputFormat) -> None:
    """List every query of the project in short form."""
    deployed = read_deployed_state(checked.store, checked.place).queries
    queries = [deployed.get(planned.name, planned) for planned in manifest.queries]
    found = {query.name: _document(checked, query) if query.stateful else None for query in queries}
    if form is options.OutputFormat.JSON:
        listed = [found[q.name] or {"query": q.name, "stateful": q.stateful, "operators": []} for q in queries]
        output.put_json({"project": checked.graph.name, "queries": listed})
        return
    for query in queries:
        document = found[query.name]
        if document is not None:
            output.put(f"{query.name}: {_bytes(document)}, watermark {document['watermark'] or 'none'}")
            for operator in document["operators"]:
                output.put(f"  {operator['what']}: {_rows(operator)}")
        else:
            output.put(f"{query.name}: {'no finished batch yet' if query.stateful else 'no state'}")


def _bytes(document: dict[str, Any]) -> str:
    return f"{sum(operator['bytes'] for operator in document['operators']):,} bytes in {document['state_backend']}"


def _document(checked: CheckedProject, query: QuerySpec) -> dict[str, Any] | None:
    """The state of a query from its checkpoint; None before its first finished batch."""
    from penstock.runtime.checkpoint.state_stats import query_state
    from penstock.runtime.run.lock import running_pid

    state = query_state(checked.place.checkpoint(query.name))
    if state is None or not state.operators:
        return None
    return {
        "query": query.name,
        "stateful": True,
        "running": running_pid(checked.place.lock_file) is not None,
        "batch": state.batch,
        "watermark": None if state.watermark_ms is None else _utc_text(state.watermark_ms),
        "state_backend": state.backend,
        "counted_after_batch": state.noted_batch,
        "operators": _operators(query, state, _times(checked.graph, query)),
    }


def _times(graph: Graph, query: QuerySpec) -> set[str]:
    """The time columns of the inputs and steps of a query."""
    ids = {part.node for part in (*query.inputs, *query.steps)} & graph.nodes.keys()
    columns = [column for node_id in ids for column in graph[node_id].columns or ()]
    return {column.name for column in columns if (column.type or "").startswith(("TIMESTAMP", "DATE"))}


def _query(checked: CheckedProject, node: Node, manifest: Manifest) -> QuerySpec:
    """The query that writes a node, as it last ran."""
    planned = manifest.producer(node.id)
    if planned is None:
        readers = [q.name for q in manifest.queries if any(step.node == node.id for step in q.steps)]
        text = f"`{node.name}` has no query of its own"
        hint = f"it is part of {', '.join(f'`{name}`' for name in readers)}" if readers else "name a model"
        raise _no_state(text, hint, node.name)
    query = read_deployed_state(checked.store, checked.place).queries.get(planned.name, planned)
    if not query.stateful:
        text = f"the query of `{query.name}` keeps no state"
        raise _no_state(text, "it processes each row independently", query.name)
    return query


def _no_state(text: str, hint: str, name: str) -> ProjectInvalid:
    return ProjectInvalid([Diagnostic("no-state", text, hint=hint, params={"name": name})])


def _operators(query: QuerySpec, state: "QueryState", times: set[str]) -> list[dict[str, Any]]:
    from penstock.runtime.checkpoint.state_stats import KEYED

    ours = describe_operators(query, times)
    keyed = [operator.id for operator in state.operators if operator.name == KEYED]
    known = dict(zip(keyed, ours, strict=True)) if len(keyed) == len(ours) else {}
    return [_operator(operator, known.get(operator.id), state) for operator in state.operators]


def _operator(operator: "OperatorState", words: OperatorDescription | None, state: "QueryState") -> dict[str, Any]:
    tables = None if words is None else state.kept.get(words.view)
    what = words.what if words else _sparks_own(operator)
    return {
        "id": operator.id,
        "name": operator.name,
        "what": what,
        "node": words.node if words else None,
        "partitions": operator.partitions,
        "rows": sum(tables.values()) if tables is not None else None if words else operator.rows,
        "tables": tables,
        "bytes": operator.bytes,
        "memory_bytes": operator.memory_bytes,
        "ttl_ms": words.ttl_ms if words else None,
    }


def _sparks_own(operator: "OperatorState") -> str:
    """The description of one of Spark's own operators. Its groups are always windows."""
    if operator.name in _WINDOWS:
        return window_by(operator.keys)
    return f"{_SPARKS_OWN.get(operator.name, operator.name)} {', '.join(operator.keys)}".strip()


def _print(document: dict[str, Any]) -> None:
    watermark = document["watermark"] or "none"
    runs = "is running" if document["running"] else "is not running"
    output.put(f"{document['query']} {runs}; batch {document['batch']}, watermark {watermark}.")
    operators = document["operators"]
    width = max(len(operator["what"]) for operator in operators)
    for operator in operators:
        parts = [
            _rows(operator),
            f"{operator['bytes']:,} bytes in {document['state_backend']}",
            f"{operator['partitions']} partition{'' if operator['partitions'] == 1 else 's'}",
        ]
        parts += [f"expires after {describe_duration(operator['ttl_ms'])}"] if operator["ttl_ms"] else []
        output.put(f"  {operator['what']:<{width}}  {', '.join(parts)}")
    if document["counted_after_batch"] not in (None, document["batch"]):
        output.put(f"  Rows were counted after batch {document['counted_after_batch']}.")


def _rows(operator: dict[str, Any]) -> str:
    rows = operator["rows"]
    return "rows not counted" if rows is None else f"{rows:,} row{'' if rows == 1 else 's'}{_tables(operator)}"


def _tables(operator: dict[str, Any]) -> str:
    tables = operator["tables"] or {}
    return f" ({', '.join(f'{name} {rows:,}' for name, rows in tables.items())})" if len(tables) > 1 else ""


def _utc_text(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
