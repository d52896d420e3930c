"""The site in a real browser, from disk. Needs Chromium: see scripts/tools."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.site.model import Site, SiteNode
from penstock.site.serve import serve
from penstock.site.write import write_site
from tests.site.projects import SHOP, hostile, large

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    assert found, "no Chromium: run scripts/tools"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass
class Heard:
    """What went on behind a page."""

    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@dataclass
class Visit:
    page: "Page"
    root: str
    heard: Heard

    def open(self, path: str = "index.html") -> "Page":
        self.page.goto(self.root + path)
        return self.page

    def nodes(self, having: str = "") -> list[str]:
        """Full names of the nodes that the graph has, or that have a class."""
        titles = self.page.locator(f"svg.view .node{having} title").all_text_contents()
        return sorted(re.sub(r" \([^()]*\)$", "", title) for title in titles)


Visitor = Callable[[Site], Visit]


@pytest.fixture
def visit(browser: "Browser", tmp_path: Path) -> Iterator[Visitor]:
    """Opens a site from disk; at the end nothing may have gone wrong and nothing but files been asked for."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.set_default_timeout(60_000)
    heard = Heard()

    def start(site: Site) -> Visit:
        write_site(site, tmp_path / "site")
        page = context.new_page()
        page.on("console", lambda message: heard.problems.append(message.text))
        page.on("pageerror", lambda error: heard.problems.append(str(error)))
        page.on("request", lambda request: heard.requests.append(request.url))
        return Visit(page, (tmp_path / "site").as_uri() + "/", heard)

    yield start
    context.close()
    assert heard.problems == []
    assert [url for url in heard.requests if not url.startswith("file:")] == []


def test_the_graph_has_every_node_and_every_edge(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    assert shop.nodes() == sorted(node.name for node in SHOP.nodes)
    assert page.locator("svg.view .line").count() == len(SHOP.edges)
    frame = page.locator("svg.view").bounding_box()
    assert frame
    for box in page.locator("svg.view .node .box").all():
        place = box.bounding_box()
        assert place
        assert frame["x"] <= place["x"]
        assert place["x"] + place["width"] <= frame["x"] + frame["width"]


def test_hovering_lights_what_is_before_and_after(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    page.locator(".node", has_text="revenue_by_minute").hover()
    assert shop.nodes(".on") == ["orders_clean", "orders_raw", "revenue_by_minute", "revenue_dashboard"]
    assert page.locator(".line.on").count() == 3
    page.locator("h1").hover()
    assert page.locator(".lit").count() == 0


def test_nodes_can_be_reached_by_keyboard(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    page.locator("[data-zoom=fit]").focus()
    page.keyboard.press("Tab")
    assert shop.nodes(".on")
    page.keyboard.press("Enter")
    page.wait_for_url("**/source/customers_raw.html")


def test_a_tag_and_a_kind_filter_the_graph(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    page.select_option("#tag-filter", "finance")
    assert shop.nodes(":not(.out)") == ["revenue_by_minute", "revenue_dashboard"]
    assert page.locator(".line:not(.out)").count() == 1
    page.click(".chip[data-kind=exposure]")
    assert shop.nodes(":not(.out)") == ["revenue_by_minute"]
    page.select_option("#tag-filter", "")
    page.click(".chip[data-kind=exposure]")
    assert shop.nodes(".out") == []


def test_a_column_is_followed_both_ways(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    page.select_option("#trace-node", label="orders_clean")
    page.select_option("#trace-column", "amount")
    assert page.locator("#trace a").all_text_contents() == [
        "orders_raw.amount",
        "orders_clean.amount",
        "orders_enriched_with_customer_and_payment.amount",
        "revenue_by_minute.revenue",
    ]
    assert len(shop.nodes(".on")) == 4
    assert page.locator(".line.on").count() == 3
    page.click("#trace-clear")
    assert page.locator(".lit").count() == 0
    assert page.locator("#trace").is_hidden()


def test_the_page_of_a_model_leads_to_its_column_in_the_graph(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open("model/orders_clean.html")
    page.locator("tr", has_text="ordered_at").locator(".follow").click()
    page.wait_for_url(re.compile("/index.html#node="))
    assert page.locator("#trace a").all_text_contents() == [
        "orders_raw.ordered_at",
        "orders_clean.ordered_at",
        "revenue_by_minute.minute",
    ]


@pytest.mark.parametrize(
    ("query", "first", "page_name"),
    [
        ("revenue_by", "revenue_by_minute", "model/revenue_by_minute.html"),
        ("email_hash", "customers", "model/customers.html"),
        ("RISK", "fraud_service", "exposure/fraud_service.html"),
        ("pii", "customers", "model/customers.html"),
        ("current state", "customers", "model/customers.html"),
    ],
)
def test_search_finds_and_enter_opens(visit: Visitor, query: str, first: str, page_name: str) -> None:
    shop = visit(SHOP)
    page = shop.open("sink/lake.html")
    page.keyboard.press("/")
    page.keyboard.type(query)
    assert page.locator("#search-results [role=option] b").first.text_content() == first
    page.keyboard.press("Enter")
    page.wait_for_url("**/" + page_name)


def test_arrows_move_through_results(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    page.keyboard.press("/")
    page.keyboard.type("amount")
    page.keyboard.press("ArrowDown")
    second = page.locator("#search-results [aria-selected=true] b").text_content()
    assert second == page.locator("#search-results [role=option] b").nth(1).text_content()
    page.keyboard.press("Escape")
    assert page.locator("#search-results").is_hidden()


def test_lists_can_be_filtered(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    page.fill("#list-filter", "finance")
    visible = page.locator(".list tbody tr:visible td.first a").all_text_contents()
    assert visible == ["revenue_by_minute", "revenue_dashboard"]
    page.fill("#list-filter", "no such thing")
    assert page.locator("#list-empty").is_visible()


def test_links_lead_from_page_to_page(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    page.locator(".node", has_text="orders_clean").click()
    page.wait_for_url("**/model/orders_clean.html")
    page.locator(".ways a", has_text="revenue_by_minute").click()
    page.wait_for_url("**/model/revenue_by_minute.html")
    page.locator("#exposures a", has_text="revenue_dashboard").click()
    page.wait_for_url("**/exposure/revenue_dashboard.html")
    page.locator("#side a", has_text="lake").click()
    page.wait_for_url("**/sink/lake.html")
    page.click(".brand")
    page.wait_for_url("**/index.html")


def test_sql_is_shown_as_written_and_as_run(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open("model/orders_clean.html")
    assert page.locator("#sql-written").is_visible()
    page.click("text=As run")
    assert page.locator("#sql-written").is_hidden()
    assert "penstock_orders_raw" in (page.locator("#sql-run").text_content() or "")


def test_dragging_moves_and_does_not_open(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()
    before = page.get_attribute("svg.view", "viewBox")
    place = page.locator(".node", has_text="orders_clean").bounding_box()
    assert place
    page.mouse.move(place["x"] + 20, place["y"] + 10)
    page.mouse.down()
    page.mouse.move(place["x"] + 90, place["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_timeout(100)
    assert page.url.endswith("index.html")
    assert page.get_attribute("svg.view", "viewBox") != before
    page.click("[data-zoom=fit]")
    assert page.get_attribute("svg.view", "viewBox") == before


def test_the_wheel_and_the_buttons_zoom(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()

    def width() -> float:
        return float((page.get_attribute("svg.view", "viewBox") or "").split()[2])

    start = width()
    page.click("[data-zoom=in]")
    closer = width()
    assert closer < start
    page.locator("svg.view").hover()
    page.mouse.wheel(0, 300)
    page.wait_for_function("closer => document.querySelector('svg.view').viewBox.baseVal.width > closer", arg=closer)


def test_the_theme_is_switched_and_remembered(visit: Visitor) -> None:
    shop = visit(SHOP)
    page = shop.open()

    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    page.click("#theme")
    dark = background()
    assert dark != light
    shop.open("sink/lake.html")
    assert background() == dark


def test_a_narrow_screen_has_everything_and_scrolls_only_down(visit: Visitor) -> None:
    shop = visit(SHOP)
    shop.page.set_viewport_size({"width": 390, "height": 844})
    for path in ("index.html", "model/orders_clean.html"):
        page = shop.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not page.locator("#side a", has_text="lake").is_visible()
    page.click("#menu")
    page.locator("#side a", has_text="lake").click()
    page.wait_for_url("**/sink/lake.html")


def test_no_text_of_a_project_ever_runs(visit: Visitor) -> None:
    bad = visit(hostile())
    page = bad.open()
    assert page.evaluate("window.hacked") is None
    page.select_option("#trace-node", index=1)
    page.select_option("#trace-column", index=1)
    page.select_option("#tag-filter", index=1)
    page.keyboard.press("Escape")
    page.fill("#search", "script")
    assert page.locator("#search-results [role=option]").count() == 2
    assert page.evaluate("window.hacked") is None
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/(model|exposure)/.*\.html$"))
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0
    assert page.locator("a[href^=javascript i]").count() == 0
    page.click("text=As run")
    assert page.evaluate("window.hacked") is None


def test_a_large_graph_fits_and_a_node_is_found(visit: Visitor) -> None:
    big = visit(large(1000, 2500))
    page = big.open()
    assert page.locator(".node").count() == 1000
    assert page.locator(".line").count() == 2500
    page.fill("#find", "element_500")
    page.keyboard.press("Enter")
    frame = page.locator("svg.view").bounding_box()
    place = page.locator(".node", has=page.locator("title", has_text=re.compile(r"^element_500 "))).bounding_box()
    assert frame
    assert place
    assert place["width"] > 100
    assert frame["x"] < place["x"] < frame["x"] + frame["width"]
    assert frame["y"] < place["y"] < frame["y"] + frame["height"]


def test_an_empty_project_opens(visit: Visitor) -> None:
    page = visit(Site("empty")).open()
    assert page.locator("text=no elements yet").is_visible()


def test_the_site_can_be_served(browser: "Browser", tmp_path: Path) -> None:
    write_site(SHOP, tmp_path)
    problems: list[str] = []
    with serve(tmp_path, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        context = browser.new_context()
        try:
            page = context.new_page()
            page.on("console", lambda message: problems.append(message.text))
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            page.locator(".node", has_text="orders_clean").click()
            page.wait_for_url("**/model/orders_clean.html")
            assert page.locator("h1").text_content() == "orders_clean"
        finally:
            context.close()
            server.shutdown()
            thread.join()
    assert problems == []


def _chain(length: int) -> Site:
    """A chain of models over one source, with a sibling beside every one of them."""
    nodes = [SiteNode(id="source.a_rather_long_name", kind="source", name="a_rather_long_name", label="kafka")]
    edges = []
    for number in range(length):
        names = (f"model_number_{number:02}", f"sibling_{number:02}")
        nodes += [SiteNode(id=f"model.{name}", kind="model", name=name, label="stream") for name in names]
        before = f"model.model_number_{number - 1:02}" if number else "source.a_rather_long_name"
        edges += [(before, f"model.model_number_{number:02}"), (before, f"model.sibling_{number:02}")]
    return replace(SHOP, nodes=tuple(nodes), edges=tuple(edges), notes=())


def test_the_page_of_a_node_draws_all_before_and_after_it_and_nothing_else(visit: Visitor) -> None:
    site = visit(_chain(12))
    site.open("model/model_number_05.html")
    on_the_way = [f"model_number_{number:02}" for number in range(12)]
    after = [f"sibling_{number:02}" for number in range(6, 12)]
    assert site.nodes() == sorted(["a_rather_long_name", *on_the_way, *after])


def test_names_can_be_read_when_the_whole_graph_is_shown(visit: Visitor) -> None:
    site = visit(_chain(12))
    page = site.open("model/model_number_05.html")
    page.get_by_role("button", name="Fit").click()
    heights = page.eval_on_selector_all(
        "svg.view .node .name",
        "all => all.map((one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)",
    )
    assert min(heights) >= 8
    widths = page.eval_on_selector_all(
        "svg.view .node", "all => all.map((one) => one.querySelector('.name').getBBox().width)"
    )
    assert max(widths) <= 204 - 20
    for _ in range(6):
        page.get_by_role("button", name="Zoom in").click()
    assert "model_number_05" in page.locator("svg.view .node .name").all_text_contents()
