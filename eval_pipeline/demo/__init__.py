"""The shipped example: a small handbook, a lexical retriever, eleven simulated evaluation nights, and a live one."""

from __future__ import annotations

from pathlib import Path

BUNDLE_FOLDER = Path(__file__).parent / "bundle"
# Who is asked and who judges in the suite handbook-live.
CONFIG_FILE = Path(__file__).parent / "eval-pipeline.toml"
