"""A gate as JUnit XML, which every CI server shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.sax.saxutils import quoteattr

# What XML 1.0 cannot hold in any spelling.
_UNSPEAKABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Gate = Mapping[str, Any]


def render_gate_junit(gate: Gate) -> str:
    """One test case per rule; an inconclusive rule is skipped, or a failure where the gate is configured to fail."""
    cases = list(_cases(gate))
    failures = sum(outcome == "failure" for outcome, _, _, _ in cases)
    skipped = sum(outcome == "skipped" for outcome, _, _, _ in cases)
    name = _attribute(f"gate {gate['candidate']} against {gate['baseline']}")
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>"]
    lines.append(f"  <testsuite name={name} {counts}>")
    for outcome, group, title, reason in cases:
        head = f"    <testcase classname={_attribute(group)} name={_attribute(title)}"
        lines += (
            [f"{head} />"]
            if outcome == "passed"
            else [f"{head}>", f"      <{outcome} message={_attribute(reason)} />", "    </testcase>"]
        )
    return "\n".join([*lines, "  </testsuite>", "</testsuites>"]) + "\n"


def _cases(gate: Gate) -> Iterator[tuple[str, str, str, str]]:
    """(outcome, group, title, reason)"""
    undecided = "failure" if gate["on_inconclusive"] == "fail" else "skipped"
    outcomes = {"pass": "passed", "fail": "failure", "inconclusive": undecided}
    for problem in gate["preconditions"]:
        yield undecided, "gate.preconditions", problem, problem
    for rule in gate["rules"]:
        yield outcomes[rule["verdict"]], f"gate.{rule['kind']}", rule["label"], rule["reason"]
    if not gate["preconditions"] and not gate["rules"]:
        yield undecided, "gate", "no rule applies", "no rule applies"


def _attribute(text: str) -> str:
    return quoteattr(_UNSPEAKABLE.sub("�", text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
