"""Classification and masks of a model's output."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, get_args

from penstock.errors import Diagnostic, Severity, nearest
from penstock.graph.graph import Node
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration
from penstock.sql.analyze.column_lineage import Origins
from penstock.sql.rewrite.mask import ColumnMask
from penstock.sql.types.columns import Columns

LEVELS: Final[tuple[str, ...]] = get_args(written.Classification)


def is_sensitive(level: str | None) -> bool:
    return level in LEVELS[LEVELS.index("sensitive") :]


def resolve_masks(
    declared: Declaration[written.Model],
    columns: Columns | None,
    origins: Mapping[str, Origins],
    inputs: Iterable[Node] = (),
    *,
    passes_all: bool,
) -> tuple[tuple[ColumnMask, ...], list[Diagnostic]]:
    """The masks of a model, one for each output that they apply to. A mask that names an output has priority there. One
    that names an input column that is not selected applies to nothing.
    """
    read = [None if node.columns is None else {c.name.casefold() for c in node.columns} for node in inputs]
    named: dict[str, ColumnMask] = {}
    spread: dict[str, ColumnMask] = {}
    diagnostics: list[Diagnostic] = []
    outputs = {c.name.casefold(): c.name for c in columns or ()}
    for mask, place in _declared_masks(declared):
        key = mask.column.casefold()
        params = {"column": mask.column}
        origin, path = declared.origin_of(*place, "column"), declared.label_of(*place)
        if key in named:
            text = f"`{mask.column}` already has a mask"
            diagnostics.append(Diagnostic("given-twice", text, origin, path, "keep one of the two", params=params))
            continue
        if columns is None and not passes_all:
            text = "the columns are not known, so the value could appear under another column name"
            hint = "declare the columns of the sources, or select the columns by name"
            diagnostics.append(Diagnostic("mask-column-missing", text, origin, path, hint, params=params))
            continue
        targets = [mask.column] if columns is None else list(_masked_outputs(key, outputs, origins))
        if columns is None or key in outputs:
            named[key] = _column_mask(mask, outputs.get(key, mask.column))
        elif not targets:
            close = nearest(mask.column, outputs.values())
            if any(key in names for names in read if names is not None) or (None in read and close is None):
                continue
            text = f"no output column is computed from a column `{mask.column}`"
            hint = f"did you mean `{close}`?" if close else "remove the mask"
            diagnostics.append(Diagnostic("mask-column-missing", text, origin, path, hint, params=params))
        for target in targets:
            spread.setdefault(target.casefold(), _column_mask(mask, target))
        if mask.for_roles:
            text = "every reader of a topic gets the same rows: the mask applies to all, not only to these roles"
            at = (*place, "for_roles")
            diagnostics.append(declared.diagnostic("no-effect", text, at=at, severity=Severity.INFO))
    found = {**spread, **named}
    diagnostics.extend(_unmasked_copies(declared, found, origins))
    diagnostics.extend(_ineffective_policies(declared))
    return tuple(found.values()), diagnostics


def _declared_masks(declared: Declaration[written.Model]) -> Iterator[tuple[written.Mask, tuple[str | int, ...]]]:
    security = declared.value.security
    for position, mask in enumerate(security.masking):
        yield mask, ("security", "masking", position)
    for position, entry in enumerate(security.policies):
        if entry.mask is not None:
            yield entry.mask, ("security", "policies", position, "mask")


def _masked_outputs(name: str, outputs: Mapping[str, str], origins: Mapping[str, Origins]) -> Iterator[str]:
    """The outputs that a mask of this name applies to: that output and plain copies of it. If an input has a column of
    that name, also every output that is this column unchanged; if no output has the name, every output that is computed
    from it.
    """
    own = origins.get(outputs.get(name, ""), ())
    same = {(o.input, o.name) for o in own if o.way == "same"}
    for output, found in origins.items():
        shown = [o for o in found if o.way != "counted"]
        is_copy = len(found) == 1 and found[0].way == "same"
        if (is_copy and ((found[0].input, found[0].name) in same or found[0].name == name)) or (
            name not in outputs and any(o.name == name for o in shown)
        ):
            yield output


def _column_mask(mask: written.Mask, column: str) -> ColumnMask:
    config = mask.config
    return ColumnMask(column, mask.policy, config.visible_chars, config.algorithm, config.salt, config.key)


def _unmasked_copies(
    declared: Declaration[written.Model], masks: Mapping[str, ColumnMask], origins: Mapping[str, Origins]
) -> Iterator[Diagnostic]:
    """Warn about outputs that are computed from a column that is masked in another output."""
    hidden = {
        (shown[0].input, shown[0].name): mask.column
        for mask in reversed(list(masks.values()))
        if len(shown := [o for o in origins.get(mask.column, ()) if o.way != "counted"]) == 1
    }
    for output, found in origins.items():
        if output.casefold() in masks:
            continue
        for origin in found:
            if origin.way != "counted" and (covered := hidden.get((origin.input, origin.name))):
                text = f"`{output}` is computed from a column that is masked in `{covered}`, but is not masked itself"
                hint = f"mask `{output}` as well, or leave it out"
                at, severity = ("security",), Severity.WARNING
                yield declared.diagnostic("mask-incomplete", text, hint, at=at, severity=severity, column=output)


def _ineffective_policies(declared: Declaration[written.Model]) -> Iterator[Diagnostic]:
    for position, entry in enumerate(declared.value.security.policies):
        if entry.mask is None:
            word = "allow" if entry.allow is not None else "deny"
            text = f"`{word}` has no effect: a topic has no such list; use `access`, or the ACLs of your broker"
            at = ("security", "policies", position, word)
            yield declared.diagnostic("no-effect", text, at=at, severity=Severity.INFO)


def masked_names(models: Iterable[Node], inputs: Iterable[Node]) -> tuple[str, ...]:
    """The columns that dead letters and errors hide, for rows of these inputs and these models: masked columns, and
    unmasked sensitive ones of the inputs or models, by their own classification or by their origin. Names are in lower
    case.
    """
    models = list(models)
    names = {
        name
        for node in (*inputs, *models)
        for name, level in node.classification.items()
        if is_sensitive(level) and name not in node.covered
    }
    for model in models:
        if isinstance(model.element, written.Model):
            names |= {mask.column.casefold() for mask in model.element.security.masks}
        for mask in model.masks:
            origins = model.column_origins.get(mask.column, ())
            names |= {mask.column.casefold(), *(origin.name for origin in origins if origin.way != "counted")}
    return tuple(sorted(names))


# Classification


def classify_outputs(
    model: written.Model, origins: Mapping[str, Origins], inputs: Mapping[str, Node], masks: Sequence[ColumnMask]
) -> tuple[dict[str, str], frozenset[str]]:
    """The classification of each output, and the outputs whose sensitive values are masked. Names are in lower case. An
    output has the highest classification of the columns that it shows, and at least its declared one.
    """
    levels: dict[str, str] = {}
    covered = {mask.column.casefold() for mask in masks}
    if not origins:  # SELECT * over unknown columns: every input column may be an output
        for node in inputs.values():
            levels.update(node.classification)
            covered |= node.covered
    for output, found in origins.items():
        shown = [o for o in found if o.way != "counted" and o.input in inputs]
        inherited = [(inputs[o.input].classification.get(o.name), o.name in inputs[o.input].covered) for o in shown]
        delicate = [(level, hidden) for level, hidden in inherited if level is not None]
        if delicate:
            levels[output.casefold()] = max((level for level, _ in delicate), key=LEVELS.index)
            hidden = [is_hidden for level, is_hidden in delicate if is_sensitive(level)]
            if hidden and all(hidden):
                covered.add(output.casefold())
    own_levels = {
        **{c.name: c.classification for c in model.columns if c.classification},
        **model.security.classification,
    }
    for name, level in own_levels.items():
        before = levels.get(name.casefold())
        levels[name.casefold()] = level if before is None else max(level, before, key=LEVELS.index)
    return levels, frozenset(covered)
