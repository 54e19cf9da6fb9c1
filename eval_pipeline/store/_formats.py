"""What a file that is no DuckDB database is, by how it begins."""

from __future__ import annotations

import codecs

ENOUGH = 4096
SQLITE = b"SQLite format 3\0"
AN_SQLITE_DATABASE = "an SQLite database"
BEGINNINGS = (
    (SQLITE, AN_SQLITE_DATABASE),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"\x1f\x8b\x08", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"%PDF-", "a PDF file"),
)
WHITE = "\t\n\r\f"


def _format_of(start: bytes) -> str | None:
    """What a file that begins like this is, in words; None where nobody can say."""
    for beginning, words in BEGINNINGS:
        if start.startswith(beginning):
            return words
    text = _as_text(start)
    if text is None:
        return None
    return "JSON text" if text.lstrip().startswith(("{", "[")) else "a text file"


def _as_text(start: bytes) -> str | None:
    """The beginning as text, where it reads like one; a character may be cut off at its end."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        return None
    return text if text.strip() and all(one.isprintable() or one in WHITE for one in text) else None
