"""The eleven runs of the example, in order, each with the one thing that was changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.demo.chunkers import BY_HEADING, BY_WINDOW
from bench.demo.judge import JudgeSettings
from eval_pipeline.demo.retriever import PLAIN, TUNED, WITH_GLOSSARY, RetrieverSettings

PINNED_JUDGE = JudgeSettings("2026-08-15")


@dataclass(frozen=True)
class Trouble:
    """What went wrong in a night: shares of the queries, and folders missing from the index."""

    timeouts: float = 0.0
    errors: float = 0.0
    empty_answers: float = 0.0
    repeated_hits: float = 0.0
    lost_folders: tuple[str, ...] = ()
    slowness: float = 1.0
    spoiled_query: str | None = None


NO_TROUBLE = Trouble()


@dataclass(frozen=True)
class Night:
    run_id: str
    date: str
    why: str
    started: str = "02:00:00"
    attempt: int = 1
    replaces: str | None = None
    replicate_of: str | None = None
    chunker_version: str = BY_HEADING
    context_limit: int = 192
    retriever: RetrieverSettings = PLAIN
    embedding_model: str = "bm25-plain"
    index_version: str = "index-1"
    prompt_version: str = "prompt-1"
    top_k: int = 10
    folder_mode: str = "off"
    folders_by_text: bool = False
    judge: JudgeSettings = PINNED_JUDGE
    trouble: Trouble = NO_TROUBLE
    spot_check: str | None = None
    with_extractions: bool = False
    keep_texts: bool = False
    compressed: bool = True


def nights() -> Sequence[Night]:
    """All runs, oldest first."""
    return (*_first_week(), *_second_week())


def _first_week() -> list[Night]:
    first = Night(
        run_id="nightly-2026-09-07",
        date="2026-09-07",
        why="first night, the judge's version still a moving alias",
        judge=JudgeSettings("latest", lenient=True),
        spot_check="second_judge",
    )
    baseline = Night(
        run_id="nightly-2026-09-08",
        date="2026-09-08",
        why="baseline: the judge is pinned",
        spot_check="second_prompt",
        with_extractions=True,
    )
    again = replace(
        baseline,
        run_id="nightly-2026-09-09",
        date="2026-09-09",
        why="the same once more, to see how much moves by itself",
        replicate_of=baseline.run_id,
        judge=replace(baseline.judge, replicate="2026-09-09"),
        spot_check="replicate",
        with_extractions=False,
    )
    five = Night(
        run_id="nightly-2026-09-10",
        date="2026-09-10",
        why="only five hits, to save tokens",
        top_k=5,
        compressed=False,
    )
    tuned = Night(
        run_id="nightly-2026-09-11",
        date="2026-09-11",
        why="better BM25: headings count, stop words and endings do not",
        retriever=TUNED,
        embedding_model="bm25-tuned",
        index_version="index-2",
    )
    return [first, baseline, again, five, tuned]


def _second_week() -> list[Night]:
    tuned = Night(
        run_id="nightly-2026-09-14",
        date="2026-09-14",
        why="chunks by window instead of by heading",
        chunker_version=BY_WINDOW,
        retriever=TUNED,
        embedding_model="bm25-tuned",
        index_version="index-3",
    )
    prompted = replace(
        tuned,
        run_id="nightly-2026-09-15",
        date="2026-09-15",
        why="back to headings, with a prompt that cites each sentence and may refuse",
        chunker_version=BY_HEADING,
        index_version="index-2",
        prompt_version="prompt-2",
        with_extractions=True,
    )
    folders = replace(
        prompted,
        run_id="nightly-2026-09-16",
        date="2026-09-16",
        why="search only in folders chosen by their headings",
        folder_mode="on",
        with_extractions=False,
    )
    bug = replace(
        folders,
        run_id="nightly-2026-09-17",
        date="2026-09-17",
        why="half an index: the personal vault is missing, calls fail and time out",
        folder_mode="on_with_fallback",
        folders_by_text=True,
        trouble=Trouble(0.1, 0.14, 0.05, 0.12, ("personal",), 2.2, "flat-fields"),
    )
    rerun = replace(
        bug,
        run_id="nightly-2026-09-17-retry",
        why="the same night again, on a whole index",
        started="09:40:00",
        attempt=2,
        replaces=bug.run_id,
        trouble=Trouble(timeouts=0.012),
    )
    return [tuned, prompted, folders, bug, rerun, _best(rerun)]


def _best(rerun: Night) -> Night:
    return replace(
        rerun,
        run_id="nightly-2026-09-18",
        date="2026-09-18",
        why="longer chunks allowed, a glossary for queries, a prompt that minds conflicting notes",
        started="02:00:00",
        attempt=1,
        replaces=None,
        context_limit=256,
        retriever=WITH_GLOSSARY,
        embedding_model="bm25-glossary",
        index_version="index-4",
        prompt_version="prompt-3",
        trouble=NO_TROUBLE,
        spot_check="second_judge",
        with_extractions=True,
        keep_texts=True,
    )
