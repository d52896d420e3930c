"""Scripts that are not Python name modules too, and nothing else checks those names."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = [
    *(ROOT / "scripts").iterdir(),
    ROOT / "Makefile",
    ROOT / ".ci/run",
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
]
MODULES = re.compile(r"(?:from|import|python -m) (penstock(?:\.\w+)+)")


@pytest.mark.parametrize("file", [file for file in TEXTS if file.is_file()], ids=lambda file: file.name)
def test_modules_that_scripts_and_documents_name_are_there(file: Path) -> None:
    named = set(MODULES.findall(file.read_text(encoding="utf-8")))
    assert [name for name in sorted(named) if find_spec(name) is None] == []
