"""What is wrong with targets, judges and suites is said before anything is asked."""

from __future__ import annotations

import pytest

from eval_pipeline.config import Config, load_config
from eval_pipeline.errors import InvalidConfig, UnknownName
from eval_pipeline.evaluating.setup import (
    check_budget,
    judges_of,
    missing_variables,
    own_prompts,
    read_judge,
    read_suite,
    read_target,
)
from tests.evaluating.asking import KEY, no_variables

JUDGE = {
    "base_url": "https://judge.test/v1",
    "api_key": "${JUDGE_KEY}",
    "model": "m",
    "asks": ["correctness"],
}
TARGET = {"url": "http://127.0.0.1:1/ask"}
SUITE = {"dataset": "kb", "target": "kb", "judges": ["grounded"]}


def config(judge=None, target=None, suite=None) -> Config:
    return Config(
        judges={"grounded": JUDGE | (judge or {})},
        targets={"kb": TARGET | (target or {})},
        suites={"nightly": SUITE | (suite or {})},
    )


def read(**changed):
    return read_suite(config(**changed), "nightly", no_variables, datasets=["kb"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"judge": {"modell": "m"}}, r"\[judges.grounded\] has no 'modell'; there is: api_key, argv"),
        ({"judge": {"api_key": "${NO_KEY}"}}, "wants the variable NO_KEY, which is not set"),
        ({"judge": {"asks": ["politeness"]}}, "asks is .*; it is of groundedness, correctness"),
        ({"judge": {"base_url": "judge.test"}}, "base_url is not valid; it is an address"),
        ({"judge": {"kind": "gemini"}}, "kind is 'gemini'; it is one of openai, anthropic"),
        ({"judge": {"max_tokens": True}}, "max_tokens is True; it is a whole number"),
        ({"judge": {"timeout_s": float("nan")}}, "timeout_s is nan"),
        ({"judge": {"price_per_1m": {"prompt": -1}}}, "price_per_1m"),
        ({"judge": {"argv": ["./judge"]}}, "argv .* it is not said where kind is openai"),
        ({"judge": {"headers": {"X-Key": "a\nb"}}}, "X-Key: its value has a line break"),
        ({"target": {"kind": "python", "call": "x"}}, "url .* not said where kind is python"),
        ({"target": {"body": {"q": ["{qeury}"]}}}, "body: a golden row has no {qeury}; there is: answerable"),
        ({"target": {"answer": {"text": "answer"}}}, "places in the reply"),
        ({"target": {"answer": {"hits": {"each": "/x"}}}}, "hits = "),
        ({"suite": {"budget_usd": 5.0}}, "a budget of 5 USD and no price of the judge 'grounded'"),
        (
            {"suite": {"judges": ["other"]}},
            "names the judge 'other', which is not in this file; there is: grounded",
        ),
        ({"suite": {"target": "other"}}, "target is 'other'; it is a target of this file"),
        ({"suite": {"dataset": "other"}}, "dataset is 'other'; it is a dataset with a golden set"),
        ({"suite": {"at": "25:00"}}, "at is '25:00'"),
        ({"suite": {"timezone": "Mars/North"}}, "timezone is 'Mars/North'"),
        ({"suite": {"spot_check": {"n": 20}}}, "spot_check"),
        ({"suite": {"canary": {"n": 0}}}, r"\[suites.nightly.canary\] n is 0"),
    ],
)
def test_what_is_impossible_is_refused_with_the_place_and_what_is_possible(changed, words):
    with pytest.raises(InvalidConfig, match=words):
        read(**changed)


def test_a_suite_is_read_with_everything_that_it_names():
    suite = read(
        suite={
            "at": "02:00",
            "timezone": "Europe/Berlin",
            "budget_usd": 5,
            "spot_check": {"judge": "grounded", "n": 12},
            "canary": {},
        },
        judge={"price_per_1m": {"prompt": 2, "completion": 8.0}},
    )
    assert judges_of(suite) == ("grounded",)
    assert (suite.budget_usd, suite.spot_check.n, suite.canary.n, suite.canary.alarm) == (5.0, 12, 20, 0.2)


def test_a_key_is_sent_and_never_shown():
    judge = read_judge(config(), "grounded", no_variables)
    assert judge.headers == {"Authorization": f"Bearer {KEY}"}
    assert KEY not in repr(judge)
    assert KEY not in judge.identity
    url = "http://user:pass-word@127.0.0.1/ask?key=${JUDGE_KEY}"
    target = read_target(config(target={"url": url}), "kb", no_variables)
    assert KEY not in repr(target) + target.identity
    assert "pass-word" not in repr(target) + target.identity


def test_a_judge_of_another_shape_has_its_own_headers_and_address():
    judge = {"kind": "anthropic", "api_key": "${JUDGE_KEY}", "model": "m", "asks": ["conflict"]}
    found = read_judge(Config(judges={"other": judge}), "other", no_variables)
    assert found.headers == {"anthropic-version": "2023-06-01", "x-api-key": KEY}
    assert found.url.startswith("https://")


def test_the_lexical_baseline_is_never_called_a_model():
    judge = {"kind": "lexical-baseline", "asks": ["correctness"]}
    found = read_judge(Config(judges={"words": judge}), "words", no_variables)
    assert (found.model, found.version) == (None, "lexical-baseline-1")
    for said in ({"model": "m"}, {"version": "2"}):
        with pytest.raises(InvalidConfig, match="the lexical baseline is no model"):
            read_judge(Config(judges={"words": judge | said}), "words", no_variables)


def test_a_budget_for_one_command_needs_a_price_as_well():
    judge = read_judge(config(), "grounded", no_variables)
    check_budget(judge, None)
    with pytest.raises(InvalidConfig, match="no price of the judge"):
        check_budget(judge, 5.0)


def test_missing_variables_are_named_without_asking_anybody():
    entries = {"api_key": "${NO_KEY}", "headers": {"X": "${OTHER} ${JUDGE_KEY}"}}
    assert missing_variables(config(judge=entries), "grounded", no_variables) == ["NO_KEY", "OTHER"]
    # Whoever would ask is told all of them at once, also those of others whom the suite names.
    target = {"kind": "http", "url": "http://${NO_HOST}/ask"}
    with pytest.raises(
        InvalidConfig, match=r"NO_KEY, OTHER.* NO_HOST, which are not set: export NO_KEY=… OTHER=… NO_HOST=…"
    ):
        read(judge=entries, target=target)


def test_a_name_that_is_not_there_is_refused_with_what_is_like_it():
    with pytest.raises(UnknownName, match="did you mean grounded"):
        read_judge(config(), "groundet", no_variables)


def test_the_file_may_hold_the_three_tables_and_prompts_of_ones_own_beside_it(tmp_path):
    path = tmp_path / "eval-pipeline.toml"
    path.write_text('[judges.words]\nkind = "lexical-baseline"\nasks = ["tone"]\n')
    with pytest.raises(InvalidConfig, match="or a file prompts"):
        read_judge(load_config(path), "words", no_variables)
    (tmp_path / "prompts/judge").mkdir(parents=True)
    (tmp_path / "prompts/judge/tone.md").write_text("---\nversion: 1\nschema: {}\n---\n{answer}")
    assert read_judge(load_config(path), "words", no_variables).asks == ("tone",)
    assert own_prompts(load_config(path)) == tmp_path / "prompts/judge"
    path.write_text("judges = 5\n")
    with pytest.raises(InvalidConfig, match="judges is a table"):
        load_config(path)
