"""The example's documents, read from the folder beside this file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CORPUS_FOLDER = Path(__file__).parent / "handbook"
_TYPE_OF_SUFFIX = {".md": "markdown", ".sh": "code"}


@dataclass(frozen=True)
class Document:
    """One file of the corpus; offsets into `text` are code points."""

    doc_id: str
    rel_path: str
    doc_type: str
    text: str

    @property
    def folder(self) -> str:
        return self.rel_path.rpartition("/")[0]


def read_corpus(folder: Path = CORPUS_FOLDER) -> tuple[Document, ...]:
    """Every document below the folder, ordered by path; the document id is the path without its suffix."""
    paths = [path for path in folder.rglob("*") if path.suffix in _TYPE_OF_SUFFIX]
    documents = [_read_document(path, folder) for path in paths]
    return tuple(sorted(documents, key=lambda document: document.rel_path))


def _read_document(path: Path, folder: Path) -> Document:
    relative = path.relative_to(folder)
    return Document(
        doc_id=relative.with_suffix("").as_posix(),
        rel_path=relative.as_posix(),
        doc_type=_TYPE_OF_SUFFIX[path.suffix],
        text=path.read_text(encoding="utf-8"),
    )
