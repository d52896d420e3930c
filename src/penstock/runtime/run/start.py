"""Starts a plan: carries out the steps that come before its queries, and returns the run."""

import os
from collections.abc import Callable
from typing import assert_never

from pyspark.sql import SparkSession

from penstock.clients.clusters import EMBEDDED, Clusters
from penstock.errors import PenstockError, PlanRefused
from penstock.manifest.model import QuerySpec
from penstock.plan import steps
from penstock.plan.changes.locations import resolve_locations
from penstock.plan.changes.renames import record_rename
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.slots import record_adoption, record_topics
from penstock.plan.deployed.state import forget_resource, record_places, record_resource, retire_query
from penstock.plan.deployed.stores import StateStore
from penstock.plan.steps import Plan
from penstock.project.yaml.variables import Environ
from penstock.runtime.checkpoint.layout import discard, set_aside
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.resolve_config import ConfigResolver
from penstock.runtime.run.resources import RunResources
from penstock.runtime.run.supervisor import Run
from penstock.runtime.run.system_changes import SystemChanges
from penstock.runtime.spark.errors import failure_of
from penstock.spark_internals.errors import SPARK_ERRORS


def start(
    plan: Plan,
    spark: SparkSession,
    place: ProjectPlace,
    store: StateStore,
    board: ProgressBoard | None = None,
    environ: Environ = os.environ,
    now_ms: int | None = None,
    clusters: Clusters = EMBEDDED,
    say: Callable[[str], None] = lambda _: None,
) -> Run:
    """Carry out the steps before the queries, which `run_once` and `run_until_stopped` then start.

    `environ` has the values of variables that the manifest refers to; `clusters` the systems that hold its topics. With
    `now_ms`, the clock is fixed at that time. `say` prints warnings that are not about queries.
    """
    if plan.refusals:
        raise PlanRefused.from_refusals(plan.refusals)
    board = board or ProgressBoard([q.name for q in plan.queries])
    offsets = store if plan.manifest.project.format == "pipeline" else None
    resources = RunResources(clusters, place, environ, offsets, say)
    resolver = ConfigResolver(place.root, environ, clusters)
    frames = Frames(plan.manifest, place.root, spark, resolver, now_ms, place.heartbeat_directory)
    _prepare(plan, frames, resources, SystemChanges(clusters, place, environ), place, store)
    for query in plan.queries:
        record_places(store, place, query.name, resolve_locations(query, environ))
    return Run(plan, frames, resources, place, store, board)


def _prepare(
    plan: Plan, frames: Frames, resources: RunResources, changes: SystemChanges, place: ProjectPlace, store: StateStore
) -> None:
    """Carry out every step of a plan before the first query starts."""
    for query in plan.queries:
        if query.asks or (query.functions and not place.is_of_pipeline):
            _check_calls(query, frames)
    if not place.is_of_pipeline:
        record_topics(store, place, "embedded" if resources.is_embedded else "kafka")
    for step in plan.steps:
        match step:
            case steps.AdoptState(adoption):
                record_adoption(store, place, adoption)
            case steps.CarryQuery(rename):
                record_rename(store, place, rename)
            case steps.PutSchema(schema):
                changes.put_schema(schema)
            case steps.CreateTopic(topic):
                changes.create_topic(topic)
            case steps.ChangeTopic(topic, partitions, config):
                changes.change_topic(topic, partitions, config)
            case steps.RebuildQuery(query):
                resources.forget_offsets(query)  # may be refused, before anything has changed
                set_aside(place.checkpoint(query.name))
            case steps.EmptyOutput(output):  # after the checkpoints of all its readers are moved away
                frames.resolver.sink(output.sink, output.node).empty()
            case steps.StartQuery(query) | steps.RestartQuery(query) if not store.lasts:
                discard(place.checkpoint(query.name))
            case steps.RetireQuery(name):
                retire_query(store, place, name)
            case steps.CreateConnector(connector) | steps.ChangeConnector(connector):
                record_resource(store, place, "connector", connector.name, str(connector.cluster))
                changes.put_connector(connector)
            case steps.RestartConnector(connector):
                changes.restart_connector(connector)
            case steps.DeleteConnector(name, cluster):
                changes.delete_connector(name, cluster)
                forget_resource(store, place, "connector", name)
            case steps.CreateVirtualTopic(rule, cluster) | steps.ChangeVirtualTopic(rule, cluster):
                record_resource(store, place, "virtual-topic", rule.virtual_topic, cluster)
                changes.put_virtual_topic(rule)
            case steps.DeleteVirtualTopic(name, cluster):
                changes.delete_virtual_topic(name, cluster)
                forget_resource(store, place, "virtual-topic", name)
            case (
                steps.LeaveTopic() | steps.StartQuery() | steps.ResumeQuery() | steps.RestartQuery() | steps.HoldQuery()
            ):
                pass
            case _:
                assert_never(step)


def _check_calls(spec: QuerySpec, frames: Frames) -> None:
    """Compare the models and functions of a query with its SQL, before anything is changed."""
    try:
        frames.analyze_query(spec)
    except PenstockError as error:
        error.with_context(f"query `{spec.name}` cannot be started", node=spec.name)
        raise
    except SPARK_ERRORS as error:
        raise failure_of(error).with_context(f"query `{spec.name}` cannot be started", node=spec.name) from error
