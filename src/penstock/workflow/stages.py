"""The stages of the workflow: load, parse, link, compile, plan."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from penstock.clients.clusters import Clusters
from penstock.connectors.contract import Sink, Source
from penstock.errors import Diagnostic, PlanRefused, ProjectInvalid, Severity, did_you_mean, has_errors
from penstock.graph.analysis_cache import AnalysisCache
from penstock.graph.diagnostic_order import order_by_cause
from penstock.graph.external_schemas import ask_registry, ask_tables, discover_columns, with_keys
from penstock.graph.graph import Graph, Node
from penstock.graph.link import link
from penstock.graph.model.ml_models import model_files
from penstock.manifest.compile import compile
from penstock.manifest.model import Manifest
from penstock.plan.changes.renames import read_carried_names, with_carried_names
from penstock.plan.deployed.consumer_groups import ChosenGroups
from penstock.plan.deployed.place import HOME, ProjectPlace
from penstock.plan.deployed.slots import DEFAULT, Adoption, TopicsPlace, adoption, slot_of
from penstock.plan.deployed.state import read_deployed_state
from penstock.plan.deployed.stores import SqliteStore, StateStore, state_store
from penstock.plan.diff import diff
from penstock.plan.query_steps import ALL
from penstock.plan.steps import AdoptState, Plan
from penstock.plan.systems.gateway import NO_GATEWAY, ask_gateway
from penstock.plan.systems.kafka_connect import NO_WORKERS, ask_workers
from penstock.plan.systems.realtime_cores import cores_of
from penstock.plan.systems.schemas import NO_SUBJECTS, ask_subjects
from penstock.plan.systems.topics import ask_brokers
from penstock.project.clusters import pipeline_clusters
from penstock.project.load import load
from penstock.project.parse import parse
from penstock.project.project import Environment, StreamProject
from penstock.project.yaml.variables import Environ
from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """What to check: a path, an environment, variables, and whether warnings are errors. With `remember`, the analysis
    of SQL is cached. With `ask_registry`, the schema registry is asked about every source that refers to it, and
    ClickHouse about tables; with `ask_read`, only about sources that something reads. Commands that run SQL must ask:
    its meaning must not depend on a cached answer. `config` names a file of settings. With `allow_unset`, unset
    environment variables are warnings, for commands that only read documents. It has no effect if a service is asked,
    because a variable may name that service.
    """

    path: Path
    env: str | None = None
    variables: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    strict: bool = False
    remember: bool = True
    ask_registry: bool = False
    ask_read: bool = False
    config: Path | None = None
    allow_unset: bool = False

    @property
    def takes_unset(self) -> bool:
        return self.allow_unset and not self.ask_registry and not self.ask_read


@dataclass(frozen=True, slots=True)
class CheckedProject:
    """A project without errors. `notes` are the diagnostics that are not errors; `environ` has its variables."""

    root: Path
    graph: Graph
    notes: tuple[Diagnostic, ...]
    environment: Environment | None
    environ: Environ
    digests: Mapping[str, str]
    """The digests of the files of `runtime.ml`."""
    settings: Settings = field(default_factory=Settings, repr=False)
    adopts_state: bool = False
    """Whether its environment may resume from the state of runs without an environment."""
    carries: tuple[tuple[str, str], ...] = ()
    """The old and the new names of queries that keep their state."""

    @property
    def clusters(self) -> Clusters:
        """The systems that hold its topics, and the settings of the application.

        A pipeline without Kafka keeps its dead letters in directories next to it, as a project does.
        """
        if self.graph.format == "pipeline":
            elements = [node.element for node in self.graph.nodes.values()]
            reads = any(isinstance(e, Source) and e.live.type == "kafka" for e in elements)
            writes = any(isinstance(e, Sink) and e.type == "kafka" for e in elements)
            return pipeline_clusters(self.settings, on_kafka=reads or writes, writes_kafka=writes)
        return replace(self.graph.runtime.clusters(self.root), settings=self.settings)

    @property
    def place(self) -> ProjectPlace:
        environment = self.environment.name if self.environment else DEFAULT
        name = f"{self.graph.format}.{self.graph.name}"
        if self.graph.format != "pipeline":
            found = ProjectPlace(self.root, name, environment)
            adopted = self.adoption if self.adopts_state else None
            slot = adopted.slot if adopted else slot_of(SqliteStore(found.state_file), found, self._topics)
            return self._with_carried_names(found.with_slot(slot))
        lasts = self.settings.state_backend.backend_type != "InMemory"
        return ProjectPlace(self.root, name, environment, self.settings.application_id, lasts)

    def _with_carried_names(self, place: ProjectPlace) -> ProjectPlace:
        """The place, with the checkpoint names of renamed queries."""
        known = read_carried_names(SqliteStore(place.state_file), place)
        for old, new in self.carries:
            known[new] = known.pop(old, old)
        return replace(place, carried=tuple(sorted((new, old) for new, old in known.items() if new != old)))

    @property
    def adoption(self) -> Adoption | None:
        """The state that its environment can adopt, if it has none of its own."""
        if self.environment is None:
            return None
        own = ProjectPlace(self.root, f"{self.graph.format}.{self.graph.name}", self.environment.name)
        return adoption(SqliteStore(own.state_file), own, self._topics)

    @property
    def _topics(self) -> TopicsPlace:
        return "embedded" if self.graph.runtime.kafka is None else "kafka"

    @property
    def store(self) -> StateStore:
        """The store of deployed state: a file next to the documents, unless a pipeline's settings name another one."""
        if self.graph.format == "pipeline":
            return state_store(self.settings.state_backend, self.place)
        return SqliteStore(self.root / HOME / "state.db")

    @property
    def marks(self) -> StateStore:
        """The store of replay progress. It is a file if the state store does not last."""
        store = self.store
        return store if store.lasts else SqliteStore(self.place.state_file)


UNSET: Final = "unset-variable"
GOVERNANCE: Final = frozenset({"rule-broken", "access-denied"})


def check(target: Target | Path, *, ignore_runtime: bool = False, governed: bool = True) -> CheckedProject:
    """Load, parse and link; raise ProjectInvalid with all errors at once.

    With `ignore_runtime`, mistakes in the project's `runtime` section do not count, and no environment need be chosen.
    Without `governed`, broken rules are only warnings.
    """
    target = target if isinstance(target, Target) else Target(target)
    documents, diagnostics = load(target.path, target.env, any_environment=ignore_runtime, config=target.config)
    if documents is None:
        raise ProjectInvalid(diagnostics)
    project, notes = parse(documents, target.variables, stand_ins=target.takes_unset)
    diagnostics += notes
    graph = None
    digests: Mapping[str, str] = {}
    if project is not None:
        if target.ask_registry or target.ask_read:
            diagnostics += ask_registry(project, documents.root, only_read=not target.ask_registry)
            diagnostics += ask_tables(project, documents.root)
        project = with_keys(project, documents.root)
        memory = AnalysisCache(documents.root)
        graph, notes = link(project, discover_columns(project, documents.root), memory, date.today())
        if target.remember:
            memory.save()
        diagnostics += notes
        digests, notes = model_files(project, documents.root)
        diagnostics += notes
    counted = [d for d in diagnostics if not (ignore_runtime and d.path.partition(".")[0] == "runtime")]
    if not governed:
        counted = [replace(d, severity=Severity.WARNING) if d.code in GOVERNANCE else d for d in counted]
    ordered = order_by_cause(counted, graph)
    if target.takes_unset:
        ordered = tuple(replace(d, severity=Severity.WARNING) if d.code == UNSET else d for d in ordered)
    ordered = tuple(_raise_severity(d) if target.strict else d for d in ordered)
    if graph is None or has_errors(ordered):
        raise ProjectInvalid(ordered)
    environment = project.environment if isinstance(project, StreamProject) else None
    return CheckedProject(documents.root, graph, ordered, environment, documents.environ, digests, documents.settings)


def _raise_severity(diagnostic: Diagnostic) -> Diagnostic:
    is_warning = diagnostic.severity is Severity.WARNING
    return replace(diagnostic, severity=Severity.ERROR) if is_warning else diagnostic


def compile_project(checked: CheckedProject) -> Manifest:
    """Compile the manifest. Readers of renamed models keep the names in their checkpoints."""
    found = compile(checked.graph, checked.digests)
    return with_carried_names(found, dict(checked.place.carried)) if checked.graph.format == "project" else found


def plan_project(
    checked: CheckedProject,
    manifest: Manifest,
    *,
    select: Collection[str] = (),
    allow_rebuild: Collection[str] = (),
    truncate: bool = False,
    once: bool = False,
) -> Plan:
    """Plan a run. `once` says whether queries end after the available rows."""
    names = [q.name for q in manifest.queries]
    allow_rebuild = [name for listed in allow_rebuild for name in listed.split(",")]
    for name in (*select, *allow_rebuild):
        if name not in names and not (name == ALL and name in allow_rebuild):
            text = f"there is no query `{name}` in this project"
            raise PlanRefused("unknown-node", text, hint=did_you_mean(name, names))
    found = None if allow_rebuild and not checked.adopts_state else checked.adoption
    place = checked.place if found is None else checked.place.with_slot(found.slot)
    before = replace(place, carried=tuple(read_carried_names(checked.store, place).items()))
    deployed = read_deployed_state(checked.store, before)
    new = [query for query in manifest.queries if query.name not in deployed.checkpoints]
    deployed = replace(deployed, grouped=ChosenGroups(checked.clusters, place).known_readers(new))
    brokers = ask_brokers(manifest, checked.clusters)
    workers = NO_WORKERS if select else ask_workers(manifest, checked.clusters, deployed.connectors, checked.environ)
    return diff(
        manifest,
        deployed,
        select=select,
        allow_rebuild=allow_rebuild,
        truncate=truncate,
        environ=checked.environ,
        brokers=brokers,
        workers=workers,
        gateways=NO_GATEWAY if select else ask_gateway(manifest, checked.clusters, deployed.virtual_topics),
        subjects=NO_SUBJECTS if select else ask_subjects(manifest, checked.clusters),
        cores=None if once else cores_of(manifest.spark.master),
        adopt=None if found is None else AdoptState(found, checked.adopts_state),
        carried=checked.carries,
    )


def find_node(graph: Graph, name: str) -> Node:
    node = graph.find_node(name)
    if node is None:
        text = f"there is no node `{name}` in this project"
        hint = did_you_mean(name, (n.name for n in graph.nodes.values()))
        raise ProjectInvalid([Diagnostic("unknown-node", text, hint=hint, params={"name": name})])
    return node
