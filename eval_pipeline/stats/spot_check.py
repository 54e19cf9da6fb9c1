"""Which answers are judged a second time: a seeded draw, so that it can be repeated (A2.22)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Final

SHARE: Final = 10
FEWEST: Final = 10
MOST: Final = 20


def spot_check_size(n_queries: int) -> int:
    """A tenth of the set, at least 10 and at most 20, never more than there is."""
    return min(n_queries, max(FEWEST, min(MOST, n_queries // SHARE)))


def draw_spot_check(query_ids: Sequence[str], *, seed: int, size: int | None = None) -> list[str]:
    """The ids to judge again, in the order of the set; neither that order nor a duplicate changes which ones.

    `size` is how many somebody wants; there are never more than are known.
    """
    known = sorted(set(query_ids))
    wanted = spot_check_size(len(known)) if size is None else min(size, len(known))
    drawn = set(random.Random(seed).sample(known, wanted))
    return [query_id for query_id in dict.fromkeys(query_ids) if query_id in drawn]


def seed_for(run_a: str, run_b: str, metric: str) -> int:
    """A seed for `draw_spot_check`: the same ids give the same seed in every process and on every machine.

    It fits a signed 64-bit integer, so that it can be stored. The order of the runs counts.
    """
    digest = hashlib.sha256()
    for part in (run_a, run_b, metric):
        encoded = part.encode("utf-8", errors="surrogatepass")
        # The length in front keeps ("ab", "c") apart from ("a", "bc").
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return int.from_bytes(digest.digest()[:8], "big") >> 1
