"""The page skeleton: what it holds as text, and how it behaves in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect

from systolic.metrics import METRICS
from systolic.viz.markup import Markup, joined, tag
from systolic.viz.page import (
    Cell,
    Column,
    DataTable,
    Definition,
    Fact,
    Facts,
    Heading,
    Notes,
    Paragraph,
    Part,
    Picture,
    metric_definition,
    page_html,
)
from tests.viz.browsing import chromium, opened

HOSTILE = '<script>document.title = "taken"</script><img src=x onerror=alert(1)> "\'&amp;'
SVG = '<svg width="300" height="40" viewBox="0 0 300 40"><defs><path id="p"/></defs><use href="#p"/></svg>'
NUMBERS = (7.0, None, 30.0, -2.5, 100.0)


class Reader(HTMLParser):
    """The elements and the texts of a document, as a browser's parser would find them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def parts_of(text: str) -> tuple[Part, ...]:
    """Every kind of part, with the same text wherever a user's may stand."""
    about = Definition(text or "term", text)
    columns = (
        Column(head=text, is_text=True),
        Column(head="value", unit=text, about=about),
        Column(head="words", is_text=True),
    )
    rows = tuple(
        (f"row {index}", Cell("" if value is None else f"{value:g}", value), f"word {9 - index}{text}")
        for index, value in enumerate(NUMBERS)
    )
    table = DataTable(caption=text, columns=columns, rows=rows, footer=(("total", Cell("134.5", 134.5), ""),))
    return (
        Heading(text),
        Facts((Fact(name=text, value=text, about=about),), are_large=True),
        Heading("Second"),
        Paragraph(text),
        table,
        Heading("Third", 2),
        Notes((text, text)),
        Picture(svg=SVG, caption=text, alt=text),
        Picture(svg=SVG, caption=text, alt=text),
    )


@given(st.text(min_size=1))
def test_any_text_stays_text(text: str) -> None:
    plain, hostile = read(page_html("title", "", parts_of("x"))), read(page_html(text, text, parts_of(text)))
    assert hostile.tags == plain.tags


def test_a_text_is_found_again_as_it_was() -> None:
    reader = read(page_html(HOSTILE, HOSTILE, parts_of(HOSTILE)))
    assert reader.tags.count("script") == 1  # our own
    assert reader.texts.count(HOSTILE) >= 10


@given(st.text(), st.text())
def test_children_and_attributes_are_escaped(child: str, value: str) -> None:
    reader = read(tag("p", child, title=value))
    assert reader.tags == ["p"]
    assert "".join(reader.texts) == child
    assert reader.attributes == [("title", value)]


def test_markup_is_taken_as_it_stands() -> None:
    assert joined(Markup("<b>"), "<b>", None, "") == "<b>&lt;b&gt;"
    assert tag("td", "x", hidden=True, title=None, id=False, data_value=3, class_="a") == (
        '<td hidden data-value="3" class="a">x</td>'
    )


def test_names_inside_pictures_do_not_meet() -> None:
    ids = [value for name, value in read(page_html("t", "", parts_of("x"))).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_colours_of_pictures_follow_the_theme() -> None:
    drawn = '<svg><path style="fill: #1B2027; stroke: #0072b2"/></svg>'
    html = page_html("t", "", [Picture(svg=drawn, caption="c", alt="a")])
    assert 'style="fill: var(--ink); stroke: #0072b2"' in html


def test_a_definition_stands_on_the_page_once() -> None:
    about = metric_definition("cycles")
    facts = Facts((Fact(name="a", value="1", about=about), Fact(name="b", value="2", about=about)))
    html = page_html("t", "", [facts])
    assert html.count('id="means-cycles"') == 1
    assert METRICS["cycles"].meaning in html


def test_the_same_parts_give_the_same_page() -> None:
    assert page_html("t", "s", parts_of("x")) == page_html("t", "s", parts_of("x"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "a page.html"
    parts = (*parts_of("<b>bold</b>"), *(Paragraph("far below") for _ in range(60)))
    path.write_text(page_html(HOSTILE, "subtitle", parts), encoding="utf-8")
    return path


def column(page: Page, index: int) -> list[str]:
    return page.locator(f"tbody tr > :nth-child({index + 1})").all_inner_texts()


@pytest.mark.tool("chromium")
def test_injected_markup_is_shown_and_not_run(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        assert page.title() == HOSTILE
        expect(page.locator("h1")).to_have_text(HOSTILE)
        assert page.locator("b:visible, img").count() == 0


@pytest.mark.tool("chromium")
def test_numbers_sort_by_value_and_blanks_stay_last(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        head = page.locator("thead th").nth(1)
        button = head.get_by_role("button")
        button.press("Enter")
        assert column(page, 1) == ["100", "30", "7", "-2.5", ""]
        expect(head).to_have_attribute("aria-sort", "descending")
        expect(page.get_by_role("status")).to_contain_text("descending")
        button.press("Enter")
        assert column(page, 1) == ["-2.5", "7", "30", "100", ""]
        expect(head).to_have_attribute("aria-sort", "ascending")
        assert page.locator("tfoot th").all_inner_texts() == ["total"]


@pytest.mark.tool("chromium")
def test_texts_sort_as_words(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        words = page.locator("thead th").nth(2)
        words.get_by_role("button").click()
        assert column(page, 0) == ["row 4", "row 3", "row 2", "row 1", "row 0"]
        page.locator("thead th").nth(0).get_by_role("button").click()
        assert column(page, 0) == ["row 0", "row 1", "row 2", "row 3", "row 4"]
        expect(words).to_have_attribute("aria-sort", "none")


@pytest.mark.tool("chromium")
def test_definitions_show_on_focus_on_hover_and_on_touch(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        tip, word = page.get_by_role("tooltip"), page.locator(".term").first
        expect(tip).to_be_hidden()
        for _ in range(20):  # by keyboard alone
            page.keyboard.press("Tab")
            if word.evaluate("word => word === document.activeElement"):
                break
        expect(tip).to_contain_text("<b>bold</b>")
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        page.locator("thead button[aria-describedby]").hover()
        expect(tip).to_be_visible()
        tip.hover()  # a reader may move onto it
        expect(tip).to_be_visible()
        page.locator("h1").hover()
        expect(tip).to_be_hidden()
    context = browser.new_context(has_touch=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator(".term").first.tap()
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.locator("h1").tap()
    expect(page.get_by_role("tooltip")).to_be_hidden()
    context.close()


@pytest.mark.tool("chromium")
def test_a_word_that_is_described_is_so_for_screen_readers(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        missing = """() => ['aria-describedby', 'aria-labelledby'].flatMap((name) =>
            [...document.querySelectorAll(`[${name}]`)].filter((element) =>
                !document.getElementById(element.getAttribute(name)))).length"""
        assert page.evaluate(missing) == 0
        assert page.locator("thead th:not([scope=col]), tbody th:not([scope=row])").count() == 0
        assert page.locator("table").count() == page.locator("caption").count()
        assert page.locator("figure svg[role=img][aria-labelledby]").count() == page.locator("figure").count()


@pytest.mark.tool("chromium")
def test_the_theme_follows_the_system_and_the_button(browser: Browser, file: Path) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    for scheme, other in (("light", "dark"), ("dark", "light")):
        page = browser.new_page(color_scheme=scheme)
        page.goto(file.as_uri())
        before = page.evaluate(ground)
        page.get_by_role("button", name=f"switch to {other} colours").click()
        after = page.evaluate(ground)
        assert before != after
        page.reload()
        assert page.evaluate(ground) == after  # it is remembered
        page.emulate_media(media="print")
        assert page.evaluate(ground) == "rgb(251, 250, 247)"
        page.close()


@pytest.mark.tool("chromium")
def test_the_page_never_scrolls_sideways(browser: Browser, file: Path) -> None:
    for width in (390, 768, 1280):
        with opened(browser, file, width=width) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= width
