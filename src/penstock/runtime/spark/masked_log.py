"""Masks Spark's log: it is written without the values that errors quote."""

import logging
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.clients.dead_letters.masking import mask_text

_ERROR: Final = r"(?:[\w$]+\.)(?:[\w$]+\.)+[\w$]*(?:Exception|Error)"
PARTS: Final = (
    (rf"(?m)^(?![ \t]+at )(.*?{_ERROR}(?:: \[[A-Z][A-Z0-9_.]*\])?).*$", "$1"),
    (rf"(?<=\n)(?![ \t]+at |[ \t]+\.\.\. |Caused by: {_ERROR}|{_ERROR})[^\n]*\n?", ""),
    ("'[^\\n]*'", "'***'"),
    ('"[^\\n]*"', '"***"'),
    ("\\x7b[^\\n]*\\x7d", "***"),
)
"""What is masked: of an error, all but its class, name and stack; of other lines, text in quotes or braces. The
patterns contain no braces, because Log4j puts them in braces."""


class MaskedFormatter(logging.Formatter):
    """Formats Python's log: of an error, the class and the stack are kept, without its text."""

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return mask_text(super().formatMessage(record))

    def formatException(  # noqa: N802
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return "".join((*traceback.format_tb(ei[2]), ei[0].__name__ if ei[0] else ""))


def write_log_settings(folder: Path) -> Path:
    """Write the settings of Spark's log. Returns their file."""
    pattern = "%m%n%ex"
    for found, cover in PARTS:
        pattern = f"%replace{{{pattern}}}{{{found}}}{{{cover}}}"
    lines = (
        "rootLogger.level = warn",
        "rootLogger.appenderRef.stdout.ref = console",
        "appender.console.type = Console",
        "appender.console.name = console",
        "appender.console.target = SYSTEM_ERR",
        "appender.console.layout.type = PatternLayout",
        f"appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: {pattern}".replace("\\", "\\\\"),
    )
    file = folder / "log4j2.properties"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
