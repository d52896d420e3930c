"""Recognises and masks secrets."""

import re
from typing import Any, Final

from penstock.project.yaml.variables import Environ

_WORDS: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|credential|user[_.]info|(?:private|api|access|account)[_.-]?key"
    r"|^(?:proxy-)?authorization$|^cookie$"
)
_SECRET: Final = re.compile(_WORDS.replace("?|", "?$|", 1), re.IGNORECASE)
_NAMES: Final = frozenset({"secret_name"})
"""Keys that hold the name of a secret, not the secret."""
_SECRET_VARIABLE: Final = re.compile(r"(^|_)KEY$")
_WITH_PASSWORD: Final = re.compile(r"://[^/\s:@]*:[^\s@]+@")
SECRET_HINT: Final = "pass it to a connector or to `runtime` as `${NAME}`; if it is not a secret, rename it"


def is_secret_name(name: str) -> bool:
    """Whether a key or a variable of this name is likely to hold a secret."""
    return name not in _NAMES and _SECRET.search(name) is not None


def is_secret(variable: str, environ: Environ) -> bool:
    """Whether a variable holds a secret, by its name or its value."""
    named = is_secret_name(variable) or _SECRET_VARIABLE.search(variable) is not None
    return named or _WITH_PASSWORD.search(environ.get(variable, "")) is not None


COVER: Final = "****"
_SQL: Final = frozenset({"sql", "statement", "where"})
"""Keys of SQL. Masking would change its meaning, and secrets are refused in SQL before."""
_REFERENCE: Final = re.compile(r"\$\{[^}]+\}")
_IN_ADDRESS: Final = re.compile(r"(?<=://)([^/\s:@,?#]*)(:(?:(?!://)[^\s,])*)?@")
_IN_TEXT: Final = re.compile(
    rf"""(?<![\w.-])([\w.-]*(?:{_WORDS}))(\s*=\s*)("[^"]*"|'[^']*'|[^\s&;,"']+)""", re.IGNORECASE
)


def mask_secrets(value: Any, key: str = "") -> Any:
    """The value with literal secrets masked, also inside addresses. References such as `${NAME}` stay."""
    match value:
        case dict():
            below = key if is_secret_name(key) else ""
            return {name: mask_secrets(inner, below or str(name)) for name, inner in value.items()}
        case list() | tuple():
            return [mask_secrets(inner, key) for inner in value]
        case str() if key in _SQL:
            return value
        case str() if is_secret_name(key) and value and not _REFERENCE.fullmatch(value):
            return COVER
        case str():
            return _IN_TEXT.sub(_mask_value, _IN_ADDRESS.sub(_mask_password, value))
        case _:
            return COVER if is_secret_name(key) and isinstance(value, int | float) else value


def _mask_password(found: re.Match[str]) -> str:
    """`user:password@` without the password. A single part may be a token and is masked too."""
    if found[2] is None:
        return found[0] if _REFERENCE.fullmatch(found[1]) else f"{COVER}@"
    return found[0] if _REFERENCE.fullmatch(found[2][1:]) else f"{found[1]}:{COVER}@"


def _mask_value(found: re.Match[str]) -> str:
    return found[0] if _REFERENCE.fullmatch(found[3].strip("\"'")) else f"{found[1]}{found[2]}{COVER}"
