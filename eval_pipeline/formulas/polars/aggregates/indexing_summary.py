"""What the indexer made of the documents of a run, over all of them and by their type."""

from __future__ import annotations

import polars as pl

from eval_pipeline.formulas.decorator import formula
from eval_pipeline.formulas.polars.aggregates.exact import exact_mean, percentile_of, rounded

GROUP = ("run_key", "doc_type")
COUNTS = (
    "docs_processed",
    "docs_with_0_chunks",
    "chunks_attempted",
    "chunks_embedded",
    "chunks_skipped",
)
ROUNDED = ("no_chunks_generated_rate", "chunks_skipped_context_rate", "tokens_mean", "tokens_p95")


@formula(
    reads={
        "raw.index_reports": ["run_key", "chunker_version", "embedding_model", "index_version"],
        "raw.indexed_documents": ["run_key", "document_no", "doc_key", "doc_type", "n_chunks"],
        "raw.indexed_chunks": ["run_key", "doc_key", "status", "skip_reason", "tokens"],
    },
    keys={
        "docs_processed": "Documents the indexer looked at",
        "docs_with_0_chunks": "Documents that came out without a chunk",
        "no_chunks_generated_rate": "Their share; null without documents",
        "chunks_attempted": "Chunks the indexer tried to embed",
        "chunks_embedded": "Chunks it embedded",
        "chunks_skipped": "Chunks it skipped",
        "skip_reasons": "How many chunks were skipped for each reason; (none) where none was given",
        "chunks_skipped_context_rate": "Share of the attempted chunks that were skipped because they exceed the "
        "context limit; null without chunks",
        "tokens_min": "Fewest tokens of an attempted chunk",
        "tokens_max": "Most tokens of an attempted chunk",
        "tokens_mean": "Mean tokens of the attempted chunks with a known count",
        "tokens_p95": "Of a hundred of them ninety-five have at most this many",
        "chunker_version": "As reported",
        "embedding_model": "As reported",
        "index_version": "As reported",
    },
    grain=["run_key", "doc_type"],
    about="What became of the documents that were indexed?",
    family="indexing",
    headline=[],
    version=1,
    parameters={"percentile": "linear", "rounding": "half_even"},
    choices={"percentile": ["linear", "nearest"], "rounding": ["half_even", "half_up"]},
    undefined="the row without a type is the whole report; a type that is not given, and that of a chunk whose "
    "document is not listed, is (none)",
    why="docs/decisions.md#a2-24",
    examples=[
        "{index_report: {docs: [{doc_id: a, doc_type: pdf, n_chunks: 0}], chunks: []}} => [{doc_type: null, "
        "docs_processed: 1, no_chunks_generated_rate: 1, chunks_skipped_context_rate: null}, "
        "{doc_type: pdf, docs_with_0_chunks: 1}]",
        "{index_report: {chunks: [{status: embedded, tokens: 10}, {status: skipped, skip_reason: context_limit, "
        "tokens: 20}]}} => [{doc_type: null, chunks_attempted: 2, chunks_skipped_context_rate: 0.5, tokens_mean: 15, "
        "no_chunks_generated_rate: null}, {doc_type: (none), chunks_skipped: 1}]",
        "{index_report: {}} => [{doc_type: null, docs_processed: 0, chunks_attempted: 0, tokens_p95: null}]",
    ],
)
def indexing_summary(
    reports: pl.DataFrame,
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    *,
    percentile: str,
    rounding: str,
) -> pl.DataFrame:
    """One row per report and one per type of its documents."""
    documents = documents.with_columns(pl.col("doc_type").fill_null("(none)"))
    types = documents.drop_nulls("doc_key").sort("document_no").unique(["run_key", "doc_key"], keep="last")
    chunks = chunks.join(
        types.select("run_key", "doc_key", "doc_type"), on=["run_key", "doc_key"], how="left"
    )
    chunks = chunks.with_columns(pl.col("doc_type").fill_null("(none)"))
    counted = (of_documents(documents), of_chunks(chunks, percentile), of_reasons(chunks))
    groups = pl.concat(
        [reports.select("run_key", doc_type=pl.lit(None, pl.String)), *(one.select(GROUP) for one in counted)]
    )
    found = groups.unique().join(reports, on="run_key")
    for one in counted:
        found = found.join(one, on=GROUP, how="left", nulls_equal=True)
    return found.with_columns(pl.col(COUNTS).fill_null(0).cast(pl.Int64), rounded(pl.col(ROUNDED), rounding))


def whole_and_by_type(rows: pl.DataFrame, *counts: pl.Expr) -> pl.DataFrame:
    """The whole report stands beside its types, without one."""
    return pl.concat([rows.with_columns(doc_type=pl.lit(None, pl.String)), rows]).group_by(GROUP).agg(*counts)


def of_documents(documents: pl.DataFrame) -> pl.DataFrame:
    """How many there are, and how many came out without a chunk."""
    is_empty = (pl.col("n_chunks") == 0).fill_null(False)
    return whole_and_by_type(
        documents,
        pl.len().alias("docs_processed"),
        is_empty.sum().alias("docs_with_0_chunks"),
        is_empty.mean().alias("no_chunks_generated_rate"),
    )


def of_chunks(chunks: pl.DataFrame, percentile: str) -> pl.DataFrame:
    """How many there are in which state, and how long they are."""
    status, tokens = pl.col("status"), pl.col("tokens")
    is_over_context = ((status == "skipped") & (pl.col("skip_reason") == "context_limit")).fill_null(False)
    return whole_and_by_type(
        chunks,
        pl.len().alias("chunks_attempted"),
        (status == "embedded").sum().alias("chunks_embedded"),
        (status == "skipped").sum().alias("chunks_skipped"),
        is_over_context.mean().alias("chunks_skipped_context_rate"),
        tokens.min().alias("tokens_min"),
        tokens.max().alias("tokens_max"),
        exact_mean(tokens).alias("tokens_mean"),
        percentile_of(tokens, 0.95, percentile).alias("tokens_p95"),
    )


def of_reasons(chunks: pl.DataFrame) -> pl.DataFrame:
    """How many chunks were skipped for each reason, in alphabetical order."""
    skipped = chunks.filter(pl.col("status") == "skipped").with_columns(
        pl.col("skip_reason").fill_null("(none)")
    )
    by_reason = whole_and_by_type(skipped, pl.col("skip_reason").value_counts().alias("counted"))
    counts = pl.col("counted").list.eval(pl.element().struct.rename_fields(["key", "value"])).list.sort()
    return by_reason.select(*GROUP, counts.cast(pl.Map(pl.String, pl.UInt64)).alias("skip_reasons"))
