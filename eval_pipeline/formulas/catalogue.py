"""The catalogue: everything there is to know about a definition, from the definition itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import NAME, Registry
from eval_pipeline.formulas.scores import score_of

# As rules of a gate and comparisons name what is measured over the cases of a run.
EXTRACTION: Final = "extraction."
# Names that people know from elsewhere → keys that ask much the same.
MEANT: Final[Mapping[str, Sequence[str]]] = {
    "dcg": ("ndcg@10",),
    "map": ("ap@10",),
    "reciprocal_rank": ("mrr",),
    "hit_rate": ("hit@5",),
    "success": ("hit@5",),
    "faithfulness": ("groundedness", "judge_groundedness"),
    "context_recall": ("chunk_recall", "span_recall", "recall_any@5"),
    "context_precision": ("chunk_precision", "span_precision", "precision@5"),
    "answer_correctness": ("judge_correctness",),
    "answer_relevancy": ("judge_correctness",),
    "iou": ("span_iou",),
    "latency": ("latency_total_ms",),
}


# The metrics that are looked at first: each list in the order in which it is shown.
# Where there is room for few: the slices of `show`, the example's runs, the plots of a run's asset.
CORE: Final = ("hit@5", "mrr", "groundedness")
# The same by characters: looked at first in runs of another chunker than the labels' own.
CORE_BY_SPAN: Final = ("hit@5_span", "mrr_span")
IN_BRIEF: Final = (*CORE, "citation_coverage")
PLOTTED: Final = (*CORE, "recall_any@5", "judge_groundedness", "judge_correctness")

# What gates judge by default, with two more.
QUALITY: Final = ("hit@5", "mrr", "recall@5_doc", "recall_any@5", "groundedness", "citation_coverage")
HEADLINES: Final = (
    *QUALITY[:2],
    *CORE_BY_SPAN,
    *QUALITY[2:],
    "refusal_correctness",
    "judge_correctness",
    "error_rate",
    "extraction.macro_f1",
    "latency_p50_ms",
    "latency_p95_ms",
)
SLICED: Final = ("hit@5", "mrr", "recall_any@5", "groundedness", "citation_coverage", "recall@5_doc")
OF_QUERIES: Final = ("recall@5_doc", "groundedness", "citation_coverage", "judge_correctness")


def find_definition(registry: Registry, name: str) -> Definition:
    """By full name, short name, or a key: of a metric, or of what is measured over a whole run."""
    keys = {key: one for one in (*registry.summaries, *registry.metrics) for key in one.keys}
    keys |= score_of(registry, name)
    key = name.removeprefix(EXTRACTION)
    if key in keys:
        return keys[key]
    try:
        return registry.get(name)
    except UnknownName as error:
        raise _unknown(registry, name, list(keys)) from error


def _unknown(registry: Registry, name: str, keys: Sequence[str]) -> UnknownName:
    """With what is nearest by meaning, else by spelling; what is not there can be written."""
    near = _near(name, list(registry.keys()))
    known = [*keys, *(one.short_name for one in registry)]
    misspelt = UnknownName("metric", name, known)
    own = re.sub(r"\W+", "_", name.lower()).strip("_")
    if not NAME.fullmatch(own) or (misspelt.close_names and not near):
        return misspelt
    hint = f"(`eval-pipeline metrics new {own}` starts a formula of your own)"
    return UnknownName("metric", name, known, hint=hint, near=near)


def _near(name: str, keys: Sequence[str]) -> list[str]:
    """Keys that ask much the same under another name, or that share its word, and its cut-off where they have one."""
    stem, _, cutoff = name.lower().replace("-", "_").partition("@")
    if stem in MEANT:
        return [key for key in MEANT[stem] if key in keys]
    return [
        key
        for key in keys
        if cutoff and stem in re.split(r"[@_.]", key) and ("@" not in key or f"@{cutoff}_" in f"{key}_")
    ]


def shown_key(one: Definition, key: str) -> str:
    """A key as people type it; where rows name their metric themselves there is one for every name."""
    return f"{one.short_name}.<name>" if one.is_scored_by_name else key


def describe(registry: Registry, one: Definition) -> dict[str, Any]:
    """A definition as a document."""
    header = one.header
    return {
        "name": one.name,
        "keys": one.keys,
        "grain": list(one.grain),
        "version": header.version,
        "fingerprint": one.fingerprint,
        "parameters": dict(header.parameters),
        "choices": {name: list(options) for name, options in header.choices.items()},
        "applies": header.applies,
        "undefined": header.undefined,
        "scale": header.scale,
        "range": list(header.value_range),
        "direction": header.direction,
        "aggregate": header.aggregate,
        "why": header.why,
        "examples": [example.line for example in header.examples],
        "reads": list(one.reads),
        "read_by": [other.name for other in registry if one.name in other.reads],
        "reading_of": one.variant_of,
        "language": "python" if one.is_python else "sql",
        "file": str(one.path),
        "body": one.body,
        "about": header.about,
        "family": one.family,
        "headline": list(one.headline),
    }


def as_text(found: dict[str, Any]) -> str:
    """The document for people."""
    lines = [f"{found['name']}  version {found['version']}  {found['fingerprint']}"]
    lines += [found["about"], ""] if found["about"] else [""]
    width = max(len(key) for key in found["keys"]) if found["keys"] else 0
    lines += [f"  {key:<{width}}  {meaning}" for key, meaning in found["keys"].items()]
    lines.append("")
    for label, value in _facts_about(found):
        lines.append(f"{label:<12}{value}")
    if found["examples"]:
        lines += ["", "examples"]
        lines += [f"  {example}" for example in found["examples"]]
    lines += ["", found["body"].rstrip()]
    return "\n".join(lines)


def _facts_about(found: dict[str, Any]) -> list[tuple[str, str]]:
    is_metric = found["name"].startswith("metrics.")
    parameters = [
        f"{name} = {value}"
        + (f"  (or {', '.join(str(o) for o in options if o != value)})" if options else "")
        for name, value in found["parameters"].items()
        for options in [found["choices"].get(name)]
    ]
    facts = [
        ("applies", found["applies"] or ("to every row" if is_metric else None)),
        ("one row per", ", ".join(found["grain"])),
        ("undefined", found["undefined"]),
        ("parameters", "; ".join(parameters) or None),
        ("scale", f"{found['scale']}, {found['direction']} is better" if is_metric else None),
        ("aggregate", found["aggregate"] if is_metric else None),
        ("family", _family_of(found) if is_metric else None),
        ("reads", ", ".join(found["reads"])),
        ("read by", ", ".join(found["read_by"]) or None),
        ("reading of", found["reading_of"]),
        ("why", found["why"]),
        ("file", found["file"]),
    ]
    return [(label, str(value)) for label, value in facts if value is not None]


def _family_of(found: dict[str, Any]) -> str:
    headline = ", ".join(found["headline"])
    return f"{found['family']}, with {headline} as its headline" if headline else found["family"]
