"""What docs/trust.md promises: every sentence names a test, and the test is there."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from eval_pipeline.serving.servers import serve
from eval_pipeline.serving.supervisor import Supervisor
from tests.bundle_files import hits, load, settings_in, write_golden, write_run
from tests.projects import project_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "trust.md"
LINK = re.compile(r"\[test\]\(\.\./(?P<file>[\w/.]+)#(?P<name>\w+)\)")


def promises() -> list[str]:
    return [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("- ")]


def is_one_sentence_with_its_test(line: str) -> bool:
    sentence, *tests = re.split(r"\s(?=\[test\])", line)
    return sentence.endswith(".") and ". " not in sentence and bool(tests) and all(map(LINK.fullmatch, tests))


def functions_of(file: str) -> set[str]:
    path = ROOT / file
    nodes = ast.walk(ast.parse(path.read_text("utf-8"))) if path.is_file() else ()
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_every_sentence_names_its_test() -> None:
    assert len(promises()) > 30
    assert [line for line in promises() if not is_one_sentence_with_its_test(line)] == []


def test_every_test_that_is_named_is_there() -> None:
    named = [(found["file"], found["name"]) for found in LINK.finditer(PAGE.read_text("utf-8"))]
    assert [one for one in named if one[1] not in functions_of(one[0])] == []


@pytest.mark.parametrize(
    "line", ["- A promise.", "- One. Two. [test](../a.py#test_b)", "- A promise [test](../a.py#test_b)"]
)
def test_a_sentence_without_a_test_of_its_own_is_noticed(line: str) -> None:
    assert not is_one_sentence_with_its_test(line)


def test_files_have_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    write_golden(tmp_path / "bundle", [{"query_id": "q", "expected_chunk_ids": ["d/1"]}])
    write_run(tmp_path / "bundle", "run", [{"query_id": "q", "hits_top_k": hits("d/1")}])
    (tmp_path / "made").mkdir()
    settings = settings_in(tmp_path / "made")
    before = os.umask(0o077)
    try:
        load(settings, tmp_path / "bundle")
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "made").rglob("*") if path.suffix != ".toml"]
    assert len(made) > 4
    assert [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_the_web_interface_listens_on_this_machine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Sequence[str]] = []
    monkeypatch.setattr(
        Supervisor, "run", lambda found: started.extend(one.command for one in found.children)
    )
    serve(project_of(settings_in(tmp_path, DAGSTER_HOME=str(tmp_path / "home"))), 0, started=lambda _: None)
    code, web, daemon = started
    assert web[web.index("-h") + 1] == "127.0.0.1"
    assert "--socket" in code
    assert not {"-p", "--port", "-h", "--host"} & {*code, *daemon}
