"""What the web interface says about an asset: words, columns, and the numbers of a computation."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg

from eval_pipeline.computing.progress import StaleRun
from eval_pipeline.config import Config
from eval_pipeline.formulas.catalogue import PLOTTED
from eval_pipeline.formulas.definition import Definition, is_key_name
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.formulas.tokens import Token, last_select, meaningful
from eval_pipeline.showing.runs import RunSummary
from eval_pipeline.view.addresses import run_link

REASON_WORDS = {
    "missing": "not computed before",
    "results": "results delivered anew",
    "formula": "its formula changed",
    "parent": "something it reads changed",
    "labels": "labels changed",
    "archive": "a chunk archive changed",
    "failed": "it failed before",
    "asked": "asked for",
}
RUNS_NAMED = 3
FAMILY = "family"
N = "n"
GRAIN = {
    "run_key": "Which run",
    "query_key": "Which query",
    "metric": "Which key of which formula",
    "slice": "Which dimension; empty is the whole run",
    "slice_value": "Which queries of it; empty is the whole run",
}
RUN_METRICS_GRAIN = ("run_key", "metric", "slice", "slice_value")
RUN_METRICS_TYPES = {"value": "double", "n": "integer", "total": "double"}


def describe(definition: Definition) -> str:
    """The header as Markdown and the statement itself; the first line is what the lineage shows."""
    header = definition.header
    parts = [_headline(definition), _table_of_keys(definition.keys)]
    if header.applies:
        parts.append(f"**Applies** where `{definition.applies_in_words}`; null elsewhere.")
    if header.undefined:
        parts.append(f"**Edge case**: {definition.undefined_in_words}.")
    if header.parameters:
        parts.append(
            "**Parameters**: "
            + ", ".join(f"`{name}` = `{value}`" for name, value in header.parameters.items())
        )
    if header.examples:
        parts.append("**Examples**\n" + "\n".join(f"- `{example.line}`" for example in header.examples))
    version = f"Version {header.version}, `{definition.fingerprint}`."
    parts.append(version + (f" Decided in {header.why}." if header.why else ""))
    return "\n\n".join([*parts, _as_code(definition)])


def _headline(definition: Definition) -> str:
    """One sentence: what it is about; where its file does not say so, the meaning of its key, or its keys."""
    keys = definition.header.keys
    if definition.header.about:
        return definition.header.about
    if len(keys) == 1:
        return re.sub(r"\$\{(\w+)\}", r"\1", next(iter(keys.values()))) + "."
    return ", ".join(definition.keys) + "."


def _as_code(definition: Definition) -> str:
    """What computes it; a fence is longer than any within."""
    language, code = ("python", definition.body) if definition.is_python else ("sql", definition.sql)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}{language}\n{code.strip()}\n{fence}"


def _freshness(config: Config) -> dg.FreshnessPolicy:
    """Nobody else notices a night that did not come."""
    return dg.FreshnessPolicy.time_window(fail_window=dt.timedelta(hours=config.fresh_within_hours))


def _family_tags(definition: Definition) -> dict[str, str]:
    """The family as a tag, by which assets are selected; facts have none."""
    if definition.schema != "metrics" and not definition.header.family:
        return {}
    return {FAMILY: definition.family}


def _table_of_keys(keys: Mapping[str, str]) -> str:
    rows = [f"| `{key}` | {meaning.replace('|', chr(92) + '|')} |" for key, meaning in keys.items()]
    return "\n".join(["| key | meaning |", "|---|---|", *rows])


def _static_metadata(definition: Definition, registry: Registry) -> dict[str, Any]:
    """Columns, lineage of columns and the file, known before anything is computed."""
    found: dict[str, Any] = {
        "dagster/table_name": definition.name,
        "dagster/column_schema": dg.TableSchema(columns=_columns(definition)),
        "dagster/code_references": dg.CodeReferencesMetadataValue(
            code_references=[
                dg.LocalFileCodeReference(file_path=str(definition.path), label=definition.path.name)
            ]
        ),
        "version": definition.header.version,
    }
    lineage = column_lineage(definition, registry)
    if lineage:
        found["dagster/column_lineage"] = dg.TableColumnLineage(deps_by_column=lineage)
    return found


def _columns(definition: Definition) -> list[dg.TableColumn]:
    """Types are known of metrics and their aggregates; of other tables the store says them."""
    kind = "double" if definition.schema == "metrics" else "any"
    is_run_metrics = ALL_FORMULAS in definition.reads
    grain = RUN_METRICS_GRAIN if is_run_metrics else definition.grain
    types = RUN_METRICS_TYPES if is_run_metrics else {}
    return [
        *(dg.TableColumn(name, _grain_type(name), GRAIN.get(name)) for name in grain),
        *(dg.TableColumn(key, types.get(key, kind), meaning) for key, meaning in definition.keys.items()),
    ]


def _grain_type(name: str) -> str:
    return "integer" if is_key_name(name) else "text"


def column_lineage(definition: Definition, registry: Registry) -> dict[str, Sequence[dg.TableColumnDep]]:
    """For each key the columns its expression names, where a name can only come from one of the tables read."""
    if definition.is_python or definition.schema == "aggregates":
        return {}
    owners: dict[str, list[str]] = {}
    for parent in definition.reads:
        for column in registry.definitions[parent].keys if parent in registry.definitions else ():
            owners.setdefault(column, []).append(parent)
    items = _select_items(definition.sql)
    condition = _names(meaningful(definition.header.applies or ""))
    found: dict[str, Sequence[dg.TableColumnDep]] = {}
    for key, column in definition.column_of_key.items():
        named = items.get(column, set()) | condition
        deps = [
            dg.TableColumnDep(dg.AssetKey(owners[name][0].split(".", 1)), name)
            for name in sorted(named)
            if len(owners.get(name, ())) == 1
        ]
        if deps and column in items:
            found[key] = deps
    return found


def _select_items(sql: str) -> dict[str, set[str]]:
    """The columns of the outermost select by their name, each with the names in its expression."""
    place = last_select(sql)
    if place is None:
        return {}
    items: list[list[Token]] = [[]]
    depth = 0
    for token in meaningful(sql[place:]):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        if depth == 0 and token.meaning == "from":
            break
        if depth == 0 and token.text == ",":
            items.append([])
        else:
            items[-1].append(token)
    return {item[-1].text.strip('"'): _names(item) for item in items if item}


def _names(tokens: Sequence[Token]) -> set[str]:
    followed = itertools.zip_longest(tokens, tokens[1:])
    return {
        token.text.strip('"')
        for token, after in followed
        if token.kind in ("word", "quoted") and (after is None or after.text not in ("(", "."))
    }


def why_due(run: StaleRun) -> str:
    """What made a run due, in words: the reason nearest to the cause."""
    return next(words for reason, words in REASON_WORDS.items() if reason in run.reasons.values())


def _name_runs(run_ids: Collection[str]) -> str:
    """A few names and how many more there are."""
    shown = sorted(run_ids)[:RUNS_NAMED]
    rest = len(run_ids) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _headline_keys(registry: Registry) -> list[str]:
    """The metrics whose course over the runs is plotted; what is not there is left out."""
    known = registry.keys()
    return [key for key in PLOTTED if key in known]


def _table_of_n(counts: Mapping[str, int]) -> dg.MetadataValue:
    """How many queries each value is the mean of: a table, since a number would get a plot of its own."""
    return dg.MetadataValue.table(
        [dg.TableRecord({"metric": name, "n": n}) for name, n in counts.items()],
        dg.TableSchema([dg.TableColumn("metric", "text"), dg.TableColumn("n", "integer")]),
    )


def _run_metadata(run_id: str, summary: RunSummary, parts: Mapping[str, tuple[float, int]]) -> dict[str, Any]:
    """A run's numbers: values, their n in one table, the counts of what went wrong, and where its page is."""
    values = {**dict(sorted(summary.metrics.items())), **parts}
    found: dict[str, Any] = {key: value for key, (value, _) in values.items()}
    if values:
        found[N] = _table_of_n({key: n for key, (_, n) in values.items()})
    counts = ("results", "errors", "timeouts", "quarantined")
    found |= {name: getattr(summary, name) for name in counts}
    return found | {"page": dg.MetadataValue.md(run_link(run_id))}
