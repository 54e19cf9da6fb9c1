"""A gate over stored runs: pass, fail, inconclusive, and why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing.gate import gate
from eval_pipeline.documents import as_json
from eval_pipeline.errors import InvalidConfig, UnknownName, UsageError
from eval_pipeline.settings import Settings
from tests.bundle_files import compute, load, write_golden, write_lines, write_run
from tests.comparing.pairs_of_runs import answered, copied, expecting_one, ranked, store_of
from tests.projects import project_of

N = 100
NIGHTS = 16


def results(lost: int = 0, *, n: int = N, **rest: Any) -> dict[str, Any]:
    """All chunks found but the first few."""
    return {f"q{number:04}": answered(number >= lost, **rest) for number in range(n)}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gates")
    golden = [
        {**row, "category": "easy" if number < 40 else "hard"} for number, row in enumerate(expecting_one(N))
    ]
    judged = {"answer": {"text": "x"}, "judge": {"groundedness": {"score": 4}}}
    bundle = folder / "bundle"
    for run_id, cases in (("extracted", [1, 1, 0]), ("extracted-well", [1] * 10)):
        write_lines(
            bundle / "runs" / run_id / "extractions.jsonl",
            [
                {"case_id": f"c{number}", "ground_truth": {"a": 1}, "extracted": {"a": value}}
                for number, value in enumerate(cases)
            ],
        )
    return store_of(
        folder,
        golden,
        {
            "base": results(),
            "same": results(),
            "worse": results(20),
            "slightly-worse": results(3),
            "incomplete": results(n=90),
            "other-chunker": results(30),
            "judged": results(**judged),
            "judged-otherwise": results(**judged),
            "unjudged": results(),
            "hardly-judged": {**results(), **results(n=40, **judged)},
            "extracted": results(),
            "extracted-well": results(),
            "never-found": {f"q{number:04}": ranked() for number in range(N)},
            **{f"night-{night:02}": results(night) for night in range(NIGHTS)},
            **{f"step-{night}": results(0 if night < 3 else 20) for night in range(6)},
        },
        config={
            "other-chunker": {"chunker_version": "v2"},
            "judged": {"judge": {"model": "m", "version": "1"}},
            "judged-otherwise": {"judge": {"model": "m", "version": "2"}},
            "unjudged": {"judge": {"model": "m", "version": "1"}},
            "hardly-judged": {"judge": {"model": "m", "version": "1"}},
        },
        described={
            **{f"night-{night:02}": {"suite": "slow decline"} for night in range(NIGHTS)},
            **{
                f"step-{night}": {
                    "suite": "accepted step",
                    "created_at": f"2026-10-{night + 1:02}T02:00:00Z",
                }
                for night in range(6)
            },
        },
    )


def asked(
    settings: Settings, candidate: str, baseline: str | None = "base", *, config: Path | None = None
) -> dict[str, Any]:
    return gate(project_of(settings), candidate, baseline, config_file=config)


def rule_of(document: dict[str, Any], label: str) -> dict[str, Any]:
    (rule,) = [one for one in document["rules"] if one["label"] == label]
    return rule


def config_in(folder: Path, text: str) -> Path:
    path = folder / "gate.toml"
    # The written rules alone.
    path.write_text(
        text if "rules" not in text else "[gate]\ndefaults = false\n" + text.removeprefix("[gate]\n")
    )
    return path


def test_a_run_like_the_baseline_passes(settings) -> None:
    document = asked(settings, "same")
    assert (document["verdict"], document["preconditions"]) == ("pass", [])
    assert {rule["verdict"] for rule in document["rules"]} == {"pass"}
    assert rule_of(document, "hit@5")["reason"] == "both were computed from the same results"


def test_a_loss_beyond_the_margin_that_is_hardly_chance_fails(settings) -> None:
    document = asked(settings, "worse")
    rule = rule_of(document, "hit@5")
    assert (document["verdict"], rule["verdict"]) == ("fail", "fail")
    assert (rule["baseline"], rule["candidate"], rule["delta"], rule["margin"]) == (1.0, 0.8, -0.2, 0.02)
    assert "worse by 0.2000, more than the margin of 0.02 (p " in rule["reason"]
    assert rule["p_adjusted"] < 0.05 and rule["ci_low"] < -0.02


def test_a_loss_that_may_be_chance_is_inconclusive_and_says_how_many_queries_it_needs(settings) -> None:
    document = asked(settings, "slightly-worse")
    rule = rule_of(document, "hit@5")
    assert (document["verdict"], rule["verdict"], rule["delta"]) == ("inconclusive", "inconclusive", -0.03)
    reason = rule["reason"]
    assert "worse by 0.0300, which may be chance" in reason
    assert f"100 queries rule out no loss below {-rule['ci_low']:.4f}" in reason
    assert f"they resolve {rule['resolution']:.4f}" in reason
    needed = re.search(r"a margin of 0.05 needs about ([\d,]+)", reason)
    assert needed and int(needed[1].replace(",", "")) > N


def test_the_document_has_the_keys_of_the_contract(settings) -> None:
    document = asked(settings, "worse")
    assert {"format", "verdict", "candidate", "baseline", "preconditions", "rules"} <= set(document)
    assert {
        "metric",
        "verdict",
        "baseline",
        "candidate",
        "delta",
        "margin",
        "p_adjusted",
        "ci_low",
        "reason",
    } <= set(document["rules"][0])
    texts = [json.dumps(as_json(one), allow_nan=False) for one in (document, asked(settings, "worse"))]
    assert texts[0] == texts[1]


def test_an_improvement_passes(settings) -> None:
    document = asked(settings, "base", "worse")
    assert rule_of(document, "hit@5")["verdict"] == "pass"
    assert rule_of(document, "hit@5")["reason"] == "better, with 95 % confidence"


def test_a_missing_tenth_of_the_queries_decides_nothing(settings) -> None:
    document = asked(settings, "incomplete")
    assert (document["verdict"], document["rules"]) == ("inconclusive", [])
    assert "the candidate answered 90 of 100 golden queries" in document["preconditions"][0]


def test_another_judge_decides_nothing(settings) -> None:
    document = asked(settings, "judged-otherwise", "judged")
    assert document["verdict"] == "inconclusive"
    assert any("judge configurations differ" in problem for problem in document["preconditions"])


def test_a_run_against_itself_decides_nothing(settings) -> None:
    document = asked(settings, "base", "base")
    assert document["verdict"] == "inconclusive"
    assert "same run" in document["preconditions"][0]


def test_chunk_ids_of_two_chunkers_are_not_judged_but_documents_are(settings) -> None:
    document = asked(settings, "other-chunker")
    assert rule_of(document, "hit@5")["verdict"] == "inconclusive"
    assert "chunkers v1 and v2" in rule_of(document, "hit@5")["reason"]
    assert rule_of(document, "hit@5")["required"] is True
    assert "no worse than" in rule_of(document, "recall@5_doc")["reason"]


def test_differing_definitions_decide_nothing(settings, tmp_path) -> None:
    copy = copied(settings, tmp_path)
    (tmp_path / "eval-pipeline.toml").write_text("[formulas.reciprocal_rank]\ncutoff = 3\n")
    compute(copy, on=4, reasons=None, run_ids=["same"], definitions=["metrics.reciprocal_rank"])
    document = asked(copy, "same")
    assert document["verdict"] == "inconclusive"
    assert "reciprocal_rank was computed differently" in document["preconditions"][0]


def test_corrected_labels_decide_nothing_until_both_runs_are_computed(settings, tmp_path) -> None:
    copy = copied(settings, tmp_path)
    write_golden(tmp_path / "more", expecting_one(N - 1))
    load(copy, tmp_path / "more", on=4)
    document = asked(copy, "same")
    assert document["verdict"] == "inconclusive"
    assert all("labels of 'kb' have changed" in problem for problem in document["preconditions"])


def test_an_uncomputed_candidate_decides_nothing(settings, tmp_path) -> None:
    copy = copied(settings, tmp_path)
    write_run(tmp_path / "more", "new", [{"query_id": "q0000", **answered(True)}])
    load(copy, tmp_path / "more", on=4)
    assert "`eval-pipeline run new`" in asked(copy, "new")["preconditions"][0]


def test_a_default_rule_that_neither_run_raises_is_left_out_and_said(settings) -> None:
    skipped = asked(settings, "same")["skipped"]
    assert "scope_miss_rate: undefined in both runs" in skipped
    assert "extraction.macro_f1: neither run has extraction cases" in skipped


def test_a_candidate_that_lost_its_extraction_cases_does_not_pass(settings) -> None:
    document = asked(settings, "same", "extracted-well")
    assert document["verdict"] == "inconclusive"
    assert rule_of(document, "extraction.macro_f1 ≥ 0.9")["reason"] == "undefined in the candidate"


def test_runs_too_small_for_the_default_rules_are_told_that(tmp_path) -> None:
    few = {f"q{number:04}": answered(True) for number in range(5)}
    small = store_of(tmp_path, expecting_one(5), {"one": few, "other": few})
    (problem,) = [one for one in asked(small, "other", "one")["preconditions"] if "no rule applies" in one]
    assert "hit@5: applies to 5 queries only" in problem


def test_runs_without_a_query_in_common_are_told_that(tmp_path) -> None:
    all_found = results(n=60)
    halves = {"first": dict(list(all_found.items())[:30]), "second": dict(list(all_found.items())[30:])}
    apart = store_of(tmp_path, expecting_one(60), halves)
    assert "no rule applies: no query is in both runs" in asked(apart, "second", "first")["preconditions"]


def test_queries_of_one_cluster_are_told_that_and_not_that_they_are_few(tmp_path) -> None:
    alike = store_of(
        tmp_path, expecting_one(60, group="one"), {"one": results(n=60), "other": results(9, n=60)}
    )
    rule = rule_of(asked(alike, "other", "one"), "hit@5")
    assert (rule["verdict"], rule["reason"]) == ("inconclusive", "60 queries: one cluster shows no spread")


def test_a_gate_by_values_that_are_stale_for_both_runs_says_so(settings, tmp_path) -> None:
    copy = copied(settings, tmp_path)
    file = tmp_path / "eval-pipeline.toml"
    file.write_text("[formulas.reciprocal_rank]\ncutoff = 3\n")
    document = gate(project_of(copy), "same", "base")
    assert document["verdict"] == "pass"
    (note,) = [note for note in document["notes"] if "stale" in note]
    assert "stale for both runs: reciprocal_rank" in note


def test_a_rule_somebody_wrote_never_passes_on_an_undefined_metric(settings, tmp_path) -> None:
    config = config_in(tmp_path, '[[gate.rules]]\nmetric = "scope_miss_rate"\n')
    document = asked(settings, "same", config=config)
    rule = rule_of(document, "scope_miss_rate")
    assert (document["verdict"], rule["verdict"]) == ("inconclusive", "inconclusive")
    assert rule["reason"] == "undefined in the baseline and the candidate"
    assert rule["delta"] is None


def test_a_metric_that_only_the_baseline_has_never_passes(settings) -> None:
    document = asked(settings, "unjudged", "judged")
    rule = rule_of(document, "judge_groundedness")
    assert (rule["verdict"], rule["reason"]) == ("inconclusive", "undefined in the candidate")
    assert document["verdict"] == "inconclusive"


def test_a_metric_that_lost_most_of_its_queries_never_passes(settings) -> None:
    rule = rule_of(asked(settings, "hardly-judged", "judged"), "judge_groundedness")
    assert rule["verdict"] == "inconclusive"
    assert "for 40 of the baseline's 100 queries only" in rule["reason"]


def test_too_few_queries_for_a_rule_are_inconclusive(settings, tmp_path) -> None:
    config = config_in(tmp_path, '[[gate.rules]]\nmetric = "hit@5"\nminimum_n = 200\n')
    rule = rule_of(asked(settings, "same", config=config), "hit@5")
    assert (rule["verdict"], rule["reason"]) == ("inconclusive", "only 100 queries; the rule wants 200")


def test_slices_are_rules_of_their_own(settings, tmp_path) -> None:
    config = config_in(
        tmp_path,
        '[gate]\ndrift_nights = 0\n[[gate.rules]]\nmetric = "hit@5"\nslices = ["category", "vault=moon"]\n',
    )
    document = asked(settings, "worse", config=config)
    verdicts = {rule["label"]: rule["verdict"] for rule in document["rules"]}
    assert verdicts == {
        "hit@5": "fail",
        "hit@5 [category=easy]": "fail",
        "hit@5 [category=hard]": "inconclusive",
        "hit@5 [vault=moon]": "inconclusive",
    }
    assert rule_of(document, "hit@5 [category=easy]")["delta"] == -0.5


def test_a_deterministic_replay_is_judged_by_the_margin_alone(settings, tmp_path) -> None:
    rules = '[[gate.rules]]\nmetric = "hit@5"\n'
    config = config_in(tmp_path, f'[gate]\nevidence = "margin"\n{rules}')
    assert rule_of(asked(settings, "slightly-worse", config=config), "hit@5")["verdict"] == "fail"
    assert asked(settings, "same", config=config)["verdict"] == "pass"
    wide = config_in(tmp_path, f'[gate]\nevidence = "margin"\n{rules}margin = 0.03\n')
    assert rule_of(asked(settings, "slightly-worse", config=wide), "hit@5")["verdict"] == "pass"


def test_the_extraction_target_is_held_against_the_unrounded_macro_f1(settings) -> None:
    missed = rule_of(asked(settings, "extracted"), "extraction.macro_f1 ≥ 0.9")
    assert (missed["verdict"], missed["candidate"], missed["n"]) == ("fail", 0.6667, 3)
    assert rule_of(asked(settings, "extracted-well"), "extraction.macro_f1 ≥ 0.9")["verdict"] == "pass"


def test_a_target_can_be_set_for_any_metric(settings, tmp_path) -> None:
    config = config_in(
        tmp_path,
        '[[gate.rules]]\nmetric = "hit@5"\nat_least = 0.85\n[[gate.rules]]\nmetric = "error_rate"\nat_most = 0.1\n',
    )
    document = asked(settings, "worse", config=config)
    assert rule_of(document, "hit@5 ≥ 0.85")["verdict"] == "fail"
    assert rule_of(document, "error_rate ≤ 0.1")["verdict"] == "pass"


def test_a_slow_decline_fails_although_no_single_night_does(settings, tmp_path) -> None:
    config = config_in(tmp_path, '[[gate.rules]]\nmetric = "hit@5"\n')
    document = asked(settings, "night-15", "night-14", config=config)
    assert rule_of(document, "hit@5")["verdict"] != "fail"
    drift = rule_of(document, "hit@5 over 13 nights")
    assert "worse than night-02, 13 nights before" in drift["reason"]
    assert (drift["verdict"], drift["kind"], document["verdict"]) == ("fail", "drift", "fail")
    assert drift["delta"] == pytest.approx(-0.13)
    switched_off = config_in(tmp_path, '[gate]\ndrift_nights = 0\n[[gate.rules]]\nmetric = "hit@5"\n')
    assert asked(settings, "night-15", "night-14", config=switched_off)["verdict"] != "fail"


def test_a_night_whose_anchor_is_its_baseline_is_asked_once(settings, tmp_path) -> None:
    config = config_in(tmp_path, '[[gate.rules]]\nmetric = "hit@5"\n')
    first = asked(settings, "night-01", "night-00", config=config)
    assert [rule["kind"] for rule in first["rules"]] == ["change"]
    assert "drift: no comparable night before it but the baseline" in first["skipped"]


def test_a_step_that_was_accepted_fails_no_night_after_it(settings, tmp_path) -> None:
    config = config_in(tmp_path, '[[gate.rules]]\nmetric = "hit@5"\n')
    assert asked(settings, "step-3", "step-2", config=config)["verdict"] == "fail"
    after = asked(settings, "step-5", "step-4", config=config)
    assert (after["verdict"], [rule["kind"] for rule in after["rules"]]) == ("pass", ["change"])


def test_a_margin_that_nobody_wrote_grows_with_what_the_queries_resolve_up_to_a_limit(
    settings, tmp_path
) -> None:
    by_default = rule_of(asked(settings, "slightly-worse"), "hit@5")
    written = config_in(tmp_path, '[[gate.rules]]\nmetric = "hit@5"\n')
    fixed = rule_of(asked(settings, "slightly-worse", config=written), "hit@5")
    assert fixed["resolution"] == by_default["resolution"] > 2.5 * 0.02
    assert (fixed["margin"], by_default["margin"]) == (0.02, 0.05)
    open_again = config_in(tmp_path, '[[gate.rules]]\nmetric = "hit@5"\nmargin = "auto"\n')
    assert rule_of(asked(settings, "slightly-worse", config=open_again), "hit@5")["margin"] == 0.05


def test_a_target_that_is_not_required_may_fail_the_gate_and_never_holds_it_up(settings, tmp_path) -> None:
    text = """[gate]\ndrift_nights = 0
        [[gate.rules]]\nmetric = "error_rate"
        [[gate.rules]]\nmetric = "judge_correctness"\nat_least = 3\n"""
    assert asked(settings, "same", config=config_in(tmp_path, text))["verdict"] == "inconclusive"
    document = asked(settings, "same", config=config_in(tmp_path, text + "required = false\n"))
    assert (document["verdict"], rule_of(document, "judge_correctness ≥ 3")["required"]) == ("pass", False)


def test_a_rule_that_is_not_required_may_fail_the_gate_and_never_hold_it_up(settings, tmp_path) -> None:
    text = '[gate]\ndrift_nights = 0\n[[gate.rules]]\nmetric = "error_rate"\nmargin = 0.1\n[[gate.rules]]\nmetric = "hit@5"\n'
    strict = asked(settings, "slightly-worse", config=config_in(tmp_path, text))
    assert strict["verdict"] == "inconclusive"
    loose = config_in(tmp_path, text + "required = false\n")
    document = asked(settings, "slightly-worse", config=loose)
    assert (document["verdict"], rule_of(document, "hit@5")["verdict"]) == ("pass", "inconclusive")
    assert asked(settings, "worse", config=loose)["verdict"] == "fail"
    with pytest.raises(InvalidConfig, match="required is 'yes'; allowed: true, false"):
        asked(settings, "same", config=config_in(tmp_path, text + 'required = "yes"\n'))


def test_rules_of_a_judge_say_how_many_answers_both_runs_have_judged(settings) -> None:
    rule = rule_of(asked(settings, "judged", "hardly-judged"), "judge_groundedness")
    assert rule["reason"].endswith("; both runs have 40 of 100")


def test_the_baseline_may_stand_in_the_configuration(settings, tmp_path) -> None:
    config = tmp_path / "gate.toml"
    config.write_text('[baselines]\nnightly = "base"\n', "utf-8")
    assert asked(settings, "same", None, config=config)["baseline"] == "base"
    with pytest.raises(UsageError, match="--baseline RUN_ID"):
        asked(settings, "same", None)


def test_unknown_names_and_files_are_errors(settings, tmp_path) -> None:
    with pytest.raises(UnknownName, match="did you mean base"):
        asked(settings, "same", "bases")
    with pytest.raises(InvalidConfig, match="there is no file"):
        asked(settings, "same", config=tmp_path / "none.toml")
