"""Money: a call starts if what was spent, what is under way and its own bound fit together."""

from __future__ import annotations

from typing import Final

from eval_pipeline.evaluating.setup import Price
from eval_pipeline.words import usd

# From so many answers on it is known how many tokens a byte makes; a quarter is added to the most that was seen.
_KNOWN_FROM: Final = 20
_MARGIN: Final = 1.25


class Tokens:
    """How many tokens the requests of one judge have: at most one a byte, until answers have said more."""

    def __init__(self) -> None:
        self._seen = 0
        self._largest = 0.0

    def bound(self, request_bytes: int) -> float:
        """The most tokens of such a request."""
        return request_bytes * (1.0 if self._seen < _KNOWN_FROM else min(1.0, self._largest * _MARGIN))

    def saw(self, request_bytes: int, prompt_tokens: int) -> None:
        """An answer said how many there were."""
        self._seen += 1
        self._largest = max(self._largest, prompt_tokens / max(1, request_bytes))


class Budget:
    """At most so many USD; without a limit everything fits."""

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        self.limit, self.spent = limit, spent
        self._reserved = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way that could still turn out cheaper."""
        return self._reserved <= 1e-12

    def reserve(self, most: float) -> bool:
        """Put so much aside; False where it does not fit."""
        if self.limit is not None and self.spent + self._reserved + most > self.limit:
            return False
        self._reserved += most
        return True

    def too_little_for(self, most: float) -> str:
        """Why the next call does not start."""
        limit, left = self.limit or 0.0, max(0.0, (self.limit or 0.0) - self.spent)
        return (
            f"the next call could cost {usd(most)}, and of the budget of {limit:g} USD {usd(left)} is left: raise it "
            "(a call without a reported cost counts as the most that it could cost)"
        )

    def settle(self, reserved: float, paid: float) -> None:
        """What was put aside became this; of an answer that never came nobody knows, so it counts in full."""
        self._reserved = max(0.0, self._reserved - reserved)
        self.spent += paid


def _most_usd(price: Price | None, prompt_tokens: float, max_tokens: int) -> float:
    """What a call may cost at most."""
    return 0.0 if price is None else price.of(prompt_tokens, max_tokens)
