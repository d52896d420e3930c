"""Checks for optional packages, before they are needed."""

from importlib.util import find_spec

from penstock.errors import ServiceError


def require(*packages: str, extra: str) -> None:
    """Raise an error that says what to install if one of the packages is missing."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        text = f"this needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise ServiceError("package-missing", text, hint=f'pip install "penstock[{extra}]"')
