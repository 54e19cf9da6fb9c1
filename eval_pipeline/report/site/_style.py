"""What pages of a site have beside the style of all pages."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def site_style() -> str:
    """Forms, and texts that are shown as they are."""
    return Path(__file__).with_name("site.css").read_text("utf-8")
