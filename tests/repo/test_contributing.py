"""The worked example of CONTRIBUTING.md is code that works."""

import re
import tomllib
from pathlib import Path

from penstock.connectors.registry import BUILT_INS

ROOT = Path(__file__).parents[2]


def test_the_connector_that_is_shown_is_the_one_that_there_is() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    code = iter((ROOT / "src/penstock/connectors/redis/sink.py").read_text(encoding="utf-8").splitlines())
    for line in shown.splitlines():
        assert line in code, f"`{line}` is not there, or at another place"


def test_every_path_of_where_do_i_change_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Where do I change")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
    assert len(rows) >= 15
    for row in rows:
        paths = re.findall(r"`([\w/]+(?:/|\.py))`", row)
        assert paths, row
        assert all((ROOT / "src" / "penstock" / path).exists() for path in paths), row


def test_every_connector_is_kept_apart_from_the_others() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (apart,) = (c["modules"] for c in contracts if c["type"] == "independence")
    assert set(apart) == {b.module for b in BUILT_INS}
