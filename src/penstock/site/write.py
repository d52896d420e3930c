"""Writes a site into a directory, and removes only files that it has written."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from penstock.errors import PlanRefused
from penstock.site.model import Site
from penstock.site.pages import site_texts

MARK = '<meta name="generator" content="penstock">'
WRITTEN = "assets/files.json"
"""The file that lists the files of the last generation with their digests."""


def write_site(site: Site, target: Path) -> tuple[Path, ...]:
    """Write all files of the site and return them. Equal sites give equal bytes. Pages of an earlier generation that
    are no longer part of the site are removed if they are unchanged. A directory with foreign files under the same
    names is refused before anything is written.
    """
    contents = {path: text.encode("utf-8", "replace") for path, text in site_texts(site)}
    _refuse_foreign(target, contents)
    earlier = _read_digests(target)
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in contents.items()}
    contents[WRITTEN] = (json.dumps(digests, indent=1, sort_keys=True) + "\n").encode()

    for path, content in contents.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.read_bytes() != content:
            file.write_bytes(content)
    for path, digest in earlier.items():
        if path not in contents:
            _remove(target, path, digest)
    return tuple(target / path for path in contents)


def _refuse_foreign(target: Path, contents: Mapping[str, bytes]) -> None:
    hint = "choose another directory, or move these files away"
    if target.exists() and not target.is_dir():
        raise PlanRefused("target-exists", f"{target} is a file, not a directory", hint="choose another directory")
    index = target / "index.html"
    if index.is_file() and MARK in index.read_text(encoding="utf-8", errors="replace"):
        return
    for path in contents:
        if (target / path).exists():
            raise PlanRefused("target-exists", f"{target / path} was not written by Penstock", hint=hint)


def _read_digests(target: Path) -> dict[str, str]:
    """Read the list of digests. If it is absent or broken, nothing is removed."""
    try:
        listed = json.loads((target / WRITTEN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(path): str(digest) for path, digest in listed.items()} if isinstance(listed, dict) else {}


def _remove(target: Path, path: str, digest: str) -> None:
    """Remove a regular file inside the target if its bytes are unchanged; then its directory, if that is empty."""
    parts = PurePosixPath(path)
    file = target / parts
    if parts.is_absolute() or ".." in parts.parts or not file.is_file() or file.is_symlink():
        return
    if not file.resolve().is_relative_to(target.resolve()) or _digest(file) != digest:
        return
    file.unlink()
    if file.parent != target and not any(file.parent.iterdir()):
        file.parent.rmdir()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
