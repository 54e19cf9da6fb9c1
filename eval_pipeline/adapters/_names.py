"""What runs, datasets and queries of other people's files are called."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from eval_pipeline.bundle.parts import name_fault

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.:@+-]+")
LONGEST = 100
# What the id of a query, and what was asked, are usually called, as plain names.
QUERY_IDS = (
    *(
        "queryid",
        "qid",
        "questionid",
        "sampleid",
        "exampleid",
        "testid",
        "itemid",
        "promptid",
        "traceid",
        "id",
    ),
    *("queryuid", "uid", "uuid", "testidx", "docid", "key"),
)
QUESTIONS = ("userinput", "question", "query", "input", "prompt", "vars")


def hash_of(*values: Any) -> str:
    """The id of what has none: SHA-256 over the JSON list of the values, UTF-8 unescaped, its first 32 hex digits."""
    text = json.dumps(list(values), ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()[:32]


def usable_name(text: str) -> str | None:
    """The text as a name of a run or dataset, with a dash for what no name may have; None of nothing usable."""
    name = re.sub(r"\.\.+", ".", _FORBIDDEN.sub("-", text))[:LONGEST].strip("_.:@+-")
    return name if name and name_fault(name) is None else None


def plain_name(name: str) -> str:
    """A name without case and marks."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
