"""Names of columns that cannot be used, as soon as they are known."""

from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from penstock.clients.rows.reserved_columns import invalid_names_error
from penstock.errors import ProjectInvalid
from penstock.sql.types.columns import find_case_clash
from penstock.workflow.stages import check

PIPELINE = """
sources: {{rows: {{type: file, path: in, format: {}, mode: {{type: bounded}}}}}}
sinks: {{kept: {{type: memory, from: rows}}}}
"""


def test_names_are_alike_if_only_case_tells_them_apart() -> None:
    assert find_case_clash(["id", "name", "Name", "ID"]) == ("name", "Name")
    assert find_case_clash(["id", "name", "id"]) == ("id", "id")
    assert find_case_clash(["id", "a.id", "i d"]) is None


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["id", "ID"], "the topic cannot have the columns `id` and `ID`: names in SQL are not case-sensitive"),
        (["id", "id"], "the topic cannot have two columns `id`"),
        (
            ["id", "_ERROR"],
            "the topic cannot have a column `_ERROR`: Penstock uses that name itself",
        ),
        (["id", "place"], "the topic cannot have a column `place`: Penstock uses that name itself"),
        (["id", "_GS_op"], "`_GS_op` of the topic must be written `_gs_op`"),
    ],
)
def test_a_name_that_cannot_be_used_is_told_with_the_way_out(names: list[str], said: str) -> None:
    wrong = invalid_names_error(names, "the topic", "rename it", ours=["place"])
    assert wrong is not None
    assert (wrong.code, wrong.message, wrong.hint) == ("column-names", said, "rename it")


def test_names_with_dots_spaces_and_quotes_can_be_used() -> None:
    assert invalid_names_error(["id", "a.b", "a b", "a`b", "_gs_op"], "the topic", "rename it") is None


def test_validate_tells_of_columns_of_files_that_sql_takes_for_one(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,ID\n1,2\n")
    pyarrow.parquet.write_table(pyarrow.table([[1], [2]], names=["id", "ID"]), tmp_path / "in" / "a.parquet")
    for file_format in ("csv", "parquet"):
        (tmp_path / "pipeline.yml").write_text(PIPELINE.format(file_format))
        with pytest.raises(ProjectInvalid) as refused:
            check(tmp_path / "pipeline.yml")
        (found,) = refused.value.diagnostics
        assert (found.code, found.path) == ("column-names", "sources.rows")
        assert "`id` and `ID`" in found.message
        assert found.hint == "give it another name in the files"
