"""What every command prints: data to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import TYPE_CHECKING, Any

from eval_pipeline.documents import as_json
from eval_pipeline.report.pages.html import in_line, visible
from eval_pipeline.words import count, decimal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from eval_pipeline.store.project import Project

Cell = str | tuple[str, ...]
WIDTH = 80
HOW_TO_MEND = (
    "`eval-pipeline metrics --check NAME` shows the place. A formula that is mended is computed by "
    "`eval-pipeline run`; `run --all` tries once more what is as it was."
)
SHOWN_HITS = 3
SHOWN_TEXT = 60


def print_json(document: Any) -> None:
    """One JSON document, the same text every time."""
    sys.stdout.write(_json_text(document, indent=2) + "\n")


def print_json_list(items: Iterable[Any]) -> None:
    """One JSON list, as `print_json` prints it, written while its items come."""
    before = "[\n  "
    for item in items:
        sys.stdout.write(before + _json_text(item, indent=2).replace("\n", "\n  "))
        before = ",\n  "
    sys.stdout.write("[]\n" if before.startswith("[") else "\n]\n")


def print_json_line(document: Any) -> None:
    """One JSON document on one line."""
    sys.stdout.write(_json_text(document, indent=None) + "\n")


def _json_text(document: Any, *, indent: int | None) -> str:
    """Readable characters wherever the output can carry them."""
    can_carry_all = "utf" in (sys.stdout.encoding or "").lower()
    return json.dumps(as_json(document), ensure_ascii=not can_carry_all, indent=indent, allow_nan=False)


def console() -> Console:
    """For people: coloured on a terminal only, 80 columns where the width is not known."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the command line, which knows the exit code."""
            raise BrokenPipeError

    is_terminal = sys.stdout.isatty()
    return Pipe(
        width=None if is_terminal else WIDTH, highlight=False, soft_wrap=False, emoji=False, markup=False
    )


def say(message: str) -> None:
    """A remark that is no data."""
    sys.stderr.write(visible(message) + "\n")


def end_where_failed(failed: Mapping[str, str]) -> None:
    """Say which tables failed and why, and end with 1; everything else that was asked for is done."""
    if not failed:
        return
    for name, sentence in failed.items():
        say(f"{name} {sentence}")
    say(HOW_TO_MEND)
    sys.exit(1)


def end_where_not_held(project: Project, name: str | None = None) -> None:
    """Name every formula of one's own (or this one) that does not hold, and end with 1 where there is one."""
    if project.settings.own_sql is None:
        return
    from eval_pipeline.computing.check_formulas import check_definitions

    wrong = [one for one in check_definitions(project, only=name, own_only=True) if not one.ok]
    for one in wrong:
        for sentence in one.sentences():
            say(f"error: {sentence}")
    if wrong:
        sys.exit(1)


def print_line(text: str = "") -> None:
    """One or more lines for people; whatever ids are made of, they cannot steer the terminal."""
    print(visible(text))


def table(columns: Sequence[Cell], rows: Sequence[Sequence[Any]], *, numbers: Sequence[Cell] = ()) -> None:
    """A table that fits 80 columns; the columns named in `numbers` are aligned to the right.

    A text stays on its line, whatever it is made of; a cell of several lines is a tuple of them.
    """
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        is_number = column in numbers
        shown.add_column(
            _cell(column), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in rows:
        shown.add_row(*map(_cell, row))
    console().print(shown)


def _cell(cell: Any) -> Text:
    from rich.text import Text

    lines = cell if isinstance(cell, tuple) else ("" if cell is None else str(cell),)
    return Text("\n".join(map(in_line, lines)))


def filled(text: str) -> str:
    """A sentence broken at spaces so that it fits 80 columns, whatever prints it."""
    return fill(visible(text), WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def number(value: float | None) -> str:
    """A metric's value for people: four decimals, an em dash where it is undefined."""
    return "—" if value is None else decimal(value)


def unlabelled_sentence(run_ids: Sequence[str]) -> str:
    """What is scored of runs whose dataset has no golden set."""
    shown = ", ".join(run_ids[:3]) + (", …" if len(run_ids) > 3 else "")
    return (
        f"{count(len(run_ids), 'run')} without a golden set for the dataset, scored by what needs no label: {shown}; "
        "`eval-pipeline load FILE --golden --dataset NAME` takes labels in."
    )


def megabytes(n_bytes: int) -> str:
    """`1.5 MB`."""
    return f"{n_bytes / 1_000_000:,.1f} MB"


def listed(counts: Mapping[str, int]) -> str:
    """`3 formula, 2 labels`."""
    return ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items()))


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar with the time that remains, on a terminal; nothing anywhere else."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def shortened(value: Any) -> Any:
    """Enough of a row to recognise it."""
    if isinstance(value, dict):
        return {name: shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        shown = [shortened(inner) for inner in value[:SHOWN_HITS]]
        return [*shown, f"… {len(value) - SHOWN_HITS} more"] if len(value) > SHOWN_HITS else shown
    if isinstance(value, str) and len(value) > SHOWN_TEXT:
        return value[:SHOWN_TEXT] + "…"
    return value
