"""What `compare` and `gate` print of the example has the types that the product declares, and nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest

from eval_pipeline.comparing.documents import CompareReport, GateReport
from eval_pipeline.documents import as_json, schema_of

from .documents import KEPT

KINDS = {"compare": CompareReport, "gate": GateReport}
DOCUMENTS = {path.name: kind for name, kind in KINDS.items() for path in KEPT.glob(f"{name}*.json")}


def test_there_are_documents_of_either_kind():
    assert set(DOCUMENTS.values()) == set(KINDS.values())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_read_by_its_type_and_written_again_is_the_same_bytes(name):
    kept = (KEPT / name).read_text("utf-8")
    document = msgspec.json.decode(kept, type=DOCUMENTS[name], strict=True)
    assert json.dumps(as_json(document), ensure_ascii=False, indent=2) + "\n" == kept


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_field_says_what_it_is_in_a_sentence(kind):
    schema = schema_of(kind)
    structs = schema["$defs"]
    assert kind.__name__ in structs
    told = {
        f"{name}.{field}": entry.get("description", "")
        for name, struct in structs.items()
        for field, entry in struct["properties"].items()
    }
    assert [field for field, sentence in told.items() if not sentence.endswith(".")] == []
