"""A project or pipeline in, everything that can be said about it without Spark out, compared with files.

A case is a directory below `cases`; what is expected stands in its `expected`. Sentences are pinned here and nowhere
else. `pytest tests/golden --update-golden` writes the files anew: read the difference before it is committed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from penstock.clients.conduktor import GatewayState
from penstock.clients.registry.client import Registry
from penstock.errors import Diagnostic, ProjectInvalid
from penstock.graph import lineage
from penstock.manifest.model import Manifest
from penstock.plan.deployed.state import NOTHING
from penstock.plan.diff import diff
from penstock.plan.explain import explain, summary
from penstock.plan.steps import Plan
from penstock.plan.systems.gateway import NO_GATEWAY, Gateways, interceptors
from penstock.workflow.stages import CheckedProject, Target, check, compile_project

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.name for path in CASES.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_as_expected(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CASES / name)
    found = dict(_outputs())
    folder = CASES / name / "expected"
    if request.config.getoption("--update-golden"):
        folder.mkdir(exist_ok=True)
        for stale in {file.name for file in folder.iterdir()} - found.keys():
            (folder / stale).unlink()
        for file, text in found.items():
            (folder / file).write_text(text, encoding="utf-8")
    expected = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    assert found.keys() == expected.keys()
    for file, text in expected.items():
        assert found[file] == text, f"{name}/expected/{file}"


def test_the_order_of_sets_leaves_no_trace() -> None:
    """The same bytes in processes whose hashes differ."""
    command = [str(Path(sys.executable).parent / "penstock"), "compile", "--dry-run", "--format", "json"]
    cases = [CASES / name for name in ("worked_example", "fan_in_fan_out", "diamond")]
    outputs = {
        seed: [
            subprocess.run(command, cwd=case, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True).stdout
            for case in cases
        ]
        for seed in ("1", "2")
    }
    assert all(outputs["1"])
    assert outputs["1"] == outputs["2"]


@pytest.mark.parametrize("name", NAMES)
def test_cases_called_invalid_are_and_others_are_not(name: str) -> None:
    expected = {file.name for file in (CASES / name / "expected").iterdir()}
    assert ("manifest.json" not in expected) == name.startswith("invalid_")


def _outputs() -> Iterator[tuple[str, str]]:
    """File names and texts, for the case in the current directory."""
    pipeline = Path("pipeline.yml")
    try:
        checked = check(Target(pipeline if pipeline.exists() else Path(), remember=False))
    except ProjectInvalid as invalid:
        yield "diagnostics.txt", _diagnostics(invalid.diagnostics)
        return
    if checked.notes:
        yield "diagnostics.txt", _diagnostics(checked.notes)
    yield from _sound(checked)


def _sound(checked: CheckedProject) -> Iterator[tuple[str, str]]:
    graph = checked.graph
    everything = list(graph.nodes)
    yield "lineage.txt", lineage.render_tree(graph, everything) + "\n"
    yield "lineage.mmd", lineage.render_mermaid(graph, everything) + "\n"
    manifest = compile_project(checked)
    yield "manifest.json", manifest.to_json()
    gateways = _gateway_without_topics(manifest)
    yield "plan.txt", _plan(diff(manifest, NOTHING, gateways=gateways))
    if manifest.gateway_rules:
        yield "gateway.json", _sent(gateways)


def _gateway_without_topics(manifest: Manifest) -> Gateways:
    """A gateway that has nothing yet, and nothing against what is wanted."""
    if not manifest.gateway_rules:
        return NO_GATEWAY
    registry = Registry(["http://registry:8081"])
    wanted = {rule.virtual_topic: interceptors(rule, registry) for rule in manifest.gateway_rules}
    return Gateways("passthrough", {"passthrough": GatewayState()}, wanted=wanted, has_registry=True)


def _sent(gateways: Gateways) -> str:
    """The interceptors of each virtual topic, as they are sent."""
    wanted = {topic: {n: asdict(i) for n, i in found.items()} for topic, found in gateways.wanted.items()}
    return json.dumps(wanted, indent=2) + "\n"


def _diagnostics(diagnostics: tuple[Diagnostic, ...]) -> str:
    return "".join(f"{d.severity.value}: {d}\n" for d in diagnostics)


def _plan(plan: Plan) -> str:
    """As the command prints it, without risks; refusals at the end."""
    steps = [f"  {ln.sign} {ln.action} {ln.subject} {ln.name}: {ln.reason}" for ln in map(explain, plan.steps)]
    lines = [summary(plan), *steps, *map(str, plan.refusals)]
    return "\n".join(lines) + "\n"
