"""What evaluating is given of the store: golden rows, stored answers, judgements that were paid."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.config import Config
from eval_pipeline.errors import StoreError, UsageError
from eval_pipeline.evaluating.asked import FirstAnswer, Item
from eval_pipeline.evaluating.calls import Answered, CallStore
from eval_pipeline.evaluating.setup import Judge
from eval_pipeline.records import FORGOTTEN
from eval_pipeline.store.kept import KeptDelivery
from eval_pipeline.store.open import Connection

Row = dict[str, Any]


def _known_datasets(con: Connection) -> list[str]:
    """The datasets with a golden set that somebody delivered."""
    rows = con.execute(
        "select distinct dataset_id from ledger.golden_sets_in_force join raw.datasets using (dataset_key) "
        "order by dataset_id"
    ).fetchall()
    return [name for (name,) in rows]


def _golden_rows(con: Connection, db: Path, dataset: str, config: Config) -> list[Row]:
    """The newest golden set of the dataset, as it was delivered: in its order, with everything that it says."""
    found = con.execute(
        "select content_hash from ledger.golden_sets_in_force join raw.datasets using (dataset_key) "
        "where dataset_id = ?",
        [dataset],
    ).fetchone()
    if found is None:
        raise UsageError(
            f"the dataset {dataset!r} has no golden set, so there is nothing to ask: "
            f"`eval-pipeline load FILE --golden --dataset {dataset}` takes one in"
        )
    path = _kept_golden_set(db, dataset, found[0])
    rows = [msgspec.to_builtins(row) for row in _rows_of(path, config)]
    without = [row["query_id"] for row in rows if row.get("query") in (None, "", FORGOTTEN)]
    if without:
        raise UsageError(
            f"of {len(rows)} questions of the dataset {dataset!r} {len(without)} have no text any more, or never had "
            f"({', '.join(without[:3])}): load the golden set again with its texts"
        )
    return rows


def _rows_of(path: Path, config: Config) -> list[Any]:
    return read_golden_set(path, inverted_spans=config.inverted_spans).rows


def _kept_golden_set(db: Path, dataset: str, content_hash: str) -> Path:
    for delivery in reversed(KeptDelivery.all(db)):
        for file in delivery.files() or ():
            named = (file.part, file.dataset, file.content_hash)
            if named == ("golden_set", dataset, content_hash) and (delivery.path / file.name).is_file():
                return delivery.path / file.name
    raise StoreError(
        f"the kept golden set of the dataset {dataset!r} is not there any more: load it again; "
        "`eval-pipeline doctor` says what else is missing"
    )


_ANSWERS = """
select i.query_id, r.error, r.timed_out, r.has_answer, a.text, r.abstained,
    list(t.text order by h.rank) filter (t.text is not null), p.text
from raw.results r
join raw.query_ids i using (query_key)
left join raw.texts a on a.text_key = r.answer_text_key
left join raw.texts p on p.text_key = r.judge_input_key
left join raw.hits h on h.run_key = r.run_key and h.query_key = r.query_key
left join raw.texts t on t.text_key = h.text_key
where r.run_key = ?
group by all
"""


def _stored_answers(con: Connection, run_key: int) -> dict[str, Row]:
    """Query → what the run answered, as far as a judge looks at it."""
    found = {}
    for query_id, error, timed_out, has_answer, text, abstained, texts, judged_on in con.execute(
        _ANSWERS, [run_key]
    ).fetchall():
        found[query_id] = {
            "query_id": query_id,
            "error": error,
            "timed_out": timed_out,
            "answer": {"text": text, "abstained": abstained} if has_answer else None,
            "hits_top_k": [{"text": one} for one in texts or _contexts_in(judged_on)],
        }
    return found


def _contexts_in(judged_on: str | None) -> list[str]:
    """The passages of a judge's input that was delivered with the answer, where the hits have no texts."""
    try:
        said = json.loads(judged_on or "null")
    except ValueError:
        return []
    contexts = said.get("contexts", said.get("context")) if isinstance(said, dict) else None
    listed = [contexts] if isinstance(contexts, str) else contexts
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []


_FIRST = """
with judged as (
    select o.run_key, o.ordered_at, o.run_id, i.query_id, j.ask, j.prompt_version, j.judgement_no, t.text as body
    from raw.judgements j
    join ledger.runs_in_order o using (run_key)
    join raw.runs r using (run_key)
    join raw.query_ids i on i.query_key = j.query_key
    join raw.judge_requests b on b.run_key = j.run_key and b.request = j.request
    join raw.texts t on t.text_key = b.body_key
    where r.suite = $suite and o.run_id <> $run_id and j.judge = $judge and j.season is not distinct from $season
        and j.purpose = 'main' and j.repeat = 0 and j.raw_answer is not null
)
select query_id, ask, prompt_version, body from judged
where run_key = (select arg_min(run_key, (ordered_at, run_id)) from judged)
order by judgement_no limit $n
"""


def _first_answers(con: Connection, suite: str, run_id: str, judge: Judge, n: int) -> list[FirstAnswer]:
    """What the judge was asked in the first run of its season: to be asked again by every later one."""
    rows = con.execute(
        _FIRST, {"suite": suite, "run_id": run_id, "judge": judge.name, "season": judge.season, "n": n}
    ).fetchall()
    return [
        FirstAnswer(judge, query_id, ask, prompt_version, json.loads(body))
        for query_id, ask, prompt_version, body in rows
        if body != FORGOTTEN
    ]


_PAID = """
select j.request, j.judge, j.raw_answer, t.text, j.model, j.fingerprint, j.prompt_tokens, j.completion_tokens,
    j.usd, j.latency_ms, j.attempts
from raw.judgements j
join raw.judge_requests b on b.run_key = j.run_key and b.request = j.request
join raw.texts t on t.text_key = b.body_key
where j.run_key = ? and j.raw_answer is not null
"""


def _bring_back_paid(store: CallStore, con: Connection, run_key: int, run_id: str) -> None:
    """Judgements that the store of calls has lost, or pruned, are not paid again: deliveries hold them."""
    rows = {row[0]: row for row in con.execute(_PAID, [run_key]).fetchall()}
    for request in sorted(rows.keys() - store.answered(rows)):
        _, judge, raw, body, model, fingerprint, prompt, completion, usd, latency, attempts = rows[request]
        tokens = [None if one is None else int(one) for one in (prompt, completion)]
        answer = Answered(
            *(200, body.encode(), raw, model, fingerprint, *tokens, usd, latency or 0.0, attempts or 1)
        )
        store.keep(request, answer, party=f"judge {judge}", run_id=run_id)


def _items_of(rows: Iterable[Row], answers: Mapping[str, Row]) -> Iterator[Item]:
    """Golden rows with what was answered, in golden order."""
    for row in rows:
        if row["query_id"] in answers:
            yield Item(row, answers[row["query_id"]])


def _run_document(con: Connection, db: Path, run_id: str) -> bytes:
    """The run's run.json as it was delivered, so that delivering it again changes nothing."""
    document, content_hash = con.execute(
        "select document, content_hash from raw.runs join raw.run_parts using (run_key) "
        "where run_id = ? and part = 'run'",
        [run_id],
    ).fetchone() or ("{}", None)
    for delivery in reversed(KeptDelivery.all(db)):
        for file in delivery.files() or ():
            path = delivery.path / file.name
            if (file.part, file.run_id, file.content_hash) == (
                "run",
                run_id,
                content_hash,
            ) and path.is_file():
                return path.read_bytes()
    return str(document).encode()


def _paid_requests(con: Connection, run_keys: Collection[int]) -> set[str]:
    """The requests whose answers these runs hold."""
    rows = con.execute(
        "select distinct request from raw.judgements where request is not null and raw_answer is not null "
        "and list_contains(?, run_key)",
        [list(run_keys)],
    ).fetchall()
    return {request for (request,) in rows}
