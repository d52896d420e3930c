"""Parses `{{ config(key=value, …) }}` in SQL, which sets fields of the model."""

from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.sandbox import SandboxedEnvironment


def parse_config_call(text: str) -> tuple[dict[str, Any], list[str]]:
    """The settings of a `config()` call in a text, and the keys whose values are not literals."""
    try:
        tree = SandboxedEnvironment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]).parse(text)
    except TemplateSyntaxError:
        return {}, []  # rendering says so
    calls = [c for c in tree.find_all(nodes.Call) if isinstance(c.node, nodes.Name) and c.node.name == "config"]
    found: dict[str, Any] = {}
    computed: list[str] = []
    for call in calls:
        for argument in call.kwargs:
            try:
                found[argument.key] = argument.value.as_const()
            except nodes.Impossible:
                computed.append(argument.key)
    return found, computed
