"""diff: Manifest and DeployedState -> Plan. A pure function."""

from collections.abc import Collection
from dataclasses import replace

from penstock.manifest.model import Manifest, QuerySpec
from penstock.plan.changes.renames import carry_refusals, carry_state, describe_renames, find_renames
from penstock.plan.deployed.state import DeployedState
from penstock.plan.query_steps import query_step
from penstock.plan.refusals import (
    unadopted_state,
    unallowed_rebuilds,
    unrunnable_queries,
    unset_in_connector,
    unset_in_query,
)
from penstock.plan.steps import AdoptState, CarryQuery, Plan, RetireQuery, Step
from penstock.plan.systems.gateway import NO_GATEWAY, Gateways, virtual_topic_refusals, virtual_topic_steps
from penstock.plan.systems.kafka_connect import NO_WORKERS, Workers, connector_refusals, connector_steps
from penstock.plan.systems.realtime_cores import missing_cores
from penstock.plan.systems.schemas import NO_SUBJECTS, Subjects, schema_refusals, schema_steps
from penstock.plan.systems.topics import NO_BROKERS, Brokers, missing_topics, topic_steps
from penstock.plan.truncation import Truncation, truncation
from penstock.project.yaml.variables import Environ


def diff(
    manifest: Manifest,
    deployed: DeployedState,
    *,
    select: Collection[str] = (),
    allow_rebuild: Collection[str] = (),
    truncate: bool = False,
    environ: Environ | None = None,
    brokers: Brokers = NO_BROKERS,
    workers: Workers = NO_WORKERS,
    gateways: Gateways = NO_GATEWAY,
    subjects: Subjects = NO_SUBJECTS,
    cores: int | None = None,
    adopt: AdoptState | None = None,
    carried: Collection[tuple[str, str]] = (),
) -> Plan:
    """The steps from what is deployed to what the manifest says. `select` restricts them to queries by name. With
    `truncate`, the outputs of rebuilt queries are emptied, and their readers are rebuilt too.

    With `environ`, queries that need a variable which is not in it are refused. `brokers`, `workers`, `gateways` and
    `subjects` are the contents of Kafka, Kafka Connect, the gateway and the schema registry. With `cores`, real-time
    queries must not need more cores. With `adopt`, `deployed` is the state that the environment adopts. `carried` are
    the old and the new names of queries that keep their state.
    """
    renames = [*find_renames(manifest, deployed)]
    uncarried = [*carry_refusals(carried, renames, deployed)]
    carries = [rename for rename in renames if (rename.old, rename.new) in carried and not uncarried]
    offered = [rename for rename in renames if rename not in carries]
    deployed = carry_state(deployed, carries)
    chosen = [q for q in manifest.queries if not select or q.name in select]
    steps: list[Step] = [*([] if adopt is None else [adopt]), *map(CarryQuery, carries)]
    steps += [] if select else schema_steps(manifest, subjects)
    steps += [
        step
        for topic in manifest.topics
        if _is_wanted(topic.node, chosen, manifest, bool(select))
        for step in topic_steps(topic, deployed.topics, brokers.sink or {})
    ]
    deployed = replace(deployed, filled_on_kafka=brokers.filled)
    found = [query_step(query, deployed, manifest, allow_rebuild, environ or {}) for query in chosen]
    emptied = truncation(found, manifest, deployed) if truncate else Truncation(tuple(found))
    steps += [*emptied.queries, *emptied.outputs]
    if not select:
        present = {q.name for q in manifest.queries}
        steps += [RetireQuery(name) for name in deployed.queries if name not in present]
        steps += connector_steps(manifest, deployed.connectors, workers)
        steps += virtual_topic_steps(manifest, deployed.virtual_topics, gateways)
    own = [topic.name for topic in manifest.topics]
    missing = missing_topics(chosen, own, brokers.source)
    refusals = [
        *unrunnable_queries(manifest, chosen),
        *missing,
        *unallowed_rebuilds(steps, offered),
        *unadopted_state(adopt),
        *emptied.refusals,
        *uncarried,
    ]
    if not select:
        refusals += [*schema_refusals(manifest, subjects), *connector_refusals(manifest, deployed.connectors, workers)]
        refusals += virtual_topic_refusals(manifest, gateways)
    if environ is not None:
        refusals += [refusal for query in chosen for refusal in unset_in_query(query, environ)]
        refusals += [refusal for c in manifest.connectors if not select for refusal in unset_in_connector(c, environ)]
    if cores is not None:
        refusals += missing_cores(manifest, chosen, brokers, cores)
    return Plan(manifest, tuple(steps), tuple(refusals), () if select else tuple(describe_renames(offered)))


def _is_wanted(node_id: str, chosen: list[QuerySpec], manifest: Manifest, restricted: bool) -> bool:
    written = any(output.node == node_id for query in chosen for output in query.outputs)
    return written or (not restricted and manifest.producer(node_id) is None)
