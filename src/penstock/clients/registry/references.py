"""Avro schemas with the types that they reference inlined."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

_NAMED: Final = ("record", "error", "enum", "fixed")


def inline_references(schema: str, others: Iterable[str]) -> str:
    """Return a schema with the types of other schemas that it references. ValueError if one of them is invalid."""
    known = {name: found for other in others for name, found in _definitions(json.loads(other), "")}
    return json.dumps(_inline_types(json.loads(schema), "", known, set())) if known else schema


def _definitions(schema: Any, space: str) -> Iterator[tuple[str, Any]]:
    """Return the named types of a schema by full name; `space` is the namespace of names without one."""
    match schema:
        case list():
            for part in schema:
                yield from _definitions(part, space)
        case {"type": kind, "name": str()} if kind in _NAMED:
            name, within = _names(schema, space)
            yield name, {**schema, "name": name.rpartition(".")[2], "namespace": within}
            for field in schema.get("fields") or ():
                yield from _definitions(field["type"], within)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": dict() | list() as inner}:
            yield from _definitions(inner, space)


def _inline_types(schema: Any, space: str, known: dict[str, Any], seen: set[str]) -> Any:
    """Replace the names of known types by the types, where they occur first."""
    match schema:
        case str():
            name = schema if "." in schema or not space else f"{space}.{schema}"
            found = name if name in known else schema
            if found in known and found not in seen:
                return _inline_types(known[found], "", known, seen)
            return found
        case list():
            return [_inline_types(part, space, known, seen) for part in schema]
        case {"type": kind, "name": str()} if kind in _NAMED:
            name, within = _names(schema, space)
            if name in seen:
                return name
            seen.add(name)
            if "fields" not in schema:
                return schema
            fields = [{**each, "type": _inline_types(each["type"], within, known, seen)} for each in schema["fields"]]
            return {**schema, "fields": fields}
        case {"type": "array", "items": inner}:
            return {**schema, "items": _inline_types(inner, space, known, seen)}
        case {"type": "map", "values": inner}:
            return {**schema, "values": _inline_types(inner, space, known, seen)}
        case {"type": inner}:
            return {**schema, "type": _inline_types(inner, space, known, seen)}
        case _:
            return schema


def _names(schema: Any, space: str) -> tuple[str, str]:
    """Return the full name of a type, and its namespace."""
    name: str = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    within = schema.get("namespace", space)
    return (f"{within}.{name}" if within else name), within
