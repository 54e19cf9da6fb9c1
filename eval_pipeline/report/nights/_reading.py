"""What the page of a suite shows beside its runs, read from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.documents import CompareReport
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.comparing.pairs import find_pairs
from eval_pipeline.comparing.stored import stored_pairs
from eval_pipeline.computing.derived import table_columns
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.report.pages.material import (
    Night,
    NightCompared,
    QuestionRanks,
    RankMatrix,
    SuiteMaterial,
)
from eval_pipeline.showing import page_rows
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import NightRun, attempts, previous_complete_runs

NO_GATE: Final = "not judged"
INCOMPLETE: Final = "incomplete"
THE_NIGHT_BEFORE: Final = "the night before"
THE_BASELINE: Final = "the baseline"
# A comparison of two runs takes about a second; more of them nobody waits for.
MOST_COMPARED: Final = 2
NOT_COMPARED: Final = "the two are not compared yet"
NIGHTS_RANKED: Final = 1_000
NIGHTS_SHOWN: Final = 120
QUESTIONS_SHOWN: Final = 400
# A rank as a letter: more than 9 is one sign, so that every night takes one place.
FAR, NOT_FOUND, FAILED, NO_RESULT = "+", "–", "!", "·"
_LETTERS: Final = np.array([NO_RESULT, *"123456789", FAR, NOT_FOUND, FAILED])
_PLACE_FAR, _PLACE_NOT_FOUND, _PLACE_FAILED = 10, 11, 12

Numbers = NDArray[np.int64]


def read_nights(con: Connection, known: Sequence[NightRun], shown: Sequence[str]) -> list[Night]:
    """What was said of each of these runs that stand for a night, in their order."""
    verdicts = page_rows.gate_words(con, [run.run_key for run in known])
    by_id = {run.run_id: run for run in known}
    return [
        Night(run_id, run.night, verdicts.get(run.run_key, NO_GATE) if run.is_last_complete else INCOMPLETE)
        for run_id in shown
        if (run := by_id[run_id])
    ]


def golden_sets_asked(con: Connection, dataset: str, run_keys: Sequence[int]) -> dict[int, str]:
    """run_key → which version of the golden set was the newest when its results were delivered."""
    versions = page_rows.golden_versions(con, dataset)
    found = {}
    for run_key, delivered_at in page_rows.delivered_at(con, run_keys).items():
        place = max((n for n, (loaded_at, _) in enumerate(versions) if loaded_at <= delivered_at), default=0)
        if versions:
            found[run_key] = f"version {place + 1:,} ({versions[place][1]:,} questions)"
    return found


def read_ranks(
    con: Connection, dataset: str, nights: Sequence[tuple[int, str | None, Night]]
) -> RankMatrix | None:
    """(run_key, chunker, night), oldest first → the questions that flip most, over the newest nights."""
    if not table_columns(con, "facts.chunk_ranks"):
        return None
    read = nights[-NIGHTS_RANKED:]
    rows = page_rows.first_ranks(con, [key for key, _, _ in read])
    if not len(rows["run_key"]):
        return None
    query_keys, places = _places(rows, [key for key, _, _ in read])
    flips = _flips(places, [chunker for _, chunker, _ in read])
    names = page_rows.questions(con, dataset, [int(key) for key in query_keys])
    # What the golden set does not ask any more is no question of the suite.
    asked = [place for place, key in enumerate(query_keys) if int(key) in names]
    order = sorted(asked, key=lambda place: (-flips[place], names[int(query_keys[place])][0]))
    newest = places[:, ::-1][:, :NIGHTS_SHOWN]
    questions = [
        QuestionRanks(
            *names[int(query_keys[place])], int(flips[place]), "".join(_LETTERS[newest[place]].tolist())
        )
        for place in order[:QUESTIONS_SHOWN]
    ]
    shown = [night for _, _, night in reversed(read)][:NIGHTS_SHOWN]
    return RankMatrix(shown, questions, n_nights=len(nights), n_questions=len(order), n_counted=len(read))


def _places(rows: Mapping[str, Any], run_keys: Sequence[int]) -> tuple[Numbers, Numbers]:
    """The questions, and for each of them and each night the place of what became of it among the letters."""
    query_keys, of_query = np.unique(rows["query_key"], return_inverse=True)
    order = np.argsort(run_keys)
    of_night = order[np.searchsorted(np.asarray(run_keys)[order], rows["run_key"])]
    ranks = np.ma.filled(np.ma.asarray(rows["first_rank"]), 0).astype(np.int64)
    found = np.where(ranks == 0, _PLACE_NOT_FOUND, np.minimum(ranks, _PLACE_FAR))
    places = np.zeros((len(query_keys), len(run_keys)), dtype=np.int64)
    places[of_query, of_night] = np.where(rows["is_error"].astype(bool) & (ranks == 0), _PLACE_FAILED, found)
    return query_keys, places


def _flips(places: Numbers, chunkers: Sequence[str | None]) -> Numbers:
    """How often each question was found after a night without, or the reverse, among nights of one chunker."""
    flips = np.zeros(len(places), dtype=np.int64)
    for chunker in set(chunkers):
        own = places[:, [place for place, one in enumerate(chunkers) if one == chunker]]
        known = own != 0
        # A night without a result says nothing: what held before it holds on.
        last = np.maximum.accumulate(np.where(known, np.arange(own.shape[1]), -1), axis=1)
        is_found = np.take_along_axis((own > 0) & (own <= _PLACE_FAR), np.maximum(last, 0), axis=1)
        flips += ((is_found[:, 1:] != is_found[:, :-1]) & (last[:, :-1] >= 0)).sum(axis=1)
    return flips


def with_comparisons(project: Project, suites: Sequence[SuiteMaterial]) -> list[SuiteMaterial]:
    """The newest night of each beside the one before and the baseline: as stored, else, of a few, compared now."""
    wanted = [list(_wanted(one)) for one in suites]
    with project.read() as store:
        known = _stored(store, [(one.run_a, one.run_b) for pairs in wanted for one in pairs])
        left = _may_be_compared(store)
    found = []
    for suite, pairs in zip(suites, wanted, strict=True):
        compared = []
        for one in pairs:
            document = known.get((one.run_a, one.run_b))
            if document is not None:
                compared.append(replace(one, document=document))
                continue
            compared.append(_compared(project, one) if left > 0 else replace(one, why=NOT_COMPARED))
            left -= 1
        found.append(replace(suite, compared=compared))
    return found


def run_compared(project: Project, run_id: str) -> list[NightCompared]:
    """A run beside the night before and the baseline, compared now."""
    with project.read() as store:
        (run,) = attempts(store.con, [run_id]).values()
        before = previous_complete_runs(store.con, [run_id]).get(run_id)
        baseline = store.definitions().config.baseline_of(run.suite, run.dataset)
        is_there = baseline is not None and baseline in attempts(store.con, [baseline])
        left = _may_be_compared(store)
    wanted = _beside(run_id, before, baseline if is_there else None)
    return [_compared(project, one) if left else replace(one, why=NOT_COMPARED) for one in wanted]


def _may_be_compared(store: Store) -> int:
    """How many pairs; what is read to compare runs may not be computed yet, of any run."""
    return MOST_COMPARED if all(table_columns(store.con, name) for name in PAIR_FACTS) else 0


def _wanted(suite: SuiteMaterial) -> list[NightCompared]:
    """The newest answered night with the one before, and with the baseline where that is another."""
    answered = [run.facts.run_id for run in suite.runs if run.is_answer]
    if not answered:
        return []
    *older, newest = answered
    return _beside(newest, older[-1] if older else None, suite.baseline)


def _beside(run_id: str, before: str | None, baseline: str | None) -> list[NightCompared]:
    if before is not None and before == baseline:
        return [NightCompared(f"{THE_NIGHT_BEFORE}, which is {THE_BASELINE}", before, run_id)]
    others = {THE_NIGHT_BEFORE: before, THE_BASELINE: baseline}
    return [
        NightCompared(name, other, run_id) for name, other in others.items() if other not in (None, run_id)
    ]


def _stored(store: Store, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], CompareReport]:
    """Those that are stored and hold."""
    if not pairs:
        return {}
    holding = {(one.run_a, one.run_b) for one in find_pairs(store) if one.reason is None}
    kept = stored_pairs(store.con, [pair for pair in pairs if pair in holding])
    return {pair: one.document for pair, one in kept.items()}


def _compared(project: Project, one: NightCompared) -> NightCompared:
    try:
        return replace(one, document=compare(project, one.run_a, one.run_b))
    except EvalPipelineError as error:
        return replace(one, why=str(error))
