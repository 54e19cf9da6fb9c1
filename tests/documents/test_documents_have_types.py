"""What the commands print of the example is what the types of the documents describe, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from docs.build.documents import DOCUMENTS
from eval_pipeline.documents import Document, as_json, schema_of

from .described import assert_is_as_described
from .documents import KEPT

# Which kept documents each command printed.
PRINTED = {
    "runs": ["runs.json", "runs-of-one.json"],
    "diff": ["diff.json"],
    "show": ["show.json"],
    "status": ["status.json", "status-of-a-change.json"],
    "plan": ["plan.json", "plan-preview.json"],
    "explain": ["explain.json", "explain-a-change.json"],
    "compare": ["compare.json", "compare-across-chunkers.json"],
    "gate": ["gate.json"],
}
# Whoever asks somebody is held where there is somebody to ask.
ASKING = ("evaluate", "rejudge", "judges", "calls")
# Durations are taken out of what is kept.
LEFT_OUT = (": SECONDS", ": 0.5")


def kept(name: str) -> Any:
    return json.loads((KEPT / name).read_text("utf-8").replace(*LEFT_OUT))


def test_every_kind_of_document_is_held() -> None:
    assert PRINTED.keys() == {name for name in DOCUMENTS if name.split()[0] not in ASKING}


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command, names in PRINTED.items() for name in names]
)
def test_a_real_document_is_what_its_type_says(command: str, name: str) -> None:
    assert_is_as_described(command, kept(name))


@pytest.mark.parametrize("command", PRINTED)
def test_a_field_that_nobody_described_is_found(command: str) -> None:
    document = kept(PRINTED[command][0])
    assert as_json(msgspec.convert(document | {"surprise": 1}, DOCUMENTS[command])) == document


@pytest.mark.parametrize("command", DOCUMENTS)
def test_every_field_says_in_a_sentence_what_it_means(command: str) -> None:
    assert [
        place for place, field in fields_of(DOCUMENTS[command]) if not field["description"].endswith(".")
    ] == []


def fields_of(kind: type[Document]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a document and of its parts."""
    for part, definition in schema_of(kind)["$defs"].items():
        yield from ((f"{part}.{name}", field) for name, field in definition["properties"].items())


def test_a_document_is_also_read_by_its_keys_as_before() -> None:
    document = msgspec.convert(kept("show.json"), DOCUMENTS["show"])
    assert document["metrics"]["mrr"] == kept("show.json")["metrics"]["mrr"]
    assert list(document) == list(kept("show.json"))
