"""The dead letters of a project: pending ones, and masking for display."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from penstock.clients.clusters import Clusters
from penstock.clients.dead_letters.masking import mask_dead_letter
from penstock.clients.dead_letters.model import (
    DeadLetter,
    PendingDeadLetters,
    ReplayProgress,
    outstanding_dead_letters,
    read_from_directories,
)
from penstock.clients.rows.topic_names import dead_letter_topic
from penstock.plan.changes.renames import read_former_names
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import read_replay_progress
from penstock.workflow.stages import CheckedProject, compile_project, find_node


def mask_dead_letters(checked: CheckedProject, dead_letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    """Mask the values of masked and classified columns in dead letters. For a node that no query writes any more, all
    such columns of the project are masked.
    """
    queries = compile_project(checked).queries
    names = {output.node: frozenset(query.covers) for query in queries for output in query.outputs}
    every = frozenset[str]().union(*names.values())
    return (mask_dead_letter(dead_letter, names.get(dead_letter.node, every)) for dead_letter in dead_letters)


def pending_dead_letters(checked: CheckedProject, node: str | None, most: int | None = None) -> list[DeadLetter]:
    """The first pending dead letters, of one node or of all: neither replayed nor discarded."""
    return list(islice(find_dead_letters(checked, node), most))


def find_dead_letters(checked: CheckedProject, node: str | None) -> PendingDeadLetters:
    """The pending dead letters of this project, of one node or of all, without those of other projects in the same
    topics. Dead letters of a renamed model that kept its state belong to the new name.
    """
    wanted = None if node is None else find_node(checked.graph, node).id
    nodes = {n.id for n in checked.graph.nodes.values() if n.kind != "exposure"}
    clusters, place = checked.clusters, checked.place
    names = {f"model.{old}": f"model.{new}" for old, new in read_former_names(checked.marks, place).items()}
    former = {old: new for old, new in names.items() if new in nodes and old not in nodes}
    topics = set(map(dead_letter_topic, (*nodes, *former)))

    def is_chosen(dead_letter: DeadLetter) -> bool:
        chosen = wanted is None or wanted == dead_letter.node or dead_letter_topic(wanted) == dead_letter.kept_in
        return chosen and dead_letter.node in nodes and dead_letter.is_owned_by(place.namespace)

    def read() -> Iterator[DeadLetter]:
        found = _read_dead_letters(topics, clusters, place)
        return filter(is_chosen, (_rename_node(dead_letter, former) for dead_letter in found))

    return PendingDeadLetters(read, outstanding_dead_letters(read(), _read_progress(checked, former)))


def _rename_node(dead_letter: DeadLetter, former: Mapping[str, str]) -> DeadLetter:
    node = former.get(dead_letter.node)
    return dead_letter if node is None else replace(dead_letter, about={**dead_letter.about, "node": node})


def _read_progress(checked: CheckedProject, former: Mapping[str, str]) -> Mapping[tuple[str, str], ReplayProgress]:
    """How far dead letters were replayed, including those under former names of models."""
    found = read_replay_progress(checked.marks, checked.place)
    for (topic, node), delivered in list(found.items()):
        if node in former:
            key = topic, former[node]
            found[key] = found[key].merge(delivered) if key in found else delivered
    return found


def _read_dead_letters(topics: Collection[str], clusters: Clusters, place: ProjectPlace) -> Iterator[DeadLetter]:
    if clusters.sink is None:
        return read_from_directories(place.topics, topics)
    from penstock.clients.dead_letters.kafka import read_from_topics

    return read_from_topics(clusters.sink.kafka, topics)
