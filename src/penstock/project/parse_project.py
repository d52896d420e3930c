"""Parses the project format."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import BaseModel, RootModel

from penstock.connectors import registry
from penstock.connectors.contract import Connector
from penstock.errors import Severity, did_you_mean
from penstock.project import stream_project as written
from penstock.project.load import Documents
from penstock.project.project import Environment, StreamProject
from penstock.project.runtime import ConnectClusters, Runtime
from penstock.project.templates.template import Templates
from penstock.project.validation.declaration import Declaration
from penstock.project.validation.forms import FORMS, normalize_forms
from penstock.project.validation.reader import DocumentReader
from penstock.project.yaml.documents import Document, PathStep, TextFile
from penstock.project.yaml.variables import Environ, UnsetVariable, find_references, resolve_variables

M = TypeVar("M", bound=BaseModel)

SECTIONS: Final = ("sources", "models", "tests", "exposures")
MAIN_KEYS: Final = ("project", "runtime", "defaults", "rules", "vars", *SECTIONS)
_LATER: Final = {
    "sources": (("table", "config"),),
    "models": (("sql",), ("advanced", "connector", "config")),
    "tests": (("on_failure",), ("assertions",)),
}
"""Paths where `${NAME}` is not resolved when the project is read: SQL is a template, and the rest is needed only by a
run."""


class ProjectReader(DocumentReader):
    """Reads the files of a project."""

    def __init__(self, environ: Environ, *, stand_ins: bool = False) -> None:
        super().__init__(environ, stand_ins=stand_ins)
        self._by_label: dict[str, Declaration[Any]] = {}
        self._sql_files: dict[str, TextFile] = {}
        self._connect: ConnectClusters | None = None

    def stream_project(self, documents: Documents, variables: Mapping[str, Any]) -> StreamProject | None:
        main, *others = documents.files
        if not self.is_mapping(main, (), MAIN_KEYS, "a project"):
            return None
        if "project" not in main.value:
            hint = "begin with `project:` and below it `name: …`"
            self.note("missing-field", main.origin(), "project", "a project needs this section", hint, field="project")
        header = self._section(main, "project", written.ProjectHeader)
        runtime, environment, env_vars = self._read_environment(main, documents)
        self._connect = runtime.value.connect
        own = self._section(main, "vars", _Vars)
        rules = self._section(main, "rules", written.Rules) or written.Rules()
        files = [main, *(d for d in others if self.is_mapping(d, (), SECTIONS, "a file of a project"))]
        project = StreamProject(
            header or written.ProjectHeader(name=documents.name),
            runtime,
            self._section(main, "defaults", written.Defaults) or written.Defaults(),
            Declaration(rules, main, ("rules",), "rules", main.value.get("rules")),
            Templates(
                documents.macros,
                {**(own.root if own else {}), **env_vars, **variables},
                documents.environ,
                environment.name if environment else None,
            ),
            environment,
            documents.environ,
            tuple(self._elements(files, "sources", written.Source)),
            tuple(self._models(files, documents.sql)),
            tuple(self._elements(files, "tests", written.DataTest)),
            tuple(self._elements(files, "exposures", written.Exposure)),
            frozenset(self.refused),
        )
        self.diagnostics.extend(project.templates.mistakes())
        return project

    # Sections

    def _read_environment(
        self, main: Document, documents: Documents
    ) -> tuple[Declaration[Runtime], Environment | None, Mapping[str, Any]]:
        """The runtime: of the environment that was chosen, else of the project."""
        if documents.environment is None:
            return self._runtime(main), None, {}
        name, document = documents.environment
        if "runtime" in main.value:
            text = f"the project has environments, so each of them sets `{name}`"
            hint = "move it into the files of `environments/`"
            origin = main.origin("runtime", key=True)
            self.note("no-effect", origin, "runtime", text, hint, severity=Severity.WARNING, field="runtime")
        if not self.is_mapping(document, (), tuple(written.EnvironmentFile.model_fields), "an environment"):
            nowhere = Declaration(Runtime(), document, ("runtime",), "runtime")
            return nowhere, Environment(name, "", asks_first=True, allow_destructive=False), {}
        if "runtime" not in document.value:
            hint = "add `runtime:`; leave it empty to run on this machine"
            text = "an environment needs this section"
            self.note("missing-field", document.origin(), "runtime", text, hint, field="runtime")
        runtime = self._runtime(document)
        header = self._section(document, "environment", written.EnvironmentHeader) or written.EnvironmentHeader()
        safety = self._section(document, "safety", written.Safety) or written.Safety()
        own = self._section(document, "vars", _Vars)
        if header.name not in (None, name):
            text = f"the file is `{name}`, but its `environment.name` is `{header.name}`"
            origin = document.origin("environment", "name")
            self.note("invalid-value", origin, "environment.name", text, "use the same name in both")
        asks_first = header.protected if safety.confirm_apply is None else safety.confirm_apply
        chosen = Environment(name, header.description, asks_first, safety.allow_destructive)
        return runtime, chosen, own.root if own else {}

    def _runtime(self, document: Document) -> Declaration[Runtime]:
        value = self._section(document, "runtime", Runtime) or Runtime()
        return Declaration(value, document, ("runtime",), "runtime")

    def _section(self, document: Document, key: str, model: type[M]) -> M | None:
        if key not in document.value or (document.value[key] is None and key != "project"):
            return None
        written_section = Declaration(None, document, (key,), key, document.value[key])
        if key != "runtime":
            self.refuse_secrets(written_section)
        value = self.read(model, written_section)
        if value is not None:
            self.note_inert_fields(key, written_section)
        return value

    # Elements

    def _elements(self, files: list[Document], section: str, model: type[M]) -> Iterator[Declaration[M]]:
        for document in files:
            items = document.value.get(section)
            if items is None:
                continue
            if not isinstance(items, list):
                text = f"`{section}` is a list of elements, each with a name"
                self.note("wrong-shape", document.origin(section), section, text, "begin each one with `- name: …`")
                continue
            for position, item in enumerate(items):
                element = self._element(section, model, item, document, (section, position))
                if element is not None and self._is_first(element):
                    yield element

    def _models(self, files: list[Document], texts: tuple[TextFile, ...]) -> Iterator[Declaration[written.Model]]:
        """The models of YAML files with their SQL, then the SQL files that no YAML names."""
        by_name: dict[str, TextFile] = {}
        for text in texts:
            if (first := by_name.setdefault(text.name, text)) is not text:
                note = f"the model `{text.name}` already has the file {first.file}"
                self.note("duplicate-name", text.origin(0), f"models.{text.name}", note, name=text.name)
        self._sql_files = dict(by_name)
        yield from self._elements(files, "models", written.Model)
        taken = {name.removeprefix("model.") for name in self.refused if name.startswith("model.")}
        for name, text in list(self._sql_files.items()):
            if name in taken:
                continue
            document = Document(text.file, text.text, None, {})
            element = self._element("models", written.Model, {"name": name}, document, ())
            if element is not None and self._is_first(element):
                yield element

    def _element(
        self, section: str, model: type[M], item: Any, document: Document, path: tuple[PathStep, ...]
    ) -> Declaration[M] | None:
        name = item.get("name") if isinstance(item, dict) else None
        label = f"{section}.{name if isinstance(name, str) else path[-1]}"
        texts: dict[str, TextFile] = {}
        if section == "models" and isinstance(item, dict):
            item, texts = self._merge_sql_file(item, document, path, label)
        form = normalize_forms(item, FORMS.get(section, ()))
        raw: Declaration[Any] = Declaration(None, document, path, label, form.value, form.used, texts)
        self.note_forms(form, raw)
        paths = _LATER.get(section, ())

        def later(steps: tuple[PathStep, ...]) -> bool:
            is_salt = section == "models" and steps[:1] == ("security",) and steps[-1] == "salt"
            return is_salt or any(steps[: len(start)] == start for start in paths)

        self.refuse_secrets(raw, later)
        value = self.read(model, raw, later)
        if value is None:
            if isinstance(name, str):
                self.refused.add(f"{section.removesuffix('s')}.{name}")
            return None
        self.note_inert_fields(section, raw)
        if isinstance(value, written.Model):
            self._check_connector(replace(raw, value=value))
        if isinstance(value, written.Source):
            self._check_table(replace(raw, value=value))
        element: Declaration[M] = replace(raw, value=value)
        if isinstance(value, written.Model | written.Source):
            self.note_duplicate_columns(element)
        return element

    def _merge_sql_file(
        self, item: dict[str, Any], document: Document, path: tuple[PathStep, ...], label: str
    ) -> tuple[dict[str, Any], dict[str, TextFile]]:
        """The model with the SQL of its own file and the settings of its `config()` call."""
        texts: dict[str, TextFile] = {}
        text = self._sql_files.pop(item["name"], None) if isinstance(item.get("name"), str) else None
        if text is not None and item.get("sql") is not None:
            note = f"the SQL is given here and in {text.file}"
            self.note("given-twice", document.origin(*path, "sql"), f"{label}.sql", note, "keep one of the two")
        elif text is not None:
            item, texts = {**item, "sql": text.text}, {"sql": text}
        sql = item.get("sql")
        if isinstance(sql, str) and "config(" in sql:
            from penstock.project.templates.jinja import parse_config_call

            from_call, computed = parse_config_call(sql)
            for key in computed:
                note = f"the value of `{key}` in `config()` must be written out"
                at = Declaration(None, document, path, label, texts=texts).origin_inside("sql", sql.index("config("))
                self.note("template-syntax", at, f"{label}.sql", note)
            for key in sorted(from_call.keys() & item.keys()):
                note = f"`{key}` is given here and in the `config()` of the SQL"
                self.note("given-twice", document.origin(*path, key), f"{label}.{key}", note, "keep one of the two")
            item = {**from_call, **item}
        return item, texts

    def _is_first(self, element: Declaration[Any]) -> bool:
        key = f"{element.label.partition('.')[0]}.{element.value.name}"
        first = self._by_label.setdefault(key.casefold(), element)
        if first is element:
            return True
        text = f"the name `{element.value.name}` is taken by {first.origin}"
        text += "" if first.value.name == element.value.name else "; names are not case-sensitive"
        self.note("duplicate-name", element.origin_of("name"), element.label, text, name=element.value.name)
        return False

    def _check_connector(self, element: Declaration[written.Model]) -> None:
        """Check a sink model against the connector that it names, with its variables resolved."""
        if (connector := element.value.advanced.connector) is not None:
            sink = None if connector.is_foreign(self._connect) else registry.find_sink(connector.type)
            inner = ("advanced", "connector", "config")
            self._check_config(element, inner, sink, connector.as_sink(element.value.name))

    def _check_table(self, element: Declaration[written.Source]) -> None:
        """Check a lookup table against the source that reads it."""
        if (table := element.value.table) is not None:
            self._check_config(element, ("table", "config"), registry.find_source(table.type), table.as_source())
            if registry.find_source(table.type) is None:
                hint = did_you_mean(table.type, registry.types("source"), otherwise="sources")
                text, at = f"there is no source `{table.type}`", ("table", "type")
                self.diagnostics.append(element.diagnostic("invalid-value", text, hint, at=at))

    def _check_config(
        self, element: Declaration[Any], inner: tuple[str, ...], model: type[Connector] | None, config: dict[str, Any]
    ) -> None:
        unset = [
            UnsetVariable(name, path)
            for name, default, path in find_references(config)
            if not default and not self.environ.get(name)
        ]
        for variable in unset:
            inside = UnsetVariable(variable.name, (*inner, *variable.path))
            self.note_unset_variable(inside, element, Severity.WARNING)
        path, label = (*element.path, *element.written_steps(inner)), element.label_of(*inner)
        if model and unset:
            self.read_with_stand_ins(model, Declaration(None, element.document, path, label, config), unset)
        elif model:
            raw, _ = resolve_variables(config, self.environ)
            self.read(model, Declaration(None, element.document, path, label, raw))


class _Vars(RootModel[dict[str, Any]]):
    """Any names, any values."""
