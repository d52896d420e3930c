"""parse: Documents -> Project. Plain values become frozen models; every mistake is a diagnostic, all at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.connectors import registry
from penstock.errors import Diagnostic, Origin, did_you_mean
from penstock.project import stream_project as written
from penstock.project.declared import Declared
from penstock.project.documents import Document, Step
from penstock.project.load import Documents
from penstock.project.mistakes import mistake
from penstock.project.pipeline import Pipeline
from penstock.project.runtime import Runtime
from penstock.transforms.registry import TRANSFORMS

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class StreamProject:
    """A project as written, element by element."""

    header: written.ProjectHeader
    runtime: Runtime
    sources: tuple[Declared[written.Source], ...]
    models: tuple[Declared[written.Model], ...]
    exposures: tuple[Declared[written.Exposure], ...]
    refused: frozenset[str]
    """Ids of elements that are named but could not be parsed: a reference to one of them is no second mistake."""

    @property
    def name(self) -> str:
        return self.header.name


Project: TypeAlias = StreamProject | Pipeline

SECTIONS: Final = ("sources", "models", "exposures")
MAIN_KEYS: Final = ("project", "runtime", *SECTIONS)
PIPELINE_KEYS: Final = ("sources", "transforms", "sinks")


def parse(documents: Documents) -> tuple[Project | None, list[Diagnostic]]:
    """The project, or None when there is too little to go on with."""
    if not documents.files:
        return None, []
    parser = _Parser()
    project: Project | None
    if documents.format == "project":
        project = parser.stream_project(documents)
    else:
        project = parser.pipeline(documents.name, documents.files[0])
    return project, parser.diagnostics


class _Parser:
    """Collects diagnostics while the documents are walked."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.refused: set[str] = set()

    # The project format

    def stream_project(self, documents: Documents) -> StreamProject | None:
        main, *others = documents.files
        if not self._mapping(main, (), MAIN_KEYS, "a project"):
            return None
        header = self._section(main, "project", written.ProjectHeader)
        runtime = self._section(main, "runtime", Runtime) if main.value.get("runtime") is not None else None
        if "project" not in main.value:
            hint = "begin with `project:` and below it `name: …`"
            self._note(
                "missing-field",
                main.origin(),
                "project",
                "a project needs this section",
                hint,
                field="project",
            )
        files = [main, *(d for d in others if self._mapping(d, (), SECTIONS, "a file of a project"))]
        return StreamProject(
            header or written.ProjectHeader(name=documents.name),
            runtime or Runtime(),
            tuple(self._elements(files, "sources", written.Source)),
            tuple(self._elements(files, "models", written.Model)),
            tuple(self._elements(files, "exposures", written.Exposure)),
            frozenset(self.refused),
        )

    def _section(self, document: Document, key: str, model: type[M]) -> M | None:
        if key not in document.value:
            return None
        return self._validate(model, document.value[key], document, (key,), key)

    def _elements(self, files: list[Document], section: str, model: type[M]) -> Iterator[Declared[M]]:
        seen: dict[str, Declared[M]] = {}
        for document in files:
            items = document.value.get(section)
            if items is None:
                continue
            if not isinstance(items, list):
                text = f"`{section}` is a list of elements, each with a name"
                self._note("wrong-shape", document.origin(section), section, text, "begin each one with `- name: …`")
                continue
            for position, item in enumerate(items):
                path = (section, position)
                name = item.get("name") if isinstance(item, dict) else None
                label = f"{section}.{name if isinstance(name, str) else position}"
                value = self._validate(model, item, document, path, label)
                if value is None:
                    self.refused.add(f"{section.removesuffix('s')}.{name}")
                    continue
                if isinstance(value, written.Model):
                    self._native_connector(value, document, path, label)
                if isinstance(value, written.Source):
                    self._distinct_columns(value, document, path, label)
                element = Declared(value, document, path, label)
                if (first := seen.setdefault(label.casefold(), element)) is not element:
                    text = f"the name `{name}` is taken by {first.origin}"
                    text += "" if first.label == label else "; case does not tell names apart"
                    self._note("duplicate-name", element.origin_of("name"), label, text, name=str(name))
                    continue
                yield element

    def _distinct_columns(self, source: written.Source, document: Document, path: tuple[Step, ...], label: str) -> None:
        seen: set[str] = set()
        for position, column in enumerate(source.columns):
            if column.name.casefold() in seen:
                origin = document.origin(*path, "columns", position)
                text = f"the column `{column.name}` is declared twice"
                self._note("duplicate-name", origin, f"{label}.columns.{position}", text, name=column.name)
            seen.add(column.name.casefold())

    def _native_connector(self, model: written.Model, document: Document, path: tuple[Step, ...], label: str) -> None:
        """A sink model that names one of our own connectors is checked against it."""
        connector = model.advanced.connector
        sink = registry.find_sink(connector.type) if connector else None
        if connector and sink:
            inner = (*path, "advanced", "connector", "config")
            raw = connector.as_sink(model.name)
            self._validate(sink, raw, document, inner, f"{label}.advanced.connector.config")

    # The pipeline format

    def pipeline(self, name: str, document: Document) -> Pipeline | None:
        base: tuple[Step, ...] = ()
        if isinstance(document.value, dict) and set(document.value) == {"definition"}:
            base = ("definition",)
        if not self._mapping(document, base, PIPELINE_KEYS, "a pipeline"):
            return None
        body = document.value["definition"] if base else document.value
        for key in ("sources", "sinks"):
            if key not in body:
                text = f"a pipeline needs `{key}`"
                self._note("missing-field", document.origin(*base), key, text, field=key)
        taken: dict[str, Declared[Any]] = {}
        sources, transforms, sinks = (self._nodes(document, base, key, body.get(key), taken) for key in PIPELINE_KEYS)
        return Pipeline(name, sources, transforms, sinks, frozenset(self.refused))

    def _nodes(
        self,
        document: Document,
        base: tuple[Step, ...],
        section: str,
        nodes: object,
        taken: dict[str, Declared[Any]],
    ) -> dict[str, Declared[Any]]:
        if nodes is None:
            return {}
        if not isinstance(nodes, dict):
            text = f"`{section}` maps names to nodes"
            self._note(
                "wrong-shape",
                document.origin(*base, section),
                section,
                text,
                "write `name:` and below it `type: …`",
            )
            return {}
        found: dict[str, Declared[Any]] = {}
        for name, raw in nodes.items():
            path, label = (*base, section, name), f"{section}.{name}"
            model = self._node_model(section, raw, document, path, label)
            value = self._validate(model, raw, document, path, label) if model else None
            if value is None:
                self.refused.add(name)
                continue
            node = Declared(value, document, path, label)
            if (first := taken.setdefault(name.casefold(), node)) is not node:
                text = f"duplicate node name `{name}`, also at {first.origin}"
                self._note("duplicate-name", node.origin, label, text, name=name)
                self.refused.add(name)
                continue
            found[name] = node
        return found

    def _node_model(
        self, section: str, raw: object, document: Document, path: tuple[Step, ...], label: str
    ) -> type[BaseModel] | None:
        if not isinstance(raw, dict):
            self._note("wrong-shape", document.origin(*path), label, "a node is a mapping with a `type`")
            return None
        type_name = raw.get("type")
        known = _known_types(section)
        if not isinstance(type_name, str):
            listed = f"available: {', '.join(known)}"
            self._note(
                "missing-field",
                document.origin(*path, key=True),
                f"{label}.type",
                "a node needs a type",
                listed,
                field="type",
            )
            return None
        model = _model_for(section, type_name)
        if model is None:
            text = f"`{type_name}` is not available as a {section.removesuffix('s')}"
            hint = did_you_mean(type_name, known)
            self._note("unknown-type", document.origin(*path, "type"), f"{label}.type", text, hint, type=type_name)
        return model

    # Shared

    def _mapping(self, document: Document, base: tuple[Step, ...], keys: tuple[str, ...], what: str) -> bool:
        value = document.value
        for step in base:
            value = value[step]
        if not isinstance(value, dict):
            found = "a list" if isinstance(value, list) else "a single value"
            text = f"{what} is a mapping; this is {found}"
            begin = f"begin with {', '.join(f'`{k}:`' for k in keys)}"
            self._note("wrong-shape", document.origin(*base), "", text, begin)
            return False
        for key in value:
            if key not in keys:
                origin = document.origin(*base, key, key=True)
                hint = did_you_mean(key, keys)
                self._note("unknown-field", origin, key, f"{what} has no such section", hint, field=key)
        return True

    def _validate(
        self, model: type[M], raw: object, document: Document, path: tuple[Step, ...], label: str
    ) -> M | None:
        try:
            return model.model_validate(raw)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self.diagnostics.append(mistake(model, detail, document, path, label))
            return None

    def _note(self, code: str, origin: Origin, path: str, text: str, hint: str | None = None, **params: str) -> None:
        self.diagnostics.append(Diagnostic(code, text, origin, path, hint, params=params))


def _known_types(section: str) -> tuple[str, ...]:
    match section:
        case "sources":
            return registry.types("source")
        case "sinks":
            return registry.types("sink")
        case _:
            return tuple(TRANSFORMS)


def _model_for(section: str, type_name: str) -> type[BaseModel] | None:
    match section:
        case "sources":
            return registry.find_source(type_name)
        case "sinks":
            return registry.find_sink(type_name)
        case _:
            return TRANSFORMS.get(type_name)
