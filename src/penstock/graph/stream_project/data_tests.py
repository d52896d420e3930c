"""Links the tests of a project, and checks what needs no rows."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from penstock.errors import Diagnostic, Severity, did_you_mean
from penstock.graph.analysis import unknown_reference
from penstock.graph.graph import LinkedTest, Node
from penstock.graph.stream_project.assertion_values import type_check_values, type_test_values
from penstock.project import stream_project as written
from penstock.project.templates.template import Templates
from penstock.project.validation.declaration import Declaration
from penstock.sql.analyze.row_conditions import condition_problems
from penstock.sql.types.columns import TYPE_NAMES, spark_type

_KINDS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"STRING"}),
    "number": frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}),
    "int": frozenset({"TINYINT", "SMALLINT", "INT"}),
    "bigint": frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"}),
    "boolean": frozenset({"BOOLEAN"}),
    "timestamp": frozenset({"TIMESTAMP", "TIMESTAMP_NTZ"}),
    "date": frozenset({"DATE"}),
    "time": frozenset({"STRING", "INT", "BIGINT"}),
}
_MODEL: Final = re.compile(r"\{\{\s*model\s*\}\}")
_SAME_KIND: Final = {
    "str": "string", "text": "string", "numeric": "number", "double": "number", "float": "number", "integer": "int",
    "long": "bigint", "bool": "boolean", "datetime": "timestamp",
}  # fmt: skip


def link_data_test(
    declared: Declaration[written.DataTest], nodes: Mapping[str, Node], known: Collection[str], templates: Templates
) -> tuple[LinkedTest | None, list[Diagnostic]]:
    """Link a test to the model, or else the source, that it names."""
    test = declared.value
    diagnostics = list(_ineffective_fields(declared))
    node_id = next((i for i in (f"model.{test.model}", f"source.{test.model}") if i in known), None)
    if node_id is None:
        names = [i.partition(".")[2] for i in known]
        text, hint = f"there is no model or source `{test.model}`", did_you_mean(test.model, names)
        diagnostics.append(declared.diagnostic("unknown-model", text, hint, at=("model",), name=test.model))
        return None, diagnostics
    diagnostics.extend(_unknown_models(declared, known, templates))
    diagnostics.extend(_unknown_keys(declared, nodes))
    if node_id not in nodes:
        return None, diagnostics
    node = nodes[node_id]
    typed, wrong = type_test_values(declared, node.columns)
    diagnostics.extend((*_check_columns(declared, node), *wrong, *_wrong_conditions(declared, node)))
    return LinkedTest(test.name, node_id, typed, declared.origin), diagnostics


def column_tests(
    declared: Declaration[written.Source] | Declaration[written.Model], node: Node
) -> tuple[list[LinkedTest], list[Diagnostic]]:
    """The checks of columns, as tests."""
    lists, diagnostics = type_check_values(declared, node.columns)
    tests: list[LinkedTest] = []
    for column in declared.value.columns:
        for place, check in enumerate(column.tests):
            kind = next(iter(check.model_fields_set))
            name = f"{node.name}.{column.name}.{kind}"
            body = _ASSERTIONS[kind](check, column.name)
            if (column.name, place) in lists:
                body["accepted_values"]["values"] = lists[column.name, place]
            fields = {"name": name, "model": node.name, "type": "sample", "assertions": [body]}
            test = written.DataTest.model_validate(fields)
            tests.append(LinkedTest(name, node.id, test, node.origin))
    return tests, diagnostics


def _wrong_conditions(declared: Declaration[written.DataTest], node: Node) -> Iterator[Diagnostic]:
    """Report conditions that are not SQL, or not about single rows of the tested model."""
    for position, assertion in enumerate(declared.value.assertions):
        custom = assertion.custom_sql
        if custom is None or custom.where is None:
            continue
        problems = condition_problems(custom.where, node.columns)
        at = ("assertions", position, "custom_sql", "where")
        for problem in problems:
            yield declared.diagnostic(problem.code, problem.message, problem.hint, at=at, subject=problem.subject)


_ASSERTIONS: Final[Mapping[str, Callable[[Any, str], dict[str, Any]]]] = {
    "not_null": lambda _, column: {"not_null": {"columns": [column]}},
    "unique": lambda _, column: {"unique_key": {"key": [column]}},
    "accepted_values": lambda check, column: {
        "accepted_values": {"column": column, "values": list(check.accepted_values.values)}
    },
    "range": lambda check, column: {"range": {"column": column, "min": check.range.min, "max": check.range.max}},
}


def _ineffective_fields(declared: Declaration[written.DataTest]) -> Iterator[Diagnostic]:
    test = declared.value
    for field in ("sample_size", "timeout"):
        if getattr(test, field) is not None and test.type != "sample":
            text = f"only a `sample` test has a `{field}`"
            yield declared.diagnostic("no-effect", text, "remove it", at=(field,), severity=Severity.WARNING)


def _unknown_models(
    declared: Declaration[written.DataTest], known: Collection[str], templates: Templates
) -> Iterator[Diagnostic]:
    """Report unknown models in assertions and actions."""
    for position, assertion in enumerate(declared.value.assertions):
        other = assertion.foreign_key.ref_model if assertion.foreign_key is not None else None
        if other is not None and not {f"model.{other}", f"source.{other}"} & set(known):
            origin = declared.origin_of("assertions", position, "foreign_key", "ref_model")
            yield unknown_reference(f"model.{other}", known, declared, f"assertions.{position}.foreign_key", origin)
        if assertion.custom_sql is not None and assertion.custom_sql.sql is not None:
            rendered = templates.render(_bind_model(assertion.custom_sql.sql, declared.value.model))
            origin = declared.origin_of("assertions", position, "custom_sql", "sql")
            place = f"assertions.{position}.custom_sql"
            for problem in rendered.problems:
                yield Diagnostic(problem.code, problem.message, origin, f"{declared.label}.{place}", problem.hint)
            for reference in rendered.references:
                if reference.id not in known:
                    yield unknown_reference(reference.id, known, declared, place, origin)
    for position, action in enumerate(declared.value.on_failure.actions):
        named = {"pause": action.pause, "dlq": action.dlq}
        for word, body in named.items():
            if body is not None and body.model is not None and f"model.{body.model}" not in known:
                origin, place = declared.origin_of("on_failure"), f"on_failure.{position}.{word}"
                yield unknown_reference(f"model.{body.model}", known, declared, place, origin)


def _bind_model(sql: str, model: str) -> str:
    """Replace `{{ model }}` in the SQL of a test by the tested model."""
    return _MODEL.sub(lambda _: f'{{{{ ref("{model}") }}}}', sql)


def assertion_inputs(test: written.DataTest, templates: Templates) -> list[str]:
    """The ids of the nodes that the assertions of a test read besides the tested model."""
    found: list[str] = []
    for assertion in test.assertions:
        if assertion.foreign_key is not None:
            found += [f"model.{assertion.foreign_key.ref_model}", f"source.{assertion.foreign_key.ref_model}"]
        if assertion.custom_sql is not None and assertion.custom_sql.sql is not None:
            rendered = templates.render(_bind_model(assertion.custom_sql.sql, test.model))
            found += [reference.id for reference in rendered.references]
    return found


def _unknown_keys(declared: Declaration[written.DataTest], nodes: Mapping[str, Node]) -> Iterator[Diagnostic]:
    """Report foreign keys whose column the other model does not have."""
    for position, assertion in enumerate(declared.value.assertions):
        key = assertion.foreign_key
        other = key and (nodes.get(f"model.{key.ref_model}") or nodes.get(f"source.{key.ref_model}"))
        names = [c.name for c in other.columns or ()] if other else []
        if key and names and key.ref_key.casefold() not in {name.casefold() for name in names}:
            text, hint = f"`{key.ref_model}` has no column `{key.ref_key}`", did_you_mean(key.ref_key, names)
            origin = declared.origin_of("assertions", position, "foreign_key", "ref_key")
            path = f"{declared.label}.assertions.{position}.foreign_key"
            yield Diagnostic("contract-broken", text, origin, path, hint, params={"column": key.ref_key})


def _check_columns(declared: Declaration[written.DataTest], node: Node) -> Iterator[Diagnostic]:
    """Report columns that a test names and the model does not have, and types that differ from those of a schema
    test."""
    columns = node.columns
    if columns is None:
        return
    present = {c.name.casefold(): c for c in columns}
    source = node.element if isinstance(node.element, written.Source) else None
    untyped = {c.name.casefold() for c in source.columns if c.type is None} if source and not source.has_schema else ()
    for position, assertion in enumerate(declared.value.assertions):
        at = ("assertions", position, assertion.kind)
        for name in assertion_columns(assertion):
            if name.casefold() not in present:
                text = f"`{declared.value.model}` has no column `{name}`"
                hint = did_you_mean(name, [c.name for c in columns], otherwise="columns")
                yield declared.diagnostic("contract-broken", text, hint, at=at, column=name)
        if assertion.accepted_types is not None:
            for name, wanted in assertion.accepted_types.types.items():
                if not _is_type(wanted):
                    hint = did_you_mean(wanted, (*_KINDS, *TYPE_NAMES), otherwise="types")
                    yield declared.diagnostic("unknown-column-type", f"`{wanted}` is not a type", hint, at=at)
                    continue
                found = present.get(name.casefold())
                if name.casefold() in untyped or found is None or found.type is None:
                    continue
                if not _is_kind(found.type, wanted):
                    text = f"`{name}` is {found.type}, and the test expects `{wanted}`"
                    yield declared.diagnostic("contract-broken", text, at=at, column=name)


def assertion_columns(assertion: written.Assertion) -> Iterator[str]:
    """The columns of the tested model that an assertion names."""
    body = assertion.body
    for field in ("column", "columns", "key", "detail_column"):
        match getattr(body, field, None):
            case str() as name:
                yield name
            case tuple() as names:
                yield from names
    if assertion.accepted_types is not None:
        yield from assertion.accepted_types.types


def _is_type(wanted: str) -> bool:
    word = wanted.casefold()
    return _SAME_KIND.get(word, word) in _KINDS or spark_type(wanted) is not None


def _is_kind(actual: str, wanted: str) -> bool:
    word = wanted.casefold()
    allowed = _KINDS.get(_SAME_KIND.get(word, word))
    base = actual.partition("(")[0]
    return base in allowed if allowed is not None else spark_type(wanted) in (actual, None)
