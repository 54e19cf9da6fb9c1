"""The list of runs, each with its state, and what differs between two configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from eval_pipeline.bundle.secrets import masked
from eval_pipeline.computing.history import run_file
from eval_pipeline.documents import UNSET, Document, Help, UnsetType
from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.catalogue import CORE, CORE_BY_SPAN
from eval_pipeline.showing.run_state import run_states
from eval_pipeline.showing.runs import part_headlines, run_summaries, runs_of_other_chunkers
from eval_pipeline.showing.scores import scored_configs
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import NightRun, RunRow, attempts, find_run

FORMAT: Final = 1
LAST: Final = 20
EXTRACTION: Final = "extraction.macro_f1"
# What a run is called, when it was made and what it stands for: never the same, and no configuration.
OF_THE_ATTEMPT: Final = frozenset(
    ("run_id", "created_at", "night", "attempt", "replaces", "replicate_of", "suite_time_ms")
)


class ListedRun(Document, frozen=True):
    """A run, whether it holds, and the values that are looked at first."""

    run_id: Annotated[str, Help("The run.")]
    dataset: Annotated[str, Help("Its dataset.")]
    suite: Annotated[str | None, Help("Its suite; null where it has none.")]
    night: Annotated[str, Help("The night it belongs to.")]
    created_at: Annotated[str | None, Help("When it was made, in UTC; null where it does not say so.")]
    n_results: Annotated[int, Help("How many queries of the golden set it answered, failed ones too.")]
    failed: Annotated[int, Help("How many of them failed or timed out.")]
    missing: Annotated[int, Help("How many queries of the golden set are without a result.")]
    state: Annotated[
        str, Help("`fresh`, `stale`, `missing` (not computed yet), `waiting`, `implausible` or `incomplete`.")
    ]
    headline: Annotated[dict[str, float | None], Help("Metric: its stored value; null where it has none.")]
    config: Annotated[
        dict[str, Any] | UnsetType,
        Help(
            "Its configuration; `judge` and `judges` are what scores it now, as in `show`. Only of `runs RUN_ID`."
        ),
    ] = UNSET
    commit_hash: Annotated[
        str | UnsetType | None, Help("The commit it was made from, or null; only of `runs RUN_ID`.")
    ] = UNSET
    superseded_by: Annotated[str | None, Help("The run that replaces it; null where none does.")] = None


class RunList(Document, frozen=True):
    """The newest runs, the newest first."""

    format: Annotated[int, Help("The version of this form.")]
    runs: Annotated[list[ListedRun], Help("The runs, the newest first.")]
    n_runs: Annotated[int, Help("How many there are of this suite and dataset; `--last 0` lists them all.")]


class RunDiff(Document, frozen=True):
    """What differs between two runs' configurations, by value."""

    format: Annotated[int, Help("The version of this form.")]
    run_a: Annotated[str, Help("The first run.")]
    run_b: Annotated[str, Help("The second run.")]
    differs: Annotated[
        dict[str, list[Any]],
        Help(
            "Place in run.json (`config.…`, `dataset`, `suite`, `commit_hash`), or `labels` (the golden set that the "
            "stored numbers were made with, as a hash): both values, null where there is none."
        ),
    ]


def list_runs(
    project: Project,
    run_id: str | None = None,
    *,
    suite: str | None = None,
    dataset: str | None = None,
    last: int = LAST,
) -> RunList:
    """The newest runs of a suite and dataset (0: all of them), or the one that is named, with its configuration."""
    with project.read() as store:
        if run_id is not None:
            run = find_run(store.con, run_id)
            (listed,) = _listed(store, list(attempts(store.con, [run_id]).values()))
            delivered = run_file(store.con, run)
            config = scored_configs(store.con, {run.run_key: delivered})[run.run_key]
            commit = masked(delivered).get("commit_hash")
            return RunList(
                format=FORMAT,
                runs=[msgspec.structs.replace(listed, config=config, commit_hash=commit)],
                n_runs=1,
            )
        found = _of(store.con, suite, dataset)
        shown = found[-last:] if last else found
        return RunList(format=FORMAT, runs=_listed(store, shown[::-1]), n_runs=len(found))


def _of(con: Connection, suite: str | None, dataset: str | None) -> list[NightRun]:
    """The runs of this suite and dataset in run order; a name that no run has is an error."""
    found = list(attempts(con).values())
    for kind, name in (("suite", suite), ("dataset", dataset)):
        known = {str(value) for one in found if (value := getattr(one, kind)) is not None}
        if name is not None and name not in known:
            raise UnknownName(kind, name, known)
    return [one for one in found if suite in (None, one.suite) and dataset in (None, one.dataset)]


def _listed(store: Store, runs: Sequence[NightRun]) -> list[ListedRun]:
    run_ids = [one.run_id for one in runs]
    if not run_ids:
        return []
    states = run_states(store, run_ids)
    created = dict(
        store.con.execute(
            "select run_id, created_at from raw.runs where run_id in (select unnest(?))", [run_ids]
        ).fetchall()
    )
    headlines = _headlines(store, run_ids)
    return [
        ListedRun(
            run_id=one.run_id,
            dataset=one.dataset,
            suite=one.suite,
            night=one.night.isoformat(),
            created_at=created[one.run_id].isoformat() if created[one.run_id] else None,
            n_results=one.n_results,
            failed=one.n_failed,
            missing=0 if one.is_complete else max(0, one.n_missing - one.n_not_asked),
            state=states[one.run_id],
            headline=headlines[one.run_id],
            superseded_by=one.superseded_by,
        )
        for one in runs
    ]


def _headlines(store: Store, run_ids: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """Return run → headline → stored value.

    Span metrics come first if a run of another chunker is listed. Extraction is only there if the run has cases.
    """
    is_by_span = not runs_of_other_chunkers(store.con).isdisjoint(run_ids)
    keys = (*CORE_BY_SPAN, *CORE) if is_by_span else CORE
    values: dict[str, dict[str, float | None]] = {run_id: dict.fromkeys(keys) for run_id in run_ids}
    for run_id, summary in run_summaries(store, run_ids, (*CORE, *CORE_BY_SPAN)).items():
        values[run_id] |= {
            metric: value for metric, (value, _) in summary.metrics.items() if metric in values[run_id]
        }
    for run_id, parts in part_headlines(store, run_ids).items():
        if "extraction macro F1" in parts:
            values[run_id][EXTRACTION] = parts["extraction macro F1"][0]
    return values


def diff_runs(project: Project, run_a: str, run_b: str) -> RunDiff:
    """What differs between two configurations: run.json but for what tells attempts apart, and the labels."""
    with project.read() as store:
        a, b = (_configuration(store.con, find_run(store.con, run_id)) for run_id in (run_a, run_b))
    differs = {
        place: [a.get(place), b.get(place)]
        for place in dict.fromkeys([*a, *b])
        if a.get(place) != b.get(place)
    }
    return RunDiff(format=FORMAT, run_a=run_a, run_b=run_b, differs=differs)


def _configuration(con: Connection, run: RunRow) -> dict[str, Any]:
    """Place → value, of everything that run.json says about what was run, and of the labels behind its numbers."""
    delivered = {name: value for name, value in run_file(con, run).items() if name not in OF_THE_ATTEMPT}
    labels = first_value(
        con,
        "select g.content_hash from labels.golden_sets g "
        "where g.golden_key = (select max(coalesce(v.golden_key, c.golden_key)) from ledger.cells c "
        "left join ledger.label_chunkers v on v.variant_key = c.golden_key where c.run_key = ?)",
        [run.run_key],
    )
    delivered["config"] = scored_configs(con, {run.run_key: delivered})[run.run_key]
    # The number of its scores is a result.
    places = {
        place: value
        for place, value in leaves(masked(delivered))
        if not (place.startswith("config.judges.") and place.endswith(".n"))
    }
    return {**places, "labels": labels}


def leaves(value: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """`config.judge.model` and its value; lists are values."""
    for name, one in value.items():
        if isinstance(one, Mapping):
            yield from leaves(one, f"{place}{name}.")
        else:
            yield f"{place}{name}", one
