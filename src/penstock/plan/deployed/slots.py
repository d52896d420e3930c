"""Chooses the state slot of a run, by its environment and the place of its topics. The first place of topics that an
environment uses has the slot with the environment's name; another place has its own, such as `default@kafka`. An
environment can adopt the slot of runs without an environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.stores import StateStore

TopicsPlace: TypeAlias = Literal["embedded", "kafka"]
DEFAULT: Final = "default"
"""The slot of a project without environments."""
_TOPICS: Final = "topics"
_KINDS: Final[Mapping[str, TopicsPlace]] = {"topic": "embedded", "kafka": "kafka"}


@dataclass(frozen=True, slots=True)
class Adoption:
    """State that an environment can adopt: its `slot`, and its number of queries."""

    environment: str
    slot: str
    queries: int


def slot_of(store: StateStore, place: ProjectPlace, topics: TopicsPlace) -> str:
    """The slot of an environment with its topics in this place."""
    adopted = store.get(_adoptions(place), "").get(place.environment)
    return _for_topics(store, place, str(adopted["slot"]) if adopted else place.environment, topics)


def adoption(store: StateStore, place: ProjectPlace, topics: TopicsPlace) -> Adoption | None:
    """The state of runs without an environment, if this environment has none and no other one has adopted it."""
    others = store.get(_adoptions(place), "")
    own = _for_topics(store, place, place.environment, topics)
    if place.environment == DEFAULT or place.environment in others or _queries(store, place, own):
        return None
    slot = _for_topics(store, place, DEFAULT, topics)
    queries = _queries(store, place, slot)
    taken = any(other["slot"] == slot for other in others.values())
    return Adoption(place.environment, slot, len(queries)) if queries and not taken else None


def record_adoption(store: StateStore, place: ProjectPlace, adopted: Adoption) -> None:
    store.put(_adoptions(place), {adopted.environment: {"slot": adopted.slot}})


def record_topics(store: StateStore, place: ProjectPlace, topics: TopicsPlace) -> None:
    """Record where the topics of a slot are."""
    store.put(place.namespace, {_TOPICS: topics})


def _for_topics(store: StateStore, place: ProjectPlace, slot: str, topics: TopicsPlace) -> str:
    known = _topics(store, place, slot)
    return slot if known in (None, topics) else f"{slot}@{topics}"


def _topics(store: StateStore, place: ProjectPlace, slot: str) -> TopicsPlace | None:
    """Where the topics of a slot are, by its record or by the queries that ran; None if unknown."""
    recorded = store.get(place.with_slot(slot).namespace, _TOPICS).get(_TOPICS)
    if recorded is not None:
        return "kafka" if recorded == "kafka" else "embedded"
    connectors = [c for query in _queries(store, place, slot).values() for c in _connectors(query)]
    return next((_KINDS[kind] for c in connectors if (kind := str(c.get("type"))) in _KINDS), None)


def _connectors(query: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inputs = [entry["source"] for entry in query.get("inputs", ()) if not entry.get("static")]
    return [*inputs, *(output["sink"] for output in query.get("outputs", ()))]


def _queries(store: StateStore, place: ProjectPlace, slot: str) -> Mapping[str, Any]:
    return store.get(place.with_slot(slot).namespace, "query:")


def _adoptions(place: ProjectPlace) -> str:
    """The namespace of adopted slots. It is not a valid environment name."""
    return f"{place.name}/ environments"
