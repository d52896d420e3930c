"""The models of machine learning that a query asks, each under the name of a function of Spark."""

import re
import zlib
from collections.abc import Mapping

from penstock.graph.graph import Graph, Node
from penstock.manifest.model import AskedModel


def asked_models(node: Node, graph: Graph, digests: Mapping[str, str]) -> dict[str, AskedModel]:
    """By the name that the SQL has for them; without those that `runtime.ml` does not have."""
    models = graph.runtime.ml.models
    return {
        name: AskedModel(
            function=_function(name, answer),
            model=name,
            path=models[name].path,
            content=digests.get(name),
            answer=answer,
        )
        for name, answer in node.asks.items()
        if name in models
    }


def _function(name: str, answer: str | None) -> str:
    """A name that Spark takes for a function; another model, or another answer of it, has another one."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"ML_{plain}_{zlib.crc32(f'{name} {answer}'.encode()):08x}".upper()
