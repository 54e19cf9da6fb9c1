"""Which runs are compared, in which order, and what a comparison and a gate print about them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.bundle_files import hits
from tests.situations.desk import Desk

SHIPS = (
    "facts.chunk_ranks",
    "facts.found_chunks",
    "facts.outcomes",
    "metrics.hit_at_k",
    "metrics.reciprocal_rank",
    "metrics.latency",
    "metrics.failures",
    "metrics.scores",
    "aggregates.run_metrics",
    "aggregates.latency_summary",
)
QUERIES = 40


def golden(n: int = QUERIES) -> list[dict[str, Any]]:
    return [
        {"query_id": f"q{i}", "query": f"Question {i}?", "expected_chunk_ids": [f"d{i}/1"]} for i in range(n)
    ]


def results(found: int, *, n: int = QUERIES, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    """The first `found` queries find their chunk."""
    return [
        {"query_id": f"q{i}", "hits_top_k": hits(f"d{i}/1" if i < found else f"x{i}/1"), **more}
        for i in range(first, n)
    ]


def trec(tag: str, found: int) -> str:
    return "".join(f"q{i} Q0 {f'd{i}/1' if i < found else f'x{i}/1'} 1 9.5 {tag}\n" for i in range(QUERIES))


def test_arguments_of_load_are_in_time_order(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    desk.text("before.run", trec("before", found=10))
    desk.text("after.run", trec("after", found=30))
    desk.must("load", "before.run", "after.run", "--dataset", "kb")
    desk.load()
    report = desk.must("compare", "--json").json
    assert (report["run_a"], report["run_b"]) == ("before", "after")
    assert desk("gate").code != 1


def test_runs_of_one_file_are_in_time_order(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    desk.text("both.run", trec("zero", found=10) + trec("one", found=30))
    desk.must("load", "both.run", "--dataset", "kb")
    desk.load()
    report = desk.must("compare", "--json").json
    assert [run.removeprefix("both.") for run in (report["run_a"], report["run_b"])] == ["zero", "one"]


def test_bundles_with_the_same_time_are_in_the_order_of_arguments(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    for run_id, found in (("before", 10), ("after", 30)):
        desk.run(run_id, results(found), bundle=run_id, created_at="2026-09-01T06:00:00Z")
    desk.must("load", "before", "after")
    desk.load()
    report = desk.must("compare", "--json").json
    assert (report["run_a"], report["run_b"]) == ("before", "after")


def test_the_order_of_arguments_survives_a_rebuild(desk: Desk) -> None:
    desk.golden(golden())
    desk.load()
    for run_id, found in (("before", 10), ("after", 30)):
        desk.run(run_id, results(found), bundle=run_id)
    desk.must("load", "before", "after")
    desk.must("rebuild", "--yes")
    desk.load()
    report = desk.must("compare", "--json").json
    assert (report["run_a"], report["run_b"]) == ("before", "after")


@pytest.mark.parametrize(
    "times", [{}, {"created_at": "2026-09-01T06:00:00Z"}], ids=["one bundle", "two loads"]
)
def test_runs_whose_order_is_unknown_are_not_compared_by_name(desk: Desk, times: dict[str, str]) -> None:
    desk.golden(golden())
    for run_id, found in (("before", 10), ("after", 30)):
        desk.run(run_id, results(found), **times)
        if times:
            desk.load()
    desk.load()
    for command in ("compare", "gate"):
        output = desk(command)
        assert output.code == 5
        assert "before" in output.text and "after" in output.text and "--created-at" in output.text
    assert desk.must("compare", "before", "after", "--json").json["run_a"] == "before"


@pytest.fixture(scope="module")
def unlike(shared_desk: Desk) -> Desk:
    """Run a answers all 60 queries and finds 18, run b answers 45 of them and finds the same 18."""
    shared_desk.golden(golden(60))
    shared_desk.run("a", results(18, n=60), created_at="2026-09-01T06:00:00Z")
    shared_desk.run("b", results(18, n=45), created_at="2026-09-02T06:00:00Z")
    shared_desk.load()
    return shared_desk


def row_of(output: str, name: str) -> list[float]:
    """The three numbers after the name of a rule or metric."""
    number = r"([+−]?[\d.]+)"
    found = re.search(rf"{re.escape(name)}\W+{number}\s+{number}\s+[▲▼]?\s*{number}", output)
    assert found, output
    return [float(text.replace("−", "-")) for text in found.groups()]


def test_the_printed_change_is_b_minus_a(unlike: Desk) -> None:
    # Over the 45 common queries each run finds 18: 0.4 and 0.4, not 18 of 60.
    assert row_of(unlike.must("compare", "a", "b").stdout, "hit@5") == [0.4, 0.4, 0.0]
    report = unlike.must("compare", "a", "b", "--json").json
    assert (report["aggregate_a"]["hit@5"], report["aggregate_b"]["hit@5"]) == (0.3, 0.4)


def test_the_page_of_two_runs_shows_the_values_that_the_change_is_of(unlike: Desk) -> None:
    unlike.must("compare", "a", "b", "--format", "md", "--output", "pair.md")
    text = (unlike.folder / "pair.md").read_text("utf-8")
    cells = [
        cell.strip() for cell in next(line for line in text.splitlines() if "| hit@5 " in line).split("|")
    ]
    assert cells[3:6] == ["0.4000", "0.4000", "0.0000"]


def test_compare_and_gate_print_the_same_numbers(unlike: Desk) -> None:
    unlike.text("gate.toml", "[gate]\npresence = 0.5\n")
    gate = unlike("gate", "b", "--baseline", "a", "--config", "gate.toml").stdout
    assert row_of(gate, "hit@5") == row_of(unlike.must("compare", "a", "b").stdout, "hit@5")


# The load of the machine: all queries of a run take this much longer.
LOADS = (1.0, 1.12, 0.95, 1.2, 1.04, 0.9, 1.12, 0.97)
SYSTEM = {"commit_hash": "1" * 40, "config": {"top_k": 10}, "suite": "nightly"}


def timed(load: float, found: int = 20, **more: Any) -> list[dict[str, Any]]:
    rows = results(found, **more)
    return [row | {"latency_ms": {"total": (100 + 7 * i) * load}} for i, row in enumerate(rows)]


@pytest.fixture(scope="module")
def nightly(shared_desk: Desk) -> Desk:
    """Eight runs of one system, then a run that takes three times as long and finds more."""
    shared_desk.golden(golden(), bundle="nights", dataset="nights")
    for night, load in enumerate(LOADS, start=1):
        made = {"created_at": f"2026-09-{night:02}T06:00:00Z", "dataset": "nights", **SYSTEM}
        shared_desk.run(f"n{night}", timed(load), bundle="nights", **made)
    changed = {"created_at": "2026-09-09T06:00:00Z", "dataset": "nights", **SYSTEM, "commit_hash": "2" * 40}
    shared_desk.run("slow", timed(3.0, found=36), bundle="nights", **changed)
    shared_desk.load("nights")
    return shared_desk


def sentence_of(output: str) -> list[str]:
    """The lines of the verdict: after the title, before the line about latency or trust."""
    lines = output.splitlines()[1:]
    return lines[: next(i for i, line in enumerate(lines) if line.startswith(("Latency:", "trust:")))]


def test_runs_of_one_system_are_not_better_or_worse_by_the_load_of_the_machine(nightly: Desk) -> None:
    for night in range(1, len(LOADS)):
        output = nightly.must("compare", f"n{night}", f"n{night + 1}").stdout
        assert " ".join(sentence_of(output)).startswith("No significant change.")
        assert "latency" not in " ".join(sentence_of(output))
        assert "better," not in output and "worse," not in output


def test_quality_comes_first_and_latency_has_a_line_of_its_own(nightly: Desk) -> None:
    output = nightly.must("compare", "n8", "slow").stdout
    assert sentence_of(output)[0].startswith("Better: hit@5 0.50 → 0.90")
    latency = next(line for line in output.splitlines() if line.startswith("Latency:"))
    assert "; worse" in latency


def test_latency_has_no_verdict_while_the_spread_between_runs_is_unknown(nightly: Desk) -> None:
    output = nightly.must("compare", "n1", "n2")
    assert "no verdict: too few earlier runs of one configuration" in output.text
    parts = nightly.must("compare", "n1", "n2", "--json").json["parts"]
    assert (parts["latency_mean_ms"]["verdict"], parts["latency_mean_ms"]["p_value"]) == (None, None)


def test_the_verdict_starts_with_one_word_and_takes_two_lines(nightly: Desk) -> None:
    lines = sentence_of(nightly.must("compare", "n8", "slow").stdout)
    text = " ".join(" ".join(lines).split())
    assert len(lines) <= 2 and max(map(len, lines)) <= 100
    assert re.fullmatch(
        r"Better: .*\. Nothing else changed significantly; smallest detectable change: error_rate ±\d\.\d+ "
        r"\(details\)\.",
        text,
    )
    assert re.search(
        r"^No significant change\. Smallest detectable change: hit@5 ±0\.\d\d \(details\)\.$",
        " ".join(" ".join(sentence_of(nightly.must("compare", "n3", "n4").stdout)).split()),
    )


def test_small_units_are_shown_with_four_significant_digits(desk: Desk) -> None:
    desk.golden(golden())
    for run_id, usd in (("before", 0.0001234), ("after", 0.0001466)):
        rows = [row | {"scores": {"usd": usd * (1 + i / 1000)}} for i, row in enumerate(results(20))]
        desk.run(run_id, rows, created_at=f"2026-09-0{1 + (run_id == 'after')}T06:00:00Z")
    desk.load()
    # The mean factor of 40 queries is 1 + 19.5 / 1000.
    a, b = round(0.0001234 * 1.0195, 7), round(0.0001466 * 1.0195, 7)
    desk.must("compare", "before", "after", "--format", "md", "--output", "pair.md")
    line = next(
        line for line in (desk.folder / "pair.md").read_text("utf-8").splitlines() if "| scores.usd" in line
    )
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[3:6] == [f"{a:.7f}", f"{b:.7f}", f"+{b - a:.7f}"]


@pytest.fixture(scope="module")
def collapsed(shared_desk: Desk) -> Desk:
    """A run that finds 38 of 40 chunks, then one that finds 10; neither has an error."""
    shared_desk.golden(golden(), bundle="collapse", dataset="collapse")
    for night, (run_id, found) in enumerate((("good", 38), ("bad", 10)), start=1):
        made = {"created_at": f"2026-09-0{night}T06:00:00Z", "dataset": "collapse"}
        shared_desk.run(run_id, results(found), bundle="collapse", **made)
    shared_desk.load("collapse")
    return shared_desk


def test_the_reason_of_a_gate_rule_names_the_margin_that_was_used(collapsed: Desk) -> None:
    output = collapsed("gate", "bad", "--baseline", "good", "--json")
    (rule,) = [rule for rule in output.json["rules"] if rule["metric"] == "hit@5"]
    assert (output.code, rule["verdict"]) == (1, "fail")
    # Before, the row showed the margin 0.05 and its reason "more than 0.02".
    assert re.search(rf"more than (the margin of )?{rule['margin']:g}\b", rule["reason"])


def test_a_written_rule_does_not_switch_the_default_rules_off(collapsed: Desk) -> None:
    written = '[[gate.rules]]\nmetric = "error_rate"\nmargin = 0.5\n'
    collapsed.text("more.toml", written)
    collapsed.text("alone.toml", f"[gate]\ndefaults = false\n{written}")
    command = ("gate", "bad", "--baseline", "good", "--config")
    assert collapsed(*command, "more.toml").code == 1
    assert collapsed(*command, "alone.toml").code == 0


def test_a_run_that_retrieves_only_irrelevant_judged_chunks_is_worse(desk: Desk) -> None:
    queries = [f"q{number}" for number in range(40)]
    desk.lines(
        "qrels.txt", [line for query in queries for line in (f"{query} 0 leave 1", f"{query} 0 travel 0")]
    )
    desk.lines("old.run", [f"{query} Q0 leave 1 1.0 old" for query in queries])
    desk.lines("new.run", [f"{query} Q0 travel 1 1.0 new" for query in queries])
    assert desk("compare", "old.run", "new.run", "--labels", "qrels.txt").text.count("Worse:") == 1
    assert desk("gate", "new.run", "--baseline", "old.run", "--labels", "qrels.txt").code == 1
