"""Which answers are judged, by whom and on what; rows that failed or say nothing are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from eval_pipeline.errors import InvalidConfig
from eval_pipeline.evaluating.executor import Call
from eval_pipeline.evaluating.identity import _request_hash
from eval_pipeline.evaluating.judges import Material, _body_for, _identity_of, _with_more_tokens
from eval_pipeline.evaluating.prompt_files import Prompt
from eval_pipeline.evaluating.setup import Judge, Suite
from eval_pipeline.records import FORGOTTEN
from eval_pipeline.stats.spot_check import draw_spot_check, seed_for

Row = Mapping[str, Any]
Purpose = Literal["main", "spot_check", "canary"]
MAIN: Final[Purpose] = "main"
SPOT_CHECK: Final[Purpose] = "spot_check"
CANARY: Final[Purpose] = "canary"
NO_CONTEXT: Final = "no context"


@dataclass(frozen=True)
class Item:
    """A golden row, and what the system under test did with it."""

    golden: Row
    result: Row

    @property
    def query_id(self) -> str:
        return str(self.golden["query_id"])


@dataclass(frozen=True)
class Panel:
    """A judge with the prompts that it judges by. `only`: these queries alone; `anew`: past what is kept already."""

    judge: Judge
    prompts: tuple[Prompt, ...]
    purpose: Purpose = MAIN
    only: frozenset[str] | None = None
    anew: bool = False


@dataclass(frozen=True)
class FirstAnswer:
    """What a judge was asked at the beginning of a season, to be asked again."""

    judge: Judge
    query_id: str
    ask: str
    prompt_version: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """One judgement that is wanted; without a body it is skipped, and `skipped` says why."""

    judge: Judge
    query_id: str
    ask: str
    prompt_version: str
    purpose: Purpose
    body: Mapping[str, Any] | None = None
    repeat: int = 0
    run: str | None = None
    skipped: str | None = None
    shown: str = ""

    def call(self) -> Call:
        """As it is asked: known by everything that could change the answer."""
        request = _request_hash(
            _identity_of(self.judge),
            self.body,
            season=self.judge.season,
            repeat=self.repeat,
            purpose=None if self.run is None else self.purpose,
            run=self.run,
        )
        most = (self.body or {}).get("max_tokens", 0)
        return Call(request, self.body, most, about=self)

    def again(self, *, is_truncated: bool) -> Question:
        """Once more, with more room where the answer was cut off."""
        body = _with_more_tokens(self.body or {}) if is_truncated else self.body
        return replace(self, body=body, repeat=self.repeat + 1)


class ToJudge(Protocol):
    """Questions in a fixed order, as often as somebody goes through them."""

    @property
    def judges(self) -> list[Judge]:
        """Everybody who is asked, each once."""

    def __iter__(self) -> Iterator[Question]: ...


class Questions:
    """Everything that is to be judged, in golden order, as often as somebody goes through it."""

    def __init__(
        self,
        panels: Sequence[Panel],
        items: Callable[[], Iterable[Item]],
        *,
        run_id: str,
        canary: Sequence[FirstAnswer] = (),
    ) -> None:
        self._panels, self._items, self._run_id, self._canary = panels, items, run_id, canary

    @property
    def judges(self) -> list[Judge]:
        """Everybody who is asked, each once."""
        everybody = [*(one.judge for one in self._panels), *(one.judge for one in self._canary)]
        return list({judge.name: judge for judge in everybody}.values())

    def __iter__(self) -> Iterator[Question]:
        for item in self._items():
            for panel in self._panels:
                if panel.only is None or item.query_id in panel.only:
                    yield from self._of(panel, item)
        for first in self._canary:
            yield Question(
                first.judge,
                first.query_id,
                first.ask,
                first.prompt_version,
                CANARY,
                first.body,
                run=self._run_id,
            )

    def _of(self, panel: Panel, item: Item) -> Iterator[Question]:
        for prompt in panel.prompts:
            if not is_asked(prompt.ask, item.golden, item.result):
                continue
            question = Question(panel.judge, item.query_id, prompt.ask, prompt.version, panel.purpose)
            material = _material_of(item.golden, item.result)
            if prompt.wants_context and not material.contexts:
                yield replace(question, skipped=NO_CONTEXT)
            else:
                body = _body_for(panel.judge, prompt, material)
                run = self._run_id if panel.anew else None
                shown = "\n".join((material.query, *material.contexts, material.answer))
                yield replace(question, body=body, run=run, shown=shown)


class SeveralQuestions:
    """The questions of several runs, one after the other."""

    def __init__(self, each: Sequence[ToJudge]) -> None:
        self._each = each

    @property
    def judges(self) -> list[Judge]:
        """Everybody who is asked, each once."""
        return list({judge.name: judge for one in self._each for judge in one.judges}.values())

    def __iter__(self) -> Iterator[Question]:
        for one in self._each:
            yield from one


def is_asked(ask: str, golden: Row, result: Row) -> bool:
    """Not where the system failed or said nothing; abstention and conflict where they are a question at all."""
    if has_failed(result) or answer_text(result) is None:
        return False
    if ask == "abstention":
        return golden.get("answerable") is False and (result["answer"] or {}).get("abstained") is None
    if ask == "conflict":
        return golden.get("recency_conflict_rule") == "acknowledge_both"
    return True


def has_failed(result: Row) -> bool:
    """Whether the system under test failed on this query."""
    return bool(result.get("error")) or result.get("timed_out") is True


def answer_text(result: Row) -> str | None:
    """What the system said, where it said something and that is still there."""
    return _said((result.get("answer") or {}).get("text"))


def _material_of(golden: Row, result: Row) -> Material:
    """What a judge is given of an answer: contexts are the texts of the hits, in their order."""
    texts = [_said(hit.get("text")) for hit in result.get("hits_top_k") or () if isinstance(hit, Mapping)]
    return Material(
        str(golden["query_id"]),
        _said(golden.get("query")) or "",
        answer_text(result) or "",
        tuple(text for text in texts if text is not None),
        _said(golden.get("reference")),
    )


def _said(text: Any) -> str | None:
    return text if isinstance(text, str) and text.strip() and text != FORGOTTEN else None


def panels_of(
    suite: Suite,
    judges: Mapping[str, Judge],
    prompt: Callable[[str], Prompt],
    *,
    run_id: str,
    items: Iterable[Item],
) -> list[Panel]:
    """Who judges in a suite, the judge that is scored first; with a spot check of items drawn by the run's id."""
    main = [Panel(judges[name], main_prompts(judges[name], prompt)) for name in suite.judges]
    check = suite.spot_check
    if check is None:
        return main
    answered = [item.query_id for item in items if is_asked("", item.golden, item.result)]
    drawn = draw_spot_check(answered, seed=seed_for(run_id, suite.name, SPOT_CHECK), size=check.n)
    first = judges[suite.judges[0]]
    if check.judge is not None:
        second = judges[check.judge]
        shared = tuple(prompt(ask) for ask in first.asks if ask in second.asks)
        # The same judge by the same prompt has to be asked again; another one is asked something else anyway.
        return [*main, Panel(second, shared, SPOT_CHECK, frozenset(drawn), anew=second.name == first.name)]
    second_prompt = prompt(str(check.prompt))
    if second_prompt.ask not in first.asks:
        raise InvalidConfig(
            f"[suites.{suite.name}] spot_check: prompts/judge/{check.prompt}.md has no ask of [judges.{first.name}]. "
            f"Add a line `ask: NAME` to its header; allowed: {', '.join(first.asks)}"
        )
    return [*main, Panel(first, (second_prompt,), SPOT_CHECK, frozenset(drawn))]


def main_prompts(judge: Judge, prompt: Callable[[str], Prompt]) -> tuple[Prompt, ...]:
    """Return the prompts of the judge's asks; a second prompt for another ask is an error."""
    prompts = {ask: prompt(ask) for ask in judge.asks}
    for name, found in prompts.items():
        if found.ask != name:
            raise InvalidConfig(
                f"[judges.{judge.name}] asks: {name!r} is a second prompt for {found.ask!r}; use it in spot_check"
            )
    return tuple(prompts.values())
