from pathlib import Path

import pytest

from penstock.errors import Origin
from penstock.project.yaml.documents import Document
from penstock.project.yaml.read import parse_yaml, read_document
from tests.support import codes, only, plain, spot


def document(text: str) -> Document:
    found, diagnostics = parse_yaml(plain(text), "a.yml")
    assert found is not None
    assert not diagnostics
    return found


def problems(text: str) -> list[str]:
    return codes(parse_yaml(plain(text), "a.yml")[1])


def test_values_are_what_yaml_says() -> None:
    text = """
        text: hello
        number: 12
        fraction: 1.5
        truth: true
        nothing:
        list: [1, two]
        mapping: {a: {b: c}}
    """
    assert document(text).value == {
        "text": "hello",
        "number": 12,
        "fraction": 1.5,
        "truth": True,
        "nothing": None,
        "list": [1, "two"],
        "mapping": {"a": {"b": "c"}},
    }


def test_dates_and_times_of_day_stay_as_they_were_written() -> None:
    assert document("day: 2026-01-31\nat: 12:30:00\n").value == {"day": "2026-01-31", "at": "12:30:00"}


def test_a_value_and_its_key_know_their_line_and_column() -> None:
    found = document("""
        models:
          - name: orders
            tags: [a, b]
    """)
    assert found.origin("models", 0, "name") == Origin("a.yml", 2, 11)
    assert found.origin("models", 0, "name", key=True) == Origin("a.yml", 2, 5)
    assert found.origin("models", 0, "tags", 1) == Origin("a.yml", 3, 15)


def test_a_path_that_ends_early_gives_its_last_part() -> None:
    found = document("a:\n  b: 1\n")
    assert found.origin("a", "nowhere", "deeper") == Origin("a.yml", 2, 3)


def test_two_equal_keys_are_reported_with_both_lines() -> None:
    found, diagnostics = parse_yaml("name: a\nother: 1\nname: b\n", "a.yml")
    twice = only(diagnostics, "yaml-duplicate-key")
    assert twice.origin == Origin("a.yml", 3, 1)
    assert "line 1" in twice.message
    assert twice.path == "name"
    assert twice.params == {"key": "name"}
    assert twice.hint is not None
    assert found is not None
    assert found.value == {"name": "a", "other": 1}


def test_every_equal_key_is_reported_at_every_level() -> None:
    assert problems("a: {b: 1, b: 2, b: 3}\nc: [{d: 1, d: 2}]\n") == ["yaml-duplicate-key"] * 3


def test_a_key_may_come_up_again_in_another_mapping() -> None:
    assert document("- {name: a}\n- {name: b}\n").value == [{"name": "a"}, {"name": "b"}]


@pytest.mark.parametrize(("word", "read_as"), [("on", "true"), ("off", "false"), ("yes", "true"), ("No", "false")])
def test_a_key_that_yaml_reads_as_a_truth_value_is_reported(word: str, read_as: str) -> None:
    _, diagnostics = parse_yaml(f"name: a\n{word}: push\n", "a.yml")
    trap = only(diagnostics, "yaml-boolean-key")
    assert trap.origin == Origin("a.yml", 2, 1)
    assert trap.params == {"key": word}
    assert read_as in trap.message
    assert trap.hint is not None
    assert f'"{word}"' in trap.hint


def test_a_quoted_on_is_a_key_like_any_other() -> None:
    assert document("'on': push\n").value == {"on": "push"}


@pytest.mark.parametrize("key", ["1", "1.5", "2026-01-31", "null"])
def test_a_key_that_is_not_text_is_reported(key: str) -> None:
    _, diagnostics = parse_yaml(f"{key}: x\n", "a.yml")
    found = only(diagnostics, "yaml-key-not-text")
    assert found.origin == Origin("a.yml", 1, 1)
    assert found.params == {"key": key}
    assert found.hint is not None


def test_a_list_as_a_key_is_reported() -> None:
    assert problems("? [a, b]\n: x\n") == ["yaml-key-not-text"]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: [1, 2\nb: 3\n", 2, 2),
        ("a: b: c\n", 1, 5),
        ("a: 'open\n", 2, 1),
        ("a:\n  - x\n b: 1\n", 3, 2),
        ("a: *nowhere\n", 1, 4),
        ("a: 1\n---\nb: 2\n", 2, 1),
        ("a: {\n", 2, 1),
    ],
)
def test_text_that_is_not_yaml_is_reported_where_reading_stopped(text: str, line: int, column: int) -> None:
    found, diagnostics = parse_yaml(text, "a.yml")
    assert found is None
    assert only(diagnostics, "yaml-syntax").origin == Origin("a.yml", line, column)


def test_an_unclosed_bracket_names_the_line_it_was_opened_in() -> None:
    (found,) = parse_yaml("a: 1\nb: [1, 2\nc: 3\n", "a.yml")[1]
    assert found.hint is not None
    assert "line 2" in found.hint


def test_a_tab_as_indentation_is_named_in_the_hint() -> None:
    (found,) = parse_yaml("project:\n\tname: x\n", "a.yml")[1]
    assert found.code == "yaml-syntax"
    assert found.origin == Origin("a.yml", 2, 1)
    assert found.hint is not None
    assert "spaces" in found.hint


@pytest.mark.parametrize("text", ["", "\n\n", "# a comment\n", "---\n", "---\n...\n"])
def test_a_file_without_content_is_reported_as_empty(text: str) -> None:
    found, diagnostics = parse_yaml(text, "a.yml")
    assert found is None
    assert only(diagnostics).code == "file-empty"


def test_an_alias_to_itself_is_refused() -> None:
    assert problems("a: &x\n  b: *x\n") == ["yaml-alias"]


def test_aliases_that_explode_are_refused_once_and_soon() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert problems("\n".join(lines) + "\n") == ["yaml-alias"]


def test_merge_keys_give_values_that_know_where_they_were_written() -> None:
    found = document("""
        base: &base {owner: me, name: base}
        other: {<<: *base, name: other}
    """)
    assert found.value["other"] == {"owner": "me", "name": "other"}
    assert found.origin("other", "owner") == Origin("a.yml", 1, 21)
    assert found.origin("other", "name") == Origin("a.yml", 2, 26)


def test_an_unknown_tag_is_read_as_plain_text() -> None:
    assert document("a: !secret x\n").value == {"a": "x"}


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"name: caf\xe9\n"])
def test_a_file_that_is_not_utf8_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.yml"
    path.write_bytes(content)
    found, diagnostics = read_document(path, "a.yml")
    assert found is None
    assert only(diagnostics, "file-unreadable").origin == Origin("a.yml")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_bytes(b"\xef\xbb\xbfname: a\n")
    found, _ = read_document(path, "a.yml")
    assert found is not None
    assert found.origin("name") == Origin("a.yml", 1, 7)


def test_windows_line_ends_do_not_move_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_bytes(b"a: 1\r\nsql: |\r\n  SELECT x\r\n  FROM y\r\n")
    found, _ = read_document(path, "a.yml")
    assert found is not None
    assert found.inside(("sql",), found.value["sql"].index("y")) == Origin("a.yml", 4, 8)


# Places inside a text

SCALARS = {
    "plain": "sql: SELECT a, WRONG FROM t\n",
    "plain over several lines": "sql: SELECT a,\n  b,\n  WRONG FROM t\n",
    "single quotes": "sql: 'SELECT a, WRONG FROM t'\n",
    "double quotes": 'sql: "SELECT a, WRONG FROM t"\n',
    "double quotes over several lines": 'sql: "SELECT a,\n\n  b, WRONG\n  FROM t"\n',
    "a literal block": "sql: |\n  SELECT a,\n\n    WRONG\n  FROM t\n",
    "a literal block that keeps its end": "sql: |+\n  SELECT a,\n    WRONG FROM t\n\n\nother: 1\n",
    "a literal block with its indentation given": "sql: |2\n     SELECT a,\n   WRONG FROM t\n",
    "a literal block with a comment in its first line": "sql: |  # WRONG\n  SELECT a,\n  WRONG FROM t\n",
    "a folded block": "sql: >\n  SELECT a,\n  b,\n\n  c,\n    WRONG FROM t\n",
    "a folded block without its end": "sql: >-\n  SELECT a, b\n  , WRONG\n",
    "a flow mapping": "{other: 1, sql: SELECT WRONG FROM t}\n",
    "text beyond ASCII": "sql: |\n  SELECT 'ä€😀' AS a, WRONG FROM t\n",
    "escaped double quotes": 'sql: "SELECT \\"a\\", WRONG FROM t"\n',
    "escaped line ends": 'sql: "SELECT a,\\n  WRONG\\nFROM t"\n',
    "escaped letters": "sql: \"SELECT '\\u00e4\\x41\\t' AS a, WRONG FROM t\"\n",
    "a folded line end in double quotes": 'sql: "SELECT a, \\\n  WRONG FROM t"\n',
    "doubled single quotes": "sql: 'SELECT ''a'' AS a, ''b'' AS b, WRONG FROM t'\n",
}


@pytest.mark.parametrize("text", SCALARS.values(), ids=SCALARS.keys())
def test_a_place_inside_a_text_is_found_in_the_file(text: str) -> None:
    found = document(text)
    occurrence = 2 if "# WRONG" in text else 1
    expected = spot("a.yml", text, "WRONG", occurrence)
    assert found.inside(("sql",), found.value["sql"].index("WRONG")) == expected


def test_the_end_of_a_text_is_a_place_in_it() -> None:
    found = document("sql: |\n  SELECT a\nother: 1\n")
    place = found.inside(("sql",), len(found.value["sql"]))
    assert place.line == 2


# JSON


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "\ud83d\ude00 \u00e4", "b": "\\ud83d\\ude00"}', {"a": "😀 ä", "b": r"\ud83d\ude00"}),
        ("a: \"\\uD83D\\uDE00\"\nb: '\\ud83d\\ude00'", {"a": "😀", "b": r"\ud83d\ude00"}),
        ('\t{"a": "b\tc",\t"d": 1}\n\t', {"a": "b\tc", "d": 1}),
        ('\t{"a": "\\ud83d\\ude00"}\n', {"a": "😀"}),
    ],
)
def test_json_that_yaml_does_not_read_is_read(text: str, value: object) -> None:
    document, found = parse_yaml(text, "a.json")
    assert found == []
    assert document is not None
    assert document.value == value


def test_half_a_character_and_a_tab_are_called_what_they_are() -> None:
    _, (half,) = parse_yaml(r'{"a": "\ud83d"}', "a.json")
    assert (half.code, half.message) == ("yaml-syntax", "this escape is half of a surrogate pair")
    _, (tab,) = parse_yaml("a:\n\tb: 1", "a.yml")
    assert (tab.message, str(tab.origin)) == ("there is a tab where YAML needs spaces", "a.yml:2:1")


def test_a_scalar_is_known_as_it_is_written() -> None:
    document, _ = parse_yaml("a: [NO, 1.10, 'x', ~, {b: 1}]", "a.yml")
    assert document is not None
    assert [document.source_text("a", n) for n in range(6)] == ["NO", "1.10", "x", "~", None, None]
