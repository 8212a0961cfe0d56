"""A score_mod's functions for kernels: written to a file once for each text, and loaded.

Input: a module's text (written.py). Output: its functions, the same ones for the same text. For example:

    made = functions(text)          a module of <Triton's cache>/mimw-score-mods/<digest>.py
    made.score_mod, made.gradient   jit functions, which launches take as constants

A kernel's key holds the content of functions that are its constants, so two texts never share a binary. The module's name is its
text's digest, by which texts, representations and logs tell them apart as well. What runs is the text that was written here, not
what a file says: the file is for whoever reads the lines, as the front end, an error or a debugger.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import triton

NAME = "mimw-score-mods"
# Of modules: not below `mimw`, since no version of ours says what they hold, and not to be imported, so that `mimw.compile_ahead`
# compiles their kernels itself.
PREFIX = "mimw_score_mod_"


@cache
def functions(text: str) -> ModuleType:
    """The module."""
    digest = sha256(text.encode()).hexdigest()[:16]
    module = ModuleType(PREFIX + digest)
    module.__file__ = str(_kept(text, f"{digest}.py"))
    exec(compile(text, module.__file__, "exec"), vars(module))
    return module


def _kept(text: str, name: str) -> Path:
    """The path of a file with this text, in Triton's cache; where that cannot be written, in a folder of this process."""
    for folder in (Path(triton.knobs.cache.dir) / NAME, _own_folder):
        folder = folder() if callable(folder) else folder
        path = folder / name
        try:
            if path.is_file() and path.read_text() == text:
                return path
            folder.mkdir(parents=True, exist_ok=True)
            handle, written = tempfile.mkstemp(dir=folder, suffix=".part")
            with os.fdopen(handle, "w") as file:
                file.write(text)
            os.replace(written, path)
            return path
        except OSError as error:
            failed = error
    raise failed


@cache
def _own_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-"))


__all__ = ["functions"]
