"""What is asked together: the family of a formula, and the keys that ask a question of their own."""

from __future__ import annotations

import pytest

from eval_pipeline.formulas.registry import Registry, load_registry
from tests.bundle_files import settings_in

BODY = "\nselect run_key, query_key, cast(n_hits as double) as x from raw.results\n"
OWN = "-- keys: {x: hits}\n-- scale: count\n-- range: [0, null]\n"


def registry_with(folder, header: str = OWN, toml: str = "") -> Registry:
    (folder / "sql" / "metrics").mkdir(parents=True)
    (folder / "sql" / "metrics" / "own.sql").write_text(header + BODY, "utf-8")
    settings = settings_in(folder, EVAL_PIPELINE_SQL=str(folder / "sql"))
    settings.config.write_text(toml, "utf-8")
    return load_registry(settings)


def test_a_formula_without_a_family_is_one_of_its_own_and_asks_by_its_first_key(tmp_path):
    own = registry_with(tmp_path).get("own")
    assert (own.family, own.headline) == ("own", ("x",))


def test_an_own_formula_joins_a_family_and_may_ask_nothing(tmp_path):
    own = registry_with(tmp_path, OWN + "-- family: retrieval\n-- headline: []\n").get("own")
    assert (own.family, own.headline) == ("retrieval", ())


def test_another_reading_belongs_to_the_family_and_asks_no_question_again(tmp_path):
    toml = (
        '[formulas.early]\nreading_of = "reciprocal_rank"\ncutoff = 3\n[formulas.hits]\nreading_of = "own"\n'
    )
    registry = registry_with(tmp_path, toml=toml)
    assert (registry.get("early").family, registry.get("early").headline) == ("retrieval", ())
    assert (registry.get("hits").family, registry.get("hits").headline) == ("own", ())


def test_where_other_cutoffs_are_asked_for_the_first_key_is_the_headline(tmp_path):
    registry = registry_with(tmp_path, toml="[formulas.hit_at_k]\nks = [2, 4]\n")
    assert registry.get("hit_at_k").headline == ("hit@2",)


@pytest.mark.parametrize("header", ["family: mine", "about: What?", "headline: x"])
def test_saying_more_about_a_formula_makes_nothing_stale(tmp_path, header):
    before = registry_with(tmp_path / "before").get("own").fingerprint
    assert registry_with(tmp_path / "after", f"{OWN}-- {header}\n").get("own").fingerprint == before


def test_parts_of_a_family_may_stay_out_of_the_table_of_slices(tmp_path):
    told = {one.short_name: one.header.slices for one in load_registry(settings_in(tmp_path)).formulas}
    assert (told["hit_at_k"], told["ndcg"]) == (True, False)
