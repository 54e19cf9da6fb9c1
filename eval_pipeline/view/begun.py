"""Comparisons of which a page has shown the first screen, until the rest of it is asked for."""

from __future__ import annotations

import secrets
from threading import Lock
from typing import Final

from eval_pipeline.comparing.documents import CompareReport

# Who asks for the rest does so at once; of pages that never do no more are kept.
MOST: Final = 8


class Begun:
    """The newest few comparisons, each given out once: a page asked for again is computed anew."""

    def __init__(self) -> None:
        self._kept: dict[str, CompareReport] = {}
        self._lock = Lock()

    def keep(self, document: CompareReport) -> str:
        """The key that it is given out for."""
        key = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[key] = document
            while len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
        return key

    def take(self, key: str, runs: tuple[str, str]) -> CompareReport | None:
        """The comparison of these runs, where one is kept under this key."""
        with self._lock:
            document = self._kept.pop(key, None)
        return document if document is not None and (document.run_a, document.run_b) == runs else None
