"""The shipped example: a small handbook, a lexical retriever and eleven simulated evaluation nights."""

from __future__ import annotations

from pathlib import Path

BUNDLE_FOLDER = Path(__file__).parent / "bundle"
