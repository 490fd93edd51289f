"""Writing results: every file atomically, all files of a run together, and never over an input."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from cmswitch.errors import InputError


class OutputFolder:
    """The folder that ``--out`` names. It is created, with its parents, only when there is something to write."""

    def __init__(self, path: Path, names: Iterable[str], inputs: Iterable[Path] = ()) -> None:
        """Check that the files ``names`` can be written beneath ``path`` without touching any of ``inputs``.

        Raises InputError before anything is computed: a part of the path is a file, the folder is not writable, a name
        is taken by a folder, or one of the files is an input.
        """
        self.path = path
        existing = next(p for p in (path, *path.parents, Path(".")) if os.path.lexists(p))
        if not existing.is_dir():
            kind = "a broken link" if not existing.exists() else "a file"
            raise InputError(f"--out {path}: '{existing}' is {kind}, not a folder; choose another place")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise InputError(f"--out {path}: no permission to write in '{existing}'; choose another place")
        for name in names:
            file = path / name
            if file.is_dir():
                raise InputError(f"--out {path}: '{file}' is a folder, but a file of that name has to be written")
            if any(_same(file, given) for given in inputs):
                raise InputError(f"--out {path}: '{file}' is an input and would be overwritten; choose another place")

    def write(self, files: Mapping[str, str]) -> None:
        """Write all files (name -> text). If one cannot be written, none is replaced.

        Raises InputError if the file system refuses (full, read-only, no permission).
        """
        created = [p for p in (self.path, *self.path.parents) if not p.exists()]
        pending: dict[Path, Path] = {}
        done = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                temporary = self.path / f".{name}.{os.getpid()}.tmp"
                pending[temporary] = self.path / name
                with open(temporary, "x", encoding="utf-8", newline="\n") as stream:
                    stream.write(text)
                    stream.flush()
                    os.fsync(stream.fileno())
            for temporary, final in pending.items():
                os.replace(temporary, final)
            done = True
        except OSError as error:
            raise InputError(f"--out {self.path}: cannot write: {error.strerror}") from error
        finally:
            if not done:
                for temporary in pending:
                    temporary.unlink(missing_ok=True)
                for folder in created:
                    with contextlib.suppress(OSError):  # somebody else has put something there, or it was never made
                        folder.rmdir()


def _same(file: Path, given: Path) -> bool:
    return file.exists() and given.exists() and not file.is_symlink() and file.samefile(given)
