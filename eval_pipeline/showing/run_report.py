"""The types of the document that `show RUN_ID --json` prints, with what each field says."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eval_pipeline.documents import UNSET, Document, Help, ScoreCoverage, UnsetType
from eval_pipeline.showing.scores import Scorer
from eval_pipeline.showing.undefined import _NO_GOLDEN_SET, OTHER_LABELS

Number = float | None
Count = int | None


class Metric(Document, frozen=True):
    """A metric of a run or slice."""

    value: Annotated[
        Number, Help("The mean over the queries that the metric applies to; null where it applies to none.")
    ]
    n: Annotated[int, Help("How many queries the mean is over; 0 where it has no value.")]


class SlicePerformance(Document, frozen=True):
    """Total times in milliseconds and judge costs of the queries with one label."""

    n: Annotated[int, Help("How many queries recorded a total time.")]
    p50_ms: Annotated[Number, Help("The median; null without a recorded time.")]
    p95_ms: Annotated[Number, Help("The 95th percentile; null without a recorded time.")]
    judge_tokens: Annotated[Number, Help("Tokens that judges read and wrote; null without a recorded token.")]
    judge_cost: Annotated[Number, Help("What they cost; null without a recorded token or the price of one.")]


class Slice(Document, frozen=True):
    """The queries with one label, and their metrics."""

    n_queries: Annotated[int, Help("How many scored queries are in the slice.")]
    is_small: Annotated[
        bool, Help("Whether these are so few that a single one moves a value by more than a tenth.")
    ]
    metrics: Annotated[dict[str, Metric], Help("Metric: its value over the queries of the slice.")]
    performance: Annotated[
        SlicePerformance | UnsetType, Help("Times and judge costs of the slice, if any was recorded.")
    ] = UNSET


class Latency(Document, frozen=True):
    """Times in milliseconds; failed queries count like all others."""

    n: Annotated[int, Help("How many queries recorded this time.")]
    p50: Annotated[Number, Help("The median in milliseconds; null where no time was recorded.")]
    p95: Annotated[Number, Help("The 95th percentile in milliseconds; null where no time was recorded.")]
    mean: Annotated[Number, Help("The mean in milliseconds; null where no time was recorded.")]


class Performance(Document, frozen=True):
    """Speed and cost of a run."""

    latency_ms: Annotated[Latency, Help("How long queries took from end to end.")]
    latency_breakdown_ms: Annotated[dict[str, Latency], Help("Stage of the system: how long it took.")]
    total_suite_ms: Annotated[
        Number, Help("How long the whole run took, in milliseconds; null where that is not known.")
    ]
    judge_tokens: Annotated[Number, Help("Tokens that the judge read and wrote; 0 where none was recorded.")]
    judge_cost: Annotated[
        Number,
        Help("What these cost by the prices in run.json; null without a recorded token or the price of one."),
    ]


class JudgeCoverage(Document, frozen=True):
    """How much of a run was judged."""

    groundedness_n: Annotated[int, Help("How many answers have a score for groundedness.")]
    correctness_n: Annotated[int, Help("How many answers have a score for correctness.")]
    inconsistent_n: Annotated[
        int, Help("How many answers have the full score for groundedness in spite of unsupported claims.")
    ]
    uncited_fives: Annotated[
        Count,
        Help(
            "How many have it without a citation or reference; null with `--as-of` where that is not known any more."
        ),
    ]
    judgements: Annotated[
        dict[str, dict[str, int]] | UnsetType,
        Help(
            "Ask: status: how many of the judgements that score the run; only where answers of judges were delivered."
        ),
    ] = UNSET


class JudgeReliability(Document, frozen=True):
    """How far second verdicts agree with the first."""

    disagreement_rate: Annotated[
        Number, Help("Share of the spot checks that disagree with the judge; null without a spot check.")
    ]
    spot_check_n: Annotated[int, Help("How many questions were judged a second time.")]
    spot_check_pairs: Annotated[
        int | UnsetType, Help("How many pairs of verdicts that gave; only if it is another number.")
    ] = UNSET
    kappa: Annotated[
        Number | UnsetType,
        Help(
            "Only of 20 pairs of scores or more, as they stand now: Cohen's κ with quadratic weights; null where both "
            "sides always give the same one score."
        ),
    ] = UNSET
    kappa_low: Annotated[Number | UnsetType, Help("Where its 95 % interval begins.")] = UNSET
    kappa_high: Annotated[Number | UnsetType, Help("Where it ends.")] = UNSET


class Rates(Document, frozen=True):
    """How well fields were extracted."""

    precision: Annotated[
        Number, Help("Share of the extracted fields that are right; null before it is computed.")
    ]
    recall: Annotated[
        Number, Help("Share of the expected fields that were found; null before it is computed.")
    ]
    f1: Annotated[Number, Help("Harmonic mean of the two; null before it is computed.")]


class ExtractionCase(Document, frozen=True):
    """One document whose fields were extracted."""

    precision: Annotated[Number, Help("Share of the extracted fields that are right.")]
    recall: Annotated[Number, Help("Share of the expected fields that were found.")]
    f1: Annotated[Number, Help("Harmonic mean of the two.")]
    recall_strict: Annotated[Number, Help("Recall in which a wrong value also counts as missed.")]
    f1_strict: Annotated[Number, Help("Harmonic mean of precision and strict recall.")]
    true_positives: Annotated[int, Help("How many fields are right.")]
    false_positives: Annotated[int, Help("How many fields are wrong or were not asked for.")]
    false_negatives: Annotated[
        int, Help("How many expected fields are missing; in another reading also those that are wrong.")
    ]
    total_gt_fields: Annotated[int, Help("How many fields are expected.")]
    correct_fields: Annotated[int, Help("How many fields are right, under their other name.")]


class FieldAccuracy(Document, frozen=True):
    """One field over all cases."""

    accuracy: Annotated[
        Number,
        Help(
            "Share of the cases that should have the field in which it is right; null where none shows that it should."
        ),
    ]
    n: Annotated[int, Help("How many cases should have the field.")]


class Extraction(Document, frozen=True):
    """The extraction cases of a run."""

    macro: Annotated[Rates, Help("The mean of the cases; zeros where none was scored.")]
    micro: Annotated[Rates, Help("All fields of all cases pooled; zeros where none was scored.")]
    macro_strict: Annotated[Rates, Help("The mean of the cases, with strict recall.")]
    micro_strict: Annotated[Rates, Help("All fields pooled, with strict recall.")]
    total_true_positives: Annotated[Count, Help("How many fields are right; null before it is computed.")]
    total_false_positives: Annotated[
        Count, Help("How many fields are wrong or were not asked for; null before it is computed.")
    ]
    total_false_negatives: Annotated[
        Count, Help("How many expected fields count as missed; null before it is computed.")
    ]
    eval_count: Annotated[Count, Help("How many cases were scored; null before it is computed.")]
    target: Annotated[Number, Help("The macro F1 that is to be reached; null before it is computed.")]
    target_met: Annotated[
        bool | None,
        Help("Whether it is, before rounding; null while a case that should be there is missing."),
    ]
    cases: Annotated[
        dict[str, ExtractionCase], Help("Case: its numbers; without the cases that failed to run.")
    ]
    fields: Annotated[dict[str, FieldAccuracy], Help("Field: how often it is right.")]
    failed_cases: Annotated[list[str], Help("Cases that failed to run; they count nowhere.")]
    expected_cases: Annotated[
        Count, Help("How many cases the run should hold; null where nothing says so.")
    ] = None
    missing_cases: Annotated[
        int | list[str], Help("Which of them are missing; only how many, where their names are not known.")
    ] = msgspec.field(default_factory=list)
    expected_by: Annotated[
        str | None, Help("What says which cases there should be; null where nothing does.")
    ] = None
    missing_in_words: Annotated[
        str | None, Help("The same as a sentence; null where nothing is missing.")
    ] = None


class Tokens(Document, frozen=True):
    """Lengths of chunks in tokens."""

    min: Annotated[Number, Help("The shortest chunk; null where no lengths were reported.")]
    max: Annotated[Number, Help("The longest chunk; null where no lengths were reported.")]
    mean: Annotated[Number, Help("The mean; null where no lengths were reported.")]
    p95: Annotated[Number, Help("The 95th percentile; null where no lengths were reported.")]


class Coverage(Document, frozen=True):
    """What the indexer made of documents; numbers are null before they are computed."""

    docs_processed: Annotated[Count, Help("How many documents were processed.")]
    docs_with_0_chunks: Annotated[Count, Help("How many of them gave no chunk.")]
    no_chunks_generated_rate: Annotated[Number, Help("Their share; null without a document.")]
    chunks_attempted: Annotated[Count, Help("How many chunks were to be embedded.")]
    chunks_embedded: Annotated[Count, Help("How many were.")]
    chunks_skipped: Annotated[Count, Help("How many were left out.")]
    skip_reasons: Annotated[dict[str, int], Help("Reason: how many chunks were left out for it.")]
    chunks_skipped_context_rate: Annotated[
        Number, Help("Share of the chunks that were too long for the model; null without a chunk.")
    ]
    tokens_per_chunk: Annotated[Tokens, Help("How long the chunks are.")]
    index_version_info: Annotated[
        dict[str, str | None],
        Help(
            "`chunker_version`, `embedding_model`, `index_version`; null where the index report does not say."
        ),
    ]


class Indexing(Coverage, frozen=True):
    """What the indexer made of all documents of a run."""

    by_doc_type: Annotated[
        dict[str, Coverage], Help("Type of document: the same of the documents of this type.")
    ]


class OtherReading(Document, frozen=True):
    """A reading of one's own of what is measured over a whole run."""

    reading_of: Annotated[str, Help("What it is another reading of.")]
    values: Annotated[dict[str, Number], Help("Measure: its value under this reading.")]


class FormulaUsed(Document, frozen=True):
    """The definition that a run's values were computed with."""

    version: Annotated[Count, Help("Its version; null before it is computed.")]
    fingerprint: Annotated[str | None, Help("What it means, as a fingerprint; null before it is computed.")]
    frozen: Annotated[
        bool | UnsetType, Help("Whether texts behind it were forgotten, so that its values stay as they are.")
    ] = UNSET


class Night(Document, frozen=True):
    """The run as an attempt at its night."""

    night: Annotated[str, Help("The night that the run belongs to.")]
    is_complete: Annotated[bool, Help("Whether every golden query that could be asked has a result.")]
    is_last_complete: Annotated[bool, Help("Whether it stands for its night in trends and comparisons.")]
    superseded_by: Annotated[str | None, Help("The run that replaces it; null where none does.")]
    golden_queries: Annotated[int, Help("How many queries the golden set asks.")]
    not_asked: Annotated[int, Help("How many of them joined the golden set later and were not asked.")]


class TableState(Document, frozen=True):
    """A table whose values of the run are not fresh."""

    table: Annotated[str, Help("The table.")]
    state: Annotated[str, Help("`stale`, `missing`, `failed`, `pinned` or `frozen`.")]
    reason: Annotated[str | None, Help("What it is so because of; null where it was never computed.")]


class Plausibility(Document, frozen=True):
    """What the labels of its dataset know of a run's ids."""

    retrieved_ids: Annotated[int, Help("How many different chunks the run retrieved.")]
    named_by_labels: Annotated[
        int, Help("How many of them a label names: the chunk itself, its document or its path.")
    ]
    query_ids: Annotated[int, Help("How many queries the run has results for.")]
    in_golden: Annotated[int, Help("How many of these the golden set asks.")]


class RunReport(Document, frozen=True):
    """One run: its aggregates and slices, and the definitions they were computed with."""

    format: Annotated[int, Help("The version of this form.")]
    run_id: Annotated[str, Help("The run.")]
    dataset: Annotated[str, Help("The dataset whose golden set scores it.")]
    total_queries: Annotated[int, Help("How many golden queries have a result; metrics are over these.")]
    failed_queries: Annotated[int, Help("How many of them carry an error or timed out.")]
    missing_query_ids: Annotated[list[str], Help("Golden queries without a result; they count nowhere.")]
    unknown_query_ids: Annotated[list[str], Help("Results that no golden query knows; they are ignored.")]
    metrics: Annotated[
        dict[str, Metric], Help("Metric: its value over the run, in the order of the catalogue.")
    ]
    slices: Annotated[
        dict[str, dict[str, Slice]], Help("Dimension: label: the queries with it, and their metrics.")
    ]
    performance: Annotated[Performance, Help("Speed and cost.")]
    judge_coverage: Annotated[JudgeCoverage, Help("How much was judged.")]
    judge_reliability: Annotated[JudgeReliability, Help("How far the judge can be believed.")]
    judge_config_problems: Annotated[
        list[str],
        Help("What is wrong with the judge's configuration, each beginning with the setting at fault."),
    ]
    extraction: Annotated[Extraction | None, Help("The extraction cases; null where the run delivered none.")]
    indexing: Annotated[
        Indexing | None, Help("What the indexer did; null where the run has no index report.")
    ]
    readings: Annotated[
        dict[str, OtherReading],
        Help("Name: another reading of what is measured over the whole run, and its values."),
    ]
    formulas: Annotated[
        dict[str, FormulaUsed], Help("Formula: the definition its values were computed with.")
    ]
    night: Annotated[Night, Help("The night that the run belongs to, and whether it stands for it.")]
    quarantined: Annotated[
        dict[str, int], Help("Part of the delivery: how many of its rows are in quarantine.")
    ]
    older_definitions: Annotated[
        list[str] | UnsetType,
        Help("Only with `--as-of`: formulas that meant something else then than they do now."),
    ] = UNSET
    as_of: Annotated[str | UnsetType, Help("Only with `--as-of`: the point that was asked for.")] = UNSET
    states: Annotated[
        list[TableState] | UnsetType,
        Help("Tables whose values of the run are not fresh; not with `--as-of`."),
    ] = UNSET
    is_without_results: Annotated[
        bool, Help("Whether the run delivered extraction cases alone and was never meant to answer queries.")
    ] = False
    undefined: Annotated[dict[str, str], Help("Metric without a value: why it has none.")] = msgspec.field(
        default_factory=dict
    )
    state: Annotated[
        str | UnsetType,
        Help(
            "`fresh`, `stale`, `missing`, `waiting`, `implausible` or `incomplete`: the run in one word, as of now."
        ),
    ] = UNSET
    plausibility: Annotated[
        Plausibility | None,
        Help("What labels know of the run's ids; null where no golden set is there to hold them against."),
    ] = None
    plausibility_in_words: Annotated[
        str | None,
        Help("The same as a sentence, with what to do where it looks wrong; null without hits or labels."),
    ] = None
    unscored: Annotated[
        dict[str, int] | UnsetType,
        Help(
            "Score of others: how often it was delivered without a number, where it was; these count nowhere."
        ),
    ] = UNSET
    score_coverage: Annotated[
        dict[str, ScoreCoverage] | UnsetType,
        Help(
            "Metric of scores: how many answers have one, if some that need one have none; not with `--as-of`."
        ),
    ] = UNSET
    judges: Annotated[
        dict[str, Scorer] | UnsetType,
        Help(
            "Ask, or metric of a delivered score: the scorer whose scores count, and `n`, the number of them. Only for "
            "runs with judgements or delivered scores."
        ),
    ] = UNSET

    def coverage_of(self, metric: str) -> str | None:
        """`120 of 200`, if more than 2 % of the answers that need this score have none; else None."""
        found = self.score_coverage.get(metric) if isinstance(self.score_coverage, dict) else None
        return found.in_words if found else None

    @property
    def why_not_by_ids(self) -> str | None:
        """Why metrics of chunk ids have no value where the labels hold ids of another chunker, or None."""
        return next((why for why in self.undefined.values() if why.startswith(OTHER_LABELS)), None)

    @property
    def why_unlabelled(self) -> str | None:
        """That the dataset has no golden set, and what gives it one; None where it has one."""
        return next((why for why in self.undefined.values() if why.startswith(_NO_GOLDEN_SET)), None)
