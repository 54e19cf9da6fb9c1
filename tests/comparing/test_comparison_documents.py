"""Comparisons and gates as Markdown and JUnit, and on the command line."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner
from msgspec import structs

from eval_pipeline.cli import kb
from eval_pipeline.cli.compare_table import print_comparison
from eval_pipeline.cli.main import cli
from eval_pipeline.comparing.documents import CompareReport, GateReport, QueryVerdict
from eval_pipeline.documents import as_json
from eval_pipeline.report.markdown import (
    escaped,
    render_gate_junit,
    render_gate_md,
    render_report_md,
    render_short_md,
)
from tests.bundle_files import write_archive
from tests.comparing.pairs_of_runs import answered, compared, expecting_one, ranked, store_of

AWKWARD = "a|b\\c\n<i>d & &lt;"
GOLDEN = [
    *expecting_one(12),
    {"query_id": AWKWARD, "expected_chunk_ids": ["doc/1", "doc/|2"], "expected_doc_ids": ["doc"]},
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    span = [{"start": 0, "end": 100}]
    write_archive(folder / "bundle", "v1", [{"chunk_id": "doc/1", "doc_id": "doc", "source_spans": span}])
    good = {row["query_id"]: answered(True) for row in GOLDEN}
    good[AWKWARD] = ranked("doc/|2", "doc/1")
    bad = {row["query_id"]: answered(False) for row in GOLDEN}
    return store_of(
        folder,
        GOLDEN,
        {"run-a": good, "run-b": bad, "run-c": good},
        config={"run-c": {"chunker_version": "v2"}},
    )


@pytest.fixture(scope="module")
def document(settings):
    return compared(settings)


def cells(line: str) -> list[str]:
    """A table row's cells as a Markdown reader splits them: at pipes that nothing escapes."""
    return [cell.strip() for cell in re.findall(r"(?:\\.|[^|\\])+", line.strip("|"))]


def run(settings, *words: str):
    return CliRunner().invoke(cli, [*words, "--db", str(settings.db)])


def test_the_markdown_has_the_deltas_and_every_win_loss_and_regression(document) -> None:
    text = render_report_md(document)
    assert text.startswith("# run-b against run-a\n")
    assert "| hit@1 |  | 1.0000 | 0.0000 | −1.0000 |" in text
    losses = [line for line in text.splitlines() if "loss, regression" in line]
    assert len(losses) == 13
    assert "## Wins, losses, regressions" in text and "matched by chunk id" in text
    assert text.endswith("\n") and "\n\n\n" not in text


def test_no_query_or_chunk_id_breaks_the_table(document) -> None:
    (line,) = [
        line
        for line in render_report_md(document).splitlines()
        if "loss, regression" in line and "a\\|b" in line
    ]
    assert cells(line)[:5] == [
        "a\\|b\\\\c↵&lt;i>d & &amp;lt;",
        "loss, regression",
        "1",
        "—",
        "doc/1, doc/\\|2",
    ]


def test_escaped_text_keeps_every_kind_of_line_break_out() -> None:
    assert escaped("a\r\nb\u2028c\x0bd\x85e") == "a↵↵b↵c↵d↵e"
    assert escaped("plain_id-1.md") == "plain_id-1.md"


def test_escaped_text_is_no_link_no_picture_and_no_emphasis() -> None:
    assert escaped("![i](x)") == r"!\[i\](x)"
    assert escaped("*b* ~~s~~ `c` _u_") == r"\*b\* \~\~s\~\~ \`c\` \_u\_"


def test_escaped_text_shows_what_would_steer_a_terminal() -> None:
    assert escaped("a\x1b]0;title\x07\u202eb") == r"a␛\]0;title␇⟨U+202E⟩b"


def test_the_markdown_of_two_chunkers_shows_the_fallback_and_its_thresholds(settings) -> None:
    text = render_report_md(compared(settings, "run-a", "run-c"))
    assert "matched by document and span" in text and "## By document and span" in text
    assert "| 25% |" in text and "| 75% |" in text
    assert "\\* Not to be taken at face value: the runs are of chunkers" in text


def test_json_on_standard_output_is_one_document_and_always_the_same_bytes(settings, document) -> None:
    results = [
        run(settings, "compare", "run-a", "run-b", *words) for words in (["--format", "json"], ["--json"])
    ]
    assert [result.exit_code for result in results] == [0, 0]
    assert json.loads(results[0].stdout) == as_json(document)
    assert results[0].stdout == results[1].stdout


def test_the_table_fits_80_columns_and_says_what_to_run_next(settings) -> None:
    result = run(settings, "compare", "run-a", "run-b")
    assert result.exit_code == 0
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "eval-pipeline gate run-b --baseline run-a" in result.stdout
    assert "−1.0000" in result.stdout and "p adj." in result.stdout
    table = result.stdout.split("lost chunk")[1].split("… of 13 that moved; left out: 3 loss")[0]
    assert table.count("loss") == 10


@pytest.mark.parametrize(
    ("name", "opening"), [("c.md", "# run-b"), ("c.html", "<!doctype html"), ("c.txt", "run-b against")]
)
def test_the_suffix_of_the_file_chooses_the_format(settings, tmp_path, name, opening) -> None:
    target = tmp_path / "new" / name
    result = run(settings, "compare", "run-a", "run-b", "--output", str(target))
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"wrote {target}" in result.stderr
    assert target.read_text("utf-8").lower().startswith(opening)


def test_strict_mode_refuses_with_5_and_writes_nothing(settings, tmp_path) -> None:
    target = tmp_path / "refused.md"
    words = ["compare", "run-a", "run-c", "--strict-chunker-version", "--output", str(target)]
    result = CliRunner().invoke(cli, [*words, "--db", str(settings.db)])
    assert result.exit_code != 0 and result.exception is not None
    assert getattr(result.exception, "exit_code", None) == 5
    assert not target.exists() and result.stdout == ""


def as_kb(settings, capsys, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `kb eval …`, as somebody at a terminal gets them."""
    with pytest.raises(SystemExit) as left:
        kb.main(["eval", *words, "--db", str(settings.db)])
    return int(left.value.code or 0), *capsys.readouterr()


def test_in_the_words_of_a_knowledge_base_the_same_command_answers(settings, document, capsys) -> None:
    code, printed, _ = as_kb(settings, capsys, "compare", "run-a", "run-b", "--json")
    assert (code, json.loads(printed)) == (0, as_json(document))
    code, printed, said = as_kb(settings, capsys, "compare", "run-a", "run-c", "--strict-chunker-version")
    assert (code, printed) == (5, "") and "v1" in said and "v2" in said
    code, printed, _ = as_kb(settings, capsys, "metrics", "mrr", "--json")
    assert (code, printed) == (0, run(settings, "metrics", "mrr", "--json").stdout)


def test_a_command_that_a_knowledge_base_has_no_word_for_is_wrong_usage(settings, capsys) -> None:
    code, _, said = as_kb(settings, capsys, "comapre", "run-a", "run-b")
    assert code == 2 and "Did you mean compare?" in said


def test_contradicting_formats_are_wrong_usage(settings) -> None:
    assert run(settings, "compare", "run-a", "run-b", "--json", "--format", "md").exit_code == 2


@pytest.mark.parametrize(
    ("candidate", "minimum_n", "code", "verdict"),
    [("run-b", 10, 1, "fail"), ("run-a", 5, 0, "pass"), ("run-a", 500, 4, "inconclusive")],
)
def test_the_gates_exit_code_is_its_verdict(settings, tmp_path, candidate, minimum_n, code, verdict) -> None:
    config = tmp_path / "gate.toml"
    config.write_text(
        f'[gate]\ndefaults = false\n[[gate.rules]]\nmetric = "hit@5"\nminimum_n = {minimum_n}\n'
    )
    baseline = "run-a" if candidate == "run-b" else "run-b"
    result = run(settings, "gate", candidate, "--baseline", baseline, "--config", str(config), "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["verdict"] == verdict


def test_an_inconclusive_gate_can_be_made_to_fail(settings, tmp_path) -> None:
    config = tmp_path / "gate.toml"
    text = '[gate]\ndefaults = false\non_inconclusive = "fail"\n[[gate.rules]]\nmetric = "scope_miss_rate"\n'
    config.write_text(text)
    words = ["gate", "run-b", "--baseline", "run-a", "--config", str(config), "--format", "junit"]
    result = run(settings, *words)
    assert result.exit_code == 1
    assert ElementTree.fromstring(result.stdout).get("failures") == "1"


def test_a_gates_table_fits_80_columns(settings) -> None:
    result = run(settings, "gate", "run-b", "--baseline", "run-a")
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


GATE = {
    "verdict": "fail",
    "candidate": "b",
    "baseline": "a",
    "preconditions": [],
    "skipped": ["mrr: undefined in both runs"],
    "notes": [],
    "evidence": "test",
    "on_inconclusive": "warn",
    "rules": [
        {
            "metric": "hit@5",
            "verdict": verdict,
            "label": f"hit@5 [tag=x|{verdict}\x01]",
            "kind": "change",
            "baseline": 0.8,
            "candidate": None,
            "delta": -0.1,
            "margin": 0.02,
            "p_adjusted": 0.0001,
            "ci_low": None,
            "reason": 'worse <than> "0.02"\nby far',
            "n": 40,
            **dict.fromkeys(("ci_high", "p_value", "slice", "slice_value")),
        }
        for verdict in ("pass", "fail", "inconclusive")
    ],
}


def verdict_of(document: dict[str, object]) -> GateReport:
    return msgspec.convert(document, GateReport)


# What Jenkins' junit-10.xsd allows: attributes (those that have to be there in upper case) and children, by element.
JENKINS = {
    "testsuites": ("name time tests failures errors", "testsuite"),
    "testsuite": (
        "NAME TESTS FAILURES ERRORS group time skipped timestamp hostname id package file log url",
        "testsuite properties testcase system-out system-err",
    ),
    "properties": ("", "property"),
    "property": ("NAME VALUE", ""),
    "testcase": (
        "NAME time classname group",
        "skipped error failure rerunFailure rerunError flakyFailure flakyError system-out system-err",
    ),
    **dict.fromkeys(("failure", "error", "skipped"), ("type message", "")),
}


def faults_of(element: ElementTree.Element) -> list[str]:
    """Where an element says what the schema does not know, or leaves out what it asks for."""
    attributes, children = (words.split() for words in JENKINS[element.tag])
    faults = [
        f"{element.tag} has {name}" for name in element.attrib if name not in map(str.lower, attributes)
    ]
    faults += [
        f"{element.tag} lacks {one}"
        for one in attributes
        if one.isupper() and one.lower() not in element.attrib
    ]
    for child in element:
        faults += faults_of(child) if child.tag in children else [f"{element.tag} holds {child.tag}"]
    return faults


@pytest.mark.parametrize("preconditions", [[], ["another judge", "too few <queries>"]])
@pytest.mark.parametrize("on_inconclusive", ["warn", "fail"])
def test_jenkins_takes_the_junit_of_a_gate(preconditions, on_inconclusive) -> None:
    gate = verdict_of({**GATE, "preconditions": preconditions, "on_inconclusive": on_inconclusive})
    assert faults_of(ElementTree.fromstring(render_gate_junit(gate))) == []


def test_junit_is_xml_with_a_case_per_rule() -> None:
    root = ElementTree.fromstring(render_gate_junit(verdict_of(GATE)))
    (suite,) = root
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    cases = root.findall("./testsuite/testcase")
    assert [len(case) for case in cases] == [0, 1, 1]
    assert cases[1][0].tag == "failure" and cases[1][0].get("message") == 'worse <than> "0.02"\nby far'
    assert cases[2][0].tag == "skipped"


def test_what_does_not_hold_before_any_rule_is_one_skipped_case() -> None:
    problems = ["another judge", "the candidate answered 3 of 40 golden queries"]
    gate = verdict_of({**GATE, "rules": [], "verdict": "inconclusive", "preconditions": problems})
    root = ElementTree.fromstring(render_gate_junit(gate))
    (case,) = root.iter("testcase")
    assert case[0].tag == "skipped" and (case[0].get("message") or "").splitlines() == problems
    assert "- another judge" in render_gate_md(gate)


def test_a_test_of_the_gate_is_called_the_same_every_night() -> None:
    """A server follows a test by its name: neither run ids nor counts of nights may be in it."""
    drift = {**GATE["rules"][0], "kind": "drift"}

    def names(candidate: str, nights: int) -> list[tuple[str | None, ...]]:
        rule = {**drift, "label": f"hit@5 over {nights} nights", "reason": f"{nights} nights"}
        changed = {"candidate": candidate, "rules": [rule], "preconditions": [f"{nights} answered"]}
        root = ElementTree.fromstring(render_gate_junit(verdict_of({**GATE, **changed})))
        return [(one.get("name"), one.get("classname")) for one in root.iter() if one.tag.startswith("test")]

    assert names("monday", 3) == names("tuesday", 4)


def test_a_gate_in_markdown_names_every_rule_that_says_something() -> None:
    text = render_gate_md(verdict_of(GATE))
    assert text.startswith("# Gate: fail\n")
    rows = [line for line in text.splitlines() if "hit@5" in line]
    assert len(rows) == 3 and all(len(cells(row)) == 8 for row in rows)
    assert "Not judged: mrr: undefined in both runs." in text


def verdict(query_id: str, kind: str, a: int | None, b: int | None, *lost: str) -> QueryVerdict:
    return QueryVerdict(
        query_id=query_id,
        kind=kind,
        regression=bool(lost),
        regressed_chunk_ids=list(lost),
        a_hit_rank=a,
        b_hit_rank=b,
        note=None,
    )


@pytest.fixture(scope="module")
def many_moves(document) -> CompareReport:
    """Nine ranks that moved farther than any loss or win."""
    moves = [verdict(f"down-{n}", "rank_down", 1, 3) for n in range(9)]
    moves += [verdict(f"won-{n}", "win", None, 8) for n in range(7)]
    moves += [verdict("half", "draw", 1, 1, "doc/2"), verdict("far", "loss", 9, None, "doc/1")]
    moves += [verdict(f"lost-{n}", "loss", 4, None, "doc/1") for n in range(3)]
    return structs.replace(document, per_query=moves)


def test_ten_lines_show_every_loss_and_win_before_a_change_of_rank(many_moves, capsys) -> None:
    print_comparison(many_moves)
    lines = capsys.readouterr().out.partition("lost chunk")[2].splitlines()[2:13]
    wanted = ["lost-0", "lost-1", "lost-2", "far", "half", *(f"won-{n}" for n in range(5))]
    assert [line.split()[0] for line in lines[:10]] == wanted
    assert lines[10] == "… of 21 that moved; left out: 2 win, 9 rank down (--format md lists them all)"
    short = render_short_md(many_moves)
    assert re.findall(r"^\| ([a-z]+(?:-\d)?) \| (?:loss|draw|win) ", short, re.MULTILINE) == wanted
    assert "… of 21 that moved; left out: 2 win, 9 rank down." in short
