"""Where random numbers start: seeds derived from ids, and independent streams below one seed."""

from __future__ import annotations

import hashlib
from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What random numbers are drawn for; two purposes under one seed never share a stream."""

    BOOTSTRAP = 1
    PERMUTATION = 2
    DRIFT = 3


def seed_for(run_a: str, run_b: str, metric: str) -> int:
    """The seed of one comparison: the same ids give the same seed in every process and on every machine.

    It fits a signed 64-bit integer, so that it can be stored beside the result. The order of the runs counts.
    """
    digest = hashlib.sha256()
    for part in (run_a, run_b, metric):
        encoded = part.encode("utf-8", errors="surrogatepass")
        # The length in front keeps ("ab", "c") apart from ("a", "bc").
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return int.from_bytes(digest.digest()[:8], "big") >> 1


def generator_for(seed: int, stream: Stream) -> np.random.Generator:
    """A generator that depends on nothing but the seed and what it is for."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, int(stream)))))
