"""Pages in a real browser. Skipped where Debian's chromium and chromium-driver are not installed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from tests.browser import IN_BROWSER, axe_findings, opened, started_browser
from tests.report.hostile_world import HOSTILE

PAGES = ("run", "pair", "fallback", "suite")
EVERY = (*PAGES, "index", "question", "questions", "formula", "search", "sql", "message")
# Of these no text of the data has to be on the page.
WITHOUT_TEXTS = ("suite", "index", "formula")
READABLE = 4.5
NARROW, WIDE = 390, 2_560

pytestmark = IN_BROWSER

# The contrast of every piece of text with what lies behind it, as WCAG computes it; the lowest first.
CONTRASTS = """
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = (colour) => {
    const [r, g, b] = parts(colour).map((one) => {
        const share = one / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
        const colour = getComputedStyle(one).backgroundColor;
        if (colour !== "transparent" && parts(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
};
const paper = getComputedStyle(document.body).backgroundColor;
const found = [];
for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || ["SCRIPT", "OPTION", "title", "desc"].includes(element.nodeName)) continue;
    const style = getComputedStyle(element);
    const isDrawn = element.namespaceURI.endsWith("svg");
    const colour = isDrawn ? style.fill : style.color;
    if (isDrawn && colour === paper) continue;  // stands on a mark
    const [a, b] = [light(colour), light(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), element.nodeName, element.textContent.slice(0, 40)]);
}
return found.sort((x, y) => x[0] - y[0]);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with started_browser(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture(scope="module")
def files(pages: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    for name in EVERY:
        (folder / f"{name}.html").write_text(pages[name], "utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in EVERY}


def shown_rows(browser: webdriver.Chrome) -> list[str]:
    script = (
        "return [...document.querySelector('table.queries').tBodies].filter((one) => one.checkVisibility())"
        ".map((one) => one.querySelector('.query .id').textContent)"
    )
    found: list[str] = browser.execute_script(script)
    return found


def column(browser: webdriver.Chrome, place: int) -> list[str]:
    script = (
        "return [...document.querySelector('table.queries').tBodies]"
        f".map((one) => one.rows[0].cells[{place}].textContent)"
    )
    found: list[str] = browser.execute_script(script)
    return found


@pytest.mark.parametrize("name", EVERY)
def test_the_page_asks_the_network_for_nothing_and_logs_nothing(
    browser: webdriver.Chrome, files: dict[str, str], name: str
) -> None:
    opened(browser, files[name])
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    # The browser's own first tab may still be loading things of its own.
    requests = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    asked = {one["request"]["url"] for one in requests if one["documentURL"] == files[name]}
    assert files[name] in asked
    assert {url for url in asked if not url.startswith("data:")} == {files[name]}
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("name", EVERY)
def test_no_text_of_the_data_is_executed(browser: webdriver.Chrome, files: dict[str, str], name: str) -> None:
    opened(browser, files[name])
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert browser.execute_script("return document.images.length") == 0
    assert browser.execute_script("return document.scripts.length") <= 3
    if name not in WITHOUT_TEXTS:
        assert HOSTILE["script"] in browser.execute_script("return document.body.innerText")


def test_the_policy_stops_what_would_be_added_later(browser: webdriver.Chrome, files: dict[str, str]) -> None:
    opened(browser, files["run"])
    browser.execute_script(
        "const one = document.createElement('script'); one.textContent = 'window.hacked = 9'; document.body.append(one);"
    )
    assert browser.execute_script("return typeof window.hacked") == "undefined"


def test_the_search_keeps_the_queries_that_hold_every_word(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    opened(browser, files["run"])
    everything = shown_rows(browser)
    browser.find_element(By.NAME, "search").send_keys("question 12")
    assert len(everything) == 16
    assert len(shown_rows(browser)) == 1
    assert shown_rows(browser)[0].startswith("q12 ")
    assert browser.find_element(By.NAME, "count").text == "1 to 1 of 1, of 16 in all"
    browser.find_element(By.NAME, "search").send_keys(" nowhere")
    assert shown_rows(browser) == []


def test_kind_and_check_box_narrow_the_list_together(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    opened(browser, files["pair"])
    kind = Select(browser.find_element(By.NAME, "kind"))
    kind.select_by_value("loss")
    losses = shown_rows(browser)
    assert {row.split()[0] for row in losses} == {"q4", "q9"}
    assert f"to {len(losses)} of {len(losses)}, of 16 in all" in browser.find_element(By.NAME, "count").text
    browser.find_element(By.NAME, "marked").click()
    assert shown_rows(browser) == losses
    kind.select_by_value("win")
    assert shown_rows(browser) == []
    kind.select_by_value("")
    browser.find_element(By.NAME, "marked").click()
    assert len(shown_rows(browser)) == len(column(browser, 0))


def test_columns_sort_both_ways_with_what_is_not_known_last(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    opened(browser, files["run"])
    head = browser.find_element(By.CSS_SELECTOR, "table.queries th:nth-child(3)")
    unsorted = column(browser, 2)
    head.find_element(By.CSS_SELECTOR, "button").click()
    upwards = column(browser, 2)
    assert head.get_attribute("aria-sort") == "ascending"
    head.find_element(By.CSS_SELECTOR, "button").click()
    downwards = column(browser, 2)
    assert head.get_attribute("aria-sort") == "descending"
    known = sorted(int(rank) for rank in unsorted if rank != "—")
    unknown = ["—"] * (len(unsorted) - len(known))
    assert len(set(known)) > 1
    assert upwards == [*map(str, known), *unknown]
    assert downwards == [*map(str, reversed(known)), *unknown]


def test_the_first_column_sorts_back_to_where_it_began(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    opened(browser, files["run"])
    before = shown_rows(browser)
    buttons = browser.find_elements(By.CSS_SELECTOR, "table.queries .sort")
    buttons[2].click()
    buttons[0].click()
    assert shown_rows(browser) == before


def test_without_javascript_everything_is_there_and_no_dead_control(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, files["pair"])
        rows = browser.find_elements(By.CSS_SELECTOR, "table.queries tbody")
        assert len(rows) == 16
        assert all(row.is_displayed() for row in rows)
        assert not browser.find_element(By.CSS_SELECTOR, "form.filters").is_displayed()
        details = browser.find_element(By.CSS_SELECTOR, "tr.more details")
        details.find_element(By.CSS_SELECTOR, "summary").click()
        assert details.find_element(By.CSS_SELECTOR, ".sides").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_every_text_can_be_read_in_light_and_dark(
    browser: webdriver.Chrome, files: dict[str, str], name: str, theme: str
) -> None:
    opened(browser, files[name], theme=theme)
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    contrasts: list[Any] = browser.execute_script(CONTRASTS)
    assert len(contrasts) > 50
    assert any(kind == "text" for _, kind, _ in contrasts)
    assert contrasts[0][0] >= READABLE, contrasts[:5]
    assert (paper == "rgb(255, 255, 255)") == (theme == "light")


@pytest.mark.parametrize(("theme", "width"), [("light", NARROW), ("dark", WIDE)])
@pytest.mark.parametrize("name", [name for name in EVERY if name != "fallback"])
def test_axe_finds_nothing_and_only_tables_and_charts_scroll_sideways(
    browser: webdriver.Chrome, files: dict[str, str], name: str, theme: str, width: int
) -> None:
    opened(browser, files[name], theme=theme, width=width)
    browser.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert axe_findings(browser) == []


def test_axe_would_find_what_is_wrong(browser: webdriver.Chrome, files: dict[str, str]) -> None:
    opened(browser, files["message"])
    browser.execute_script("document.querySelector('main').append(document.createElement('button'))")
    assert [rule for rule, *_ in axe_findings(browser)] == ["button-name"]


def test_the_first_tab_offers_to_skip_to_the_content(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    opened(browser, files["run"])
    browser.execute_cdp_cmd(
        "Input.dispatchKeyEvent", {"type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
    )
    focused = browser.switch_to.active_element
    assert focused.text == "Skip to the content"
    assert focused.rect["x"] >= 0
    assert browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused) == "solid"


def test_the_page_prints_on_paper_without_its_controls(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    opened(browser, files["pair"], theme="dark")
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert (
        browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert not browser.find_element(By.NAME, "search").is_displayed()
    assert not browser.find_element(By.CSS_SELECTOR, "nav").is_displayed()
    # Of how many what is printed is the beginning.
    assert browser.find_element(By.NAME, "count").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_two_runs_are_chosen_by_keyboard_and_a_single_file_gives_the_command(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    opened(browser, files["suite"])
    boxes = browser.find_elements(By.CSS_SELECTOR, "#runs-table input")
    button = browser.find_element(By.NAME, "compare")
    assert not button.is_enabled()
    newest, *_, oldest = boxes
    newest.send_keys(Keys.SPACE)
    oldest.send_keys(Keys.SPACE)
    assert button.is_enabled()
    button.send_keys(Keys.ENTER)
    told = browser.find_element(By.CSS_SELECTOR, "form.choice output code").text
    assert told == "eval-pipeline compare run-a run-d"
    boxes[1].send_keys(Keys.SPACE)
    assert not button.is_enabled()


def test_without_javascript_no_run_can_be_chosen_in_vain(
    browser: webdriver.Chrome, files: dict[str, str]
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, files["suite"])
        assert not browser.find_element(By.CSS_SELECTOR, "form.choice").is_displayed()
        boxes = browser.find_elements(By.CSS_SELECTOR, "#runs-table input")
        assert boxes
        assert not any(box.is_displayed() for box in boxes)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
