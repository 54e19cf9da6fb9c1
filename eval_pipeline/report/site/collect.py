"""The pages of a question, of a formula, of all questions and of all suites, collected and drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from eval_pipeline.comparing.gate_rules import read_gate
from eval_pipeline.comparing.stored import gate_verdicts, stored_pairs
from eval_pipeline.computing.definition_versions import find_history
from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.catalogue import CORE, CORE_BY_SPAN, OF_QUERIES, describe, find_definition
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.report.comparison_rows import PREFERRED_K
from eval_pipeline.report.links import NO_LINKS, Links
from eval_pipeline.report.pages.collect import _suite, _with_parameters
from eval_pipeline.report.pages.material import ChunkRow
from eval_pipeline.report.site import _rows
from eval_pipeline.report.site._material import (
    Asked,
    FormulaMaterial,
    IndexMaterial,
    IndexRun,
    IndexSuite,
    LabelState,
    LastValue,
    QuestionMaterial,
    QuestionsMaterial,
)
from eval_pipeline.report.verdict import verdict_on
from eval_pipeline.showing import page_rows
from eval_pipeline.showing.plausibility import hidden_metrics
from eval_pipeline.showing.runs import runs_of_other_chunkers
from eval_pipeline.showing.scores import metrics_of
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import NightRun, RunRow, attempts, previous_complete_runs

# Of a suite so many nights are shown where nobody says how many.
NIGHTS: Final = 60
SCORES_SHOWN: Final = 4

SuiteName = tuple[str | None, str]


def question_page(
    project: Project, dataset: str, query_id: str, *, with_text: bool = True, links: Links = NO_LINKS
) -> str:
    """The page of one question over all the nights of its dataset."""
    from eval_pipeline.report.site._question_page import render_question_page

    with project.read() as store:
        (material,) = _read_questions(store, dataset, [query_id], with_text=with_text)
    return render_question_page(replace(material, links=links))


def suite_page(
    project: Project, suite: str | None, dataset: str, *, with_text: bool = True, links: Links = NO_LINKS
) -> str:
    """The page of one suite on one dataset."""
    from eval_pipeline.report.nights._reading import with_comparisons
    from eval_pipeline.report.pages.suite_page import render_suite_page

    with project.read() as store:
        if (suite, dataset) not in page_rows.suites(store.con, suite):
            known = [f"{name} on {of}" for name, of in page_rows.suites(store.con, None) if name]
            raise UnknownName("suite", f"{suite} on {dataset}", known)
        material = _suite(store, suite, dataset)
    (found,) = with_comparisons(project, [material])
    return render_suite_page([replace(found, with_text=with_text, links=links)])


def formula_page(project: Project, name: str, *, links: Links = NO_LINKS) -> str:
    """The page of a formula, by its name or one of its keys."""
    from eval_pipeline.report.site._formula_page import render_formula_page

    return render_formula_page(replace(_read_formula(project, name), links=links))


def questions_page(project: Project, dataset: str, *, with_text: bool = True, links: Links = NO_LINKS) -> str:
    """The list of a dataset's questions."""
    from eval_pipeline.report.site._index_page import render_questions_page

    with project.read() as store:
        _require_dataset(store, dataset)
        listed = [
            (query_id, text if with_text else None)
            for _, query_id, text in _rows.questions_of(store.con, dataset)
        ]
    return render_questions_page(QuestionsMaterial(dataset, listed, links))


def index_page(
    project: Project, *, suite: str | None = None, last: int = NIGHTS, links: Links = NO_LINKS
) -> str:
    """The first page: suites with what their newest night came to, runs, formulas, datasets."""
    from eval_pipeline.report.site._index_page import render_index_page

    with project.read() as store:
        material = _read_index(store, suite=suite, last=last)
    return render_index_page(replace(material, links=links))


def _require_dataset(store: Store, dataset: str) -> None:
    known = _rows.datasets(store.con)
    if dataset not in known:
        raise UnknownName("dataset", dataset, known)


def _read_questions(
    store: Store,
    dataset: str,
    query_ids: Collection[str],
    *,
    runs: Collection[str] | None = None,
    with_text: bool = True,
) -> Iterator[QuestionMaterial]:
    """What the pages of these questions show; of `runs` alone, where it says which."""
    con = store.con
    _require_dataset(store, dataset)
    listed = {query_id: (key, text) for key, query_id, text in _rows.questions_of(con, dataset)}
    for query_id in query_ids:
        if query_id not in listed:
            raise UnknownName(f"question of {dataset}", query_id, listed)
    shown = _shown_runs(store, dataset, runs)
    keys = [listed[query_id][0] for query_id in query_ids]
    asked, metrics = _read_asked(store, shown, keys)
    states = _label_states(store, dataset, keys, with_text=with_text)
    expected = _expected(store, dataset, keys)
    for query_id in query_ids:
        query_key, text = listed[query_id]
        yield QuestionMaterial(
            dataset=dataset,
            query_id=query_id,
            question=text if with_text else None,
            asked=asked.get(query_key, []),
            metrics={
                key: formula
                for key, formula in metrics.items()
                if any(one.values.get(key) is not None for one in asked.get(query_key, []))
            },
            labels=states[query_key],
            expected=expected.get(query_key, []),
            with_text=with_text,
        )


def _shown_runs(store: Store, dataset: str, runs: Collection[str] | None) -> list[NightRun]:
    """The newest night first."""
    known = attempts(store.con, runs).values()
    return sorted((run for run in known if run.dataset == dataset), key=lambda run: run.night)[::-1]


def _read_asked(
    store: Store, runs: Sequence[NightRun], query_keys: Sequence[int]
) -> tuple[dict[int, list[Asked]], dict[str, str]]:
    """Query → what each run made of it; and the metrics that are looked for, each with its formula."""
    con = store.con
    by_key = {run.run_key: run for run in runs}
    metrics = _metrics_shown(metrics_of(store, list(by_key)))
    values = _rows.values_of(con, metrics, list(by_key), query_keys)
    hidden = hidden_metrics(store, list(by_key))
    before = previous_complete_runs(con, [run.run_id for run in runs])
    answers = {(row[0], row[1]): row[2:] for row in _rows.answers_of(con, list(by_key), query_keys)}
    found: dict[int, list[Asked]] = {}
    for run in runs:
        for query_key in query_keys:
            if (answer := answers.get((run.run_key, query_key))) is None:
                continue
            own = values.get((run.run_key, query_key), {})
            out = hidden.get(run.run_key, {})
            shown = {key: value for key, value in own.items() if key not in out}
            one = Asked(run, before.get(run.run_id), not out, shown, *answer)
            found.setdefault(query_key, []).append(one)
    return found, {key: one.short_name for key, one in metrics.items()}


def _metrics_shown(registry: Registry) -> dict[str, Definition]:
    """The headlines of questions, their times, and the first few scores of others, each with its formula."""
    times = {key: one for one in registry.times for key in one.keys}
    known = registry.keys() | times
    scores = list(registry.scores)[:SCORES_SHOWN]
    return {key: known[key] for key in (*OF_QUERIES, *times, *scores) if key in known}


def _label_states(
    store: Store, dataset: str, query_keys: Sequence[int], *, with_text: bool
) -> dict[int, list[LabelState]]:
    """Query → what its labels were, the newest first; states that say the same stand once."""
    sets = _rows.golden_sets(store.con, dataset)
    labels = _rows.labels_of(store.con, [key for key, _, _ in sets], query_keys, with_text=with_text)
    found: dict[int, list[LabelState]] = {}
    for query_key in query_keys:
        states: list[LabelState] = []
        for golden_key, loaded_at, _ in sets:
            said = labels.get((golden_key, query_key), {})
            if (said or states) and (not states or states[-1].labels != said):
                states.append(LabelState(loaded_at, said))
        found[query_key] = states[::-1]
    return found


def _expected(store: Store, dataset: str, query_keys: Sequence[int]) -> dict[int, list[ChunkRow]]:
    """Query → the chunks that the labels in force expect."""
    in_force = [key for key, _, is_in_force in _rows.golden_sets(store.con, dataset) if is_in_force]
    found: dict[int, list[ChunkRow]] = {}
    for golden_key in in_force:
        rows = page_rows.expected_chunks(
            store.con, RunRow(0, "", dataset, golden_key, golden_key), query_keys
        )
        for query_key, chunk_id, text in rows:
            found.setdefault(query_key, []).append(ChunkRow(chunk_id, text))
    return found


def _read_formula(project: Project, name: str) -> FormulaMaterial:
    registry = project.definitions()
    one = find_definition(registry, name)
    gate = read_gate(registry.config.gate, registry, path=registry.config.path)
    history = find_history(project, one)
    with project.read() as store:
        last = [
            found for suite in page_rows.suites(store.con, None) if (found := _last_value(store, one, suite))
        ]
    return FormulaMaterial(
        described=describe(registry, one),
        undefined=_with_parameters(one.header.undefined, one.header.parameters),
        short_name=one.short_name,
        history=history[::-1],
        last=last,
        rules=[rule.metric for rule in gate.rules if rule.metric in one.keys and rule.slice is None],
    )


def _last_value(store: Store, one: Definition, suite: SuiteName) -> LastValue | None:
    """Of the newest night that is answered and has a value."""
    runs = [run for run in _runs_of(store, suite) if run.is_last_complete]
    if not runs:
        return None
    values = page_rows.whole_values(store.con, [runs[-1].run_key]).get(runs[-1].run_key, {})
    hidden = hidden_metrics(store, [runs[-1].run_key]).get(runs[-1].run_key, {})
    own = {key: values[key] for key in one.keys if key in values and key not in hidden}
    return LastValue(runs[-1], own) if any(value is not None for value, _ in own.values()) else None


def _runs_of(store: Store, suite: SuiteName) -> list[NightRun]:
    """By night, the newest last."""
    known = (run for run in attempts(store.con).values() if (run.suite, run.dataset) == suite)
    return sorted(known, key=lambda run: run.night)


def _read_index(store: Store, *, suite: str | None = None, last: int = NIGHTS) -> IndexMaterial:
    """Suites with their newest runs, formulas, datasets with their number of questions."""
    names = page_rows.suites(store.con, suite)
    if not names and suite is not None:
        raise UnknownName("suite", suite, page_rows.suite_names(store.con))
    registry = store.definitions()
    shown = dict.fromkeys(dataset for _, dataset in names)
    return IndexMaterial(
        suites=[_index_suite(store, one, last=last) for one in names],
        formulas=[(one.short_name, ", ".join(one.keys), _said_of(one)) for one in _shown_formulas(registry)],
        datasets=[(dataset, len(_rows.questions_of(store.con, dataset))) for dataset in shown],
    )


def _said_of(one: Definition) -> str:
    """What one of its keys says: of several depths not of the first hit alone."""
    return next(
        (meaning for key, meaning in one.keys.items() if PREFERRED_K in key),
        next(iter(one.keys.values()), ""),
    )


def _shown_formulas(registry: Registry) -> list[Definition]:
    """Those that have a page."""
    return sorted((one for one in registry.metrics), key=lambda one: one.short_name)


def _index_suite(store: Store, suite: SuiteName, *, last: int) -> IndexSuite:
    con = store.con
    known = _runs_of(store, suite)
    nights = sorted({run.night for run in known})
    shown = [run for run in known if not last or run.night in nights[-last:]][::-1]
    keys = [run.run_key for run in shown]
    before = previous_complete_runs(con, [run.run_id for run in shown])
    baseline = _baseline(store, suite)
    values, hidden = page_rows.whole_values(con, keys), hidden_metrics(store, keys)
    others = runs_of_other_chunkers(con)
    gates = gate_verdicts(con, keys)
    newest = next((run for run in shown if run.is_last_complete and run.run_id in before), None)
    pair = (before[newest.run_id], newest.run_id) if newest else None
    stored = stored_pairs(con, [pair]).get(pair) if pair else None
    return IndexSuite(
        *suite,
        runs=[
            IndexRun(
                run,
                before.get(run.run_id),
                baseline if baseline != run.run_id else None,
                {
                    key: values.get(run.run_key, {})[key]
                    for key in ((*CORE, *CORE_BY_SPAN) if run.run_id in others else CORE)
                    if key in values.get(run.run_key, {}) and key not in hidden.get(run.run_key, {})
                },
                gates[run.run_key].verdict if run.run_key in gates else None,
                is_judged=run.run_key not in hidden,
            )
            for run in shown
        ],
        n_runs=len(known),
        verdict=verdict_on(stored.document) if stored else None,
        verdict_pair=pair,
    )


def _baseline(store: Store, suite: SuiteName) -> str | None:
    """The pinned baseline, where there is such a run."""
    named = store.definitions().config.baseline_of(*suite)
    return named if named is not None and named in attempts(store.con, [named]) else None
