"""Pictures of the first screen of the example's pages, light and dark: python -m docs.build.screens [NAME…]."""

# No part of `make docs`: the bytes of a picture depend on the browser and its fonts. Needs Debian's chromium and
# chromium-driver.

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

IMAGES: Final = Path(__file__).parents[1] / "images"
PAGES: Final = {
    "report-site": "index.html",
    "report-suite": "suites/nightly@handbook.html",
    "report-run": "runs/nightly-2026-09-18.html",
    "report-pair": "pairs/nightly-2026-09-15..nightly-2026-09-16.html",
    "report-question": "questions/handbook/coffee-dose.html",
    "report-formula": "formulas/reciprocal_rank.html",
}
SCHEMES: Final = {"light": "", "dark": "-dark"}
SIZE: Final = (1280, 900)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.build.screens", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(PAGES)}; all when none is named"
    )
    wanted = parser.parse_args().names or list(PAGES)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for words in (["demo"], ["report", "--site", "site"]):
            subprocess.run([sys.executable, "-m", "eval_pipeline", *words], cwd=folder, check=True)
        browser = open_browser()
        try:
            for name in wanted:
                picture(browser, folder / "site" / PAGES[name], name)
        finally:
            browser.quit()


def open_browser() -> webdriver.Chrome:
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(switch)
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    width, height = SIZE
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    return browser


def picture(browser: webdriver.Chrome, page: Path, name: str) -> None:
    for scheme, ending in SCHEMES.items():
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.get(page.as_uri())
        path = IMAGES / f"{name}{ending}.png"
        browser.save_screenshot(str(path))
        print(f"wrote {path.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
