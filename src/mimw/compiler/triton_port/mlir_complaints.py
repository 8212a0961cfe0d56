"""Complaints of MLIR about an author's text, and positions in the text of the ops of a module.

Input: something that parses or runs passes. Output: `MlirProblem` with a line and a column. An example:

    with complaints():
        module_of("module { %x = arith.addi %y %y : i32 }", context)          MlirProblem("expected ','", 1, 26)
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from triton._C.libtriton import ir as mlir

_AT = re.compile(r'(?:loc\()?"([^"\n]*)":(\d+):(\d+)\)?: error: (.*)|([^\s:]+):(\d+):(\d+): error: (.*)')
_MORE = re.compile(r"(?:\n(?!.*: (?:note|error): |module |#).+)*")
_SHOWN = re.compile(r"\n.*\n *\^ *$", re.MULTILINE)        # the line of the source, and what points into it
_PLACE = re.compile(r'":(\d+):(\d+)')
NOWHERE = (1, 1)
_LISTENING = threading.Lock()


class MlirProblem(Exception):
    """A fault in a source, with its position; `file` is the one that MLIR names."""

    def __init__(self, what: str, line: int = 1, column: int = 1, file: str = ""):
        self.what, self.line, self.column, self.file = what, line, column, file
        super().__init__(f"{line}:{column}: {what}")


def ops_of(module) -> list:
    """Every op of a module in the order of a walk: an op after the ops in its regions."""
    found: list = []
    module.walk(found.append)
    return found


def places_of(module) -> list[tuple[int, int]]:
    """The line and column of each op in the text that was parsed, in the order of a walk; `NOWHERE` for the module."""
    found = map(_PLACE.search, locations_of(module))
    return [(int(one[1]), int(one[2])) if one else NOWHERE for one in found]


def locations_of(module) -> list[str]:
    """The location of each op as MLIR writes it, in the order of a walk; "" for the module.

    Triton's builder takes the location of the op that it is set behind, so ops without results have one, too.
    """
    builder, said = mlir.builder(module.context), []
    for op in ops_of(module):
        inside = op.get_block() is not None
        if inside:
            builder.set_insertion_point_after(op)
        said.append(str(builder.get_loc()) if inside else "")
    return said


@contextmanager
def complaints(position: Callable[[int, int], tuple[int, int]] = lambda line, column: (line, column)) -> Iterator[None]:
    """Raise an `MlirProblem` for a complaint that MLIR writes to the process's standard error, at the place that `position`
    gives for a line and a column of the text."""
    sys.stderr.flush()
    with _LISTENING, tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
            os.write(before, _all_of(kept))     # what others have said meanwhile
        except RuntimeError as error:
            said = _all_of(kept).decode(errors="replace")
            found = _AT.search(said)
            if found is None:
                raise MlirProblem(said.strip().splitlines()[0] if said.strip() else str(error)) from None
            file, line, column, what = found.groups()[:4] if found[2] else found.groups()[4:]
            more = _SHOWN.sub("", _MORE.match(said, found.end())[0])    # some complaints go on in the next lines
            what = " ".join(f"{what} {more}".split()).rstrip(".").replace("..", ".")
            raise MlirProblem(what, *position(int(line), int(column)), file) from None
        finally:
            os.dup2(before, 2)
            os.close(before)


def _all_of(file) -> bytes:
    file.seek(0)
    return file.read()
