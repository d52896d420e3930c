"""Parsing the pipeline format."""

import json
from dataclasses import replace
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from penstock.clients.files.path_names import LONGEST, directory_name
from penstock.config import check_name
from penstock.connectors import registry
from penstock.connectors.contract import Connector, Sink, Source
from penstock.errors import Diagnostic, Severity, did_you_mean, nearest
from penstock.project.load import Documents
from penstock.project.project import Pipeline
from penstock.project.validation.declaration import Declaration
from penstock.project.validation.forms import Form
from penstock.project.validation.reader import DocumentReader
from penstock.project.yaml.documents import Document, PathStep
from penstock.project.yaml.variables import Environ
from penstock.settings import Settings, connection_name
from penstock.transforms.sql import TRANSFORMS

Node: TypeAlias = Declaration[Any]
PIPELINE_KEYS: Final = ("sources", "transforms", "sinks")


class PipelineReader(DocumentReader):
    """Reads one file of sources, transforms and sinks."""

    def __init__(self, environ: Environ, settings: Settings, *, stand_ins: bool = False) -> None:
        super().__init__(environ, stand_ins=stand_ins)
        self._settings = settings

    def pipeline(self, documents: Documents) -> Pipeline | None:
        document = documents.files[0]
        base = self._find_definition(document)
        if not self.is_mapping(document, base, PIPELINE_KEYS, "a pipeline"):
            return None
        body = document.value["definition"] if base else document.value
        for key in ("sources", "sinks"):
            if key not in body:
                text = f"a pipeline needs `{key}`"
                self.note("missing-field", document.origin(*base), key, text, field=key)
        if {"sources", "sinks"} <= body.keys() and all(body.get(key) in (None, {}) for key in PIPELINE_KEYS):
            text, hint = "a pipeline needs at least one source and one sink", "write `name: {type: …}` below both"
            origin = document.origin(*base, "sources", key=True)
            self.note("missing-field", origin, "sources", text, hint, field="sources")
        taken: dict[str, Node] = {}
        sources, transforms, sinks = (self._nodes(document, base, key, body.get(key), taken) for key in PIPELINE_KEYS)
        self._note_unknown_connections(body.get("sinks"))
        return Pipeline(documents.name, sources, transforms, sinks, frozenset(self.refused), self._settings)

    def _find_definition(self, document: Document) -> tuple[PathStep, ...]:
        """The path of the pipeline in its document: all of it, or what is below `definition`. Other keys next to
        `definition`, such as a name, are allowed."""
        value = document.value
        if not isinstance(value, dict) or "definition" not in value or not value.keys().isdisjoint(PIPELINE_KEYS):
            return ()
        for key in (key for key in value if key != "definition"):
            text, origin = "this has no effect next to `definition`", document.origin(key, key=True)
            self.note("no-effect", origin, key, text, severity=Severity.INFO, field=key)
        return ("definition",)

    def _nodes(
        self, document: Document, base: tuple[PathStep, ...], section: str, nodes: object, taken: dict[str, Node]
    ) -> dict[str, Node]:
        if nodes is None:
            return {}
        if not isinstance(nodes, dict):
            text = f"`{section}` maps names to nodes"
            hint = "write `name:` and below it `type: …`"
            self.note("wrong-shape", document.origin(*base, section), section, text, hint)
            return {}
        found: dict[str, Node] = {}
        for name, raw in nodes.items():
            path, label = (*base, section, name), f"{section}.{name}"
            written: Node = Declaration(None, document, path, label, _normalize_type(section, raw))
            model = self._node_model(section, written) if self._is_name(name, written, section) else None
            options, forms = _flatten_options(model, written.raw)
            written = replace(written, raw=options, forms=forms)
            value = self.read(model, written) if model else None
            if value is None:
                self.refused.add(name)
                continue
            node = replace(written, value=value)
            if isinstance(value, Connector):
                self._note_remarks(value, node)
                self._check_name_length(name, value, node)
            if (first := taken.setdefault(name.casefold(), node)) is not node:
                text = f"duplicate node name `{name}`, also at {first.origin}"
                self.diagnostics.append(node.diagnostic("duplicate-name", text, name=name))
                self.refused.add(name)
                continue
            found[name] = node
        return found

    def _is_name(self, name: str, node: Node, section: str) -> bool:
        """Whether a node can have that name. If not, add a diagnostic."""
        try:
            if check_name(name):
                return True
            text = "a name has at least one character"
        except ValueError as error:
            text = str(error)
        self.note("invalid-value", node.origin, f"{section}.{json.dumps(name)}", text, name=name)
        return False

    def _check_name_length(self, name: str, connector: Connector, node: Node) -> None:
        """Report a name that is too long for the directory of its query."""
        names_query = isinstance(connector, Source) or (isinstance(connector, Sink) and connector.isolate)
        size = len(directory_name(name))
        if names_query and size > LONGEST:
            text = (
                f"the name is too long: its query's directory name would have {size} bytes, and the limit is {LONGEST}"
            )
            hint = "choose a shorter name; a letter other than a to z needs six bytes or more"
            self.diagnostics.append(node.diagnostic("invalid-value", text, hint, name=name))

    def _note_unknown_connections(self, sinks: object) -> None:
        """Report connections in the settings whose sink does not exist."""
        names = [connection_name(name) for name in sinks] if isinstance(sinks, dict) else None
        for name in self._settings.postgres_sink_connections:
            if names is not None and name not in names:
                text, path = f"there is no sink `{name}`, so nothing uses this", f"postgres_sink_connections.{name}"
                hint, params = did_you_mean(name, names), {"name": name}
                self.diagnostics.append(Diagnostic("unknown-node", text, None, path, hint, Severity.WARNING, params))

    def _note_remarks(self, connector: Connector, node: Node) -> None:
        """Report node settings that conflict with the application's settings."""
        for remark in connector.remarks(self._settings):
            severity = Severity.ERROR if remark.fatal else Severity.WARNING
            at, field = (remark.field,), remark.field
            found = node.diagnostic(remark.code, remark.text, remark.hint, at=at, severity=severity, field=field)
            self.diagnostics.append(found)

    def _node_model(self, section: str, node: Node) -> type[BaseModel] | None:
        if not isinstance(node.raw, dict):
            self.note("wrong-shape", node.origin_of(), node.label, "a node is a mapping with a `type`")
            return None
        type_name = node.raw.get("type")
        known = _known_types(section)
        if not isinstance(type_name, str):
            listed = f"available: {', '.join(known)}"
            self.note("missing-field", node.origin, f"{node.label}.type", "a node needs a type", listed, field="type")
            return None
        model = _model_for(section, type_name)
        if model is None:
            text = f"`{type_name}` is not available as a {section.removesuffix('s')}; there are {', '.join(known)}"
            close = nearest(type_name, known)
            hint = f"did you mean `{close}`?" if close else None
            self.diagnostics.append(node.diagnostic("unknown-type", text, hint, at=("type",), type=type_name))
        return model


def _normalize_type(section: str, raw: Any) -> Any:
    """A node with its canonical type name: a `postgres` source is a `postgres_cdc` source."""
    followed = section == "sources" and isinstance(raw, dict) and raw.get("type") == "postgres"
    return {**raw, "type": "postgres_cdc"} if followed else raw


def _flatten_options(model: type[BaseModel] | None, raw: Any) -> tuple[Any, tuple[Form, ...]]:
    """The node with the fields below `options` merged into it, where its type allows that."""
    lets_them = model is not None and issubclass(model, Connector) and model.by_options
    if not lets_them or not isinstance(raw.get("options"), dict):
        return raw, ()
    options, beside = raw["options"], {field: value for field, value in raw.items() if field != "options"}
    return {**options, **beside}, tuple(Form(("options", name), (name,)) for name in options if name not in beside)


def _known_types(section: str) -> tuple[str, ...]:
    match section:
        case "sources":
            return tuple(name for name in registry.types("source") if _model_for(section, name) is not None)
        case "sinks":
            return registry.types("sink")
        case _:
            return tuple(TRANSFORMS)


def _model_for(section: str, type_name: str) -> type[BaseModel] | None:
    match section:
        case "sources":
            found = registry.find_source(type_name)
            return None if found is not None and found.table_only else found
        case "sinks":
            return registry.find_sink(type_name)
        case _:
            return TRANSFORMS.get(type_name)
