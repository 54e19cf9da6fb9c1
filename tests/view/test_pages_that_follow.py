"""Two runs of many questions in `view`: the first screen is answered, and the page fetches the rest from its server."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from threading import Thread

import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.report.site.asked import served_policy
from eval_pipeline.settings import Settings
from eval_pipeline.view.guard import Guard, hosts_of
from eval_pipeline.view.pages import app_of
from tests.browser import IN_BROWSER, axe_findings, opened, started_browser
from tests.bundle_files import compute, hits, load, settings_in, write_golden, write_run
from tests.projects import project_of
from tests.report.page_reader import PageReader
from tests.view.test_view import Asking

N = 60
PAIR = "/pair?a=run-a&b=run-b"
# Longer than anything takes, shorter than anybody waits.
SECONDS = 60
needs_process, needs_browser = IN_BROWSER


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two runs of which every question moved down by a rank."""
    folder = tmp_path_factory.mktemp("many")
    bundle = folder / "bundle"
    ids = [f"q{number:02}" for number in range(N)]
    write_golden(
        bundle, [{"query_id": one, "query": "why?", "expected_chunk_ids": [f"{one}/1"]} for one in ids]
    )
    for run, order in (("run-a", ("{}/1", "other/1")), ("run-b", ("other/1", "{}/1"))):
        answers = [{"query_id": one, "hits_top_k": hits(*(hit.format(one) for hit in order))} for one in ids]
        write_run(bundle, run, answers)
    settings = settings_in(folder)
    load(settings, bundle)
    compute(settings, definitions=PAIR_FACTS)
    return settings


@pytest.fixture(scope="module")
def asking(many: Settings) -> Asking:
    return Asking(many)


def rest_of(page: str) -> str:
    """Where a page says that the whole of it is."""
    (address,) = {
        str(one.attributes["href"])
        for one in PageReader(page).named("a")
        if "whole=" in str(one.attributes["href"])
    }
    return address


def test_the_first_answer_has_the_verdict_and_the_numbers_and_the_rest_is_the_page_as_ever(
    asking: Asking,
) -> None:
    first = PageReader(asking(PAIR).text)
    assert "deltas-table" in first.tables
    assert any("verdict" in str(one.attributes.get("class")) for one in first.named("p"))
    at_once = asking(f"{PAIR}&print=all").text
    assert len(PageReader(at_once).tables["pair-queries"]) > N
    rest = rest_of(asking(PAIR).text)
    assert asking(rest).text == at_once
    # Asked for a second time, or by somebody who made the address up, it is there too.
    assert asking(rest).text == asking(f"{PAIR}&whole=x").text == at_once


def test_the_rest_of_a_page_is_told_to_no_foreign_name_and_of_no_other_runs(asking: Asking) -> None:
    rest = rest_of(asking(PAIR).text)
    foreign = asking(rest, host="evil.example:3001")
    assert (foreign.status, "q00" in foreign.text) == (421, False)
    key = rest.partition("&whole=")[2]
    other = "/pair?a=run-b&b=run-a"
    assert asking(f"{other}&whole={key}").text == asking(f"{other}&print=all").text
    assert asking(rest.replace("run-b", "run-x")).status == 404


@pytest.fixture(scope="module")
def server(many: Settings) -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        app = Guard(
            app_of(lambda: project_of(many), notify=print), hosts=hosts_of(port), policy=served_policy()
        )
        running = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
        thread = Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{port}"
        running.should_exit = True
        thread.join(SECONDS)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with started_browser(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def wait_for(browser: webdriver.Chrome, script: str) -> None:
    WebDriverWait(browser, SECONDS).until(lambda one: one.execute_script(f"return {script}"))


@needs_process
@needs_browser
def test_a_question_beyond_the_first_fifty_opens_with_its_details(
    browser: webdriver.Chrome, server: str
) -> None:
    opened(browser, f"{server}{PAIR}#q=q55")
    wait_for(browser, "document.getElementById('q=q55')?.querySelector('details').open")
    question = browser.find_element(By.ID, "q=q55")
    assert "run-b" in question.find_element(By.CSS_SELECTOR, ".joined").text
    assert len(question.find_elements(By.CSS_SELECTOR, ".joins line.gold")) == 1
    assert browser.find_element(By.NAME, "count").text == "51 to 60 of 60"
    assert browser.find_elements(By.CSS_SELECTOR, "#ranks figure.chart svg")
    assert not browser.find_elements(By.CLASS_NAME, "follows")
    browser.find_element(By.NAME, "back").click()
    assert browser.find_element(By.NAME, "count").text == "1 to 50 of 60"
    browser.find_element(By.NAME, "search").send_keys("q07")
    assert browser.find_element(By.NAME, "count").text == "1 to 1 of 1, of 60 in all"
    assert axe_findings(browser) == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [
        one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"
    ]
    assert all(one.startswith((server, "data:", "chrome")) for one in requests)
    assert browser.get_log("browser") == []


@needs_process
@needs_browser
def test_what_cannot_be_fetched_is_said_and_linked(browser: webdriver.Chrome, server: str) -> None:
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*whole=*"]})
    try:
        opened(browser, f"{server}{PAIR}")
        wait_for(browser, "document.querySelector('#questions').textContent.includes('could not be fetched')")
        assert axe_findings(browser) == []
    finally:
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    browser.find_element(By.CSS_SELECTOR, "#questions a").click()
    wait_for(browser, "document.querySelectorAll('table.queries tbody').length === 60")


@needs_process
@needs_browser
def test_what_is_printed_before_the_rest_has_come_has_the_numbers_in_its_place(
    browser: webdriver.Chrome, server: str
) -> None:
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*whole=*"]})
    try:
        opened(browser, f"{server}{PAIR}")
        wait_for(browser, "document.querySelector('#questions').textContent.includes('could not be fetched')")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        shown = browser.execute_script(
            "return [...document.querySelectorAll('main > section')].filter((one) => one.checkVisibility()).map((one) => one.id)"
        )
        assert shown == ["deltas"]
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
