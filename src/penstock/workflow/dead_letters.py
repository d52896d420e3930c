"""The dead letters of a project: those that wait, and what of them may be shown."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from penstock.clients.clusters import Clusters
from penstock.clients.dead_letters.masking import cover_letter
from penstock.clients.dead_letters.model import Delivered, Letter, Waiting, in_directories, outstanding
from penstock.clients.rows.topic_names import error_topic
from penstock.plan.place import Place
from penstock.plan.renames import read_former_names
from penstock.plan.state import read_delivered
from penstock.workflow.stages import Checked, compiled, node_named


def mask_dead_letters(checked: Checked, letters: Iterable[Letter]) -> Iterator[Letter]:
    """Dead letters as they may be shown: without the values of masked and classified columns.

    Of a node that no query writes any more, every such column of the project counts.
    """
    queries = compiled(checked).queries
    names = {output.node: frozenset(query.covers) for query in queries for output in query.outputs}
    every = frozenset[str]().union(*names.values())
    return (cover_letter(letter, names.get(letter.node, every)) for letter in letters)


def pending_dead_letters(checked: Checked, node: str | None, most: int | None = None) -> list[Letter]:
    """The first dead letters that were not replayed or discarded, of one node or of all."""
    return list(islice(waiting(checked, node), most))


def waiting(checked: Checked, node: str | None) -> Waiting:
    """The letters that wait, of one node or of all. Others may keep letters under the same names: those are theirs.

    Letters of a model that was renamed, and kept its state, are those of the model that it is now.
    """
    wanted = None if node is None else node_named(checked.graph, node).id
    nodes = {n.id for n in checked.graph.nodes.values() if n.kind != "exposure"}
    clusters, place = checked.clusters, checked.place
    names = {f"model.{old}": f"model.{new}" for old, new in read_former_names(checked.marks, place).items()}
    former = {old: new for old, new in names.items() if new in nodes and old not in nodes}
    topics = set(map(error_topic, (*nodes, *former)))

    def is_chosen(letter: Letter) -> bool:
        chosen = wanted is None or wanted == letter.node or error_topic(wanted) == letter.kept_in
        return chosen and letter.node in nodes and letter.is_of(place.namespace)

    def read() -> Iterator[Letter]:
        return filter(is_chosen, (_renamed(letter, former) for letter in _kept(topics, clusters, place)))

    return Waiting(read, outstanding(read(), _delivered(checked, former)))


def _renamed(letter: Letter, former: Mapping[str, str]) -> Letter:
    node = former.get(letter.node)
    return letter if node is None else replace(letter, about={**letter.about, "node": node})


def _delivered(checked: Checked, former: Mapping[str, str]) -> Mapping[tuple[str, str], Delivered]:
    """How far letters were delivered, also those that models had under former names."""
    found = read_delivered(checked.marks, checked.place)
    for (topic, node), delivered in list(found.items()):
        if node in former:
            key = topic, former[node]
            found[key] = found[key].united(delivered) if key in found else delivered
    return found


def _kept(topics: Collection[str], clusters: Clusters, place: Place) -> Iterator[Letter]:
    if clusters.sink is None:
        return in_directories(place.topics, topics)
    from penstock.clients.dead_letters.kafka import in_topics

    return in_topics(clusters.sink.kafka, topics)
