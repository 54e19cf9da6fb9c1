"""S2: matching chunks and references to gold supports by path and heading, and folders to paths."""

from __future__ import annotations

from typing import Any

from .readings import Readings
from .rows import Row


def heading_segments(heading: Any, readings: Readings) -> list[str]:
    """S2.3, A2.3: one list of cleaned segments, whatever the delimiter spacing, markers or form."""
    if isinstance(heading, list):
        heading = " > ".join(part for part in heading if isinstance(part, str))
    if not isinstance(heading, str):
        return []
    cleaned = (clean_segment(segment, readings) for segment in heading.split(">"))
    return [segment for segment in cleaned if segment]


def clean_segment(segment: str, readings: Readings) -> str:
    segment = " ".join(segment.split())
    while readings["strip_heading_markers"] and segment.startswith("#"):
        segment = segment[1:].strip()
    return segment


def heading_matches(candidate: Any, gold: Any, readings: Readings) -> bool:
    """A2.2: the gold segments lead the candidate's; an empty gold heading stands for the whole file."""
    wanted = heading_segments(gold, readings)
    given = heading_segments(candidate, readings)
    if readings["heading_prefix"] == "string":
        return " > ".join(given).startswith(" > ".join(wanted))
    return given[: len(wanted)] == wanted


def snippets_match(candidate: Row, support: Row, readings: Readings) -> bool:
    """A2.4, A2.5: asked for only under its reading, and waived for a candidate without text."""
    snippets = support.get("snippets") or []
    text = candidate.get("text")
    if not readings["require_snippets"] or not snippets or text is None:
        return True
    found = [snippet in text for snippet in snippets]
    return all(found) if readings["snippet_rule"] == "all" else any(found)


def matches_support(candidate: Row, support: Row, readings: Readings) -> bool:
    """S2.4 for a hit or a reference: same path, heading below the gold one, snippets where asked for."""
    if support.get("rel_path") is None or candidate.get("rel_path") != support["rel_path"]:
        return False
    if not heading_matches(candidate.get("heading_path"), support.get("heading_path"), readings):
        return False
    return snippets_match(candidate, support, readings)


def matches_any(candidate: Row, supports: list[Row], readings: Readings) -> bool:
    return any(matches_support(candidate, support, readings) for support in supports)


def path_segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment not in ("", ".")]


def folder_holds(folder: str, rel_path: str | None) -> bool:
    """A2.13: whole segments, recursive; the empty folder and `.` hold everything."""
    wanted = path_segments(folder)
    return path_segments(rel_path or "")[: len(wanted)] == wanted


def is_multi_hop(golden: Row) -> bool:
    """A2.7: the flag or the category, and groups to check."""
    marked = golden.get("multi_hop") is True or golden.get("category") == "multi_hop"
    return marked and bool(golden.get("required_support_groups"))


def groups_satisfied(groups: list[list[int]], retrieved: set[int], readings: Readings) -> bool:
    """A2.6: some group complete; or one member of each; or every support that any group names."""
    if readings["support_groups"] == "every_group":
        return all(any(index in retrieved for index in group) for group in groups)
    if readings["support_groups"] == "all":
        return all(index in retrieved for group in groups for index in group)
    return any(all(index in retrieved for index in group) for group in groups)
