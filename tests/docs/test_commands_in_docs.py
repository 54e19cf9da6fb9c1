"""The commands that the documents show, executed in the order in which a reader would type them.

A fenced block of the kind `console` or `sh` holds commands behind `$ ` (continued behind `> `) and below each what it prints.
A block below a line that is only a file's name in backticks is that file's content. Every document starts in an empty
folder. Of the output that is shown every line must appear, in this order; `…` stands for whatever was left out.
A command that ends with `&` goes on until the document is at its end, once it has printed what is shown.
"""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.called import DEMO, EXAMPLE, HOME, PRINTED, call, call_in_shell, demo_once, environment_in
from tests.without_dagster import without_dagster

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "docs/nights-and-quarantine.md",
    "docs/tutorial.md",
    "docs/extraction.md",
    "docs/add-a-formula.md",
    "docs/change-a-formula.md",
    "docs/correct-a-label.md",
    "docs/forgetting.md",
    "docs/python.md",
    "docs/evaluate.md",
    "docs/judges.md",
)
# They compute runs of the example anew, some several times; `make slow` follows them.
LONG = (
    "README.md",
    "docs/add-a-formula.md",
    "docs/change-a-formula.md",
    "docs/correct-a-label.md",
    "docs/extraction.md",
    "docs/forgetting.md",
    "docs/nights-and-quarantine.md",
)

# Not executed: these set a machine up, run for long or until they are stopped.
SKIPPED = (
    "git clone",
    "cd ",
    "make test",
    "make check",
    "make docs",
    "make dev",
    ". .venv",
    "eval-pipeline ui",
)
# Where services of documents listen: with a free port in its place, since other tests may run beside these.
PORT = "8311"
# How long a command that goes on may take until it has printed what is shown.
STARTS_SECONDS = 60
# Executed as the command that remains once the machine is set up.
SHORT = {"make demo": DEMO}

BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
# What differs from one call to the next and says nothing: times, durations, lengths of lines in tables.
UNSTABLE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*Z?"), "TIME"),
    (re.compile(r"about \d+\.\d s"), "about SECONDS"),
    (re.compile(r"[─━]+"), "───"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class WrittenFile:
    place: str
    text: str


@dataclass(frozen=True)
class Command:
    """`shown` is what the document says it prints, `code` its exit code."""

    text: str
    shown: tuple[str, ...]
    code: int = 0


def steps_of(document: str) -> Iterator[WrittenFile | Command]:
    for block in BLOCK.finditer(document):
        if block["kind"] in ("console", "sh"):
            yield from commands_of(block["text"])
        elif block["file"]:
            yield WrittenFile(block["file"], block["text"])


def commands_of(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        first, *lines = part.splitlines()
        while lines and lines[0].startswith("> "):
            first += "\n" + lines.pop(0).removeprefix("> ")
        expected = re.search(r"#.*exit code (\d+)", first)
        yield Command(
            first, tuple(line for line in lines if line.strip()), int(expected[1]) if expected else 0
        )


def plain(line: str) -> str:
    for pattern, word in UNSTABLE:
        line = pattern.sub(word, line)
    return line.strip()


def first_missing(shown: tuple[str, ...], printed: str) -> str | None:
    """The first shown line that does not appear behind the one before it."""
    lines = iter([plain(line) for line in printed.splitlines()])
    for line in shown:
        if line.strip() == "…":
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in plain(line).split("…")))
        if not any(wanted.fullmatch(candidate) for candidate in lines):
            return line
    return None


def plain_call(text: str) -> list[str] | None:
    """The words of a command that is nothing but a call of the program; None where a shell has a part in it."""
    words = list(shlex.shlex(text, posix=True, punctuation_chars=True))
    needs_shell = "$" in text or "`" in text or any(not set(word) - set("();<>|&") for word in words)
    found = shlex.split(text, comments=True)
    return found[1:] if found[0] == "eval-pipeline" and not needs_shell else None


def run(text: str, folder: Path) -> tuple[int, str]:
    """Exit code and everything that is printed."""
    words = plain_call(text)
    return call_in_shell(text, folder) if words is None else call(words, folder)[:2]


@contextmanager
def going_on(command: Command, folder: Path) -> Iterator[None]:
    """The command runs for the length of the block."""
    text = command.text.removesuffix("&")
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", f"exec {text}"],
        cwd=folder,
        env=environment_in(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        limit = threading.Timer(STARTS_SECONDS, process.kill)
        limit.start()
        printed = ""
        while first_missing(command.shown, printed) and (line := process.stdout.readline()):
            printed += line
        limit.cancel()
        try:
            assert first_missing(command.shown, printed) is None, f"$ {command.text}\n{printed}"
            yield
        finally:
            process.kill()


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> tuple[Path, str]:
    """The example, computed once for all documents: its folder and what the command printed."""
    folder = demo_once(tmp_path_factory)
    return folder / EXAMPLE, (folder / PRINTED).read_text("utf-8")


def execute(command: Command, folder: Path, *, demo: Callable[[], tuple[Path, str]]) -> None:
    if command.text.startswith(SKIPPED):
        return
    text = SHORT.get(command.text.partition("#")[0].strip(), command.text)
    if text == DEMO:
        made, printed = demo()
        code = 0
        shutil.copytree(made, folder, dirs_exist_ok=True)
    else:
        code, printed = run(text, folder)
    assert code == command.code, f"$ {text}\n{printed}"
    missing = first_missing(command.shown, printed)
    assert missing is None, f"$ {text}\nshown, but not printed (in this place): {missing}\n\n{printed}"


@pytest.fixture
def follow(tmp_path, new_home, request) -> Callable[[str], None]:
    """Do what a document says, in an empty folder."""

    def do(place: str) -> None:
        steps = list(steps_of((ROOT / place).read_text("utf-8").replace(PORT, free_port())))
        assert sum(isinstance(step, Command) for step in steps) >= 5
        shutil.copytree(new_home, tmp_path / HOME)
        with ExitStack() as until_the_end:
            for step in steps:
                if isinstance(step, WrittenFile):
                    path = tmp_path / step.place
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(step.text, "utf-8")
                elif step.text.endswith("&"):
                    until_the_end.enter_context(going_on(step, tmp_path))
                else:
                    execute(step, tmp_path, demo=lambda: request.getfixturevalue("demo"))

    return do


@pytest.mark.parametrize("place", [place for place in DOCUMENTS if place not in LONG])
def test_the_commands_of_a_document_do_what_it_shows(place, follow):
    with without_dagster():
        follow(place)


@pytest.mark.slow
@pytest.mark.parametrize("place", DOCUMENTS)
def test_through_dagster_they_do_the_same(place, follow):
    follow(place)


def test_after_the_demo_nothing_is_found_wrong(tmp_path_factory):
    code, said, _ = call(["doctor"], demo_once(tmp_path_factory) / EXAMPLE)
    assert (code, "Nothing is wrong." in said) == (0, True), said


def test_a_shown_line_that_is_not_printed_is_found():
    printed = "run    hit@5\n────────\nmonday  0.5000\n"
    assert first_missing(("run  hit@5", "monday 0.5000"), printed) is None
    assert first_missing(("…", "mon…"), printed) is None
    assert first_missing(("monday  0.6000",), printed) == "monday  0.6000"
    assert first_missing(("monday  0.5000", "run hit@5"), printed) == "run hit@5"


def test_a_command_is_read_with_its_continuation_its_output_and_its_exit_code():
    text = "$ echo one \\\n> two\none two\n\n$ false  # exit code 1\n"
    assert list(commands_of(text)) == [
        Command("echo one \\\ntwo", ("one two",)),
        Command("false  # exit code 1", (), 1),
    ]


def test_a_command_that_a_shell_has_a_part_in_is_left_to_the_shell():
    assert plain_call('eval-pipeline query "select 1 < 2"  # exit code 1') == ["query", "select 1 < 2"]
    assert plain_call("eval-pipeline metrics --json | head") is None
    assert plain_call('eval-pipeline show "$run"') is None
    assert plain_call("sed -i 's/a/b/' file") is None
