"""What a reader has to know before believing a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from eval_pipeline.comparing._whole_runs import compare_cases
from eval_pipeline.comparing.documents import SAYS_IMPLAUSIBLE, UNLABELLED, UNRECORDED, Counts
from eval_pipeline.comparing.material import Material, Paired, SpanFacts
from eval_pipeline.comparing.pair_rows import ComparedRun
from eval_pipeline.comparing.states import DELIVERED, FROZEN, _computed_alike, _formula_differences
from eval_pipeline.computing.judges import Setup, asks_of, differing_asks
from eval_pipeline.computing.ledger import FAILED
from eval_pipeline.config import Config
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.scores import PREFIX
from eval_pipeline.records import SCORED_ASKS
from eval_pipeline.showing.blocks import problems_of_setups
from eval_pipeline.showing.undefined import SPAN
from eval_pipeline.store.runs import NightRun
from eval_pipeline.words import count, decimal, signed

SMALL_N: Final = 30
NAMED: Final = 5
NOT_KNOWN_ALIKE: Final = "the runs are not known to be of one chunker version"
WAY_OUT: Final = (
    "`eval-pipeline load FILE --chunker NAME` says which one it is, as config.chunker_version of run.json does in a "
    "bundle"
)
OF_ANOTHER_KIND: Final = (
    "values made of different kinds of scores (judgements or delivered ones, judges that the suite chooses or any, "
    "scores with labels or without)"
)
JUDGES_DIFFER: Final = "judge configurations differ"


def _warnings_of(material: Material, registry: Registry, counts: Counts) -> list[str]:
    """In a fixed order: what is compared, how it was computed, what is missing, how little it is."""
    paired = material.paired
    cases = _about_cases(material)
    if paired.is_without_results:
        return [*_about_runs(paired), *_about_definitions(registry.summaries, paired), *cases]
    return [
        *_about_runs(paired, counts.not_comparable),
        *_about_chunkers(material, registry, counts),
        *_about_definitions([*paired.formulas, *registry.summaries], paired),
        *_about_values(paired),
        *_about_coverage(paired),
        *_about_config(paired, registry),
        *_about_queries(paired),
        *cases,
    ]


def _caveats_of(paired: Paired, registry: Registry) -> dict[str, str]:
    """Metric → why its difference does not say what it seems to say."""
    found: dict[str, str] = {}
    differing = differing_asks(paired.a.judges, paired.b.judges)
    found |= {
        one.metric: _scorers_differ(paired, one.metric) if one.metric in differing else JUDGES_DIFFER
        for one in paired.compared
        if asks_of(one.metric, differing)
    }
    if not paired.is_exact and not paired.is_unlabelled:
        found |= dict.fromkeys(chunk_level_metrics(registry, paired), _why_unstable(paired))
    return found


def _scorers_differ(paired: Paired, metric: str) -> str:
    """Return why a delivered score of the two runs is not compared."""
    settings = _differing_settings(paired.a.judges.get(metric), paired.b.judges.get(metric))
    return f"scores of different scorers ({settings})"


def _why_unstable(paired: Paired) -> str:
    """Why ids of chunks say nothing about the two runs; what is not recorded is not called different."""
    versions = [run.config["chunker_version"] for run in (paired.a, paired.b)]
    if paired.both.is_by_span:
        why = "no characters are known to match them by: deliver source_spans with the hits"
        return f"{_other_labels(paired)}, and {why}"
    if None in versions:
        return NOT_KNOWN_ALIKE
    before, after = versions
    return f"the runs are of chunkers {before} and {after}, and the labels name chunk ids of one of them"


def _is_judged(metric: str) -> bool:
    """Whether a judge's score stands behind the metric: these carry the judge in their name."""
    return metric.startswith("judge_")


def chunk_level_metrics(registry: Registry, paired: Paired) -> list[str]:
    """The metrics that compare chunk ids with labels, which mean nothing to another chunker."""
    return [key for one in paired.formulas if registry.compares_chunk_ids(one) for key in one.keys]


def _about_runs(paired: Paired, n_not_comparable: int = 0) -> Iterator[str]:
    a, b = paired.a, paired.b
    if a.run_key == b.run_key:
        yield f"both are the same run, {a.run_id}: every difference is 0"
    if a.dataset_key != b.dataset_key:
        different = sum(not query.same_labels for query in paired.queries)
        told = f"different datasets: {a.run_id} is scored on {a.dataset!r}, {b.run_id} on {b.dataset!r}"
        yield (
            told
            if paired.is_without_results
            else (
                f"{told}; queries are paired by their id ({_queries(len(paired.queries))}), and those that expect "
                f"different chunks ({different:,}) are not comparable"
            )
        )
    for name, run in ((a.run_id, a), (b.run_id, b)):
        if run.n_results == 0 and not paired.is_without_results:
            yield f"{run.run_id} has no results: there is nothing to pair"
        if run.n_quarantined:
            yield (
                f"in quarantine for {name}: {count(run.n_quarantined, 'row')}, counted as missing; "
                "`eval-pipeline quarantine` shows them"
            )
        if run.implausible:
            yield f"{name}{SAYS_IMPLAUSIBLE}{run.implausible.sentence}"
        if run.run_id in paired.attempts:
            yield from _about_attempt(paired.attempts[run.run_id])
    for run, n in zip((a, b), paired.hits_without_spans, strict=True):
        if n:
            yield (
                f"without source_spans in {run.run_id}: {count(n, 'hit')}, which metrics of spans cannot find; deliver "
                "source_spans with every hit"
            )
    if paired.is_exact and paired.is_comparable and n_not_comparable and a.dataset_key == b.dataset_key:
        yield f"not comparable: {_queries(n_not_comparable)}, for which nothing was computed"


def _about_attempt(run: NightRun) -> Iterator[str]:
    if run.superseded_by:
        yield f"{run.run_id} was replaced by {run.superseded_by}"
    if not run.is_complete and run.n_results:
        asked, missing = run.n_golden - run.n_not_asked, run.n_missing - run.n_not_asked
        if not missing:
            yield f"{run.run_id} is incomplete: its evaluation has not come to its end; it stands for no night"
            return
        yield (
            f"{run.run_id} is incomplete: {_queries(missing)} of {asked:,} without a result; "
            "it stands for no night"
        )


def _about_chunkers(material: Material, registry: Registry, counts: Counts) -> Iterator[str]:
    paired = material.paired
    if paired.is_unlabelled:
        return  # There is nothing that either could match.
    versions = [run.config["chunker_version"] for run in (paired.a, paired.b)]
    if paired.is_exact and paired.shared:
        yield _matched_by_id(paired)
    if not paired.is_exact:
        if None in versions:
            yield _about_unrecorded(material, counts)
        compared = {one.metric for one in paired.compared}
        metrics = _named([key for key in chunk_level_metrics(registry, paired) if key in compared])
        if metrics and paired.is_comparable:
            because = _why_unstable(paired)
            yield (
                f"deltas of chunk-level metrics are unstable across chunkers, because {because}: read what is "
                f"matched by document and span (fallback_metrics in JSON) instead of {metrics}"
            )
        yield from _about_missing_spans((paired.a, paired.b), material.spans)
        unplaced = frozenset().union(*material.spans.unplaced) if material.spans else frozenset()
        n = counts.not_comparable - len(unplaced)
        if n and paired.is_comparable:
            yield (
                f"not comparable: {_queries(n)}; the spans of their expected chunks are neither frozen in the golden "
                "set nor in an archive"
            )
    if paired.both.is_by_span:
        yield _about_other_chunker(paired)
    yield from _about_stale_labels(paired, material.stale_labels)


def _about_stale_labels(paired: Paired, n: int) -> Iterator[str]:
    if n:
        yield (
            f"stale labels: {n:,} expected ids not in the run's inventory (chunker "
            f"{paired.b.config['chunker_version']!r}); neither run can find them"
        )


def _about_other_chunker(paired: Paired) -> str:
    """Describe how two runs are compared if the labels do not name their chunker."""
    spans = [
        pair.metric for pair in paired.compared if pair.metric.endswith(SPAN) and pair.pairs.on_both.any()
    ]
    how = (
        f"expected chunks are matched by document and characters ({_named(spans)})"
        if spans
        else "no characters of expected chunks are known, so retrieval is not compared"
    )
    return f"{_other_labels(paired)}: {how}"


def _other_labels(paired: Paired) -> str:
    owners = " and ".join(paired.a.labels_of or ()) or "several chunkers"
    return f"labels name chunks of {owners}, not of {paired.a.config['chunker_version']}"


def _matched_by_id(paired: Paired) -> str:
    """That two runs are taken to be of one chunker, and what their ids say about it; empty where a version says so."""
    return f"{UNRECORDED}; {_in_common(paired)}" if paired.shared and paired.is_exact else ""


def _in_common(paired: Paired) -> str:
    assert paired.shared is not None
    common, fewer = paired.shared.common, paired.shared.fewer
    if not fewer:
        return "one of the runs retrieved nothing"
    share = f"{common:,} of {count(fewer, 'retrieved id')} ({common / fewer:.0%})"
    return f"in common are {share}, counted in the run with fewer of them"


def _about_unrecorded(material: Material, counts: Counts) -> str:
    """What is done about chunkers that nobody recorded, and what would help where it decides nothing."""
    paired = material.paired
    if paired.shared:
        return (
            f"no chunker version recorded on either side, and {_in_common(paired)}: not comparable; {WAY_OUT}"
        )
    missing = [run.run_id for run in (paired.a, paired.b) if run.config["chunker_version"] is None]
    told = f"no chunker version is recorded for {' and '.join(missing)}: matched by document and span"
    return f"{told}; where no spans decide, {WAY_OUT}" if counts.not_comparable else told


def _about_missing_spans(runs: Sequence[ComparedRun], spans: SpanFacts | None) -> Iterator[str]:
    """The queries that cannot be compared because hits have no characters, and what to do about it."""
    for run, unplaced in zip(runs, spans.unplaced if spans else (), strict=False):
        if unplaced:
            yield (
                f"without source_spans in {run.run_id}: hits of {_queries(len(unplaced))}, which are not comparable "
                "by document and span; deliver source_spans with the hits, or load the inventory of chunker "
                f"{run.config['chunker_version']!r}"
            )


def _about_definitions(compared: Sequence[Definition], paired: Paired) -> Iterator[str]:
    # Runs without labels differ in their queries at most, which is said of the queries.
    differences = _formula_differences(
        compared,
        paired.states_a,
        paired.states_b,
        names=(paired.a.run_id, paired.b.run_id),
        with_labels=paired.reads_same_labels,
    )
    changed = {
        one.name: f"{one.name} ({one.what})" for one in differences if one.what not in ("labels", DELIVERED)
    }
    if changed:
        yield (
            f"values computed under different definitions: {_named(list(changed.values()))}; "
            f"{_computed_alike(changed, paired.states_a, paired.states_b)} computes both with the ones that hold now"
        )
    delivered = [one.name for one in differences if one.what == DELIVERED]
    if delivered:
        yield f"{OF_ANOTHER_KIND}: {_named(delivered)}; computing them again changes nothing"
    relabelled = [one.name for one in differences if one.what == "labels"]
    if relabelled and paired.a.dataset_key == paired.b.dataset_key:
        yield f"values computed with different labels: {_named(relabelled)}"


def _about_values(paired: Paired) -> Iterator[str]:
    for name, states in ((paired.a.run_id, paired.states_a), (paired.b.run_id, paired.states_b)):
        missing = sorted(one for one, reason in states.reasons.items() if reason == "missing")
        forgotten = sorted(one for one, reason in states.reasons.items() if reason == FROZEN)
        stale = sorted(
            f"{one} ({reason})"
            for one, reason in states.reasons.items()
            if reason not in ("missing", FROZEN, FAILED)
        )
        for formula, why in sorted(states.failed.items()):
            if formula.startswith("metrics."):
                yield f"without values for {name}, {formula.split('.', 1)[1]} failed: {why}"
        if missing:
            yield f"not computed for {name}: {_named(missing)}; `eval-pipeline run` computes what is missing"
        if stale:
            yield f"stale for {name}: {_named(stale)}; `eval-pipeline run --all` computes them anew"
        pinned = sorted(f"{one} ({reason})" for one, reason in states.pinned.items())
        if pinned:
            yield (
                f"left on an older definition on purpose for {name}: {_named(pinned)}; `eval-pipeline apply --pinned` "
                "computes them with the ones that hold now"
            )
        if forgotten:
            yield f"without values for {name}, whose texts were forgotten: {_named(forgotten)}"


def _about_coverage(paired: Paired) -> Iterator[str]:
    for pair in paired.compared:
        coverage = pair.coverage()
        if coverage and coverage.is_partial:
            yield f"{pair.metric}: {coverage.in_words(pair.metric, paired.a.run_id, paired.b.run_id)}"


def _about_judges(paired: Paired, config: Config) -> Iterator[str]:
    a, b = paired.a, paired.b
    differing: dict[str, list[str]] = {}
    for ask in differing_asks(a.judges, b.judges):
        if ask.startswith(PREFIX):
            yield f"{ask} has {_scorers_differ(paired, ask)}: the change is shown and not tested"
            continue
        differing.setdefault(_differing_settings(a.judges.get(ask), b.judges.get(ask)), []).append(ask)
    for settings, asks in differing.items():
        about = "" if asks == list(SCORED_ASKS) else f" for {', '.join(asks)}"
        yield f"judge configurations differ{about} ({settings}): judge metrics are not comparable"
    is_judged_at_all = any(_is_judged(one.metric) and one.pairs.on_both.any() for one in paired.compared)
    for run in (a, b):
        problems = problems_of_setups(run.judges) if is_judged_at_all else []
        if problems:
            yield f"the judge of {run.run_id} is not pinned ({', '.join(problems)})"
        alarm = run.canary.problem(config.canary_alarm(run.suite)) if run.canary else None
        if alarm:
            yield f"the judge of {run.run_id} has changed within its season ({alarm})"


def _differing_settings(a: Setup | None, b: Setup | None) -> str:
    """`version 'v1' and 'v2'`, of a judge that only one run has all of them."""
    return ", ".join(
        f"{name} {_recorded(before)} and {_recorded(after)}"
        for name, before, after in zip(Setup._fields, a or Setup(), b or Setup(), strict=True)
        if before != after
    )


def _about_config(paired: Paired, registry: Registry) -> Iterator[str]:
    a, b = paired.a, paired.b
    yield from _about_judges(paired, registry.config)
    top_a, top_b = a.config["top_k"], b.config["top_k"]
    if top_a != top_b:
        yield f"{a.run_id} was configured to retrieve {_hits(top_a)}, {b.run_id} {_hits(top_b)}"


def _recorded(setting: Any) -> str:
    return "not recorded" if setting is None else repr(setting)


def _hits(top_k: Any) -> str:
    return "an unrecorded number of hits" if top_k is None else count(top_k, "hit")


def _about_queries(paired: Paired) -> Iterator[str]:
    if paired.only_in_a or paired.only_in_b:
        yield (
            f"only in {paired.a.run_id}: {_queries(len(paired.only_in_a))}, only in {paired.b.run_id}: "
            f"{_queries(len(paired.only_in_b))}; values, verdicts and tests are over the queries in both, "
            "`aggregate_a` and `aggregate_b` in JSON over each run's own"
        )
    for name, failed in (
        (paired.a.run_id, sum(query.error_a for query in paired.queries)),
        (paired.b.run_id, sum(query.error_b for query in paired.queries)),
    ):
        if failed:
            yield f"failed in {name}: {_queries(failed)}, which count as stored"
    if 0 < len(paired.queries) < SMALL_N:
        yield (
            f"only {_queries(len(paired.queries))} in both runs: read each difference beside the smallest one that "
            "could have been shown (mde)"
        )


def _about_cases(material: Material) -> Iterator[str]:
    cases = compare_cases(*material.parts)
    if cases is None:
        return
    a, b = material.paired.a.run_id, material.paired.b.run_id
    lacking = [
        f"{count(len(ids), 'case')} {where}: {_named(ids)}"
        for ids, where in (
            (cases.only_in_a, f"only in {a}"),
            (cases.only_in_b, f"only in {b}"),
            (
                [case for case in cases.failed_in_a if case not in cases.failed_in_b],
                f"failed in {a} alone",
            ),
            (
                [case for case in cases.failed_in_b if case not in cases.failed_in_a],
                f"failed in {b} alone",
            ),
        )
        if ids
    ]
    if not lacking:
        return
    delta = cases.macro_f1_delta_in_both
    moved = "" if delta is None else f", where macro F1 moved by {signed(delta) if delta else decimal(delta)}"
    yield (
        f"{'; '.join(lacking)}; the values and tests of extraction are over the "
        f"{count(cases.scored_in_both, 'case')} scored in both{moved}"
    )


def _queries(n: int) -> str:
    return count(n, "query", plural="queries")


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


# What makes answers and scores, by its place in a run's configuration.
SETTINGS: Final = {
    "chunker_version": "chunker",
    "embedding_model": "embedding",
    "prompt_version": "prompt",
    "llm_model": "language model",
}


def _trust_of(material: Material, registry: Registry) -> list[str]:
    """What a verdict rests on, a few words each: what is missing, what is the same, what nobody recorded."""
    paired = material.paired
    found = [] if paired.is_without_results else [_in_both(paired)]
    for run_id, attempt in paired.attempts.items():
        if attempt.superseded_by:
            found.append(f"{run_id} was replaced by {attempt.superseded_by}")
    compared = registry.summaries if paired.is_without_results else [*paired.formulas, *registry.summaries]
    differing = {
        one.what
        for one in _formula_differences(
            compared,
            paired.states_a,
            paired.states_b,
            names=(paired.a.run_id, paired.b.run_id),
            with_labels=paired.reads_same_labels,
        )
    }
    found.append(
        UNLABELLED if paired.is_unlabelled else "labels differ" if "labels" in differing else "same labels"
    )
    found.append("definitions differ" if differing - {"labels", DELIVERED} else "same definitions")
    found += ["scores of another kind"] if DELIVERED in differing else []
    if not paired.is_without_results:
        found += [_judges(paired), *_scorers(paired), *_settings(paired)]
    return found


def _in_both(paired: Paired) -> str:
    n, alone = len(paired.queries), len(paired.only_in_a) + len(paired.only_in_b)
    told = f"{n:,} of {_queries(n + alone)} in both" if alone else f"{_queries(n)} in both"
    return f"{told}, matched by {'chunk id' if paired.is_exact else 'document and span'}"


def _judges(paired: Paired) -> str:
    a, b = paired.a.judges, paired.b.judges
    if any(not ask.startswith(PREFIX) for ask in differing_asks(a, b)):
        return "judges differ"
    is_recorded = any(setup != Setup() for ask, setup in a.items() if not ask.startswith(PREFIX))
    return "same judge" if is_recorded else "no judge recorded"


def _scorers(paired: Paired) -> Iterator[str]:
    """Whether the scores of others that both runs have come from the same scorers."""
    a, b = paired.a.judges, paired.b.judges
    common = [ask for ask in a if ask.startswith(PREFIX) and ask in b]
    differing = [ask for ask in differing_asks(a, b) if ask in common]
    if differing:
        yield f"scorers of {_named(differing)} differ"
    elif common:
        is_recorded = any(a[ask] != Setup() for ask in common)
        yield "same scorers" if is_recorded else "scorers not recorded"


def _settings(paired: Paired) -> Iterator[str]:
    told: dict[str, list[str]] = {"differs": [], "same": [], "not recorded": []}
    for place, name in SETTINGS.items():
        before, after = paired.a.config[place], paired.b.config[place]
        how = "differs" if before != after else "same" if before is not None else "not recorded"
        told[how].append(name)
    if told["differs"]:
        yield f"{_and(told['differs'])} {'differ' if len(told['differs']) > 1 else 'differs'}"
    if told["same"]:
        yield f"same {_and(told['same'])}"
    if told["not recorded"]:
        yield f"{_and(told['not recorded'])} not recorded"


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
