"""The text of a definition file, or why it has none."""

from __future__ import annotations

from pathlib import Path

from eval_pipeline.errors import DefinitionError

# A hundred times the longest that is shipped.
MOST_BYTES = 1 << 20


def definition_files(folder: Path, suffix: str) -> list[Path]:
    """The files of a folder in order. One that cannot be listed is not an empty one, whose formulas were removed."""
    if folder.is_symlink() and not folder.exists():
        raise DefinitionError(
            f"{folder} is a link to a folder that is not there: wait for the mount, or remove it"
        )
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(suffix))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DefinitionError(f"{folder}: cannot be read: {error.strerror or error}") from error


def read_definition(path: Path) -> str:
    """The file's text; a folder, a pipe or a device in its place is never opened, which could wait for ever."""
    if not path.is_file():
        kind = (
            "a folder"
            if path.is_dir()
            else "a link to nothing"
            if not path.exists()
            else "a pipe or a device"
        )
        raise DefinitionError(f"{path}: is {kind}, not a file; remove it, or give it another name")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise DefinitionError(f"{path}: is larger than {MOST_BYTES >> 20} MiB, which no definition is")
        # Wherever it was saved.
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    except OSError as error:
        raise DefinitionError(f"{path}: cannot be read: {error.strerror or error}") from error
