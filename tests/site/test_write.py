import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest

from penstock.errors import PlanRefused
from penstock.site.links import page_path, safe_url
from penstock.site.model import Site, SiteNode
from penstock.site.sql_colour import colour_sql
from penstock.site.write import MARK, write_site
from tests.site.projects import HOSTILE_TEXT, SHOP, hostile


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(directory).as_posix()): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


class Page(HTMLParser):
    """Elements, attributes and texts as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def node(name: str, **fields: object) -> SiteNode:
    return SiteNode(id=f"model.{name}", kind="model", name=name, **fields)  # type: ignore[arg-type]


NAMES = (
    "orders",
    "Orders",
    "ORDERS",
    "日本語",
    "with space",
    "with-space",
    'quo"te',
    "a/b",
    "..",
    "../../etc/passwd",
    "x" * 300,
    "x" * 301,
    "con",
    "nul",
    "",
    "-",
    "tab\tand\nline",
    "orders.html",
    "\ud800",
)


def test_file_names_are_safe_and_unique_without_regard_to_case(tmp_path: Path) -> None:
    paths = [page_path(node(name)) for name in NAMES]
    assert len({path.lower() for path in paths}) == len(NAMES)
    for path in paths:
        assert re.fullmatch(r"model/[a-z0-9_][a-z0-9_-]*(\.[0-9a-f]{16})?\.html", path)
        assert len(PurePosixPath(path).name) < 100
    files = write_site(Site("names", nodes=tuple(node(name) for name in NAMES)), tmp_path / "site")
    assert {file.relative_to(tmp_path / "site").parts[0] for file in files} == {"index.html", "assets", "model"}


def test_plain_names_are_kept_and_do_not_depend_on_others() -> None:
    assert page_path(node("orders")) == "model/orders.html"
    assert page_path(node("Orders")) == page_path(node("Orders", tags=("x",)))


def test_equal_sites_give_equal_bytes(tmp_path: Path) -> None:
    write_site(SHOP, tmp_path / "one")
    write_site(replace(SHOP, nodes=SHOP.nodes[::-1], edges=SHOP.edges[::-1]), tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_what_is_returned_is_what_is_there(tmp_path: Path) -> None:
    files = write_site(SHOP, tmp_path)
    assert sorted(files) == sorted(file for file in tmp_path.rglob("*") if file.is_file())


def test_every_link_leads_to_a_file(tmp_path: Path) -> None:
    for file in write_site(SHOP, tmp_path):
        if file.suffix != ".html":
            continue
        for name, value in Page(file.read_text(encoding="utf-8")).attributes:
            if name in ("href", "src") and value and not urlsplit(value).scheme and not value.startswith("#"):
                assert (file.parent / unquote(urlsplit(value).path)).is_file(), (file, value)


def test_an_empty_project_has_a_site(tmp_path: Path) -> None:
    write_site(Site("empty"), tmp_path)
    assert "no elements yet" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_pages_that_are_no_longer_part_are_removed(tmp_path: Path) -> None:
    write_site(SHOP, tmp_path)
    assert (tmp_path / "sink/lake.html").exists()
    fewer = replace(
        SHOP,
        nodes=tuple(one for one in SHOP.nodes if one.kind != "sink"),
        edges=tuple(edge for edge in SHOP.edges if "sink.lake" not in edge),
    )
    write_site(fewer, tmp_path)
    assert not (tmp_path / "sink").exists()


def test_nothing_is_removed_that_we_did_not_write(tmp_path: Path) -> None:
    target = tmp_path / "site"
    write_site(SHOP, target)
    kept = [target / "notes.txt", target / "sink/own.html", target / "sink/lake.html", tmp_path / "outside.txt"]
    for file in kept:
        file.write_text("mine", encoding="utf-8")
    listed = json.loads((target / "assets/files.json").read_text(encoding="utf-8"))
    listed |= dict.fromkeys(["notes.txt", "../outside.txt", str(tmp_path / "outside.txt")], "0" * 64)
    (target / "assets/files.json").write_text(json.dumps(listed), encoding="utf-8")
    write_site(Site("other"), target)
    assert all(file.read_text(encoding="utf-8") == "mine" for file in kept)


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_a_broken_list_of_files_removes_nothing(tmp_path: Path, text: str) -> None:
    write_site(SHOP, tmp_path)
    (tmp_path / "assets/files.json").write_text(text, encoding="utf-8")
    write_site(Site("other"), tmp_path)
    assert (tmp_path / "sink/lake.html").exists()


@pytest.mark.parametrize("path", ["index.html", "model/orders_clean.html", "assets/site.css"])
def test_files_of_somebody_else_are_not_overwritten(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("<p>mine</p>", encoding="utf-8")
    before = contents(tmp_path)
    with pytest.raises(PlanRefused, match="not written by Penstock") as refused:
        write_site(SHOP, tmp_path)
    assert refused.value.code == "target-exists"
    assert refused.value.hint
    assert contents(tmp_path) == before


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("mine", encoding="utf-8")
    with pytest.raises(PlanRefused, match="is a file"):
        write_site(SHOP, tmp_path / "site")


def test_our_own_site_is_written_again(tmp_path: Path) -> None:
    write_site(SHOP, tmp_path)
    assert MARK in (tmp_path / "index.html").read_text(encoding="utf-8")
    before = contents(tmp_path)
    write_site(SHOP, tmp_path)
    assert contents(tmp_path) == before


def test_no_text_becomes_an_element(tmp_path: Path) -> None:
    for file in write_site(hostile(), tmp_path):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".html":
            page = Page(text)
            assert "x" not in [value for name, value in page.attributes if name == "src"]
            assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
            assert not [
                value for name, value in page.attributes if name == "href" and "script:" in (value or "").lower()
            ]
            assert HOSTILE_TEXT in "".join(page.texts)
            assert "window.hacked=1</script>" not in text
            assert page.tags.count("script") == text.count("</script>")
        elif file.name == "data.js":
            assert "<" not in text
            assert text.isascii()


def test_data_is_json_after_the_assignment(tmp_path: Path) -> None:
    write_site(hostile(), tmp_path)
    text = (tmp_path / "assets/data.js").read_text(encoding="utf-8")
    data = json.loads(text.removeprefix("window.penstock = ").removesuffix(";\n"))
    assert data["nodes"][1]["name"] == HOSTILE_TEXT


@pytest.mark.parametrize("text", ["http://a.b/c?d=e", "https://a.b", "mailto:a@b.c"])
def test_addresses_of_web_and_mail_become_links(text: str) -> None:
    assert safe_url(text) == text


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\nscript:alert(1)",
        "\x01javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "//a.b",
        "https:alert(1)",
        "http://[",
        " https://a.b",
        "a.b/c",
    ],
)
def test_other_addresses_stay_text(text: str | None) -> None:
    assert safe_url(text) is None


@pytest.mark.parametrize(
    "sql", ["", "SELECT 'a''b' -- c\nFROM `t` /* open", "{{ ref('x') }} {% if", "'open", HOSTILE_TEXT]
)
def test_colours_leave_the_text_as_it_is(sql: str) -> None:
    assert "".join(Page(str(colour_sql(sql))).texts) == sql


def test_colours_tell_keywords_from_functions_and_strings() -> None:
    html = str(colour_sql("SELECT SUM(a) FROM t WHERE b = 'from'"))
    assert '<span class="sql-keyword">SELECT</span>' in html
    assert '<span class="sql-function">SUM</span>' in html
    assert html.count("sql-keyword") == 3


def test_a_site_knows_its_nodes() -> None:
    with pytest.raises(ValueError, match="one id"):
        Site("x", nodes=(node("a"), node("a")))
    with pytest.raises(ValueError, match="unknown nodes"):
        Site("x", nodes=(node("a"),), edges=(("model.a", "model.b"),))
    with pytest.raises(ValueError, match="not a kind"):
        SiteNode(id="x", kind="snapshot", name="x")  # type: ignore[arg-type]
