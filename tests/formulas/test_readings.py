"""Other readings: which numbers they move, which they leave alone, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InvalidConfig, UnknownName
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.settings import Settings
from tests.bundle_files import ask, compute, load, settings_in, write_golden, write_run

# "Intro" leads "Introduction" as text, and does not as a segment.
GOLD = {"rel_path": "a.md", "heading_path": "Intro"}
HIT = {"chunk_id": "c1", "doc_id": "d1", "rel_path": "a.md", "heading_path": "Introduction"}
FORMULAS = ("anchor_any", "anchor_precision", "anchor_rank", "attribution", "reciprocal_rank", "n_loose")


def configured(folder: Path, toml: str, **environment: str) -> Settings:
    folder.mkdir(exist_ok=True)
    settings = settings_in(folder, **environment)
    settings.config.write_text(toml, "utf-8")
    return settings


def registry_of(folder: Path, toml: str) -> Registry:
    return load_registry(configured(folder, toml))


def values_of(folder: Path, toml: str, **environment: str) -> dict[str, Any]:
    """What a few formulas and every reading say of the one query there is, under this configuration."""
    write_golden(
        folder / "bundle", [{"query_id": "q", "gold_supports": [GOLD], "expected_chunk_ids": ["c1"]}]
    )
    result = {"query_id": "q", "hits_top_k": [HIT, HIT], "answer": {"references": [{**HIT, "text": None}]}}
    write_run(folder / "bundle", "run-1", [result])
    settings = configured(folder, toml, **environment)
    load(settings, folder / "bundle")
    registry = load_registry(settings)
    names = [one.name for one in registry.metrics if one.reading_of or one.short_name in FORMULAS]
    compute(settings, registry, definitions=names)
    return dict(ask(settings, "select metric, value from per_query_metrics"))


LOOSE = '[formulas.recall_any_loose]\nreading_of = "anchor_any"\nheading_prefix = "string"\n'


def test_a_reading_on_a_facts_parameter_gets_facts_of_its_own_and_moves_nobody_elses_numbers(
    tmp_path: Path,
) -> None:
    plain = values_of(tmp_path / "plain", "")
    loose = values_of(tmp_path / "loose", LOOSE)
    assert plain["recall_any@1"] == 0
    assert loose.pop("recall_any@1:recall_any_loose") == 1
    assert {key: value for key, value in loose.items() if ":" not in key} == plain


def test_the_copied_facts_are_named_after_the_reading_and_read_by_it_alone(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, LOOSE)
    copy = "facts.support_ranks__recall_any_loose"
    assert copy in registry.get("recall_any_loose").reads
    assert "facts.support_matches__recall_any_loose" in registry.get(copy).reads
    assert [one.name for one in registry if copy in one.reads] == ["metrics.recall_any_loose"]
    assert registry.get(copy).reading_of == "facts.support_ranks"


def test_adding_a_reading_moves_no_fingerprint_that_was_there(tmp_path: Path) -> None:
    before = {one.name: one.fingerprint for one in registry_of(tmp_path / "a", "")}
    after = {one.name: one.fingerprint for one in registry_of(tmp_path / "b", LOOSE)}
    assert {name: after[name] for name in before} == before
    assert after["metrics.recall_any_loose"] != before["metrics.anchor_any"]


def test_a_parameter_set_for_the_fact_moves_everything_that_is_computed_from_it(tmp_path: Path) -> None:
    values = values_of(tmp_path, '[formulas.support_matches]\nheading_prefix = "string"\n')
    assert [values[key] for key in ("recall_any@1", "mrr_anchor", "precision@1", "attribution_hit_rate")] == [
        1
    ] * 4


def test_a_facts_parameter_set_for_one_formula_moves_that_formula_alone(tmp_path: Path) -> None:
    values = values_of(tmp_path, '[formulas.anchor_any]\nheading_prefix = "string"\n')
    assert values["recall_any@1"] == 1
    assert [values[key] for key in ("mrr_anchor", "precision@1", "attribution_hit_rate")] == [0] * 3


def test_a_formulas_own_facts_stand_on_what_is_set_for_the_facts_they_copy(tmp_path: Path) -> None:
    toml = (
        "[formulas.anchor_any]\nstrip_heading_markers = false\n"
        '[formulas.support_ranks]\nheading_prefix = "string"\n'
    )
    registry = registry_of(tmp_path, toml)
    (ranks,) = (name for name in registry.get("anchor_any").reads if name.startswith("facts."))
    (matches,) = (name for name in registry.get(ranks).reads if "support_matches" in name)
    parameters = registry.get(matches).header.parameters
    assert (parameters["strip_heading_markers"], parameters["heading_prefix"]) == (False, "string")


def test_a_reading_stands_on_the_parameters_that_hold_for_its_base(tmp_path: Path) -> None:
    toml = (
        '[formulas.twice]\nreading_of = "anchor_precision"\nprecision_denominator = "retrieved"\n'
        '[formulas.anchor_precision]\nks = [2]\n[formulas.support_matches]\nheading_prefix = "string"\n'
        "[formulas.repeated_hits]\ndedupe_hits = true\n"
    )
    values = values_of(tmp_path, toml)
    assert {key: value for key, value in values.items() if key.startswith("precision@")} == {
        "precision@2": 0.5,
        "precision@2:twice": 1,
    }


def test_a_reading_of_a_reading_keeps_what_the_first_one_changed(tmp_path: Path) -> None:
    toml = (
        LOOSE + '[formulas.looser]\nreading_of = "recall_any_loose"\nks = [2]\nretrieval_error = "exclude"\n'
    )
    values = values_of(tmp_path, toml)
    assert {key: value for key, value in values.items() if key.endswith(":looser")} == {
        "recall_any@2:looser": 1
    }


def test_a_reading_with_a_single_key_gives_it_its_own_name(tmp_path: Path) -> None:
    values = values_of(tmp_path, '[formulas.mrr_2]\nreading_of = "reciprocal_rank"\ncutoff = 2\n')
    assert values["mrr_2"] == values["mrr"] == 1


def test_a_reading_of_a_fact_keeps_the_facts_columns(tmp_path: Path) -> None:
    registry = registry_of(
        tmp_path, '[formulas.distinct]\nreading_of = "repeated_hits"\ndedupe_hits = true\n'
    )
    assert registry.get("facts.distinct").keys == registry.get("facts.repeated_hits").keys


OWN_FORMULA = """\
-- keys: {n_loose: "Supports found"}
-- why: docs/decisions.md#a2-2

with found as (
    -- facts.support_ranks in a remark, and below in a text and with its own name before a column
    select 'facts.support_ranks' as said, support_ranks.run_key, facts.support_ranks.query_key, support_ranks.found_ranks
    from facts.support_ranks
    where length('facts.support_ranks') = 19
)

select found.run_key, found.query_key, len(found.found_ranks) as n_loose
from found
inner join facts."support_ranks" as again on found.run_key = again.run_key and found.query_key = again.query_key
"""


def test_a_statement_reads_the_copied_fact_wherever_it_names_it_and_however(tmp_path: Path) -> None:
    path = tmp_path / "sql" / "metrics" / "n_loose.sql"
    path.parent.mkdir(parents=True)
    path.write_text(OWN_FORMULA, "utf-8")
    toml = '[formulas.n_looser]\nreading_of = "n_loose"\nheading_prefix = "string"\n'
    values = values_of(tmp_path, toml, EVAL_PIPELINE_SQL=str(tmp_path / "sql"))
    assert (values["n_loose"], values["n_looser"]) == (0, 1)


def test_a_python_formula_can_read_a_copied_fact_too(tmp_path: Path) -> None:
    toml = '[formulas.said_loosely]\nreading_of = "answer_strings"\nstring_match = "casefold"\n'
    reading = registry_of(tmp_path, toml).get("said_loosely")
    assert reading.reads == ("facts.outcomes", "facts.string_checks__said_loosely")


@pytest.mark.parametrize("value", ['"none"', "1", "25"])
def test_a_choice_that_allows_any_whole_number_takes_it_beside_the_named_one(
    tmp_path: Path, value: str
) -> None:
    registry = registry_of(tmp_path, f"[formulas.anchor_rank]\nmrr_anchor_cutoff = {value}\n")
    assert registry.get("anchor_rank").header.parameters["mrr_anchor_cutoff"] == (
        "none" if value == '"none"' else int(value)
    )


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[formulas.anchor_rank]\nmrr_anchor_cutoff = 0\n", "allowed: none, whole number"),
        ("[formulas.anchor_rank]\nmrr_anchor_cutoff = true\n", "allowed: none, whole number"),
        ('[formulas.support_matches]\nheading_prefix = "words"\n', "allowed: segments, string"),
        ('[formulas.x]\nreading_of = "anchor_any"\nheading_prefix = "words"\n', "allowed: segments, string"),
        ("[formulas.repeated_hits]\ndedupe_hits = 1\n", "allowed: False, True"),
        ("[formulas.reciprocal_rank]\ncutoff = 'ten'\n", "expected something like 10"),
        ('[formulas.anchor_any]\nreading_of = "anchor_rank"\n', "a definition of that name already"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(tmp_path: Path, toml: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        registry_of(tmp_path, toml)


def test_an_unknown_parameter_is_answered_with_those_of_the_facts_behind(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean heading_prefix") as caught:
        registry_of(tmp_path, '[formulas.anchor_any]\nheading_prefixes = "string"\n')
    assert "facts behind it" in str(caught.value)


def test_an_unknown_base_is_answered_with_the_closest_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean anchor_any"):
        registry_of(tmp_path, '[formulas.x]\nreading_of = "anchors_any"\n')
