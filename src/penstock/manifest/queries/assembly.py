"""The inputs and steps of one model's query: its SQL in stages, and the views of other models that it reads."""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.connectors.contract import Source
from penstock.graph.graph import EventTimeColumn, Graph, Node
from penstock.graph.model.changelog_mode import is_lookup_table, node_flow
from penstock.graph.model.event_time import is_computed_time
from penstock.keyed.operators import Aggregate, needs_watermark
from penstock.manifest.calls import AskedModel, CalledFunction
from penstock.manifest.model import Check, EventTimeSpec, Input, KeyedStep, LateRowSpec, Parameter, Step
from penstock.project.stream_project import Model
from penstock.project.stream_project import Source as ProjectSource
from penstock.sql.analyze.fallible import fallible_expressions
from penstock.sql.analyze.ml_calls import with_functions
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import rename_tables, select_all, tables
from penstock.sql.rewrite.computed_event_time import COMPUTED_TIME, ComputedTime, move_time
from penstock.sql.rewrite.mask import mask_parameters, mask_query
from penstock.sql.rewrite.translate import name_projections, needs_time, spark_text, unguarded_text
from penstock.sql.stateful.plan import StagePlan, plan_stages
from penstock.sql.stateful.relations import inline_shared_ctes
from penstock.sql.stateful.stages import Flow, OperatorStage, SqlStage
from penstock.sql.stateful.top_n_forms import read_all_versions, versioned_tables
from penstock.sql.types.columns import column_spelling


class Assembly:
    """Collects the parts of a query. `timed` says whether a part needs event time. Spark needs a name for each
    streaming reader of a query, so a node that is read twice becomes two inputs."""

    def __init__(
        self, graph: Graph, model: Node, read: Callable[[Node], dict[str, Any]], digests: Mapping[str, str]
    ) -> None:
        self.graph = graph
        self.inputs: list[Input] = []
        self.steps: list[Step | KeyedStep] = []
        self.asks: dict[str, AskedModel] = {}
        self.functions: dict[str, CalledFunction] = {}
        self.checks: list[Check] = []
        self.timed = False
        self._digests = digests
        self._model = model
        self._read = read
        self._uses: Counter[str] = Counter()
        self._times: dict[str, EventTimeColumn] = dict(model.asked_times)
        self._flows: dict[str, Flow] = {}
        self._versioned: frozenset[str] = frozenset()
        self._origins: dict[str, tuple[str, tuple[str, ...]]] = {}
        """By view that is computed row by row: its input, and the steps from there."""

    def add_model(self, node: Node, view: str) -> Flow:
        """Add a model's SQL as a view, and return the flow of its rows."""
        assert isinstance(node.element, Model)
        query = node.query or select_all(node.inputs, PROJECT)
        if node.stateful or any(is_lookup_table(self.graph[name]) for name in node.inputs):
            query = inline_shared_ctes(query)
        time = self._times.get(node.id) or node.event_time if node.materialized == "virtual_topic" else None
        self._times.update({**self._requested_times(node, time), **node.asked_times})
        self._versioned |= versioned_tables(query)
        renamed = rename_tables(query, self._view_name)
        read = [table.name for table in tables(renamed)]
        if asked := _called_models(node, self.graph, self._digests):
            self.asks.update({model.function: model for model in asked.values()})
            renamed = with_functions(renamed, {name: model.function for name, model in asked.items()})
        self.functions.update({function.name: function for function in called_functions(node)})
        tree = name_projections(mask_query(renamed, node.columns, node.masks).take_tree())
        if node.id in self._versioned:
            read_all_versions(tree, {view: flow.times for view, flow in self._flows.items()})
        if time is not None and is_computed_time(node, time.column):
            self._read_time(read, replace(time, column=COMPUTED_TIME), move_time(tree, time.column))
        if self._model.on_error != "stop":
            self._check(fallible_expressions(tree, self._rows_of(), frozenset(self.asks)))
        ttl_ms = node.element.advanced.spark.state_ttl_ms
        readable = {entry.view for entry in self.inputs}
        if node.hindrances:
            plan = StagePlan(tree, Flow(node.flow, node.change_key))
        else:
            plan = plan_stages(tree, view, self._flows, readable, ttl_ms, nested=node.id != self._model.id)
        for stage in plan.stages:
            if isinstance(stage, SqlStage):
                self.timed = self.timed or needs_time(stage.tree)
                unguarded = unguarded_text(stage.tree)
                sql = spark_text(stage.tree)
                self.steps.append(Step(view=stage.view, node=node.id, sql=sql, unguarded=unguarded))
            else:
                self.timed = self.timed or needs_watermark(stage.operator)
                self.steps.append(
                    KeyedStep(
                        view=stage.view,
                        node=node.id,
                        inputs=stage.inputs,
                        operator=stage.operator,
                        late=self._late_rows(stage),
                    )
                )
        self.timed = self.timed or plan.by_time or needs_time(plan.tree)
        self.inputs = [e.model_copy(update={"ordered": e.ordered or e.view in plan.ordered}) for e in self.inputs]
        unguarded = unguarded_text(plan.tree, time.column if time else None)
        sql = spark_text(plan.tree, time.column if time else None)
        known_later = {name: Parameter(kind=p.kind, of=p.of) for name, p in mask_parameters(node.masks).items()}
        self.steps.append(Step(view=view, node=node.id, sql=sql, parameters=known_later, unguarded=unguarded))
        if len(read) == 1 and not plan.stages and read[0] in self._origins:
            origin, steps = self._origins[read[0]]
            self._origins[view] = origin, (*steps, view)
        return plan.flow

    def _rows_of(self) -> dict[str, tuple[str, ...] | None]:
        """The columns of the views that are computed row by row from a stream."""
        return {view: self._flows[view].columns for view in self._origins if not self._flows[view].static}

    def _check(self, risks: Mapping[str, tuple[str, ...]]) -> None:
        for view, expressions in risks.items():
            origin, steps = self._origins[view]
            self.checks.append(Check(view=view, expressions=expressions, input=origin, steps=steps))

    def _late_rows(self, stage: OperatorStage) -> LateRowSpec | None:
        """How to find the rows that were late for an operator."""
        if stage.late is None:
            return None
        origin, steps = self._origins[stage.late.table]
        lateness = stage.operator.lateness_ms if isinstance(stage.operator, Aggregate) else 0
        return LateRowSpec(input=origin, steps=steps, sql=spark_text(stage.late.tree), lateness_ms=lateness)

    def _requested_times(self, view: Node, time: EventTimeColumn | None) -> dict[str, EventTimeColumn]:
        """The event time of a view's reader, as a column of the view's input."""
        found = view.column_origins.get(time.column, ()) if time is not None else ()
        if time is None or [origin.way for origin in found] != ["same"]:
            return {}
        node, name = self.graph[found[0].input], found[0].name
        known = (t for t in node.times if t.column.casefold() == name)
        return {node.id: next(known, replace(time, column=column_spelling(name, node.columns) or name))}

    def _read_time(self, read: Sequence[str], time: EventTimeColumn, computed: ComputedTime | None) -> None:
        """Give the only input of a view the event time that the view computes."""
        if computed is None:
            return
        spec = event_time_spec(time).model_copy(update={"made_of": computed.made_of, "where": computed.where})
        for place, entry in enumerate(self.inputs):
            if [entry.view] == list(read):
                self.inputs[place] = entry.model_copy(update={"event_time": spec})
                self._flows[entry.view] = replace(self._flows[entry.view], times=frozenset({time.column}))

    def _view_name(self, node_id: str) -> str:
        """The view of a node for one more reader."""
        self._uses[node_id] += 1
        node = self.graph[node_id]
        view = node_id if self._uses[node_id] == 1 else f"{node_id}#{self._uses[node_id]}"
        if node.materialized == "virtual_topic":
            flow, own = self.add_model(node, view), node_flow(node)
            self._flows[view] = replace(flow, lateness_ms=own.lateness_ms, keeps_late=own.keeps_late, mixed=own.mixed)
        else:
            time = self._times.get(node_id) or node.event_time
            self.inputs.append(reader(view, node, self._read(node), time))
            self._origins[view] = view, ()
            times = frozenset({time.column.casefold()} if time else ())
            self._flows[view] = replace(node_flow(node), times=times)
        return view


def called_functions(node: Node) -> list[CalledFunction]:
    """The user functions that a node calls."""
    return [
        CalledFunction(
            name=function.name,
            function=function.spark_name,
            file=function.file,
            content=function.digest,
            parameters=function.parameters,
            returns=function.returns,
        )
        for function in node.functions
    ]


def _called_models(node: Node, graph: Graph, digests: Mapping[str, str]) -> dict[str, AskedModel]:
    """The models by their name in the SQL, without those that `runtime.ml` lacks."""
    models = graph.runtime.ml.models
    return {
        name: AskedModel(
            function=_ml_function(name, answer),
            model=name,
            path=models[name].path,
            content=digests.get(name),
            answer=answer,
        )
        for name, answer in node.asks.items()
        if name in models
    }


def _ml_function(name: str, answer: str | None) -> str:
    """A valid function name, different for each model and result type."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"ML_{plain}_{zlib.crc32(f'{name} {answer}'.encode()):08x}".upper()


def event_time_spec(time: EventTimeColumn) -> EventTimeSpec:
    return EventTimeSpec(
        column=time.column, delay_ms=time.delay_ms, max_future_ms=time.max_future_ms, idle_ms=time.idle_ms
    )


def reader(view: str, node: Node, source: dict[str, Any], time: EventTimeColumn | None) -> Input:
    """The input of a query for a node."""
    event_time = None if time is None else event_time_spec(time)
    columns = node.element.columns if isinstance(node.element, ProjectSource) else ()
    static = is_lookup_table(node)
    typed = {c.name: c.type for c in node.columns or () if static and columns and c.type is not None}
    return Input(
        view=view,
        node=node.id,
        name=stream_name(view),
        source=source,
        event_time=event_time,
        with_operation=isinstance(node.element, Source),
        upsert_key=node.key if isinstance(node.element, ProjectSource) else (),
        processing_time=tuple(c.name for c in columns if c.proctime),
        condition=node.condition,
        static=static,
        on_error=node.on_error,
        declared=typed if source["type"] == "file" else {},
    )


def stream_name(view: str) -> str:
    """A valid name for a streaming reader. A changed name gets a checksum to stay unique."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", view.replace(".", "_", 1))
    return plain if plain == view.replace(".", "_", 1) else f"{plain}_{zlib.crc32(view.encode()):08x}"
