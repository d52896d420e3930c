from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.line import Checked, check, compiled, node_named
from penstock.cli.options import DirectoryOption, EnvOption, Format, FormatOption, PathArgument, VarOption, target
from penstock.errors import Diagnostic, ProjectInvalid
from penstock.graph.graph import Node
from penstock.manifest.model import Manifest, QuerySpec
from penstock.manifest.words import Told, told
from penstock.plan.state import SqliteStore, read_deployed

if TYPE_CHECKING:
    from penstock.runtime.state import OperatorState, QueryState

_SPARKS_OWN = {
    "stateStoreSave": "GROUP BY",
    "sessionWindowStateStoreSaveExec": "GROUP BY",
    "symmetricHashJoin": "JOIN",
    "dedupe": "DISTINCT",
    "dedupeWithinWatermark": "DISTINCT",
}


def command(
    node: Annotated[str, typer.Argument(help="A model.")],
    path: PathArgument = None,
    directory: DirectoryOption = None,
    env: EnvOption = None,
    var: VarOption = None,
    form: FormatOption = Format.TEXT,
) -> None:
    """Show what the query of a model keeps in its state, from its checkpoint. It may run meanwhile."""
    from penstock.runtime.lock import running_pid
    from penstock.runtime.state import query_state

    checked = check(target(path, directory, env, var))
    query = _query(checked, node_named(checked.graph, node), compiled(checked))
    state = query_state(checked.place.checkpoint(query.name))
    if state is None or not state.operators:
        text = f"the query of `{query.name}` has no state yet: none of its batches is done"
        raise _none(text, "start it with `penstock run`", query.name)
    document = {
        "query": query.name,
        "running": running_pid(checked.place.lock_file) is not None,
        "batch": state.batch,
        "watermark": None if state.watermark_ms is None else _moment(state.watermark_ms),
        "state_backend": state.backend,
        "counted_after_batch": state.noted_batch,
        "operators": _operators(query, state),
    }
    if form is Format.JSON:
        output.put_json(document)
    else:
        _print(document)


def _query(checked: Checked, node: Node, manifest: Manifest) -> QuerySpec:
    """The query that makes the rows of a node, as it ran last."""
    planned = manifest.producer(node.id)
    if planned is None:
        readers = [q.name for q in manifest.queries if any(step.node == node.id for step in q.steps)]
        text = f"`{node.name}` has no query of its own"
        hint = f"it is part of {', '.join(f'`{name}`' for name in readers)}" if readers else "name a model"
        raise _none(text, hint, node.name)
    query = read_deployed(SqliteStore(checked.place.state_file), checked.place).queries.get(planned.name, planned)
    if not query.stateful:
        raise _none(f"the query of `{query.name}` keeps no state", "every row of it stands for itself", query.name)
    return query


def _none(text: str, hint: str, name: str) -> ProjectInvalid:
    return ProjectInvalid([Diagnostic("no-state", text, hint=hint, params={"name": name})])


def _operators(query: QuerySpec, state: "QueryState") -> list[dict[str, Any]]:
    from penstock.runtime.state import KEYED

    ours = told(query)
    keyed = [operator.id for operator in state.operators if operator.name == KEYED]
    known = dict(zip(keyed, ours, strict=True)) if len(keyed) == len(ours) else {}
    return [_operator(operator, known.get(operator.id), state) for operator in state.operators]


def _operator(operator: "OperatorState", words: Told | None, state: "QueryState") -> dict[str, Any]:
    tables = None if words is None else state.kept.get(words.view)
    what = words.what if words else f"{_SPARKS_OWN.get(operator.name, operator.name)} {', '.join(operator.keys)}"
    return {
        "id": operator.id,
        "name": operator.name,
        "what": what.strip(),
        "node": words.node if words else None,
        "partitions": operator.partitions,
        "rows": sum(tables.values()) if tables is not None else None if words else operator.rows,
        "tables": tables,
        "bytes": operator.bytes,
        "memory_bytes": operator.memory_bytes,
        "ttl_ms": words.ttl_ms if words else None,
    }


def _print(document: dict[str, Any]) -> None:
    watermark = document["watermark"] or "none"
    runs = "runs" if document["running"] else "does not run"
    output.put(f"{document['query']} {runs}; batch {document['batch']}, watermark {watermark}.")
    operators = document["operators"]
    width = max(len(operator["what"]) for operator in operators)
    for operator in operators:
        parts = [
            "rows not counted" if operator["rows"] is None else f"{operator['rows']:,} rows{_tables(operator)}",
            f"{operator['bytes']:,} bytes in {document['state_backend']}",
            f"{operator['partitions']} partition{'' if operator['partitions'] == 1 else 's'}",
        ]
        parts += [f"expires after {operator['ttl_ms']:,} ms"] if operator["ttl_ms"] else []
        output.put(f"  {operator['what']:<{width}}  {', '.join(parts)}")
    if document["counted_after_batch"] not in (None, document["batch"]):
        output.put(f"  Rows were counted after batch {document['counted_after_batch']}.")


def _tables(operator: dict[str, Any]) -> str:
    tables = operator["tables"] or {}
    return f" ({', '.join(f'{name} {rows:,}' for name, rows in tables.items())})" if len(tables) > 1 else ""


def _moment(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
