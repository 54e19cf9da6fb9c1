"""What makes two requests the same: a hash of all that could change the answer, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> bytes:
    """JSON in one form: sorted names, no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", errors="surrogatepass")


def _request_hash(
    identity: str,
    body: Any,
    *,
    season: str | None,
    repeat: int,
    purpose: str | None = None,
    run: str | None = None,
) -> str:
    """64 hex digits. No key, header or time is part of it; targets and what must really be asked anew name the run."""
    said = {"identity": identity, "body": body, "season": season, "repeat": repeat}
    said |= {name: one for name, one in (("purpose", purpose), ("run", run)) if one is not None}
    return hashlib.sha256(canonical(said)).hexdigest()
