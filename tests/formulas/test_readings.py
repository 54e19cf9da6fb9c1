"""Other readings: which numbers they move, which they leave alone, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing.options import SHIPPED, comparison_options, describe_options
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


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store with one query in one run."""
    folder = tmp_path_factory.mktemp("loaded")
    write_golden(
        folder / "bundle", [{"query_id": "q", "gold_supports": [GOLD], "expected_chunk_ids": ["c1"]}]
    )
    result = {"query_id": "q", "hits_top_k": [HIT, HIT], "answer": {"references": [{**HIT, "text": None}]}}
    write_run(folder / "bundle", "run-1", [result])
    settings = settings_in(folder)
    load(settings, folder / "bundle")
    return settings.db


def values_of(loaded: Path, folder: Path, toml: str, **environment: str) -> dict[str, Any]:
    """What a few formulas and every reading say of the one query there is, under this configuration."""
    settings = configured(folder, toml, **environment)
    shutil.copyfile(loaded, settings.db)
    registry = load_registry(settings)
    names = [one.name for one in registry.metrics if one.variant_of or one.short_name in FORMULAS]
    compute(settings, registry, definitions=names)
    return dict(ask(settings, "select metric, value from per_query_metrics"))


LOOSE = '[formulas.recall_any_loose]\nreading_of = "anchor_any"\nheading_prefix = "string"\n'


def test_a_reading_on_a_facts_parameter_gets_facts_of_its_own_and_moves_nobody_elses_numbers(
    loaded: Path, tmp_path: Path
) -> None:
    plain = values_of(loaded, tmp_path / "plain", "")
    loose = values_of(loaded, tmp_path / "loose", LOOSE)
    assert plain["recall_any@1"] == 0
    assert loose.pop("recall_any@1:recall_any_loose") == 1
    assert {key: value for key, value in loose.items() if ":" not in key} == plain


def test_the_copied_facts_are_named_after_the_reading_and_read_by_it_alone(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, LOOSE)
    copy = "facts.support_ranks__recall_any_loose"
    assert copy in registry.get("recall_any_loose").reads
    assert "facts.support_matches__recall_any_loose" in registry.get(copy).reads
    assert [one.name for one in registry if copy in one.reads] == ["metrics.recall_any_loose"]
    assert registry.get(copy).variant_of == "facts.support_ranks"


def test_adding_a_reading_moves_no_fingerprint_that_was_there(tmp_path: Path) -> None:
    before = {one.name: one.fingerprint for one in registry_of(tmp_path / "a", "")}
    after = {one.name: one.fingerprint for one in registry_of(tmp_path / "b", LOOSE)}
    assert {name: after[name] for name in before} == before
    assert after["metrics.recall_any_loose"] != before["metrics.anchor_any"]


def test_a_parameter_set_for_the_fact_moves_everything_that_is_computed_from_it(
    loaded: Path, tmp_path: Path
) -> None:
    values = values_of(loaded, tmp_path, '[formulas.support_matches]\nheading_prefix = "string"\n')
    assert [values[key] for key in ("recall_any@1", "mrr_anchor", "precision@1", "attribution_hit_rate")] == [
        1
    ] * 4


def test_a_facts_parameter_set_for_one_formula_moves_that_formula_alone(loaded: Path, tmp_path: Path) -> None:
    values = values_of(loaded, tmp_path, '[formulas.anchor_any]\nheading_prefix = "string"\n')
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


def test_a_reading_stands_on_the_parameters_that_hold_for_its_base(loaded: Path, tmp_path: Path) -> None:
    toml = (
        '[formulas.twice]\nreading_of = "anchor_precision"\nprecision_denominator = "retrieved"\n'
        '[formulas.anchor_precision]\nks = [2]\n[formulas.support_matches]\nheading_prefix = "string"\n'
        "[formulas.repeated_hits]\ndedupe_hits = true\n"
    )
    values = values_of(loaded, tmp_path, toml)
    assert {key: value for key, value in values.items() if key.startswith("precision@")} == {
        "precision@2": 0.5,
        "precision@2:twice": 1,
    }


def test_a_reading_of_a_reading_keeps_what_the_first_one_changed(loaded: Path, tmp_path: Path) -> None:
    toml = (
        LOOSE + '[formulas.looser]\nreading_of = "recall_any_loose"\nks = [2]\nretrieval_error = "exclude"\n'
    )
    values = values_of(loaded, tmp_path, toml)
    assert {key: value for key, value in values.items() if key.endswith(":looser")} == {
        "recall_any@2:looser": 1
    }


def test_a_reading_with_a_single_key_gives_it_its_own_name(loaded: Path, tmp_path: Path) -> None:
    values = values_of(loaded, tmp_path, '[formulas.mrr_2]\nreading_of = "reciprocal_rank"\ncutoff = 2\n')
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


def test_a_statement_reads_the_copied_fact_wherever_it_names_it_and_however(
    loaded: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sql" / "metrics" / "n_loose.sql"
    path.parent.mkdir(parents=True)
    path.write_text(OWN_FORMULA, "utf-8")
    toml = '[formulas.n_looser]\nreading_of = "n_loose"\nheading_prefix = "string"\n'
    values = values_of(loaded, tmp_path, toml, EVAL_PIPELINE_SQL=str(tmp_path / "sql"))
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


# Every open question with another reading that belongs to a definition: the shipped value first. mrr_anchor_cutoff
# takes any whole number beside "none".
RETRIEVAL = (
    "hit_at_k",
    "reciprocal_rank",
    "recall_at_k_doc",
    "anchor_any",
    "anchor_all",
    "anchor_rank",
    "anchor_precision",
    "chunk_overlap",
    "span_overlap",
    "ndcg",
    "average_precision",
    "r_precision",
    "recall_at_k_chunk",
    "precision_at_k_chunk",
    "judged_at_k",
    "hit_at_k_span",
    "reciprocal_rank_span",
)
AGGREGATES = (
    "run_metrics",
    "latency_summary",
    "indexing_summary",
    "judge_summary",
    "field_accuracy",
    "extraction_summary",
    "slice_performance",
)
QUESTIONS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "s0_vacuous": (("chunk_overlap", "span_cover"), ("exclude", "include")),
    "fn_policy": (("extraction",), ("code", "table")),
    "heading_prefix": (("support_matches",), ("segments", "string")),
    "strip_heading_markers": (("support_matches",), (True, False)),
    "require_snippets": (("support_matches",), (False, True)),
    "snippet_rule": (("support_matches",), ("any", "all")),
    "support_groups": (("anchor_all",), ("any_group", "every_group", "all")),
    "precision_denominator": (("anchor_precision",), ("k", "retrieved")),
    "precision_multi_hop": (("anchor_precision",), ("any_gold", "required_only")),
    "mrr_anchor_cutoff": (("anchor_rank",), ("none", 10)),
    "percentile": (("latency_summary", "indexing_summary", "slice_performance"), ("linear", "nearest")),
    "empty_citations": (("citation_coverage",), ("zero", "vacuous")),
    "citation_scope": (("citation_checks",), ("any_version", "run_version")),
    "unlabelled_groundedness": (("answer_strings",), ("exclude", "include")),
    "string_match": (("string_checks",), ("exact", "casefold")),
    "refusal_no_answer": (("refusal_correctness",), ("exclude", "zero")),
    "rounding": (AGGREGATES, ("half_even", "half_up")),
    "dedupe_hits": (("repeated_hits",), (False, True)),
    "retrieval_error": (RETRIEVAL, ("zero", "exclude")),
    "attribution_rows": (("attribution",), ("all", "answered")),
    "gain": (("ndcg",), ("linear", "exponential")),
}
# Those that belong to a comparison stand under [comparison].
COMPARISON: dict[str, tuple[Any, ...]] = {
    "compare_k": (10, 3),
    "rank_change": ("separate", "win_loss", "draw"),
    "regression_kind": ("flag", "exclusive"),
    "overlap_basis": ("min", "expected", "hit", "iou"),
    "overlap_threshold": (0.5, 0.25),
    "delta_scope": ("own", "common"),
}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return registry_of(tmp_path_factory.mktemp("shipped") / "project", "")


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_open_question_is_a_parameter_of_every_definition_that_asks_it(
    question: str, shipped: Registry
) -> None:
    owners, values = QUESTIONS[question]
    asking = {one.short_name for one in shipped if question in one.header.parameters}
    assert asking == set(owners)
    for owner in owners:
        header = shipped.get(owner).header
        assert header.parameters[question] == values[0]
        open_ended = {"whole number"} if question == "mrr_anchor_cutoff" else set()
        named = {value for value in values if not open_ended or isinstance(value, str)}
        assert set(header.choices[question]) == named | open_ended


def test_every_other_reading_can_be_chosen_and_gives_its_definition_another_fingerprint(
    tmp_path: Path, shipped: Registry
) -> None:
    for turn in (1, 2):
        chosen = {question: values[turn:] for question, (_, values) in QUESTIONS.items() if values[turn:]}
        settings: dict[str, list[str]] = {}
        for question, values in chosen.items():
            for owner in QUESTIONS[question][0]:
                settings.setdefault(owner, []).append(f"{question} = {json.dumps(values[0])}")
        toml = "\n".join(
            line for owner, lines in settings.items() for line in (f"[formulas.{owner}]", *lines)
        )
        registry = registry_of(tmp_path / str(turn), toml)
        for question, values in chosen.items():
            for owner in QUESTIONS[question][0]:
                assert registry.get(owner).header.parameters[question] == values[0]
        for owner in settings:
            assert registry.get(owner).fingerprint != shipped.get(owner).fingerprint


def test_no_choice_of_a_definition_is_missing_in_the_table_of_open_questions(shipped: Registry) -> None:
    assert {name for one in shipped for name in one.header.choices} == QUESTIONS.keys()


@pytest.mark.parametrize("question", COMPARISON)
def test_every_open_question_of_a_comparison_is_chosen_under_its_own_table(
    question: str, tmp_path: Path
) -> None:
    for value in COMPARISON[question]:
        config = registry_of(tmp_path, f"[comparison]\n{question} = {json.dumps(value)}\n").config
        assert getattr(comparison_options(config), question) == value
    assert getattr(SHIPPED, question) == COMPARISON[question][0]


def test_the_questions_of_a_comparison_are_described_with_value_and_choices() -> None:
    described = {one["name"]: one for one in describe_options(SHIPPED)}
    assert described.keys() == COMPARISON.keys()
    for name, values in COMPARISON.items():
        closed = list(values) if isinstance(values[0], str) else []
        assert (described[name]["value"], described[name]["choices"]) == (values[0], closed)


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ('rank_change = "up"', InvalidConfig, "allowed: separate, win_loss, draw"),
        ("rank_change = 1", InvalidConfig, "allowed: separate, win_loss, draw"),
        ('compare_k = "ten"', InvalidConfig, "expected something like 10"),
        ("compare_k = 2.5", InvalidConfig, "expected something like 10"),
        ("compare_k = true", InvalidConfig, "expected something like 10"),
        ("compare_k = 0", InvalidConfig, "1 or more"),
        ("overlap_threshold = 1.5", InvalidConfig, "up to 1"),
        ("compare_to = 3", UnknownName, "did you mean compare_k"),
    ],
)
def test_a_comparison_that_cannot_be_read_so_is_refused_with_the_file(
    line: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    config = registry_of(tmp_path, f"[comparison]\n{line}\n").config
    with pytest.raises(error, match=message) as caught:
        comparison_options(config)
    assert "eval-pipeline.toml" in str(caught.value)
