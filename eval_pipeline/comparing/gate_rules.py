"""The rules of a gate: from the [gate] table of eval-pipeline.toml, else sensible ones."""

# [gate]
# evidence = "test"              # or "margin": for deterministic replays, where every change is real
# on_inconclusive = "warn"       # exit code 4; "fail": exit code 1
# presence = 0.98                # share of the golden queries that both runs must have answered
# drift_nights = 14              # how far back a slow decline is looked for; 0 switches that off
# defaults = true                # the default rules for metrics without a written rule; false: the written ones alone
#
# [[gate.rules]]
# metric = "hit@5"
# margin = 0.02                  # a loss up to this is accepted; "auto": what so many queries can resolve
# direction = "higher"           # is better; the formula's own unless said
# minimum_n = 30
# slices = ["category", "vault=work"]
# required = true                # must pass; unless said true only of the whole run, not of its slices
#
# [[gate.rules]]
# metric = "extraction.macro_f1"
# at_least = 0.9                 # a target instead of a margin; at_most where lower is better

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from eval_pipeline.errors import InvalidConfig, UnknownName
from eval_pipeline.formulas.catalogue import QUALITY
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.scores import PREFIX, score_of
from eval_pipeline.records import SLICES

EXTRACTION: Final = "extraction.macro_f1"
MINIMUM_N: Final = 30

DEFAULT_MARGINS: Final[Mapping[str, float]] = {
    **dict.fromkeys((*QUALITY, "attribution_hit_rate", "abstention_accuracy", "refusal_correctness"), 0.02),
    "judge_groundedness": 0.2,
    "judge_correctness": 0.2,
    "scope_miss_rate": 0.05,
    "error_rate": 0.02,
}
EXTRACTION_TARGET: Final = 0.9

_OPTIONS: Final = ("evidence", "on_inconclusive", "presence", "drift_nights", "defaults", "rules")
_RULE_FIELDS: Final = (
    "metric",
    "margin",
    "direction",
    "minimum_n",
    "slices",
    "at_least",
    "at_most",
    "required",
)
AUTO: Final = "auto"

# As eval-pipeline.toml has it, whatever somebody wrote there.
Table = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One question of a gate. With a `target` the candidate alone is asked, else how it differs from the baseline.

    An `is_auto` margin grows with what the queries cannot resolve. A rule of which nobody said whether it is `required`
    is so where it asks about half of the queries or more.
    """

    metric: str
    direction: str
    margin: float = 0.02
    minimum_n: int = MINIMUM_N
    slice: str | None = None
    slice_value: str | None = None
    target: float | None = None
    is_default: bool = False
    is_auto: bool = False
    required: bool | None = None
    slices_required: bool = False

    @property
    def is_higher_better(self) -> bool:
        return self.direction == "higher"

    @property
    def label(self) -> str:
        """The rule's name for people."""
        if self.target is not None:
            return f"{self.metric} {'≥' if self.is_higher_better else '≤'} {self.target:g}"
        where = f" [{self.slice}={self.slice_value}]" if self.slice else ""
        return f"{self.metric}{where}"


@dataclass(frozen=True, kw_only=True)
class GateConfig:
    """The [gate] table, checked. `slices` of a rule name a dimension, or one of its values."""

    rules: Sequence[Rule] = ()
    slices: Mapping[str, Sequence[str]]
    evidence: str = "test"
    on_inconclusive: str = "warn"
    presence: float = 0.98
    drift_nights: int = 14


def read_gate(table: Table, registry: Registry, *, path: Path | None) -> GateConfig:
    """Return the checked configuration of the gate: the written rules, and default rules for all other metrics."""
    where = f"{path or 'eval-pipeline.toml'}: [gate]"
    _only_known(table, _OPTIONS, where=where)
    entries = _entries(table.get("rules"), where=where)
    rules = [_rule(entry, registry, where=f"{where} rules.{entry.get('metric')}") for entry in entries]
    slices = {
        rule.metric: _slices(entry.get("slices"), where=f"{where} rules.{rule.metric}")
        for rule, entry in zip(rules, entries, strict=True)
    }
    has_defaults = _flag(table, "defaults", default=True, where=where)
    if not rules and not has_defaults:
        raise InvalidConfig(f"{where}: defaults = false leaves no rule; write [[gate.rules]], or remove it")
    written = {rule.metric for rule in rules}
    if has_defaults:
        rules += [rule for rule in _default_rules(registry) if rule.metric not in written]
    return GateConfig(
        rules=rules,
        slices=slices,
        evidence=_choice(table, "evidence", ("test", "margin"), where=where),
        on_inconclusive=_choice(table, "on_inconclusive", ("warn", "fail"), where=where),
        presence=_number(table, "presence", 0.98, lowest=0.0, highest=1.0, where=where),
        drift_nights=int(_number(table, "drift_nights", 14, lowest=0, highest=60, where=where)),
    )


def _default_rules(registry: Registry) -> list[Rule]:
    """Rules for what most systems care about, of those metrics that there are."""
    keys = registry.keys()
    rules = [
        Rule(
            metric=metric,
            direction=keys[metric].header.direction,
            margin=margin,
            is_default=True,
            is_auto=True,
        )
        for metric, margin in DEFAULT_MARGINS.items()
        if metric in keys
    ]
    target = Rule(
        metric=EXTRACTION, direction="higher", target=EXTRACTION_TARGET, is_default=True, required=True
    )
    return [*rules, target]


def with_slices(
    rules: Sequence[Rule], slices: Mapping[str, Sequence[str]], known: Collection[tuple[str, str]]
) -> list[Rule]:
    """The rules, each followed by itself in the slices it names; `known` are those of the golden set."""
    found: list[Rule] = []
    for rule in rules:
        found.append(rule)
        for wanted in slices.get(rule.metric, ()):
            dimension, named, value = wanted.partition("=")
            values = [value] if named else sorted(one for name, one in known if name == dimension)
            found += [
                replace(rule, slice=dimension, slice_value=one, required=rule.slices_required)
                for one in values
            ]
    return found


def _entries(rules: Any, *, where: str) -> list[Table]:
    """As a list of tables, or as a table per metric."""
    if rules is None:
        return []
    if isinstance(rules, Mapping):
        rules = [{"metric": metric, **entry} for metric, entry in rules.items() if isinstance(entry, Mapping)]
    if not isinstance(rules, list) or not rules or not all(isinstance(entry, Mapping) for entry in rules):
        raise InvalidConfig(f'{where}: rules are tables: [[gate.rules]] with metric = "hit@5"')
    metrics = [entry.get("metric") for entry in rules]
    for metric in metrics:
        if not isinstance(metric, str):
            raise InvalidConfig(f'{where}: every rule names its metric, such as metric = "hit@5"')
        if metrics.count(metric) > 1:
            raise InvalidConfig(
                f"{where}: there are several rules for {metric!r}; slices belong into one rule"
            )
    return rules


def _rule(entry: Table, registry: Registry, *, where: str) -> Rule:
    _only_known(entry, _RULE_FIELDS, where=where)
    metric = str(entry["metric"])
    keys = registry.keys() | score_of(registry, metric)
    if metric != EXTRACTION and metric not in keys:
        raise UnknownName("metric", metric, [*keys, EXTRACTION], hint=f"(in {where})")
    formula = keys.get(metric)
    target, target_direction = _target(entry, where=where)
    direction = (
        target_direction or entry.get("direction") or (formula.header.direction if formula else "higher")
    )
    if direction not in ("higher", "lower"):
        raise InvalidConfig(f'{where}: direction is {direction!r}; say which is better: "higher" or "lower"')
    if metric == EXTRACTION and target is None:
        raise InvalidConfig(f"{where}: {EXTRACTION} is held against a target: at_least = 0.9")
    if target is not None and entry.get("slices"):
        raise InvalidConfig(f"{where}: a target is about the whole run; take `slices` away")
    return Rule(
        metric=metric,
        direction=str(direction),
        margin=_margin(entry, formula, direction, where=where),
        minimum_n=int(_number(entry, "minimum_n", MINIMUM_N, lowest=1, highest=10**9, where=where)),
        target=target,
        is_auto=entry.get("margin") == AUTO,
        required=_flag(entry, "required", default=True, where=where),
        slices_required=_flag(entry, "required", default=False, where=where),
    )


def _flag(entry: Mapping[str, object], name: str, *, default: bool, where: str) -> bool:
    value = entry.get(name, default)
    if not isinstance(value, bool):
        raise InvalidConfig(f"{where}: {name} is {value!r}; allowed: true, false")
    return value


def _target(entry: Table, *, where: str) -> tuple[float | None, str | None]:
    given = [name for name in ("at_least", "at_most") if name in entry]
    if not given:
        return None, None
    if len(given) > 1 or "margin" in entry:
        raise InvalidConfig(f"{where}: one of margin, at_least and at_most")
    value = _number(entry, given[0], 0.0, lowest=-1e12, highest=1e12, where=where)
    return value, "higher" if given[0] == "at_least" else "lower"


def _margin(entry: Table, formula: Definition | None, direction: object, *, where: str) -> float:
    known = DEFAULT_MARGINS.get(str(entry["metric"]))
    if known is None:
        is_score = formula is not None and formula.header.scale == "ordinal"
        known = 0.2 if is_score else 0.02 if direction == "higher" else 0.05
        low, high = formula.header.value_range if formula else (None, None)
        if str(entry["metric"]).startswith(PREFIX) and low is not None and high is not None:
            known = 0.02 * (high - low)
    if entry.get("margin") == AUTO:
        return known
    margin = _number(entry, "margin", known, lowest=0.0, highest=1e12, where=where)
    if margin == 0:
        raise InvalidConfig(
            f"{where}: margin is 0; no number of queries can show a change of exactly nothing"
        )
    return margin


def _slices(value: Any, *, where: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidConfig(f'{where}: slices is a list such as ["category", "vault=work"]')
    for one in value:
        if one.partition("=")[0] not in SLICES:
            raise InvalidConfig(f"{where}: no slice {one!r}; there is: {', '.join(SLICES)}")
    return value


def _only_known(table: Table, known: Sequence[str], *, where: str) -> None:
    for name in table:
        if name not in known:
            raise UnknownName("option", name, known, hint=f"(in {where})")


def _choice(table: Table, name: str, allowed: Sequence[str], *, where: str) -> str:
    value = table.get(name, allowed[0])
    if value not in allowed:
        raise InvalidConfig(f"{where}: {name} is {value!r}; allowed: {', '.join(allowed)}")
    return str(value)


def _number(table: Table, name: str, default: float, *, lowest: float, highest: float, where: str) -> float:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
        raise InvalidConfig(
            f"{where}: {name} is {value!r}; allowed is a number from {lowest:g} to {highest:g}"
        )
    return float(value)
