"""What pages show, collected from the store in one go, and handed to the report to be written."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from eval_pipeline.comparing.documents import CompareReport, GateReport
from eval_pipeline.comparing.stored import gate_verdicts
from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.scores import PREFIX
from eval_pipeline.report.links import NO_LINKS, Links
from eval_pipeline.report.pages.material import (
    ChunkRow,
    FormulaState,
    GateMark,
    GateVerdict,
    MetricFacts,
    Night,
    PairMaterial,
    QueryRow,
    QueryTexts,
    RunFacts,
    RunMaterial,
    SuiteMaterial,
    SuiteRun,
)
from eval_pipeline.showing import page_rows
from eval_pipeline.showing.marks import marks_of_runs
from eval_pipeline.showing.plausibility import (
    hidden_metrics,
    shown_per_query,
)
from eval_pipeline.showing.runs import PART_HEADLINES, part_headlines
from eval_pipeline.showing.scores import metrics_of, scored_configs
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import NightRun, RunRow, attempts, computed_with, find_run

HITS_READ: Final = 10
# Below this many queries everything is read; of more only as many as a page lists.
QUERIES_READ: Final = 2_000
RUNS_SHOWN: Final = 400


def run_page(project: Project, run_id: str, *, with_text: bool = True, links: Links = NO_LINKS) -> str:
    """The page of one run."""
    from eval_pipeline.report.nights._reading import run_compared
    from eval_pipeline.report.pages.run_page import render_run_page

    material = _read_run(project, run_id, with_text=with_text)
    return render_run_page(replace(material, links=links, compared=run_compared(project, run_id)))


def pair_page(
    project: Project,
    run_a: str,
    run_b: str,
    *,
    document: CompareReport | None = None,
    with_text: bool = True,
    links: Links = NO_LINKS,
    whole: str | None = None,
) -> str:
    """The page of two runs; `document` is their comparison where somebody has computed it already.

    Where `whole` is the address of this page as a whole, the answer is what the first screen needs.
    """
    from eval_pipeline.report.pages.pair_page import render_pair_page

    if document is None:
        from eval_pipeline.comparing.compare import compare

        document = compare(project, run_a, run_b)
    material = _read_pair(project, document, with_text=with_text, is_whole=whole is None)
    return render_pair_page(replace(material, links=links, whole=whole))


def suite_page(
    project: Project, *, suite: str | None = None, with_text: bool = True, links: Links = NO_LINKS
) -> str:
    """The page of one suite, or of all."""
    from eval_pipeline.report.nights._reading import with_comparisons
    from eval_pipeline.report.pages.suite_page import render_suite_page

    found = with_comparisons(project, read_suites(project, suite=suite))
    return render_suite_page([replace(one, with_text=with_text, links=links) for one in found])


def write_page(page: str, path: Path) -> None:
    """Put the page into place as a whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(page, "utf-8")
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def _read_run(project: Project, run_id: str, *, with_text: bool = True) -> RunMaterial:
    """Everything that the page of a run shows."""
    from eval_pipeline.showing.blocks import guide_version
    from eval_pipeline.showing.show import run_report

    with project.read() as store:
        run = find_run(store.con, run_id)
        registry = metrics_of(store, [run.run_key])
        queries = _queries_of(store.con, run)
        formulas = [one for one in registry.formulas if registry.applies_to(one, run.dataset)]
        return RunMaterial(
            document=run_report(store, run),
            facts=_facts(store.con, [run])[0],
            metrics=_metric_facts(registry, run.dataset),
            states=_states(store, [run])[0],
            queries=queries,
            values=shown_per_query(store, run, [*formulas, *registry.scores.values()]),
            texts=_texts(store.con, [run], [row.query_key for row in queries[:QUERIES_READ]], queries),
            latencies=page_rows.recorded_latencies(store.con, run),
            field_errors=_field_errors(store.con, run),
            guide_version=guide_version(store, run),
            with_text=with_text,
        )


def _read_pair(
    project: Project, document: CompareReport, *, with_text: bool = True, is_whole: bool = True
) -> PairMaterial:
    """What the page of two runs shows beside their comparison: everything, or what its first screen needs."""
    with project.read() as store:
        a, b = find_run(store.con, document.run_a), find_run(store.con, document.run_b)
        registry = project.definitions()
        gate = gate_verdicts(store.con, [b.run_key]).get(b.run_key)
        material = PairMaterial(
            document=document,
            facts=_two(_facts(store.con, [a, b])),
            metrics=[
                one
                for one in _metric_facts(metrics_of(store, [a.run_key, b.run_key]), a.dataset, b.dataset)
                if one.key in document.significance or not one.key.startswith(PREFIX)
            ],
            with_text=with_text,
            moved=_moved_values(store, (a, b), document),
            gate=gate if gate is not None and gate.baseline == a.run_id else None,
            margins={metric: one.margin for metric, one in _gate(registry).items() if one.margin is not None},
        )
        return _with_questions(store, (a, b), material) if is_whole else material


def _with_questions(store: Store, runs: tuple[RunRow, RunRow], material: PairMaterial) -> PairMaterial:
    """What is shown of every question and formula."""
    from eval_pipeline.report.comparison_rows import moved_queries

    moved = {entry.query_id for entry in moved_queries(material.document)[:QUERIES_READ]}
    rows_a, rows_b = (_queries_of(store.con, run) for run in runs)
    wanted = [row for row in rows_b if row.query_id in moved]
    return replace(
        material,
        states=_two(_states(store, runs)),
        queries=({row.query_id: row for row in rows_a}, {row.query_id: row for row in rows_b}),
        texts=_texts(store.con, runs, [row.query_key for row in wanted], wanted),
        slices=page_rows.slices_of(store.con, runs[1]),
    )


def _queries_of(con: Connection, run: RunRow) -> list[QueryRow]:
    """Return the run's scored queries; in a run with judgements only these give reasons and claims."""
    judged = page_rows.judged_words(con, run)
    rows = [QueryRow(*row) for row in page_rows.query_rows(con, run)]
    if not judged:
        return rows
    return [
        replace(row, judge_reasoning=reasoning, unsupported_claims=claims)
        for row in rows
        for reasoning, claims in [judged.get(row.query_key, (None, []))]
    ]


def _moved_values(store: Store, runs: tuple[RunRow, RunRow], document: CompareReport) -> dict[str, list[str]]:
    """Query id → the metrics of the first screen whose value is another one in b."""
    from eval_pipeline.report.verdict import verdict_on

    keys = [row.key for row in verdict_on(document).tiles]
    registry = store.definitions()
    formulas = [one for one in registry.formulas if not set(one.keys).isdisjoint(keys)]
    before, after = (shown_per_query(store, run, formulas) for run in runs)
    return {
        query_id: [key for key in keys if key in values and values[key] != before[query_id].get(key)]
        for query_id, values in after.items()
        if query_id in before
    }


def _two(entries: Sequence[Any]) -> tuple[Any, Any]:
    first, second = entries
    return first, second


def _metric_facts(registry: Registry, *datasets: str) -> list[MetricFacts]:
    """The catalogue's metrics that one of these datasets wants, in its order."""
    return [
        MetricFacts(
            key=key,
            formula=one.short_name,
            base=(one.variant_of or one.name).split(".", 1)[1],
            meaning=one.keys[key],
            applies=one.header.applies,
            undefined=_with_parameters(one.header.undefined, one.header.parameters),
            scale=one.header.scale,
            value_range=one.header.value_range,
            direction=one.header.direction,
            is_chunk_level=registry.compares_chunk_ids(one),
            # On a page the scores of others stand together, though each asks a question of its own.
            family=one.short_name if one.is_scored_by_name else one.family,
        )
        for key, one in registry.keys().items()
        if any(registry.applies_to(one, dataset) for dataset in datasets)
    ]


def _with_parameters(text: str | None, parameters: Mapping[str, object]) -> str | None:
    if text is None:
        return None
    for name, value in parameters.items():
        text = text.replace(f"${{{name}}}", str(value))
    return text


def _facts(con: Connection, runs: Sequence[RunRow]) -> list[RunFacts]:
    run_keys = [run.run_key for run in runs]
    rows = {row[0]: row[1:] for row in page_rows.run_facts(con, run_keys)}
    configs = scored_configs(con, {run_key: json.loads(row[-1]) for run_key, row in rows.items()})
    return [RunFacts(*(*rows[run_key][:-1], configs[run_key])) for run_key in run_keys]


def _states(store: Store, runs: Sequence[RunRow]) -> list[dict[str, FormulaState]]:
    """Formula → what its values of each run rest on and whether that holds; of other tables only what does not."""
    registry = store.definitions()
    marks = marks_of_runs(store, [run.run_key for run in runs])
    found = []
    for run in runs:
        computed = computed_with(store.con, run)
        own = marks.get(run.run_key, {})
        states = {}
        for one in registry:
            is_formula = one.schema == "metrics" and registry.applies_to(one, run.dataset)
            mark = own.get(one.name)
            if is_formula or mark:
                known = computed.get(one.name, {})
                state, reason = mark or ("fresh" if one.name in computed else "missing", None)
                states[one.short_name] = FormulaState(
                    one.short_name,
                    known.get("version"),
                    known.get("fingerprint"),
                    state,
                    reason,
                    tuple(one.keys),
                )
        found.append(states)
    return found


def _texts(
    con: Connection, runs: Sequence[RunRow], query_keys: Sequence[int], rows: Sequence[QueryRow]
) -> dict[str, QueryTexts]:
    """Query id → what was expected and what each run retrieved."""
    hits = [_chunks(page_rows.hits_of(con, run, query_keys, most=HITS_READ)) for run in runs]
    expected = _chunks(page_rows.expected_chunks(con, runs[-1], query_keys))
    found = {}
    wanted = set(query_keys)
    for row in rows:
        if row.query_key not in wanted:
            continue
        retrieved = [of_run.get(row.query_key, []) for of_run in hits]
        known = {chunk.chunk_id: chunk.text for side in retrieved for chunk in side if chunk.text}
        labelled = [
            ChunkRow(chunk.chunk_id, chunk.text or known.get(chunk.chunk_id))
            for chunk in expected.get(row.query_key, [])
        ]
        found[row.query_id] = QueryTexts(labelled, retrieved)
    return found


def _chunks(rows: Sequence[tuple[Any, ...]]) -> dict[int, list[ChunkRow]]:
    found: dict[int, list[ChunkRow]] = {}
    for query_key, *fields in rows:
        found.setdefault(query_key, []).append(ChunkRow(*fields))
    return found


def _field_errors(con: Connection, run: RunRow) -> dict[str, dict[str, int]]:
    from eval_pipeline.computing.history import computed_rows

    kinds = ("omission", "hallucination", "format_error", "wrong_value")
    return {
        row["field"]: {kind: row[f"n_{kind}"] for kind in kinds}
        for row in computed_rows(con, "aggregates.field_accuracy", run)
    }


def read_suites(project: Project, *, suite: str | None = None) -> list[SuiteMaterial]:
    """Every suite, or the one that is asked for; runs on several datasets are apart."""
    with project.read() as store:
        found = page_rows.suites(store.con, suite)
        if not found and suite is not None:
            raise UnknownName("suite", suite, page_rows.suite_names(store.con))
        if not found:
            raise UsageError("there is no run yet: `eval-pipeline load PATH` takes runs in")
        return [_suite(store, name, dataset) for name, dataset in found]


def _suite(store: Store, name: str | None, dataset: str) -> SuiteMaterial:
    from eval_pipeline.report.nights._reading import read_nights, read_ranks

    con = store.con
    known = [run for run in attempts(con).values() if (run.suite, run.dataset) == (name, dataset)]
    numbers = page_rows.attempt_numbers(con, [run.run_key for run in known])
    standing = _standing_runs(
        [(run.run_id, run.night, run.is_last_complete, numbers.get(run.run_key)) for run in known]
    )
    nights = read_nights(con, known, standing)
    shown = known[-RUNS_SHOWN:]
    registry = metrics_of(store, [run.run_key for run in shown])
    baseline = _baseline(registry, name, dataset)
    older = [run for run in known[: -len(shown)] if run.run_id == baseline]
    runs = _suite_runs(store, [*older, *shown], dataset)
    return SuiteMaterial(
        suite=name,
        dataset=dataset,
        runs=with_shown_attempts(runs[len(older) :]),
        n_left_out=len(known) - len(shown),
        metrics=[*_metric_facts(registry, dataset), *_part_facts(registry)],
        gate=_gate(registry),
        baseline=baseline,
        nights=nights,
        n_incomplete=sum(not run.is_complete for run in known),
        ranks=read_ranks(con, dataset, _with_chunkers(con, known, nights)),
        baseline_run=runs[0] if older else None,
    )


def _suite_runs(store: Store, shown: Sequence[NightRun], dataset: str) -> list[SuiteRun]:
    """What is stored of each of these runs."""
    from eval_pipeline.report.nights._reading import golden_sets_asked

    con, keys = store.con, [run.run_key for run in shown]
    runs = [RunRow(run.run_key, run.run_id, dataset, 0) for run in shown]
    quarantined = page_rows.quarantined_counts(con, keys)
    hidden = hidden_metrics(store, keys)
    values = _shown_values(con, keys, hidden)
    parts = part_headlines(store, [run.run_id for run in shown])
    meanings = page_rows.versions_behind(con, keys)
    marks = marks_of_runs(store, keys)
    golden, labels = golden_sets_asked(con, dataset, keys), page_rows.labels_behind(con, keys)
    verdicts = {key: _gate_verdict(one) for key, one in gate_verdicts(con, keys).items()}
    return [
        SuiteRun(
            facts,
            run.night,
            n_golden=run.n_golden - run.n_not_asked or run.n_golden,
            n_results=run.n_results,
            n_failed=run.n_failed,
            n_quarantined=quarantined.get(run.run_key, 0),
            is_complete=run.is_complete,
            is_unlabelled=not run.has_golden_set,
            is_answer=run.is_last_complete,
            replaced_by=run.superseded_by,
            values={**values.get(run.run_key, {}), **_part_values(parts.get(run.run_id, {}))},
            fingerprints=meanings.get(run.run_key, {}),
            n_stale=sum(state == "stale" for state, _ in marks.get(run.run_key, {}).values()),
            is_shown=False,
            gate=verdicts.get(run.run_key),
            is_implausible=run.run_key in hidden,
            golden=golden.get(run.run_key),
            labels=labels.get(run.run_key, {}),
        )
        for facts, run in zip(_facts(con, runs), shown, strict=True)
    ]


def _with_chunkers(
    con: Connection, known: Sequence[NightRun], nights: Sequence[Night]
) -> list[tuple[int, str | None, Night]]:
    """The answered nights with the keys of their runs and what chunked them."""
    keys = {run.run_id: run.run_key for run in known if run.n_results}
    chunkers = page_rows.chunker_versions(con, list(keys.values()))
    return [(key, chunkers.get(key), one) for one in nights if (key := keys.get(one.run_id)) is not None]


def _shown_values(
    con: Connection, keys: Sequence[int], hidden: Mapping[int, Mapping[str, str]]
) -> dict[int, dict[str, tuple[float | None, int]]]:
    """run_key → metric → (value, n), of whole runs, without what says nothing of a run."""
    return {
        run_key: {metric: one for metric, one in values.items() if metric not in hidden.get(run_key, ())}
        for run_key, values in page_rows.whole_values(con, keys).items()
    }


def _part_values(headlines: Mapping[str, tuple[float, int]]) -> dict[str, tuple[float | None, int]]:
    return {one.key: headlines[one.name] for one in PART_HEADLINES if one.name in headlines}


def _part_facts(registry: Registry) -> list[MetricFacts]:
    """What is measured over a whole run, as the catalogue describes it."""
    return [
        MetricFacts(
            key=headline.key,
            formula=one.short_name,
            base=one.short_name,
            meaning=one.keys[headline.column],
            applies=None,
            undefined=None,
            scale="fraction",
            value_range=(0, 1) if headline.is_share else (0, None),
            direction="higher" if headline.is_share else "lower",
            family=one.family,
        )
        for headline in PART_HEADLINES
        if (one := registry.definitions.get(headline.table)) and headline.column in one.keys
    ]


def _gate_verdict(document: GateReport) -> GateVerdict:
    """The worst of what the rules about a metric as a whole said."""
    metrics: dict[str, str] = {}
    for rule in document.rules:
        said = {metrics.get(rule.metric, "pass"), rule.verdict}
        if rule.slice is None:
            metrics[rule.metric] = next(one for one in ("fail", "inconclusive", "pass") if one in said)
    return GateVerdict(document.verdict, document.baseline, metrics)


def _standing_runs(runs: Sequence[tuple[str, dt.date, bool, int | None]]) -> list[str]:
    """Of (run, night, whether it is its answer, attempt) those that stand for their night, by night.

    Of a night without an answer that is its last attempt.
    """
    answered = {night for _, night, is_answer, _ in runs if is_answer}
    last = {night: run_id for run_id, night, _, _ in sorted(runs, key=lambda run: run[3] or 1)}
    standing = [
        (night, run_id)
        for run_id, night, is_answer, _ in runs
        if is_answer or (night not in answered and last[night] == run_id)
    ]
    return [run_id for _, run_id in sorted(standing, key=lambda one: one[0])]


def with_shown_attempts(runs: Sequence[SuiteRun]) -> list[SuiteRun]:
    """The runs by their nights, with those marked that stand for them."""
    standing = set(
        _standing_runs([(run.facts.run_id, run.night, run.is_answer, run.facts.attempt) for run in runs])
    )
    ordered = sorted(enumerate(runs), key=lambda place: (place[1].night, place[0]))
    return [replace(run, is_shown=run.facts.run_id in standing) for _, run in ordered]


def _gate(registry: Registry) -> dict[str, GateMark]:
    """Metric → how far the gate lets it fall."""
    from eval_pipeline.comparing.gate_rules import read_gate

    gate = read_gate(registry.config.gate, registry, path=registry.config.path)
    return {
        rule.metric: GateMark(
            rule.is_higher_better, None if rule.target is not None else rule.margin, rule.target
        )
        for rule in gate.rules
        if rule.slice is None
    }


def _baseline(registry: Registry, suite: str | None, dataset: str) -> str | None:
    """The run that others are held against, where eval-pipeline.toml names one for the suite or the dataset."""
    return registry.config.baseline_of(suite, dataset)
