"""The steps of a plan. `explain` prints them and the runtime carries them out: both match over the same list."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.errors import Diagnostic
from penstock.manifest.model import Manifest, QueryOutput, QuerySpec
from penstock.manifest.resources import ConnectorSpec, GatewayRule, SchemaSpec, TopicSpec
from penstock.plan.changes.renames import Rename
from penstock.plan.deployed.checkpoint_damage import Damage
from penstock.plan.deployed.slots import Adoption


@dataclass(frozen=True, slots=True)
class AdoptState:
    """The environment adopts the state of runs without an environment. Nothing is moved: the adoption is recorded."""

    adoption: Adoption
    allowed: bool


@dataclass(frozen=True, slots=True)
class PutSchema:
    """The registry lacks the schema, or has another schema or compatibility mode."""

    schema: SchemaSpec
    reason: str
    new: bool = False


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """The topic does not exist yet."""

    topic: TopicSpec


@dataclass(frozen=True, slots=True)
class ChangeTopic:
    """The topic has fewer partitions or other settings."""

    topic: TopicSpec
    partitions: int | None
    config: Mapping[str, str]
    reason: str


@dataclass(frozen=True, slots=True)
class LeaveTopic:
    """The topic differs from the project, and cannot be changed without a loss. It is left unchanged."""

    topic: TopicSpec
    reason: str


@dataclass(frozen=True, slots=True)
class StartQuery:
    """A query that has never run: it starts from the earliest rows, or where its sources say."""

    query: QuerySpec


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """Nothing changed: it resumes where it stopped."""

    query: QuerySpec


@dataclass(frozen=True, slots=True)
class RestartQuery:
    """The change fits the checkpoint: it resumes where it stopped, with the new definition."""

    query: QuerySpec
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildQuery:
    """The change does not fit the checkpoint: a new one starts from the earliest rows, or where its sources say."""

    query: QuerySpec
    reason: str
    allowed: bool
    truncates: bool = False
    """Whether all its outputs are emptied first."""
    left: tuple[str, ...] = ()
    """The locations of its earlier rows, if it writes to other locations now."""


@dataclass(frozen=True, slots=True)
class EmptyOutput:
    """An output of a rebuilt query is emptied, so that no row is duplicated. `how` says what is deleted."""

    output: QueryOutput
    location: str
    how: str


@dataclass(frozen=True, slots=True)
class HoldQuery:
    """The files of the query's checkpoint are damaged: it fails by name, and the others run."""

    query: QuerySpec
    damage: Damage


@dataclass(frozen=True, slots=True)
class CarryQuery:
    """The query was renamed and keeps its checkpoint."""

    rename: Rename


@dataclass(frozen=True, slots=True)
class RetireQuery:
    """The query is no longer in the project. Its checkpoint and its output stay on disk."""

    name: str


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """Kafka Connect does not have the connector yet."""

    connector: ConnectorSpec


@dataclass(frozen=True, slots=True)
class ChangeConnector:
    """The connector has other settings."""

    connector: ConnectorSpec
    reason: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """The connector has the right settings, but has failed."""

    connector: ConnectorSpec
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """The project created the connector and no longer has it. What it has written stays."""

    name: str
    cluster: str


@dataclass(frozen=True, slots=True)
class CreateVirtualTopic:
    """The gateway does not have the virtual topic yet."""

    rule: GatewayRule
    cluster: str


@dataclass(frozen=True, slots=True)
class ChangeVirtualTopic:
    """The virtual topic differs from the project."""

    rule: GatewayRule
    cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteVirtualTopic:
    """The project created the virtual topic and no longer has it. `left`: no gateway is configured."""

    name: str
    cluster: str
    left: bool = False


VirtualTopicStep: TypeAlias = CreateVirtualTopic | ChangeVirtualTopic | DeleteVirtualTopic
ConnectorStep: TypeAlias = CreateConnector | ChangeConnector | RestartConnector | DeleteConnector
TopicStep: TypeAlias = CreateTopic | ChangeTopic | LeaveTopic
QueryStep: TypeAlias = StartQuery | ResumeQuery | RestartQuery | RebuildQuery | HoldQuery
StateStep: TypeAlias = AdoptState | CarryQuery | EmptyOutput | RetireQuery
Step: TypeAlias = PutSchema | TopicStep | QueryStep | StateStep | ConnectorStep | VirtualTopicStep


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order. With `refusals`, they must not be carried out."""

    manifest: Manifest
    steps: tuple[Step, ...]
    refusals: tuple[Diagnostic, ...] = ()
    offers: tuple[Diagnostic, ...] = ()
    """Notes on alternatives, such as a rename."""

    @property
    def changes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not isinstance(step, ResumeQuery | LeaveTopic))

    @property
    def adoption(self) -> Adoption | None:
        """The state that the environment adopts, if any."""
        return next((step.adoption for step in self.steps if isinstance(step, AdoptState)), None)

    @property
    def queries(self) -> tuple[QuerySpec, ...]:
        """The queries that will run, each after those it reads from."""
        return tuple(s.query for s in self.steps if isinstance(s, QueryStep))
