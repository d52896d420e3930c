"""Links of a site: file names of pages, neighbours of nodes, column lineage, safe addresses."""

import hashlib
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.site.model import Site, SiteNode

_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_-]{0,79}")
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")
_SAFE_SCHEMES = frozenset({"http", "https", "mailto"})


def page_path(node: SiteNode) -> str:
    """The page of a node, relative to the site: `model/orders.html`.

    A name that is not a valid file name on every system, or that could clash there (`Orders` and `orders`), is
    shortened and gets a digest of the id. The path depends on this node alone, so addresses stay when other nodes
    change.
    """
    if _PLAIN.fullmatch(node.name) and not _RESERVED.fullmatch(node.name):
        return f"{node.kind}/{node.name}.html"
    readable = re.sub(r"[^a-z0-9_]+", "-", node.name.lower()).strip("-")[:60] or "page"
    # The point cannot be in a plain name, so the two forms never meet.
    return f"{node.kind}/{readable}.{hashlib.sha256(node.id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.html"


def safe_url(text: str | None) -> str | None:
    """The text, if it is a safe link (web or mail). Never `javascript:`, `data:` or `file:`."""
    if not text or any(character.isspace() or not character.isprintable() for character in text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in _SAFE_SCHEMES and (parts.netloc or parts.scheme == "mailto") else None


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a site, each computed once."""

    nodes: Mapping[str, SiteNode]
    before: Mapping[str, list[str]]
    after: Mapping[str, list[str]]
    goes_to: Mapping[tuple[str, str], list[tuple[str, str]]]
    """From a column to the columns that are computed from it."""
    pages: Mapping[str, str]
    numbers: Mapping[str, int]
    """The position of each node in `nodes`, which drawings and assets/data.js use."""

    def lineage(self, node_id: str) -> dict[str, int]:
        """The nodes upstream and downstream of the node, with their distance. Nodes that only share an input or a
        reader are not included.
        """
        return {**_distances(node_id, self.after.__getitem__), **_distances(node_id, self.before.__getitem__)}

    def exposures_of(self, node_id: str) -> list[tuple[SiteNode, int]]:
        """Every exposure that the node's rows reach, with its distance, nearest first."""

        def readers(reached: str) -> list[str]:
            return [] if reached != node_id and self.nodes[reached].kind == "exposure" else self.after[reached]

        found = ((self.nodes[reached], distance) for reached, distance in _distances(node_id, readers).items())
        return [(node, distance) for node, distance in found if distance and node.kind == "exposure"]

    def node_at(self, path: str) -> str | None:
        """The node that contains a diagnostic's path: `model.orders.columns.x` is in `model.orders`."""
        while path and path not in self.nodes:
            path = path.rpartition(".")[0]
        return path or None


def _distances(start: str, near: Callable[[str], Iterable[str]]) -> dict[str, int]:
    """The nodes that can be reached, nearest first, with their distance."""
    steps = {start: 0}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for far in near(here):
            if far not in steps:
                steps[far] = steps[here] + 1
                queue.append(far)
    return steps


def link_site(site: Site, ordered: Iterable[SiteNode]) -> Links:
    nodes = {node.id: node for node in ordered}
    before: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    after: dict[str, list[str]] = {node_id: [] for node_id in nodes}
    position = {node_id: index for index, node_id in enumerate(nodes)}
    for start, end in sorted(set(site.edges), key=lambda edge: (position[edge[0]], position[edge[1]])):
        after[start].append(end)
        before[end].append(start)
    goes_to = defaultdict(list)
    for node in nodes.values():
        for column in node.columns or ():
            for origin in dict.fromkeys(column.origins):
                goes_to[origin].append((node.id, column.name))
    pages = {node.id: page_path(node) for node in nodes.values()}
    return Links(nodes, before, after, dict(goes_to), pages, position)
