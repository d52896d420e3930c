"""What is delicate in a model's output, and what of it is covered."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.errors import Diagnostic, Severity, nearest
from penstock.graph.graph import Node
from penstock.project import stream_project as written
from penstock.project.declared import Declared
from penstock.sql.mask import ColumnMask
from penstock.sql.origins import Origins
from penstock.sql.types import Columns

LEVELS: Final = ("public", "internal", "confidential", "sensitive", "highly_sensitive")
_SENSITIVE: Final = LEVELS.index("sensitive")


def applied_masks(
    declared: Declared[written.Model], columns: Columns | None, origins: Mapping[str, Origins]
) -> tuple[tuple[ColumnMask, ...], list[Diagnostic]]:
    """The masks of a model, one for each output that they cover."""
    found: dict[str, ColumnMask] = {}
    diagnostics: list[Diagnostic] = []
    for mask, place in _masks(declared):
        targets = [mask.column] if columns is None else list(_targets(mask, columns, origins))
        if not targets:
            names = [c.name for c in columns or ()]
            text = f"nothing that comes out is made from a column `{mask.column}`"
            close = nearest(mask.column, names)
            hint = f"did you mean `{close}`?" if close else "take the mask out"
            origin, path = declared.origin_of(*place, "column"), declared.label_of(*place)
            params = {"column": mask.column}
            diagnostics.append(Diagnostic("mask-column-missing", text, origin, path, hint, params=params))
        for target in targets:
            found.setdefault(target.casefold(), _column_mask(mask, target))
        if mask.for_roles:
            text = "a topic is the same for everybody: the mask is for all, not for these roles only"
            path = declared.label_of(*place, "for_roles")
            origin = declared.origin_of(*place, "for_roles")
            diagnostics.append(Diagnostic("no-effect", text, origin, path, severity=Severity.INFO))
    diagnostics.extend(_left_open(declared, found, origins))
    diagnostics.extend(_without_effect(declared))
    return tuple(found.values()), diagnostics


def _masks(declared: Declared[written.Model]) -> Iterator[tuple[written.Mask, tuple[str | int, ...]]]:
    security = declared.value.security
    for position, mask in enumerate(security.masking):
        yield mask, ("security", "masking", position)
    for position, entry in enumerate(security.policies):
        if entry.mask is not None:
            yield entry.mask, ("security", "policies", position, "mask")


def _targets(mask: written.Mask, columns: Columns, origins: Mapping[str, Origins]) -> Iterator[str]:
    """The output of that name and plain copies of it; else every output that shows the input column of that name."""
    name = mask.column.casefold()
    output = next((c.name for c in columns if c.name.casefold() == name), None)
    if output is not None:
        yield output
        same = [o for o in origins.get(output, ()) if o.way == "same"]
        for other, found in origins.items():
            if other != output and len(found) == 1 and any(found[0] == o for o in same):
                yield other
        return
    for column in columns:
        if any(o.name == name and o.way != "counted" for o in origins.get(column.name, ())):
            yield column.name


def _column_mask(mask: written.Mask, column: str) -> ColumnMask:
    config = mask.config
    return ColumnMask(column, mask.policy, config.visible_chars, config.algorithm, config.salt, config.key)


def _left_open(
    declared: Declared[written.Model], masks: Mapping[str, ColumnMask], origins: Mapping[str, Origins]
) -> Iterator[Diagnostic]:
    """Outputs made from what another output covers."""
    hidden = {
        (origin.input, origin.name): mask.column
        for mask in masks.values()
        for origin in origins.get(mask.column, ())
        if origin.way == "same"
    }
    for output, found in origins.items():
        if output.casefold() in masks:
            continue
        for origin in found:
            if origin.way != "counted" and (covered := hidden.get((origin.input, origin.name))):
                text = f"`{output}` is made from what is masked in `{covered}`, and is not masked itself"
                hint = f"mask `{output}` as well, or leave it out"
                yield Diagnostic(
                    "mask-incomplete", text, declared.origin_of("security"), declared.label_of("security"), hint,
                    Severity.WARNING, {"column": output},
                )  # fmt: skip


def _without_effect(declared: Declared[written.Model]) -> Iterator[Diagnostic]:
    for position, entry in enumerate(declared.value.security.policies):
        if entry.mask is None:
            word = "allow" if entry.allow is not None else "deny"
            place = ("security", "policies", position, word)
            text = f"`{word}` changes nothing: a topic has no such list; see `access`, or your broker's own"
            origin, path = declared.origin_of(*place), declared.label_of(*place)
            yield Diagnostic("no-effect", text, origin, path, severity=Severity.INFO)


# Classification


def classified(
    model: written.Model, origins: Mapping[str, Origins], inputs: Mapping[str, Node], masks: Sequence[ColumnMask]
) -> tuple[dict[str, str], frozenset[str]]:
    """How delicate each output is, and the outputs in which nothing delicate can be read any more; names are folded.

    An output is as delicate as the most delicate thing it shows, whatever it is called, and never less than is said.
    """
    levels: dict[str, str] = {}
    covered = {mask.column.casefold() for mask in masks}
    for output, found in origins.items():
        shown = [o for o in found if o.way != "counted" and o.input in inputs]
        inherited = [(inputs[o.input].classification.get(o.name), o.name in inputs[o.input].covered) for o in shown]
        delicate = [(level, hidden) for level, hidden in inherited if level is not None]
        if delicate:
            levels[output.casefold()] = max((level for level, _ in delicate), key=LEVELS.index)
            hidden = [is_hidden for level, is_hidden in delicate if LEVELS.index(level) >= _SENSITIVE]
            if hidden and all(hidden):
                covered.add(output.casefold())
    said = {**{c.name: c.classification for c in model.columns if c.classification}, **model.security.classification}
    for name, level in said.items():
        before = levels.get(name.casefold())
        levels[name.casefold()] = level if before is None else max(level, before, key=LEVELS.index)
    return levels, frozenset(covered)
