"""The machine-learning models that a query calls, each as a Spark function."""

import re
import zlib
from collections.abc import Mapping

from penstock.graph.graph import Graph, Node
from penstock.manifest.model import AskedModel


def asked_models(node: Node, graph: Graph, digests: Mapping[str, str]) -> dict[str, AskedModel]:
    """The models by their name in the SQL, without those that `runtime.ml` lacks."""
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
    """A valid function name, different for each model and result type."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"ML_{plain}_{zlib.crc32(f'{name} {answer}'.encode()):08x}".upper()
