"""Pictures of Dagster's web interface on the example: python -m docs.build.dagster_screens."""

# No part of `make docs`, as the other pictures. The formula is changed while the sensor only plans, so that the check
# stands there; then `apply` computes it.

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from docs.build.screens import IMAGES, open_browser

CHANGE: Final = '[formulas.reciprocal_rank]\ncutoff = 3\n\n[dagster]\nstale_metrics = "plan"\n'
CONFIG: Final = """\
ops:
  tables:
    config:
      only_stale: true
      reasons: [formula, parent]
      note: only three are shown
"""
RANK: Final = "/assets/metrics/reciprocal_rank"
RUN_METRICS: Final = "/assets/aggregates/run_metrics?view=overview"
LAUNCHPAD: Final = "/locations/__repository__@eval_pipeline.definitions/jobs/recompute_stale/playground"
PARTITION: Final = f"{RANK}?view=partitions&partition=nightly-2026-09-18"
# A page is there when this text is; its rows come a little later.
SECONDS: Final = 120
SETTLED_SECONDS: Final = 4
LOADING: Final = "Loading"


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        call(folder, "demo")
        (folder / "eval-pipeline.toml").write_text(CHANGE, "utf-8")
        browser = open_browser()
        try:
            with web_interface(folder) as address:
                take(browser, f"{address}{RANK}?view=checks", "its formula changed", "dagster-check")
                take(browser, f"{address}{RANK}?view=lineage", "chunk_ranks", "dagster-lineage")
                take(browser, f"{address}{LAUNCHPAD}", "Launch Run", "dagster-launchpad", config=CONFIG)
                take(browser, f"{address}{RUN_METRICS}", "Plots", "dagster-plots", click="Plots")
                call(folder, "apply", "--reason", "only three are shown")
                take(browser, f"{address}{PARTITION}", "its formula changed", "dagster-formula-changed")
        finally:
            browser.quit()


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "DAGSTER_HOME": str(folder / "dagster_home")}


def call(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "eval_pipeline", *words]
    subprocess.run(command, cwd=folder, env=environment(folder), check=True)


@contextmanager
def web_interface(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "eval_pipeline", "ui", "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, env=environment(folder))
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(f"{address}/server_info")
        yield address
    finally:
        process.terminate()
        process.wait(60)


def wait_for(address: str) -> None:
    until = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def take(
    browser: webdriver.Chrome,
    address: str,
    text: str,
    name: str,
    *,
    config: str | None = None,
    click: str | None = None,
) -> None:
    browser.get(address)
    body = (By.TAG_NAME, "body")
    WebDriverWait(browser, SECONDS).until(
        lambda page: text in (shown := page.find_element(*body).text) and LOADING not in shown
    )
    if config:
        browser.execute_script(
            "document.querySelector('.CodeMirror').CodeMirror.setValue(arguments[0])", config
        )
    if click:
        button = browser.find_element(By.XPATH, f"//button[.//*[text()='{click}']]")
        browser.execute_script("arguments[0].click(); arguments[0].scrollIntoView()", button)
    time.sleep(SETTLED_SECONDS)
    path = IMAGES / f"{name}.png"
    browser.save_screenshot(str(path))
    print(f"wrote {path.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
