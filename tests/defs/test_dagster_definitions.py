from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.defs.assets import computed_definitions, key_of
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.metadata import column_lineage, describe
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.errors import InvalidConfig, StoreError
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.settings import load_settings
from tests.projects import open_reader, project_of

from .deliveries import make_settings

OWN_FORMULA = """-- keys: {found_twice: "Whether the first expected chunk is among the hits twice"}
-- version: 1
-- applies: n_expected > 0
-- undefined: 0 when it was not found
-- examples:
--   - {expected_chunk_ids: [a], hits: [a, a]} => {found_twice: 1}
select run_key, query_key, cast(count_within(hit_ranks, 1000) >= 2 as double) as found_twice
from facts.chunk_ranks
"""
SOURCES = (dg.AssetKey(["sources", "golden_sets"]), dg.AssetKey(["sources", "chunk_archives"]))


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(load_settings({}))


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    return build_definitions(project_of(make_settings(tmp_path_factory.mktemp("empty"))))


def graph_of(definitions: dg.Definitions):
    return definitions.resolve_asset_graph()


def test_the_definitions_load_before_there_is_a_store(definitions, tmp_path):
    dg.Definitions.validate_loadable(definitions)
    assert not list(tmp_path.iterdir())


def test_the_code_location_is_what_the_environment_says(monkeypatch, tmp_path):
    from eval_pipeline.definitions import definitions as code_location

    monkeypatch.setenv("EVAL_PIPELINE_DB", str(tmp_path / "mine.duckdb"))
    found = code_location()
    assert found.resources["store"].settings.db == tmp_path / "mine.duckdb"


def test_every_definition_is_an_asset_of_its_schemas_group(definitions, registry):
    graph = graph_of(definitions)
    assert len(computed_definitions(registry)) > 20
    for one in computed_definitions(registry):
        node = graph.get(key_of(one.name))
        assert node.group_name == one.schema
        assert node.code_version == one.fingerprint
        assert node.partitions_def.name == "eval_run"
        assert node.kinds == ({"duckdb", "python", "polars"} if one.is_python else {"duckdb", "sql"})


def test_an_asset_depends_on_what_its_definition_reads(definitions, registry):
    graph = graph_of(definitions)
    for one in computed_definitions(registry):
        parents = {key.to_user_string() for key in graph.get(key_of(one.name)).parent_keys}
        derived = {name.replace(".", "/") for name in one.reads if name in registry.definitions}
        assert derived <= parents
        assert any(name.startswith("labels.") for name in one.reads) == (
            "sources/golden_sets" in parents
        ) or ("metrics.formula" in one.reads)
        assert any(name.startswith("raw.archive") for name in one.reads) == (
            "sources/chunk_archives" in parents
        )


def test_raw_tables_belong_to_the_part_of_a_run_that_delivered_them(definitions):
    graph = graph_of(definitions)
    assert dg.AssetKey(["raw", "results"]) in graph.get(dg.AssetKey(["facts", "chunk_ranks"])).parent_keys
    raw = {key.path[1] for key in graph.get_all_asset_keys() if key.path[0] == "raw"}
    assert raw == {"results", "extractions", "index_reports", "spot_checks", "judgements"}


def test_run_metrics_depends_on_every_metric(definitions, registry):
    parents = graph_of(definitions).get(dg.AssetKey(["aggregates", "run_metrics"])).parent_keys
    assert {key_of(one.name) for one in registry.formulas} <= parents


def test_a_source_feeds_every_run_whatever_its_dataset(definitions, registry):
    graph = graph_of(definitions)
    for key in SOURCES:
        children = graph.get(key).child_keys
        assert children
        for child in children:
            mapping = graph.get_partition_mapping(child, key)
            assert isinstance(mapping, dg.AllPartitionMapping)


def test_a_new_file_in_ones_own_folder_appears_as_an_asset_with_its_check(tmp_path):
    own = tmp_path / "mine"
    (own / "metrics").mkdir(parents=True)
    (own / "metrics" / "found_twice.sql").write_text(OWN_FORMULA)
    found = build_definitions(project_of(replace(make_settings(tmp_path), own_sql=own)))
    graph = graph_of(found)
    key = dg.AssetKey(["metrics", "found_twice"])
    assert graph.get(key).parent_keys == {dg.AssetKey(["facts", "chunk_ranks"])}
    assert key in graph.get(dg.AssetKey(["aggregates", "run_metrics"])).parent_keys
    assert dg.AssetCheckKey(key, "values_in_range") in graph.asset_check_keys


def test_a_description_begins_with_a_sentence_and_holds_examples_and_the_statement_that_runs(registry):
    text = describe(registry.get("reciprocal_rank"))
    header = registry.get("reciprocal_rank").header
    assert text.splitlines()[0] == header.about
    assert all(example.line in text for example in header.examples)
    assert text.endswith("from facts.chunk_ranks\n```") and "when first_rank <= 10 then" in text


def test_a_description_shows_no_parameter_by_its_name_alone(registry):
    text = describe(registry.get("reciprocal_rank"))
    assert "**Applies** where `n_expected > 0`; null elsewhere." in text
    assert "**Edge case**: 0 when no expected chunk is in the top 10." in text
    answered = describe(registry.get("refusal_correctness"))
    assert "where `n_expected = 0 and says_grounded and (has_answer and not is_error)`" in answered
    for one in registry:
        applies = next((line for line in describe(one).splitlines() if line.startswith("**Applies**")), "")
        assert "$" not in applies and "' = '" not in applies, one.name


def test_every_asset_begins_with_a_sentence_about_what_it_is(definitions):
    graph = graph_of(definitions)
    for key in graph.get_all_asset_keys():
        first = (graph.get(key).description or "").splitlines()[0]
        assert len(first) > 20 and first[-1] in ".?:" and first[0].isupper(), (key, first)


def test_results_and_the_numbers_of_runs_are_fresh_for_as_many_hours_as_are_said(definitions, tmp_path):
    (tmp_path / "eval-pipeline.toml").write_text("[dagster]\nfresh_within_hours = 1.5\n")
    other = build_definitions(project_of(make_settings(tmp_path)))
    for found, hours in ((definitions, 26), (other, 1.5)):
        graph = graph_of(found)
        policies = {
            key: graph.get(key).freshness_policy_or_from_metadata for key in graph.get_all_asset_keys()
        }
        windows = {key.path[-1]: one.fail_window.to_timedelta() for key, one in policies.items() if one}
        assert windows == dict.fromkeys(("results", "run_metrics"), dt.timedelta(hours=hours))


def test_metrics_can_be_selected_by_their_family(definitions):
    selected = dg.AssetSelection.tag("family", "refusal").resolve(graph_of(definitions))
    assert {key.path[-1] for key in selected} == {"abstention", "hallucination", "refusal_correctness"}


def test_column_lineage_names_columns_that_their_tables_have(registry):
    reciprocal = column_lineage(registry.get("reciprocal_rank"), registry)
    named = {(dep.asset_key.to_user_string(), dep.column_name) for dep in reciprocal["mrr"]}
    assert ("facts/chunk_ranks", "first_rank") in named
    for one in registry:
        for deps in column_lineage(one, registry).values():
            for dep in deps:
                assert dep.column_name in registry.definitions[".".join(dep.asset_key.path)].keys


def test_the_columns_of_the_aggregates_are_those_of_their_table_each_with_its_meaning(
    definitions, empty_store
):
    metadata = graph_of(definitions).get(dg.AssetKey(["aggregates", "run_metrics"])).metadata
    shown = metadata["dagster/column_schema"].columns
    with open_reader(empty_store) as con:
        stored = {name: kind for name, kind, *_ in con.execute("describe aggregates.run_metrics").fetchall()}
    words = {"VARCHAR": "text"}
    assert {column.name: column.type for column in shown} == {
        name: words.get(kind, kind.lower()) for name, kind in stored.items() if name != "source"
    }
    assert all(column.description for column in shown)


def test_the_public_names_of_jobs_sensors_and_the_schedule_stand(definitions):
    repository = definitions.get_repository_def()
    wanted = {"nightly_evaluation", "recompute_stale", "new_comparisons", "publish_pages"}
    assert wanted <= {job.name for job in repository.get_all_jobs()}
    assert {sensor.name for sensor in repository.sensor_defs} == {
        "new_runs",
        "new_comparisons",
        "stale_metrics",
        "failed_runs",
    }
    nightly = repository.get_schedule_def("nightly")
    assert (nightly.cron_schedule, nightly.default_status) == ("0 2 * * *", dg.DefaultScheduleStatus.STOPPED)
    off = [one.name for one in repository.sensor_defs if one.default_status != dg.DefaultSensorStatus.RUNNING]
    assert off == ["failed_runs"]
    assert "Takes the night in" in nightly.description


def test_the_nightly_job_holds_everything_from_raw_to_aggregates(definitions, registry):
    job = definitions.resolve_job_def("nightly_evaluation")
    wanted = {key_of(one.name) for one in computed_definitions(registry)}
    assert wanted | {dg.AssetKey(["raw", "results"])} <= set(job.asset_layer.executable_asset_keys)


def test_the_resource_carries_the_settings_of_the_call(tmp_path):
    settings = replace(make_settings(tmp_path), own_sql=Path("/somewhere"))
    assert StoreResource.of(settings).settings == settings


LIMITS = {"threads": 1, "memory_limit": "111MiB"}
ASKED_FOR = (
    "select current_setting('threads'), current_setting('memory_limit'), current_setting('temp_directory')"
)


def test_the_limits_of_the_resource_hold_for_what_a_run_opens_and_for_nothing_afterwards(
    empty_store, tmp_path
):
    settings = replace(make_settings(tmp_path), db=empty_store)
    usual = {name: getattr(StoreResource.of(settings), name) for name in StoreResource.model_fields}
    resource = StoreResource(
        **{**usual, "connection_config": {**LIMITS, "temp_directory": str(tmp_path / "t")}}
    )
    seen = []

    def look(con):
        seen.append(con.sql(ASKED_FOR).fetchall()[0])

    @dg.asset
    def looked(store: StoreResource):
        with store.reading() as con:
            look(con)
        # As what the product computes opens the file.
        with store.limited(), open_reader(store.settings.db) as con:
            look(con)

    with open_reader(empty_store) as con:
        look(con)
    assert dg.materialize([looked], resources={"store": resource}).success
    with open_reader(empty_store) as con:
        look(con)
    wanted = (1, "111.0 MiB", str(tmp_path / "t"))
    before, *limited, after = seen
    assert limited == [wanted, wanted]
    assert before == after != wanted


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"access_mode": "READ_ONLY"}, "there is: threads, memory_limit, temp_directory"),
        ({"threads": 1, "worker_threads": 4}, "no 'worker_threads'"),
        ({"threads": 0}, "a whole number from 1"),
        ({"threads": 10**30}, "a whole number from 1"),
        ({"threads": True}, "a whole number from 1"),
        ({"memory_limit": "much"}, 'such as "500MB"'),
        ({"memory_limit": "0MB"}, 'such as "500MB"'),
        ({"temp_directory": __file__}, "a folder"),
    ],
)
def test_what_a_connection_cannot_be_configured_to_is_refused_in_words(tmp_path, asked, said):
    settings = make_settings(tmp_path)
    usual = {name: getattr(StoreResource.of(settings), name) for name in StoreResource.model_fields}
    with pytest.raises(InvalidConfig, match=said):
        StoreResource(**{**usual, "connection_config": asked})


def test_a_limit_that_nothing_fits_into_does_not_call_the_store_broken(empty_store, tmp_path):
    settings = replace(make_settings(tmp_path), db=empty_store)
    usual = {name: getattr(StoreResource.of(settings), name) for name in StoreResource.model_fields}
    resource = StoreResource(**{**usual, "connection_config": {"memory_limit": "10KB"}})
    with pytest.raises(StoreError, match="Out of Memory") as raised, resource.reading():
        pass
    assert "rebuild" not in str(raised.value)
