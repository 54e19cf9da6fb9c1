"""What `store_of_this_version.py` delivers: a small example of its own with a row for every part of a bundle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# Every chunk is 100 characters long in the first archive; the second has two of them in one.
TEXTS = {
    "account#1": "Accounts are opened with a customer number.",
    "account#2": "Choose Forgot password on the sign-in page.",
    "returns#1": "Orders can be returned within 14 days.",
    "returns#2": "A refund is paid within five days.",
    "prices#1": "In 2024 a parcel cost 4 euros.",
    "prices#2": "Since 2025 a parcel costs 5 euros.",
    "shipping#1": "We deliver to every country in Europe.",
    "hours#1": "The shop is open from 9 to 18.",
}
LENGTH = 100
ANSWERS = {
    "reset": "Choose Forgot password.",
    "reset-again": "On the sign-in page: Forgot password.",
    "refund": "Within 14 days; the money comes within five days.",
    "parcel": "Since 2025 it costs 5 euros.",
    "moon": "I do not know.",
    "open": "From 9 to 18.",
    "country": "Every country in Europe.",
}
FIRST = {
    "reset": ["account#2", "account#1"],
    "reset-again": ["account#1", "account#2"],
    "refund": ["returns#2", "shipping#1", "returns#1"],
    "parcel": ["prices#2", "prices#1"],
    "moon": ["shipping#1"],
    "open": ["account#1", "hours#1"],
    "country": ["prices#1"],
}
BETTER = FIRST | {"refund": ["returns#1", "returns#2"], "country": ["shipping#1", "prices#1"]}
BEST = BETTER | {"reset-again": ["account#2"], "open": ["hours#1"], "moon": []}


# Its label contradicts itself, which is warned of.
FAQ = [{"query_id": "hello", "must_contain": ["Hi"], "answerable": True, "expected_doc_ids": []}]


def doc_of(chunk_id: str) -> str:
    return chunk_id.split("#")[0]


def span(chunk_id: str) -> Row:
    start = (int(chunk_id.split("#")[1]) - 1) * LENGTH
    return {"start": start, "end": start + LENGTH}


def place(chunk_id: str) -> Row:
    return {"rel_path": f"{doc_of(chunk_id)}.md", "heading_path": f"{doc_of(chunk_id).title()} > {chunk_id}"}


def golden_rows(*, corrected: bool) -> list[Row]:
    """The questions; the correction moves a chunk, a span and a category."""
    rows: list[Row] = [
        labelled("reset", "account#2", group="reset", must_contain=["Forgot password"], difficulty="easy"),
        labelled("reset-again", "account#2", group="reset", must_contain=["Forgot password"], lang="en"),
        labelled("refund", "returns#1", "returns#2", forbidden=["30 days"], multi_hop=True),
        labelled("parcel", "prices#2", category="recency/conflict", recency_conflict_rule="cite_newer"),
        {"query_id": "moon", "query": "Do you deliver to the moon?", "expected_doc_ids": []},
        labelled("open", "account#1" if not corrected else "hours#1", tags=["shop", "time"]),
        labelled("country", "shipping#1", vault="public", difficulty="hard" if corrected else "easy"),
    ]
    rows[2] |= {"required_support_groups": [[0, 1]]}
    rows[3]["gold_supports"] = [
        place("prices#2") | {"recency": "newer"},
        place("prices#1") | {"recency": "older"},
    ]
    rows[4] |= {"answerable": False, "category": "adversarial"}
    return rows


def labelled(query_id: str, *chunk_ids: str, **more: Any) -> Row:
    spans = [{"doc_id": doc_of(one), **span(one)} for one in chunk_ids]
    return {
        "query_id": query_id,
        "query": f"What about {query_id}?",
        "expected_chunk_ids": list(chunk_ids),
        "expected_doc_ids": sorted({doc_of(one) for one in chunk_ids}),
        "ground_truth_spans": spans,
        "gold_supports": [place(one) for one in chunk_ids],
        "category": "factual",
        **more,
    }


def archive(*, merged: bool) -> list[Row]:
    """A chunk per text; merged, the second chunk of a document is part of the first."""
    rows: list[Row] = []
    for chunk_id, text in TEXTS.items():
        if merged and chunk_id.endswith("#2"):
            rows[-1]["source_spans"].append(span(chunk_id))
            rows[-1]["text"] += f" {text}"
            continue
        name = chunk_id.replace("#1", "#whole") if merged else chunk_id
        rows.append(
            {"chunk_id": name, "doc_id": doc_of(chunk_id), "text": text, "source_spans": [span(chunk_id)]}
            | place(chunk_id)
        )
    return rows


def results(hits: Mapping[str, list[str]], *, merged: bool = False, slow: float = 1.0) -> list[Row]:
    chunks = {row["chunk_id"]: row for row in archive(merged=merged)}
    rows = []
    for number, (query_id, names) in enumerate(hits.items(), start=1):
        found = list(dict.fromkeys(f"{doc_of(one)}#whole" if merged else one for one in names))
        rows.append(
            {
                "query_id": query_id,
                "hits_top_k": [chunks[one] | {"score": 1 / rank} for rank, one in enumerate(found, start=1)],
                "answer": answer(query_id, found),
                "judge": judge(number, judged_well=query_id != "country"),
                "latency_ms": {"total": 100 * number * slow, "retrieval": 20 * slow, "generation": 50.5},
                "selected_folders": ["public"] if number % 2 else [],
            }
        )
    return rows


def answer(query_id: str, found: list[str]) -> Row:
    refuses = query_id == "moon" and not found
    cited = [] if refuses else [{"citation": one} for one in found[:1]]
    references = [place(one) | {"chunk_id": one} for one in found[:1] if not one.endswith("#whole")]
    return {
        "text": ANSWERS[query_id],
        "grounded": not refuses,
        "abstained": refuses,
        "citations": cited,
        "references": references,
    }


def judge(number: int, *, judged_well: bool) -> Row:
    return {
        "groundedness": {"score": 5 if judged_well else 2, "supported_claims": ["one"]},
        "correctness": {"score": 4.5 if judged_well else "none", "reasoning": "It says what was asked."},
        "conflict": {"acknowledged": True},
        "tokens": {"prompt": 100 + number, "completion": 10},
    }


def extractions(*, wrong: int) -> list[Row]:
    truth = {"number": "4711", "buyer": {"name": "Miller", "city": "Ulm"}, "sum": 12.5}
    cases: list[Row] = [
        {"case_id": f"invoice-{number}", "ground_truth": truth, "extracted": truth} for number in (1, 2, 3)
    ]
    for case in cases[:wrong]:
        case["extracted"] = truth | {"buyer": {"name": "Miller"}, "sum": 13.5}
    return [*cases, {"case_id": "invoice-4", "error": "the model was not there"}]


def index_report(chunks: Iterable[Row]) -> Row:
    embedded = [
        {"chunk_id": row["chunk_id"], "doc_id": row["doc_id"], "status": "embedded"} for row in chunks
    ]
    skipped = {
        "chunk_id": "long#1",
        "doc_id": "long",
        "status": "skipped",
        "skip_reason": "context_limit",
        "tokens": 9000,
    }
    docs = [
        {"doc_id": doc, "doc_type": "markdown", "n_chunks": sum(row["doc_id"] == doc for row in embedded)}
        for doc in sorted({row["doc_id"] for row in embedded})
    ]
    return {"docs": docs, "chunks": [*embedded, skipped]}


def spot_checks(*, broken: bool) -> list[Row]:
    pairs = [(5, 5), (4, 1), (2, 1), (5, 4)]
    rows: list[Row] = [
        {"query_id": query_id, "kind": "second_judge", "first": {"score": a}, "second": {"score": b}}
        for query_id, (a, b) in zip(FIRST, pairs, strict=False)
    ]
    return [*rows, {"query_id": 17, "kind": "second_judge"}] if broken else rows


def write_bundles(folder: Path) -> None:
    """Folders in the order in which they are delivered."""
    first, merged = archive(merged=False), archive(merged=True)
    write_golden(folder / "1-first", golden_rows(corrected=False))
    write_lines(folder / "1-first/datasets/faq/queries.jsonl", FAQ)
    write_lines(folder / "1-first/datasets/shop/inventories/by-heading.jsonl", first)
    write_run(folder / "1-first", "monday", day=7, rows=results(FIRST), cases=extractions(wrong=2))
    write_run(folder / "1-first", "tuesday", day=8, rows=results(FIRST, slow=1.5))
    write_run(folder / "2-again", "tuesday", day=8, rows=results(BETTER, slow=1.5))
    write_lines(folder / "3-other-chunks/datasets/shop/inventories/by-window.jsonl", merged)
    wednesday = write_run(
        folder / "3-other-chunks",
        "wednesday",
        day=9,
        rows=results(BEST, merged=True),
        cases=extractions(wrong=1),
        chunker="by-window",
    )
    write_lines(wednesday / "judge_spot_check.jsonl", spot_checks(broken=True))
    write_document(wednesday / "index_report.json", index_report(merged))
    (folder / "4-table").mkdir()
    (folder / "4-table/probe.csv").write_text(
        "question,chunk,place,said\nhello,greeting#1,0,Hi there.\n", "utf-8"
    )
    (folder / "4-table/mapping.toml").write_text(MAPPING, "utf-8")
    write_golden(folder / "5-corrected", golden_rows(corrected=True))
    write_run(folder / "6-later", "thursday", day=10, rows=results(BEST), cases=extractions(wrong=0))


MAPPING = """\
rows = "hit"
[result]
query_id = "question"
[hits]
order = "rank"
first_rank = 0
chunk_id = "chunk"
doc_id = { place = "chunk", before = "#" }
rank = "place"
[answer]
text = "said"
"""


def write_golden(bundle: Path, rows: Iterable[Row]) -> None:
    write_lines(bundle / "datasets/shop/queries.jsonl", rows)


def write_run(
    bundle: Path,
    run_id: str,
    *,
    day: int,
    rows: list[Row],
    cases: list[Row] = (),
    chunker: str = "by-heading",
) -> Path:
    folder = bundle / "runs" / run_id
    write_lines(folder / "results.jsonl", rows)
    if cases:
        write_lines(folder / "extractions.jsonl", cases)
    date = f"2026-09-{day:02}"
    config = {
        "chunker_version": chunker,
        "top_k": 5,
        "folder_mode": "on",
        "judge": {"model": "judge", "version": "2026-08-01", "temperature": 0},
        "judge_price_per_1k": {"prompt": 0.5, "completion": 1.5},
    }
    run = {"run_id": run_id, "dataset": "shop", "suite": "nightly", "night": date, "config": config}
    write_document(folder / "run.json", run | {"created_at": f"{date}T02:00:00Z", "suite_time_ms": 90_000})
    return folder


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def write_document(path: Path, document: Row) -> None:
    path.write_text(json.dumps(document), "utf-8")
