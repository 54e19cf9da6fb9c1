"""The fingerprint of a definition: it moves exactly when the meaning can."""

# In: every meaningful token of the body, the values of the parameters, `applies`, `undefined`, `aggregate`, the helpers
# it calls and, for the full fingerprint, the definitions it reads. Out: comments, layout, keyword case, descriptions,
# examples, range, scale, direction, the version number.

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from eval_pipeline.formulas.header import Header
from eval_pipeline.formulas.tokens import canonical

RECIPE = "fp1"
LENGTH = 24


def own_fingerprint(header: Header, canonical_body: str, helpers: Iterable[tuple[str, str]]) -> str:
    """What the definition itself says, with the helpers it calls."""
    return _digest(
        {
            "body": canonical_body,
            "parameters": dict(header.parameters),
            "applies": canonical(header.applies) if header.applies else None,
            "undefined": " ".join(header.undefined.split()) if header.undefined else None,
            "aggregate": canonical(header.aggregate),
            "helpers": sorted(helpers),
        }
    )


def _full_fingerprint(own: str, read: Mapping[str, str]) -> str:
    """The definition with the meaning of everything it reads."""
    return _digest({"own": own, "reads": sorted(read.items())})


def _helper_fingerprint(header: Header, body: str, helpers: Iterable[tuple[str, str]]) -> str:
    """A helper's meaning: its arguments, its expression, and the helpers it calls in turn."""
    return _digest({"arguments": list(header.arguments), "body": canonical(body), "helpers": sorted(helpers)})


def combined(*parts: str) -> str:
    """One fingerprint for several that only matter together."""
    return _digest({"parts": list(parts)})


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{RECIPE}:{hashlib.sha256(text.encode()).hexdigest()[:LENGTH]}"
