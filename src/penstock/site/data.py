"""The data for the scripts of the site: one file that assigns one value."""

import json

from penstock.site.links import Links
from penstock.site.model import KINDS


def data_script(links: Links) -> str:
    """The data as JavaScript. `<` is escaped and all else is ASCII, so the text can neither end a script element nor
    break a line."""
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
                [
                    column.name,
                    [[links.numbers[origin], name] for origin, name in column.origins if origin in links.nodes],
                ]
                for column in node.columns or ()
            ],
        }
        for node in links.nodes.values()
    ]
    text = json.dumps({"kinds": KINDS, "nodes": nodes}, separators=(",", ":"), ensure_ascii=True)
    harmless = text.replace("<", r"\u003c").replace(">", r"\u003e")
    return f"window.penstock = {harmless};\n"
