"""Renders all files of a site, from templates that escape all values."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.site.drawing import draw
from penstock.site.links import Links, link_site, safe_url
from penstock.site.model import KINDS, Site, SiteColumn, SiteNode
from penstock.site.sql_colour import colour_sql

ASSETS = ("graph.js", "icon.svg", "overview.js", "site.css", "site.js", "theme.js")
MOST_DRAWN = 300
"""The maximum number of nodes on the page of one node. The most distant ones are left out."""
TITLES = {"source": "Sources", "model": "Models", "transform": "Transforms", "sink": "Sinks", "exposure": "Exposures"}


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A column with its upstream and downstream columns. The page is empty if the node is unknown."""

    column: SiteColumn
    comes_from: tuple[tuple[str, str, str], ...]
    goes_to: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class ReachedExposure:
    node: SiteNode
    steps: int
    promises: tuple[tuple[str, str], ...]


def site_texts(site: Site) -> Iterator[tuple[str, str]]:
    """Path and text of each file, index.html first: it marks the directory as written by Penstock."""
    ordered = sorted(site.nodes, key=lambda node: (KINDS.index(node.kind), node.name.casefold(), node.name, node.id))
    links = link_site(site, ordered)
    environment = _environment(site, links)

    by_kind = [(kind, TITLES[kind], [node for node in ordered if node.kind == kind]) for kind in KINDS]
    overview = {
        "root": "",
        "drawing": draw(links, [node.id for node in ordered]),
        "by_kind": [entry for entry in by_kind if entry[2]],
        "tags": sorted({tag for node in ordered for tag in node.tags}),
        "columns": sum(len(node.columns or ()) for node in ordered),
        "tests": sum(len(node.tests) for node in ordered),
        "notes": [(note, links.node_at(note.path)) for note in site.notes],
    }
    yield "index.html", environment.get_template("index.html").render(overview)
    element = environment.get_template("element.html")
    for number, node in enumerate(ordered):
        yield links.pages[node.id], element.render(_element(node, number, links))
    yield "assets/data.js", _data_script(links)
    for name in ASSETS:
        yield f"assets/{name}", files("penstock.site").joinpath("assets", name).read_text(encoding="utf-8")


def _element(node: SiteNode, number: int, links: Links) -> dict[str, object]:
    steps = links.lineage(node.id)
    nearest = set(sorted(steps, key=lambda one: (steps[one], links.numbers[one]))[:MOST_DRAWN])
    shown = [one for one in links.nodes if one in nearest]
    exposures = [
        ReachedExposure(exposure, distance, tuple(f for f in exposure.facts if f[0].casefold().startswith("sla")))
        for exposure, distance in links.exposures_of(node.id)
    ]
    return {
        "root": "../",
        "node": node,
        "number": number,
        "drawing": draw(links, shown),
        "not_drawn": len(steps) - len(shown),
        "columns": None if node.columns is None else [_column(node, column, links) for column in node.columns],
        "upstream": [links.nodes[one] for one in links.before[node.id]],
        "downstream": [links.nodes[one] for one in links.after[node.id]],
        "exposures": exposures,
    }


def _column(node: SiteNode, column: SiteColumn, links: Links) -> ColumnRow:
    def shown(node_id: str, name: str) -> tuple[str, str, str]:
        known = links.nodes.get(node_id)
        return (known.name, name, links.pages[node_id]) if known else (node_id, name, "")

    return ColumnRow(
        column,
        tuple(shown(*origin) for origin in dict.fromkeys(column.origins)),
        tuple(shown(*target) for target in links.goes_to.get((node.id, column.name), ())),
    )


def _data_script(links: Links) -> str:
    """The data for the scripts, as JavaScript that assigns one value. `<` is escaped and all else is ASCII, so the text
    can neither end a script element nor break a line."""
    nodes = [
        {
            "kind": node.kind,
            "name": node.name,
            "label": node.label or node.kind,
            "page": links.pages[node.id],
            "description": node.description or "",
            "owner": node.owner or "",
            "group": node.group or "",
            "topic": node.topic or "",
            "tags": node.tags,
            "columns": [
                [column.name, [[links.numbers[id], name] for id, name in column.origins if id in links.nodes]]
                for column in node.columns or ()
            ],
        }
        for node in links.nodes.values()
    ]
    text = json.dumps({"kinds": KINDS, "nodes": nodes}, separators=(",", ":"), ensure_ascii=True)
    harmless = text.replace("<", r"\u003c").replace(">", r"\u003e")
    return f"window.penstock = {harmless};\n"


def _environment(site: Site, links: Links) -> Environment:
    environment = Environment(
        loader=PackageLoader("penstock.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["colour_sql"] = colour_sql
    environment.filters["safe_url"] = safe_url
    environment.globals.update(site=site, pages=links.pages, nodes=links.nodes, titles=TITLES)
    return environment
