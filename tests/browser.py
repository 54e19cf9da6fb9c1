"""A real browser, shared by the tests of pages. Tests are skipped where Debian's chromium and chromium-driver are not
installed.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_core_python
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")

IS_HERE = CHROMIUM.exists() and DRIVER.exists()
REASON = (
    "SKIPPED: there is no chromium here, so the pages were not tried in a browser; "
    "`apt-get install chromium chromium-driver` changes that"
)
if not IS_HERE:
    # A skip alone is one letter among a thousand.
    warnings.warn(REASON, stacklevel=1)
IN_BROWSER = [pytest.mark.needs_process, pytest.mark.skipif(not IS_HERE, reason=REASON)]

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)

# Given as expressions to the browser's own tools, which no policy of a page holds up.
AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text("utf-8")
FINDINGS = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => JSON.stringify(
    found.violations.map((one) => [one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))])
))
"""


@contextmanager
def started_browser(folder: Path) -> Iterator[webdriver.Chrome]:
    """A browser of its own, with its profile in this folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for option in OPTIONS:
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={folder}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        driver.get("about:blank")
        yield driver
    finally:
        driver.quit()


def opened(browser: webdriver.Chrome, address: str, *, theme: str = "light", width: int = 1280) -> None:
    """Open the page as somebody with this theme and screen sees it, with the logs emptied before."""
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(address)


def axe_findings(browser: webdriver.Chrome) -> list[Any]:
    """Rule, what it asks, and where it does not hold."""
    browser.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    asked = {"expression": FINDINGS, "awaitPromise": True, "returnByValue": True}
    found: list[Any] = json.loads(browser.execute_cdp_cmd("Runtime.evaluate", asked)["result"]["value"])
    return found
