"""What the product's documents share: typed fields with a sentence of help each, and their JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

__all__ = ["UNSET", "Document", "Help", "ScoreCoverage", "UnsetType", "as_json", "schema_of"]

MOST_UNSCORED: Final = 0.02


def Help(sentence: str) -> msgspec.Meta:
    """What a person is told of a field, in the JSON Schema and in the reference."""
    return msgspec.Meta(description=sentence)


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document of a public command. Its fields stand in the order of the JSON; new ones stand last, with a default.

    A field that only some documents have is `… | UnsetType = UNSET`. Until 0.2 the documents were dictionaries:
    reading one by its key still works for those who call the product's functions. Inside, fields are read by name.
    """

    def __getitem__(self, key: str) -> Any:
        """The field of that name, as it stands in the JSON."""
        return as_json(self)[key]

    def __iter__(self) -> Iterator[str]:
        """The names of its fields, as a dictionary gives them."""
        return iter(as_json(self))

    def keys(self) -> list[str]:
        """The names of the fields that it has."""
        return list(self)


def as_json(document: Any) -> Any:
    """Dictionaries, lists, text and numbers, as JSON knows them."""
    return msgspec.to_builtins(document)


def schema_of(kind: type[Document]) -> dict[str, Any]:
    """The JSON Schema of a document."""
    return msgspec.json.schema(kind)


class ScoreCoverage(Document, frozen=True):
    """How many of the answers that need a score have one."""

    scored: Annotated[int, Help("How many of them have a score.")]
    needed: Annotated[int, Help("How many answers need a score.")]

    @property
    def in_words(self) -> str | None:
        """`120 of 200`; None if at most 2 % lack a score."""
        if self.needed - self.scored <= MOST_UNSCORED * self.needed:
            return None
        return f"{self.scored:,} of {self.needed:,}"
