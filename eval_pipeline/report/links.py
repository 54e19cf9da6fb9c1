"""Where pages lead to: nowhere from a single file, to each other in a site, to a server's addresses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")
LONGEST_SLUG: Final = 80


class Links:
    """The address of a page as seen from the page that is drawn; None where there is no such page."""

    def home(self) -> str | None:
        """The list of suites and runs."""
        return None

    def run(self, run_id: str) -> str | None:
        """The page of a run."""
        return None

    def pair(self, run_a: str, run_b: str) -> str | None:
        """The page of two runs."""
        return None

    def any_pair(self) -> str | None:
        """The page of any two runs, with {a} and {b} where their ids go; None where only some pairs have one."""
        return None

    def suite(self, suite: str | None, dataset: str) -> str | None:
        """The page of a suite on a dataset."""
        return None

    def question(self, dataset: str, query_id: str) -> str | None:
        """The page of a question over all its runs."""
        return None

    def questions(self, dataset: str) -> str | None:
        """The list of a dataset's questions."""
        return None

    def formula(self, name: str) -> str | None:
        """The page of a formula, by its short name: `reciprocal_rank`."""
        return None

    def forms(self) -> Mapping[str, str]:
        """What can be asked of a server: `pair`, `search` and `sql`, each with where its form leads."""
        return {}


NO_LINKS: Final = Links()


@dataclass(frozen=True)
class SiteLinks(Links):
    """Pages as files of one folder: `pages` are there, and the drawn one lies `depth` folders deep."""

    pages: frozenset[str] = field(default_factory=frozenset)
    depth: int = 1

    def home(self) -> str | None:
        return self._to("index.html")

    def run(self, run_id: str) -> str | None:
        return self._to(_run_file(run_id))

    def pair(self, run_a: str, run_b: str) -> str | None:
        return self._to(_pair_file(run_a, run_b))

    def suite(self, suite: str | None, dataset: str) -> str | None:
        return self._to(_suite_file(suite, dataset))

    def question(self, dataset: str, query_id: str) -> str | None:
        return self._to(_question_file(dataset, query_id))

    def questions(self, dataset: str) -> str | None:
        return self._to(_questions_file(dataset))

    def formula(self, name: str) -> str | None:
        return self._to(_formula_file(name))

    def _to(self, path: str) -> str | None:
        return "../" * self.depth + path if path in self.pages else None


def _run_file(run_id: str) -> str:
    """The file of a run's page inside a site."""
    return f"runs/{_slug(run_id)}.html"


def _pair_file(run_a: str, run_b: str) -> str:
    """The file of a pair's page inside a site."""
    return f"pairs/{_slug(run_a)}..{_slug(run_b)}.html"


def _suite_file(suite: str | None, dataset: str) -> str:
    """The file of a suite's page inside a site; runs without a suite have a page of their dataset."""
    return f"suites/{_slug(suite or 'no suite')}@{_slug(dataset)}.html"


def _question_file(dataset: str, query_id: str) -> str:
    """The file of a question's page inside a site."""
    return f"questions/{_slug(dataset)}/{_slug(query_id)}.html"


def _questions_file(dataset: str) -> str:
    """The file of the list of a dataset's questions inside a site."""
    return f"questions/{_slug(dataset)}.html"


def _formula_file(name: str) -> str:
    """The file of a formula's page inside a site."""
    return f"formulas/{_slug(name)}.html"


def _slug(name: str) -> str:
    """A file's name that every host and file system takes; ids that it would confuse get a few digits of their hash."""
    plain = _PLAIN.sub("-", name).strip(".")[:LONGEST_SLUG]
    if plain == name and name == name.lower():
        return plain
    return f"{plain.lower()}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"
