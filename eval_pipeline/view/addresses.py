"""Where its pages lead to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from eval_pipeline.report.links import Links

HOST: Final = "127.0.0.1"
# Where nobody asks for another one.
PORT: Final = 3001
PAIR: Final = "/pair"
SEARCH: Final = "/search"
SQL: Final = "/sql"


@dataclass(frozen=True)
class ServerLinks(Links):
    """Every page is there, because it is drawn when it is asked for."""

    def home(self) -> str | None:
        return "/"

    def run(self, run_id: str) -> str | None:
        return _address("/run", id=run_id)

    def pair(self, run_a: str, run_b: str) -> str | None:
        return _address(PAIR, a=run_a, b=run_b)

    def whole_pair(self, run_a: str, run_b: str, key: str) -> str:
        """The page of two runs all at once; the server may know their comparison by this key."""
        return _address(PAIR, a=run_a, b=run_b, whole=key)

    def any_pair(self) -> str | None:
        return f"{PAIR}?a={{a}}&b={{b}}"

    def suite(self, suite: str | None, dataset: str) -> str | None:
        named = {} if suite is None else {"suite": suite}
        return _address("/suite", **named, dataset=dataset)

    def question(self, dataset: str, query_id: str) -> str | None:
        return _address("/question", dataset=dataset, id=query_id)

    def questions(self, dataset: str) -> str | None:
        return _address("/questions", dataset=dataset)

    def formula(self, name: str) -> str | None:
        return _address("/formula", name=name)

    def forms(self) -> Mapping[str, str]:
        return {"pair": PAIR, "search": SEARCH, "sql": SQL}


def _address(path: str, **asked: str) -> str:
    return f"{path}?{urlencode(asked)}"


def run_link(run_id: str) -> str:
    """For who looks at a run somewhere else, as Markdown."""
    return _link(ServerLinks().run(run_id), "this run")


def pair_link(run_a: str, run_b: str) -> str:
    """For who looks at two runs somewhere else, as Markdown."""
    return _link(ServerLinks().pair(run_a, run_b), "these two runs")


def _link(address: str | None, words: str) -> str:
    return f"[{words}](http://{HOST}:{PORT}{address}), while `eval-pipeline view` runs"
