"""Variables filled in at the last moment: settings of connectors, salts and keys of masks. They are kept nowhere."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from penstock.errors import PlanRefused
from penstock.manifest.model import Step
from penstock.project.variables import Environ, resolved, substituted
from penstock.sql.mask import key_part

_BLOCK = 64


class Filling:
    """Fills in what the manifest only refers to."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    def connector(self, config: Mapping[str, Any]) -> dict[str, Any]:
        value, unset = resolved(dict(config), self._environ, lambda _: False)
        _refuse({reference.name for reference in unset})
        assert isinstance(value, dict)
        return value

    def sql(self, step: Step) -> str:
        """The SQL of a step with its variables filled in, and no others: the rest of the text is the user's own."""
        sql = step.sql
        missing = [name for name in step.variables if not self._environ.get(name)]
        _refuse(missing)
        for name in step.variables:
            inner, outer = _hmac_keys(self._environ[name])
            sql = sql.replace(key_part(name, "inner"), inner.hex()).replace(key_part(name, "outer"), outer.hex())
            sql = substituted_literal(sql, name, self._environ[name])
        return sql


def substituted_literal(sql: str, name: str, value: str) -> str:
    """`${NAME}` inside a literal of SQL, filled in so that the value cannot end the literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return substituted(sql, {name: escaped}, lambda _: None)


def _hmac_keys(key: str) -> tuple[bytes, bytes]:
    """The two blocks that HMAC puts before what it hashes."""
    raw = key.encode()
    block = (hashlib.sha256(raw).digest() if len(raw) > _BLOCK else raw).ljust(_BLOCK, b"\0")
    return bytes(b ^ 0x36 for b in block), bytes(b ^ 0x5C for b in block)


def _refuse(names: Collection[str]) -> None:
    if names:
        text = f"not set in the environment: {', '.join(sorted(names))}"
        raise PlanRefused("unset-variable", text, hint="set it, or put it into `.env`")
