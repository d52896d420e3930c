"""Resolves the references of a manifest at run time: variables, paths, and clusters.

Resolved settings of connectors, salts and mask keys are never stored.
"""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from penstock.clients.clusters import EMBEDDED, Clusters
from penstock.connectors.contract import Sink, Source
from penstock.connectors.registry import open_sink, open_source
from penstock.errors import PlanRefused
from penstock.manifest.model import Parameter, Step
from penstock.project.yaml.variables import Environ, resolve_variables, unset_hint

_BLOCK: Final = 64


class ConfigResolver:
    """Resolves the references of a manifest."""

    def __init__(self, root: Path, environ: Environ, clusters: Clusters = EMBEDDED) -> None:
        self._root = root
        self._environ = environ
        self._clusters = clusters

    def source(self, config: Mapping[str, Any]) -> Source:
        return open_source(self._resolve_settings(config), self._root, self._clusters)

    def sink(self, config: Mapping[str, Any], node: str) -> Sink:
        return open_sink(self._resolve_settings(config), self._root, self._clusters, node)

    def _resolve_settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        value, unset = resolve_variables(dict(config), self._environ)
        _refuse({reference.name for reference in unset})
        assert isinstance(value, dict)
        return value

    def parameters(self, step: Step) -> dict[str, Any]:
        """Return a step's parameters. Spark gets them separately from the SQL, which it may write into its log."""
        return {name: self._value(parameter) for name, parameter in step.parameters.items()}

    def _value(self, parameter: Parameter) -> Any:
        if parameter.kind == "text":
            text, unset = resolve_variables(parameter.of, self._environ)
            _refuse({reference.name for reference in unset})
            return text
        key = self._environ.get(parameter.of)
        if not key:
            _refuse([parameter.of])
        inner, outer = _hmac_keys(key or "")
        return bytearray(inner if parameter.kind == "hmac_inner" else outer)


def _hmac_keys(key: str) -> tuple[bytes, bytes]:
    """Return the inner and the outer key block of HMAC."""
    raw = key.encode()
    block = (hashlib.sha256(raw).digest() if len(raw) > _BLOCK else raw).ljust(_BLOCK, b"\0")
    return bytes(b ^ 0x36 for b in block), bytes(b ^ 0x5C for b in block)


def _refuse(names: Collection[str]) -> None:
    if names:
        listed = ", ".join(f"`{name}`" for name in sorted(names))
        text = f"the environment variable{f's {listed} are' if len(names) > 1 else f' {listed} is'} not set"
        raise PlanRefused("unset-variable", text, hint=unset_hint(min(names)))
