"""The worked example of CONTRIBUTING.md is code that works."""

import json
import re
import tomllib
import types
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.batch import BatchRef
from penstock.connectors.registry import BUILT_INS

ROOT = Path(__file__).parents[2]


def test_the_worked_connector_writes_rows(tmp_path: Path, spark: SparkSession) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    module = types.ModuleType("textfile")
    exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), module.__dict__)
    module.TextFileSink.model_rebuild(_types_namespace=module.__dict__)
    sink = module.TextFileSink(from_="rows", path="out.txt").with_root(tmp_path)
    rows = spark.createDataFrame([(1,), (2,)], "id BIGINT")
    assert sink.write(rows, BatchRef("q", "sink.out", "c", 0, ())).rows == 2
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == [1, 2]


def test_every_connector_is_kept_apart_from_the_others() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (apart,) = (c["modules"] for c in contracts if c["type"] == "independence")
    assert set(apart) == {b.module for b in BUILT_INS}
