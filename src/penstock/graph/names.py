"""References between elements, and the diagnostics for unknown names."""

from collections.abc import Collection, Iterable

from penstock.errors import Diagnostic, Origin, did_you_mean
from penstock.project.validation.declaration import Declaration


def unknown_diagnostic(
    node_id: str, known: Collection[str], declared: Declaration[object], field: str, origin: Origin
) -> Diagnostic:
    kind, _, name = node_id.partition(".")
    own = declared.label.replace("models.", "model.", 1)
    names = [n.partition(".")[2] for n in known if n.startswith(f"{kind}.") and n != own]
    hint = did_you_mean(name, names)
    other = "model" if kind == "source" else "source"
    if f"{other}.{name}" in known:
        call = "ref" if other == "model" else "source"
        instead = f'{call}("{name}")' if field == "sql" else f"{{{call}: {name}}}"
        hint = f"there is a {other} of that name: write {instead}"
    text = f"there is no {kind} `{name}`"
    return Diagnostic(f"unknown-{kind}", text, origin, f"{declared.label}.{field}", hint, params={"name": name})


def keep_known(node_ids: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node_id for node_id in node_ids if node_id in known))
