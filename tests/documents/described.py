"""A real document held against its type."""

from __future__ import annotations

from typing import Any

import msgspec

from docs.build.documents import DOCUMENTS
from eval_pipeline.documents import as_json


def assert_is_as_described(command: str, document: Any) -> None:
    """It has the fields that the type of the command's document says, in their order, and no others."""
    assert ordered(as_json(msgspec.convert(document, DOCUMENTS[command]))) == ordered(document)


def ordered(value: Any) -> Any:
    """Dictionaries as lists of pairs, so that the order of keys counts."""
    if isinstance(value, dict):
        return [(key, ordered(one)) for key, one in value.items()]
    return [ordered(one) for one in value] if isinstance(value, list) else value
