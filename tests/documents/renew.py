"""Renews kept documents: python -m tests.documents.renew NAME… (or --all)."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.called import make_demo

from .documents import DOCUMENTS, KEPT, Example, prepare, text_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.documents.renew", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a file of tests/documents/kept")
    parser.add_argument("--all", action="store_true", help="every one; what is no document any more goes")
    asked = parser.parse_args()
    unknown = set(asked.names) - DOCUMENTS.keys()
    if unknown or not (asked.names or asked.all):
        parser.error(
            f"no document named {', '.join(sorted(unknown))}" if unknown else "name a document, or --all"
        )
    KEPT.mkdir(exist_ok=True)
    if asked.all:
        for path in KEPT.iterdir():
            if path.name not in DOCUMENTS:
                path.unlink()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        make_demo(folder / "demo")
        prepare(folder / "documents", folder / "demo")
        for name in DOCUMENTS if asked.all else asked.names:
            text = text_of(name, Example(folder / "documents", folder / "out"))
            path = KEPT / name
            if not path.is_file() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8", newline="")
                print(f"renewed {path.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
