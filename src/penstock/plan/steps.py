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
    """The environment goes on with the state of runs without one. Nothing is moved: it is noted whose state it is."""

    adoption: Adoption
    allowed: bool


@dataclass(frozen=True, slots=True)
class PutSchema:
    """The registry does not have the schema, or has another one, or allows other changes of it."""

    schema: SchemaSpec
    reason: str
    new: bool = False


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """The topic is not there yet."""

    topic: TopicSpec


@dataclass(frozen=True, slots=True)
class ChangeTopic:
    """The topic is there, but with fewer partitions or with other settings."""

    topic: TopicSpec
    partitions: int | None
    config: Mapping[str, str]
    reason: str


@dataclass(frozen=True, slots=True)
class LeaveTopic:
    """The topic is not as the project says, and cannot be made so without a loss. It is left as it is."""

    topic: TopicSpec
    reason: str


@dataclass(frozen=True, slots=True)
class StartQuery:
    """A query that has never run: it begins with the earliest rows, or where its sources say."""

    query: QuerySpec


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """Nothing changed: it goes on where it stopped."""

    query: QuerySpec


@dataclass(frozen=True, slots=True)
class RestartQuery:
    """The change fits the checkpoint: it goes on where it stopped, with the new definition."""

    query: QuerySpec
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildQuery:
    """The change does not fit the checkpoint: a new one begins with the earliest rows, or where its sources say."""

    query: QuerySpec
    reason: str
    allowed: bool
    truncates: bool = False
    """Whether all its outputs are emptied first."""
    left: tuple[str, ...] = ()
    """Where the rows are that it has written so far, if it writes to other places from here on."""


@dataclass(frozen=True, slots=True)
class EmptyOutput:
    """An output of a query that is rebuilt is emptied, so that no row comes twice. `how` says what is deleted."""

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
    """The query has another name, and goes on with the checkpoint that it has."""

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
    """The connector is there with other settings."""

    connector: ConnectorSpec
    reason: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """The connector is as it should be, but has failed."""

    connector: ConnectorSpec
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """The connector was made for the project, and is no longer in it. What it has written stays."""

    name: str
    cluster: str


@dataclass(frozen=True, slots=True)
class CreateVirtualTopic:
    """The gateway does not have the virtual topic yet."""

    rule: GatewayRule
    cluster: str


@dataclass(frozen=True, slots=True)
class ChangeVirtualTopic:
    """The virtual topic is there, but not as it should be."""

    rule: GatewayRule
    cluster: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteVirtualTopic:
    """The virtual topic was made for the project, and is no longer in it. `left`: there is no gateway to ask."""

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
    """Steps in the order they are to be taken. With `refusals` they must not be."""

    manifest: Manifest
    steps: tuple[Step, ...]
    refusals: tuple[Diagnostic, ...] = ()
    offers: tuple[Diagnostic, ...] = ()
    """What could be done otherwise."""

    @property
    def changes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not isinstance(step, ResumeQuery | LeaveTopic))

    @property
    def adoption(self) -> Adoption | None:
        """The state that the environment goes on with, if it is not its own."""
        return next((step.adoption for step in self.steps if isinstance(step, AdoptState)), None)

    @property
    def queries(self) -> tuple[QuerySpec, ...]:
        """What will be running afterwards, every query after those it reads from."""
        return tuple(s.query for s in self.steps if isinstance(s, QueryStep))
