"""Functions and programs that a target may be: good ones, slow ones, and some that misbehave."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def ask(row: dict[str, Any]) -> dict[str, Any]:
    print("a library that prints where answers are expected")
    number = row["query_id"][1:]
    if number == "3":
        raise ValueError("three is not known")
    if number == "4":
        os._exit(7)
    if number == "5":
        time.sleep(60)
    if number == "6":
        return {"hits_top_k": [{"chunk_id": 1}], "answer": 5}
    hits = [{"chunk_id": f"c{number}", "doc_id": "d", "text": "some text"}]
    return {"hits_top_k": hits, "answer": {"text": f"It is {number}.", "abstained": False}}


def main() -> None:
    """As a command: a line in, a line out, in whatever disorder."""
    for line in sys.stdin:
        row = json.loads(line)
        print("not JSON")
        print(json.dumps({"query_id": "q-of-somebody-else", "answer": {"text": "wrong"}}))
        print(json.dumps({"query_id": row["query_id"], "answer": {"text": f"Said {row['query']}"}}))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
