"""Environments: which is chosen, what it says, what is shown of it, and what stands before a protected one."""

import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner

from penstock.cli import output
from penstock.cli.main import app
from penstock.cli.options import target
from penstock.cli.run import guard
from penstock.errors import PenstockError, PlanRefused, ProjectInvalid, Severity
from penstock.manifest.compile import compile
from penstock.plan.steps import CreateTopic, Plan, RebuildQuery, ResumeQuery, RetireQuery, StartQuery, Step
from penstock.project.load import load
from penstock.project.project import Environment
from penstock.workflow.stages import CheckedProject, Target
from penstock.workflow.stages import check as checked_by
from tests.support import codes, only, write
from tests.unit.conftest import MAIN, Compile

PROJECT = "project: {name: p}\n"
PLAIN = "runtime: {}\n"
SECRET = "hunter2-hunter2"


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_ENV", "STREAMT_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(output, "json_mode", False)


Walk: TypeAlias = Callable[..., CheckedProject]


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    """Write files, and check them as the command line would."""

    def run(files: Mapping[str, str], env: str | None = None, **options: Any) -> CheckedProject:
        write(tmp_path, files)
        return checked_by(Target(tmp_path, env, **options))

    return run


def refusal(walk: Walk, files: Mapping[str, str], env: str | None = None) -> list[str]:
    with pytest.raises(ProjectInvalid) as caught:
        walk(files, env)
    return codes(d for d in caught.value.diagnostics if d.severity is Severity.ERROR)


def call(*arguments: str) -> tuple[int, str, PenstockError | None]:
    """A command: its exit code, what it puts out, and the error that `main` would show."""
    result = CliRunner().invoke(app, list(arguments))
    error = result.exception
    if error is not None and not isinstance(error, PenstockError | SystemExit):
        raise error
    found = error if isinstance(error, PenstockError) else None
    return (found.exit_code if found else result.exit_code), result.output, found


def chosen(checked: CheckedProject) -> str | None:
    return checked.environment.name if checked.environment else None


# Choosing

SEVERAL = {MAIN: PROJECT, "environments/dev.yml": PLAIN, "environments/prod.yaml": PLAIN}


def test_the_command_line_names_the_environment(walk: Walk) -> None:
    assert chosen(walk(SEVERAL, "prod")) == "prod"


@pytest.mark.parametrize("variable", ["PENSTOCK_ENV", "STREAMT_ENV"])
def test_a_variable_names_the_environment(walk: Walk, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "prod")
    assert chosen(walk(SEVERAL)) == "prod"


def test_the_command_line_is_stronger_than_our_variable_and_that_than_the_other(
    walk: Walk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMT_ENV", "nowhere")
    monkeypatch.setenv("PENSTOCK_ENV", "prod")
    assert chosen(walk(SEVERAL)) == "prod"
    assert chosen(walk(SEVERAL, "dev")) == "dev"


def test_an_empty_variable_names_nothing(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ENV", "")
    monkeypatch.setenv("STREAMT_ENV", "dev")
    assert chosen(walk(SEVERAL)) == "dev"


def test_a_single_environment_need_not_be_named(walk: Walk) -> None:
    assert chosen(walk({MAIN: PROJECT, "environments/only.yml": PLAIN})) == "only"


def test_one_of_several_must_be_named_and_the_hint_lists_them(walk: Walk) -> None:
    with pytest.raises(ProjectInvalid) as caught:
        walk(SEVERAL)
    found = only(caught.value.diagnostics)
    assert (found.code, found.hint) == ("environment-needed", "choose one with --env: dev, prod")


def test_a_name_that_is_not_there_is_refused_with_the_nearest(walk: Walk) -> None:
    with pytest.raises(ProjectInvalid) as caught:
        walk(SEVERAL, "prd")
    found = only(caught.value.diagnostics)
    assert (found.code, found.params, found.hint) == ("environment-unknown", {"name": "prd"}, "did you mean `prod`?")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "dev.yml", ".", ""])
def test_a_name_is_never_a_path(walk: Walk, name: str) -> None:
    assert refusal(walk, {**SEVERAL, "secret.yml": PLAIN}, name)


def test_a_project_without_environments_has_none_to_choose(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(walk({MAIN: PROJECT})) is None
    assert refusal(walk, {MAIN: PROJECT}, "dev") == ["environment-unknown"]
    monkeypatch.setenv("PENSTOCK_ENV", "dev")
    note = only(walk({MAIN: PROJECT}).notes)
    assert (note.code, note.severity, note.params) == ("no-effect", Severity.INFO, {"name": "dev"})


def test_an_empty_directory_of_environments_is_refused_with_what_to_add(walk: Walk) -> None:
    assert refusal(walk, {MAIN: PROJECT, "environments/README.md": "x"}) == ["environment-unknown"]


def test_a_file_whose_name_cannot_be_one_is_refused(walk: Walk) -> None:
    assert refusal(walk, {MAIN: PROJECT, "environments/a b.yml": PLAIN}) == ["invalid-value"]


def test_a_pipeline_has_no_environments(tmp_path: Path) -> None:
    write(tmp_path, {"pipeline.yml": "sources: {}\n"})
    assert "environment-unknown" in codes(load(tmp_path / "pipeline.yml", "dev")[1])


def test_two_files_of_one_name_are_refused(walk: Walk) -> None:
    assert refusal(walk, {MAIN: PROJECT, "environments/dev.yml": PLAIN, "environments/dev.yaml": PLAIN}, "dev")


def test_a_hidden_file_is_no_environment(walk: Walk) -> None:
    assert chosen(walk({MAIN: PROJECT, "environments/dev.yml": PLAIN, "environments/.#dev.yml": PLAIN})) == "dev"


# What it says


def test_the_name_inside_must_be_that_of_the_file(walk: Walk) -> None:
    files = {MAIN: PROJECT, "environments/dev.yml": "environment: {name: prod}\nruntime: {}\n"}
    with pytest.raises(ProjectInvalid) as caught:
        walk(files)
    found = only(caught.value.diagnostics)
    assert (found.code, str(found.origin)) == ("invalid-value", "environments/dev.yml:1:21")
    assert "`dev`" in found.message
    assert "`prod`" in found.message


def test_an_environment_says_where_the_project_runs(walk: Walk) -> None:
    files = {MAIN: PROJECT + "vars: {a: 1}\n", "environments/dev.yml": "vars: {a: 2}\n"}
    with pytest.raises(ProjectInvalid) as caught:
        walk(files)
    found = only(caught.value.diagnostics)
    assert (found.code, found.params, found.path) == ("missing-field", {"field": "runtime"}, "runtime")
    assert found.origin is not None
    assert found.origin.file == "environments/dev.yml"


@pytest.mark.parametrize("runtime", ["runtime:\n", "runtime: {}\n"])
def test_an_empty_runtime_is_this_machine(walk: Walk, runtime: str) -> None:
    checked = walk({MAIN: PROJECT, "environments/dev.yml": runtime})
    assert checked.notes == ()
    assert checked.graph.runtime.kafka is None


def test_the_runtime_of_the_environment_is_taken_and_that_of_the_project_is_said_not_to_be(walk: Walk) -> None:
    files = {
        MAIN: PROJECT + "runtime: {spark: {master: 'local[1]'}}\n",
        "environments/dev.yml": "runtime: {spark: {master: 'local[7]'}}\n",
    }
    checked = walk(files)
    assert checked.graph.runtime.spark.master == "local[7]"
    note = only(checked.notes)
    assert (note.code, note.severity, note.params) == ("no-effect", Severity.WARNING, {"field": "runtime"})


@pytest.mark.parametrize(
    ("text", "asks", "destructive"),
    [
        (PLAIN, False, True),
        ("environment: {protected: true}\nruntime: {}\n", True, True),
        ("environment: {protected: true}\nruntime: {}\nsafety: {confirm_apply: false}\n", False, True),
        ("runtime: {}\nsafety: {confirm_apply: true, allow_destructive: false}\n", True, False),
    ],
)
def test_safety_is_what_the_file_says(walk: Walk, text: str, asks: bool, destructive: bool) -> None:
    environment = walk({MAIN: PROJECT, "environments/dev.yml": text}).environment
    assert environment is not None
    assert (environment.asks_first, environment.allow_destructive) == (asks, destructive)


def test_state_is_kept_apart_by_environment(walk: Walk) -> None:
    assert {walk(SEVERAL, name).place.namespace for name in ("dev", "prod")} == {"project.p/dev", "project.p/prod"}


# Variables for SQL

WITH_VARS = """\
project: {name: p}
vars: {limit: 1, only_project: x}
sources: [{name: s, topic: t}]
models:
  - name: m
    sql: SELECT {{ var("limit") }} AS l, '{{ var("only_project") }}' AS o, '{{ target.name }}' AS e
      FROM {{ source("s") }}
"""


@pytest.mark.parametrize(
    ("files", "variables", "expected"),
    [
        ({}, {}, "SELECT 1 AS `l`, 'x' AS `o`, 'default' AS `e`"),
        ({"environments/dev.yml": "runtime: {}\nvars: {limit: 2}\n"}, {}, "SELECT 2 AS `l`, 'x' AS `o`, 'dev' AS `e`"),
        (
            {"environments/dev.yml": "runtime: {}\nvars: {limit: 2}\n"},
            {"limit": 3},
            "SELECT 3 AS `l`, 'x' AS `o`, 'dev' AS `e`",
        ),
    ],
)
def test_variables_of_the_project_are_weaker_than_those_of_the_environment_and_both_than_given_ones(
    walk: Walk, files: dict[str, str], variables: dict[str, Any], expected: str
) -> None:
    checked = walk({MAIN: WITH_VARS, **files}, variables=variables)
    assert compile(checked.graph).queries[0].steps[0].sql.startswith(expected)


@pytest.mark.parametrize(
    ("given", "value"),
    [("a=1", 1), ("a=x", "x"), ("a=[1, 2]", [1, 2]), ("a=x=y", "x=y"), ("a=", None), ("a=true", True), ("a=[1", "[1")],
)
def test_a_variable_on_the_command_line_is_read_as_yaml(given: str, value: object) -> None:
    assert target(None, None, None, [given]).variables == {"a": value}


@pytest.mark.parametrize("given", ["a", "=1", " =1"])
def test_a_variable_on_the_command_line_needs_a_name_and_a_value(given: str) -> None:
    with pytest.raises(ProjectInvalid) as caught:
        target(None, None, None, [given])
    assert caught.value.code == "invalid-value"


def test_a_variable_nobody_knows_is_refused_with_the_ways_to_give_it(walk: Walk) -> None:
    text = WITH_VARS.replace('var("limit")', 'var("limt")')
    with pytest.raises(ProjectInvalid) as caught:
        walk({MAIN: text})
    found = only(caught.value.diagnostics)
    assert (found.code, found.params, found.hint) == ("unknown-var", {"subject": "limt"}, "did you mean `limit`?")


# The command line


def test_validate_says_which_environment_it_checked(tmp_path: Path) -> None:
    write(tmp_path, SEVERAL)
    assert call("validate", "-e", "dev")[:2] == (0, "Project 'p' (dev) is valid: .\n")


def test_all_environments_are_checked_and_none_leaks_its_variables_into_another(tmp_path: Path) -> None:
    files = {
        **SEVERAL,
        "environments/dev.yml": "runtime: {spark: {master: '${MASTER_OF_THE_TEST}'}}\n",
        "environments/prod.yaml": "runtime: {spark: {master: '${MASTER_OF_THE_TEST}'}}\n",
        ".env.dev": "MASTER_OF_THE_TEST=local[1]\n",
    }
    write(tmp_path, files)
    code, text, _ = call("validate", "--all-envs", "--format", "json")
    report = json.loads(text)
    assert code == 0
    assert (report["success"], report["is_valid"]) == (True, True)
    found = {name: [d["code"] for d in each["warnings"]] for name, each in report["environments"].items()}
    assert found == {"dev": [], "prod": ["unset-variable"]}
    assert call("validate", "--all-envs", "--strict")[0] == 2


def test_all_environments_are_checked_also_after_one_that_is_not_valid(tmp_path: Path) -> None:
    write(tmp_path, {**SEVERAL, "environments/dev.yml": "runtime: {kafk: {}}\n"})
    code, text, _ = call("validate", "--all-envs")
    assert code == 2
    assert "dev: not valid" in text
    assert "prod: Project 'p' (prod) is valid" in text


def test_all_environments_of_a_project_without_any_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    code, _, error = call("validate", "--all-envs")
    assert code == 2
    assert error is not None
    assert error.code == "environment-unknown"


def test_strict_makes_warnings_errors(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT + "runtime: {}\n", "environments/dev.yml": PLAIN})
    assert call("validate")[0] == 0
    assert call("validate", "--strict")[0] == 2


def test_lineage_needs_no_environment_to_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, {**SEVERAL, MAIN: PROJECT + "sources: [{name: s, topic: t}]\n"})
    assert call("lineage")[:2] == (0, "s (source)\n")


def test_environments_are_listed_with_what_is_wrong_with_them(tmp_path: Path) -> None:
    files = {
        MAIN: PROJECT,
        "environments/dev.yml": "environment: {description: For all}\nruntime: {}\n",
        "environments/production.yml": "environment: {description: Live, protected: true}\nruntime: {}\n",
        "environments/broken.yml": "runtime: {kafk: {}}\n",
    }
    write(tmp_path, files)
    code, text, _ = call("envs", "list")
    assert code == 0
    broken, *sound = text.splitlines()
    assert sound == ["dev         For all", "production  Live [protected]"]
    assert broken.startswith("broken ")
    assert broken.endswith(" Error: `runtime` has no such field")
    rows = json.loads(call("envs", "list", "--format", "json")[1])
    assert [(row["name"], bool(row["error"])) for row in rows] == [
        ("broken", True),
        ("dev", False),
        ("production", False),
    ]
    assert [row["protected"] for row in rows[1:]] == [False, True]


def test_a_project_without_environments_lists_none(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    code, text, _ = call("envs", "list")
    assert code == 0
    assert text.startswith("No environments")
    assert json.loads(call("envs", "list", "--format", "json")[1]) == []


SHOWN = f"""
    environment: {{description: Live, protected: true}}
    runtime:
      kafka:
        bootstrap_servers: "${{BROKER_OF_THE_TEST}}"
        sasl_password: {SECRET}
      schema_registry: {{url: "https://user:{SECRET}@registry/x"}}
      connect:
        clusters: {{main: {{rest_url: "http://c/${{TOKEN_OF_THE_TEST}}/x", password: "${{TOKEN_OF_THE_TEST}}"}}}}
"""


def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str = SHOWN, *arguments: str) -> tuple[int, str]:
    monkeypatch.setenv("BROKER_OF_THE_TEST", "broker:9092")
    monkeypatch.setenv("TOKEN_OF_THE_TEST", SECRET)
    write(tmp_path, {MAIN: PROJECT, "environments/prod.yml": text})
    code, shown, error = call("envs", "show", "prod", *arguments)
    assert error is None
    return code, shown


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_environment_is_shown_with_variables_filled_in_and_secrets_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    code, text = show(tmp_path, monkeypatch, SHOWN, "--format", form)
    assert code == 0
    assert SECRET not in text
    assert "broker:9092" in text
    assert "https://user:****@registry/x" in text
    assert "http://c/****/x" in text
    assert text.count("****") == 4


def test_the_safety_of_an_environment_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = json.loads(show(tmp_path, monkeypatch, SHOWN, "--format", "json")[1])
    assert report["safety"] == {"confirm_apply": True, "allow_destructive": True}
    assert (report["environment"], report["description"], report["protected"]) == ("prod", "Live", True)


def test_a_secret_that_is_part_of_another_does_not_uncover_the_rest_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        monkeypatch.setenv(f"SHORT_TOKEN_{number}", f"secret-{number:02}")
        monkeypatch.setenv(f"LONG_TOKEN_{number}", f"secret-{number:02}-and-rest")
    clusters = ", ".join(f"c{number}: {{rest_url: 'http://c/${{LONG_TOKEN_{number}}}'}}" for number in range(20))
    assert "and-rest" not in show(tmp_path, monkeypatch, f"runtime: {{connect: {{clusters: {{{clusters}}}}}}}\n")[1]


def test_the_password_in_a_line_for_jaas_is_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"""'PlainLoginModule required username="u" password="other-{SECRET[::-1]}";'"""
    text = f"runtime: {{kafka: {{bootstrap_servers: a, config: {{sasl.jaas.config: {line}}}}}}}\n"
    assert SECRET[::-1] not in show(tmp_path, monkeypatch, text)[1]


@pytest.mark.parametrize("name", ["prd", "../x"])
def test_an_environment_that_is_not_there_cannot_be_shown(tmp_path: Path, name: str) -> None:
    write(tmp_path, SEVERAL)
    code, _, error = call("envs", "show", name)
    assert code == 2
    assert error is not None
    assert error.code == "environment-unknown"


def test_an_environment_with_mistakes_cannot_be_shown(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT, "environments/dev.yml": "runtime: {spark: {master: '${NOBODY_SET_THIS}'}}\n"})
    _, _, error = call("envs", "show", "dev")
    assert error is not None
    assert error.code == "unset-variable"


# What stands before a protected environment

TEXT = """
    project: {name: p}
    sources: [{name: s, topic: t}]
    models: [{name: m, sql: 'SELECT id FROM {{ source("s") }}'}]
"""
FREE = Environment("dev", "", asks_first=False, allow_destructive=True)
PROTECTED = Environment("prod", "", asks_first=True, allow_destructive=True)
CAREFUL = Environment("prod", "", asks_first=False, allow_destructive=False)


@pytest.fixture
def plan(project_manifest: Compile) -> Callable[..., Plan]:
    manifest = project_manifest(TEXT)
    query = manifest.queries[0]
    steps: dict[str, Step] = {
        "create": CreateTopic(manifest.topics[0]),
        "start": StartQuery(query),
        "resume": ResumeQuery(query),
        "rebuild": RebuildQuery(query, "why", True),
        "retire": RetireQuery("gone"),
    }
    return lambda *names: Plan(manifest, tuple(steps[name] for name in names))


class Typed(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _nobody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())


Plans: TypeAlias = Callable[..., Plan]


@pytest.mark.parametrize("steps", [["create", "start"], ["rebuild"], ["retire"], ["resume"], []])
def test_a_free_environment_takes_everything(plan: Plans, steps: list[str]) -> None:
    guard(FREE, plan(*steps), confirmed=False, forced=False)


@pytest.mark.parametrize(("step", "name"), [("rebuild", "m"), ("retire", "gone")])
def test_what_destroys_is_refused_by_name_unless_it_is_forced(plan: Plans, step: str, name: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        guard(CAREFUL, plan("create", step), confirmed=True, forced=False)
    assert caught.value.code == "destructive-refused"
    assert str(caught.value.refusals[0].message).endswith(f": {name}")
    assert caught.value.hint is not None
    assert "--force" in caught.value.hint
    guard(CAREFUL, plan("create", step), confirmed=False, forced=True)


def test_what_destroys_nothing_is_not_refused(plan: Plans) -> None:
    guard(CAREFUL, plan("create", "start", "resume"), confirmed=False, forced=False)


def test_a_protected_environment_is_not_changed_when_nobody_is_there_to_ask(plan: Plans) -> None:
    with pytest.raises(PlanRefused) as caught:
        guard(PROTECTED, plan("start"), confirmed=False, forced=False)
    assert (caught.value.code, caught.value.hint) == ("confirmation-needed", "add --confirm")


def test_force_is_no_confirmation(plan: Plans) -> None:
    with pytest.raises(PlanRefused):
        guard(PROTECTED, plan("start"), confirmed=False, forced=True)


def test_a_protected_environment_goes_on_with_what_it_did_unasked(plan: Plans) -> None:
    guard(PROTECTED, plan("resume"), confirmed=False, forced=False)


def test_a_confirmation_on_the_command_line_is_enough(plan: Plans) -> None:
    guard(PROTECTED, plan("start"), confirmed=True, forced=False)


def test_the_name_of_the_environment_is_to_be_typed(plan: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Typed("prod\n"))
    guard(PROTECTED, plan("start"), confirmed=False, forced=False)


@pytest.mark.parametrize("typed", ["", "\n", "yes\n", "PROD\n", "pro\n"])
def test_anything_else_that_is_typed_changes_nothing(plan: Plans, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr(sys, "stdin", Typed(typed))
    with pytest.raises(PlanRefused):
        guard(PROTECTED, plan("start"), confirmed=False, forced=False)


def test_a_confirmation_does_not_allow_to_destroy(plan: Plans) -> None:
    with pytest.raises(PlanRefused) as caught:
        guard(replace(CAREFUL, asks_first=True), plan("retire"), confirmed=True, forced=False)
    assert caught.value.code == "destructive-refused"
