"""The [gate] table: what it may say, and what holds without it."""

from __future__ import annotations

import pytest

from eval_pipeline.comparing.gate_rules import EXTRACTION, read_gate, with_slices
from eval_pipeline.errors import InvalidConfig, UnknownName
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return load_registry(load_settings({}, db=tmp_path_factory.mktemp("none") / "e.duckdb"))


def test_without_a_table_quality_judges_failures_and_extraction_are_asked(registry) -> None:
    config = read_gate({}, registry, path=None)
    margins = {rule.metric: rule.margin for rule in config.rules if rule.target is None}
    assert margins["hit@5"] == margins["mrr"] == margins["groundedness"] == 0.02
    assert margins["judge_correctness"] == 0.2
    assert 0.02 <= margins["error_rate"] <= 0.05 and 0.02 <= margins["scope_miss_rate"] <= 0.05
    directions = {rule.metric: rule.direction for rule in config.rules}
    assert (directions["error_rate"], directions["hit@5"]) == ("lower", "higher")
    (target,) = [rule for rule in config.rules if rule.target is not None]
    assert (target.metric, target.target) == (EXTRACTION, 0.9)
    assert (config.evidence, config.on_inconclusive, config.presence) == ("test", "warn", 0.98)


def test_written_rules_are_added_to_the_default_rules_of_other_metrics(registry) -> None:
    table = {"rules": [{"metric": "hit@5", "margin": 0.05, "minimum_n": 10}]}
    rule, *defaults = read_gate(table, registry, path=None).rules
    assert (rule.metric, rule.margin, rule.minimum_n, rule.direction) == ("hit@5", 0.05, 10, "higher")
    assert not rule.is_default and all(one.is_default for one in defaults)
    shipped = {one.metric for one in read_gate({}, registry, path=None).rules}
    assert {one.metric for one in defaults} == shipped - {"hit@5"}
    assert read_gate(table | {"defaults": False}, registry, path=None).rules == [rule]


def test_rules_may_also_be_tables_by_metric(registry) -> None:
    (rule,) = read_gate({"rules": {"mrr": {"margin": 0.1}}, "defaults": False}, registry, path=None).rules
    assert (rule.metric, rule.margin) == ("mrr", 0.1)


def test_a_slice_names_a_dimension_or_one_of_its_values(registry) -> None:
    config = read_gate(
        {"rules": [{"metric": "hit@5", "slices": ["category", "vault=work"]}], "defaults": False},
        registry,
        path=None,
    )
    known = [("category", "hard"), ("category", "easy"), ("vault", "work"), ("tag", "x")]
    asked = with_slices(config.rules, config.slices, known)
    assert [rule.label for rule in asked] == [
        "hit@5",
        "hit@5 [category=easy]",
        "hit@5 [category=hard]",
        "hit@5 [vault=work]",
    ]


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ({"rules": [{"metric": "hit@55"}]}, UnknownName, "did you mean hit@5"),
        ({"rules": [{"metric": "hit@5", "margn": 0.1}]}, UnknownName, "did you mean margin"),
        ({"evidences": "test"}, UnknownName, "did you mean evidence"),
        ({"evidence": "hope"}, InvalidConfig, "allowed: test, margin"),
        ({"on_inconclusive": "pass"}, InvalidConfig, "allowed: warn, fail"),
        ({"presence": 1.5}, InvalidConfig, "a number from 0 to 1"),
        ({"rules": [{"metric": "hit@5", "margin": 0}]}, InvalidConfig, "margin is 0"),
        ({"rules": [{"metric": "hit@5", "margin": True}]}, InvalidConfig, "margin is True"),
        ({"rules": [{"metric": "hit@5", "direction": "up"}]}, InvalidConfig, "higher"),
        ({"rules": [{"metric": "hit@5", "slices": ["colour"]}]}, InvalidConfig, "there is: tag, category"),
        ({"rules": [{"metric": "hit@5", "slices": "tag"}]}, InvalidConfig, "slices is a list"),
        ({"rules": [{"metric": "hit@5", "at_least": 0.5, "margin": 0.1}]}, InvalidConfig, "one of margin"),
        ({"rules": [{"metric": EXTRACTION}]}, InvalidConfig, "at_least"),
        ({"rules": [{"metric": "hit@5"}, {"metric": "hit@5"}]}, InvalidConfig, "several rules"),
        ({"rules": []}, InvalidConfig, "rules are tables"),
        ({"defaults": False}, InvalidConfig, "leaves no rule"),
        ({"rules": [{"margin": 0.1}]}, InvalidConfig, "names its metric"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_what_is_allowed(registry, table, error, message) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        read_gate(table, registry, path=None)
