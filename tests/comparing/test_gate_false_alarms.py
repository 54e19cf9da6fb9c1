"""How often a gate cries wolf, and that it still sees one."""

from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.comparing.gate_evidence import judge_all, measure_change
from eval_pipeline.comparing.pair_rows import MetricPairs
from eval_pipeline.comparing.significance import Compared
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings
from tests.comparing.nights_without_change import CONFIG, FAMILIES, RULES, false_alarm_share, one_night


@pytest.fixture(scope="module")
def formulas(tmp_path_factory):
    return load_registry(load_settings({}, db=tmp_path_factory.mktemp("none") / "e.duckdb")).keys()


@pytest.mark.parametrize(("queries", "nights"), [(60, 40), (250, 25)])
def test_nights_without_a_change_rarely_fail_eight_correlated_rules(formulas, queries, nights) -> None:
    assert false_alarm_share(formulas, queries=queries, nights=nights, seed=11) <= 0.08


def test_the_simulated_rules_really_move_together_and_by_chance() -> None:
    generator = np.random.default_rng(5)
    difficulty = generator.beta(3, 1.5, 2000)
    a, b = one_night(generator, difficulty), one_night(generator, difficulty)
    assert np.corrcoef(b["hit@3"] - a["hit@3"], b["hit@5"] - a["hit@5"])[0, 1] > 0.5
    assert 0.1 < np.mean(a["hit@5"] != b["hit@5"]) < 0.6
    assert abs(np.mean(b["hit@5"] - a["hit@5"])) < 0.05


def test_a_real_loss_among_the_eight_rules_is_found(formulas) -> None:
    generator = np.random.default_rng(6)
    difficulty = generator.beta(3, 1.5, 400)
    a, b = one_night(generator, difficulty), one_night(generator, difficulty * 0.7)
    known = np.ones(400, dtype=np.bool_)
    changes = [
        measure_change(
            rule,
            Compared(
                rule.metric, formulas[rule.metric], MetricPairs(a[rule.metric], b[rule.metric], known, known)
            ),
            places=None,
            groups=None,
        )
        for rule in RULES
    ]
    verdicts = {judged.rule.metric: judged.verdict for judged in judge_all(changes, [], FAMILIES, CONFIG)}
    assert verdicts["hit@10"] == "fail"
    assert verdicts["error_rate"] != "fail"
