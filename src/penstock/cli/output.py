"""Output of commands. Data and JSON go to stdout, everything else to stderr."""

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from textwrap import indent
from typing import Any, Final, Literal

from penstock.errors import Diagnostic, PenstockError, ProjectInvalid, Severity

json_mode = False
"""Whether `--format json` was given; set while the arguments are read."""
log_format: Literal["text", "json"] | None = None
"""The log format of a run without a terminal. None for other commands."""

Level = Literal["INFO", "WARN", "ERROR"]
_LEVELS: Final[Mapping[Severity, Level]] = {Severity.ERROR: "ERROR", Severity.WARNING: "WARN", Severity.INFO: "INFO"}


def begin_log(wanted: str | None = None) -> None:
    """Write lines as a log from now on, unless they go to a terminal in the text format."""
    global log_format
    log_format = "json" if wanted == "json" else None if sys.stderr.isatty() else "text"


def log_line(text: str, level: Level, fields: Mapping[str, Any], at: float) -> str:
    """Format a log line. Further lines of a text are indented; `fields` appear only in JSON."""
    moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03}Z"
    if log_format == "json":
        return json.dumps({"time": moment, "level": level, "message": text, **fields}, ensure_ascii=False)
    first, *rest = text.splitlines() or [""]
    return "\n".join((f"{moment} {level:<5} {first}", *(f"    {line}" for line in rest)))


def say(text: str = "", *, level: Level = "INFO", **fields: Any) -> None:
    """Print a line of progress to stderr."""
    if log_format is None:
        sys.stderr.write(text + "\n")
    elif text.strip():
        sys.stderr.write(log_line(text.strip(), level, fields, time.time()) + "\n")


def warn(text: str, **fields: Any) -> None:
    """Print a warning to stderr."""
    if log_format is not None:
        say(text, level="WARN", **fields)
        return
    text = f"warning: {text}"
    say(_colour_text(text, Severity.WARNING) if sys.stderr.isatty() else text)


def put(text: str) -> None:
    """Print a line of the result to stdout."""
    sys.stdout.write(text + "\n")


def put_json(value: Any) -> None:
    put(json.dumps(value, indent=2, ensure_ascii=False))


def put_json_items(values: Iterable[Any]) -> None:
    """Print a list item by item: it may not fit into memory."""
    before = "[\n"
    for value in values:
        sys.stdout.write(before + indent(json.dumps(value, indent=2, ensure_ascii=False), "  "))
        before = ",\n"
    put("[]" if before == "[\n" else "\n]")


def exact_json(value: Any, indent: int | None = None, lead: str = "") -> str:
    """JSON in which decimals are numbers with all their digits; `json` would convert them to floats."""

    def inner(item: Any) -> str:
        return exact_json(item, indent, lead + " " * (indent or 0))

    match value:
        case Decimal():
            return f"{value:f}"
        case dict():
            items = [f"{json.dumps(str(key), ensure_ascii=False)}: {inner(item)}" for key, item in value.items()]
            return _enclose_items("{", items, "}", indent, lead)
        case list():
            return _enclose_items("[", [inner(item) for item in value], "]", indent, lead)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _enclose_items(start: str, items: list[str], end: str, indent: int | None, lead: str) -> str:
    if indent is None or not items:
        return start + ", ".join(items) + end
    before = "\n" + lead + " " * indent
    return f"{start}{before}{f',{before}'.join(items)}\n{lead}{end}"


def show_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    colour = sys.stderr.isatty()
    for diagnostic in diagnostics:
        if log_format is not None:
            about = {name: value for name, value in diagnostic.to_json().items() if name not in ("message", "severity")}
            text = str(diagnostic) if log_format == "text" else diagnostic.message
            say(text, level=_LEVELS[diagnostic.severity], **about)
            continue
        text = _with_severity(diagnostic)
        say(_colour_text(text, diagnostic.severity) if colour else text)


def _with_severity(diagnostic: Diagnostic) -> str:
    """The diagnostic, with its severity before the message unless it is an error."""
    word = "" if diagnostic.severity is Severity.ERROR else f"{diagnostic.severity.value}: "
    return str(replace(diagnostic, message=f"{word}{diagnostic.message}")) if word else str(diagnostic)


def _colour_text(text: str, severity: Severity) -> str:
    shade = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}[severity]
    first, newline, rest = text.partition("\n")
    return f"\x1b[{shade}m{first}\x1b[0m{newline}{rest}"


def fail(error: PenstockError) -> None:
    """Report the error, in the requested format."""
    match error:
        case ProjectInvalid(diagnostics=diagnostics):
            if json_mode:
                put_json({**report(diagnostics), "success": False})
            else:
                show_diagnostics(diagnostics)
                count = sum(d.severity is Severity.ERROR for d in diagnostics)
                say(f"\n{count} error{'s' if count != 1 else ''}.", level="ERROR")
        case _:
            every = [error, *error.others]
            if json_mode:
                whole = {"success": False, "error": error.to_json()}
                put_json({**whole, "errors": [each.to_json() for each in every]} if error.others else whole)
                return
            if all(each.reported for each in every):
                text = f"{len(every)} quer{'y' if len(every) == 1 else 'ies'} failed, for the reasons above"
                say(f"Error: {text}" if log_format is None else text, level="ERROR")
            for each in every:
                report_failure(each)


def report_failure(error: PenstockError) -> None:
    """Show an error with its hint, once."""
    if error.reported:
        return
    error.reported = True
    if log_format == "json":
        about = {name: value for name, value in error.to_json().items() if name != "message"}
        say(": ".join(error.chain), level="ERROR", **about)
    else:
        say(f"{'Error: ' if log_format is None else ''}{escape_lines(str(error))}", level="ERROR")


def report(diagnostics: Iterable[Diagnostic], *, as_texts: bool = False) -> dict[str, Any]:
    """The result of a check, as JSON. `success` says that the check could be made, not what it found. `errors` and
    `warnings` are texts for a pipeline; `diagnostics` has all fields.
    """
    listed = list(diagnostics)
    errors: list[Any] = []
    warnings: list[Any] = []
    for diagnostic in listed:
        kind = errors if diagnostic.severity is Severity.ERROR else warnings
        kind.append(str(diagnostic) if as_texts else diagnostic.to_json())
    whole = {"success": True, "is_valid": not errors, "errors": errors, "warnings": warnings}
    return {**whole, "diagnostics": [d.to_json() for d in listed]}


def failed_report(error: PenstockError) -> dict[str, Any]:
    """The report of a check that could not be made."""
    whole = {"success": False, "is_valid": False, "errors": [str(error)], "warnings": []}
    return {**whole, "error": error.to_json()}


# Control characters in foreign texts

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, change colours, end lines or change the writing direction."""
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escape_controls(text: str) -> str:
    """The text with its control characters as escapes, on one line."""
    return _CONTROL.sub(lambda found: _escape(found[0]), text)


def escape_lines(text: str) -> str:
    """The text with its control characters as escapes, except line feeds."""
    return "\n".join(map(escape_controls, text.split("\n")))


def _escape(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
