"""The numbers of recorded ops in the locations of a module: how a finished kernel says which op of the program each of its ops was.

Input: Triton's builder, and an op of the program with its number. Output: locations; later, from an MLIR value, the number again:

    numbered(builder, "acc", 17, "kernel.py", 9, 13)        loc("acc.17"("kernel.py":9:13))
    number_of(value)                                        17, also after all passes

Every pass hands locations on, so that a number in the location is found again after all of them; attributes are dropped by some
passes. Of the numbers in a module's text `ModuleText.numbers` is the reader.
"""

from __future__ import annotations

import re

NUMBER = re.compile(r'\.(\d+)"\(')


def numbered(builder, name: str, number: int, file: str, line: int, column: int) -> None:
    """Give what `builder` makes from now on the source position and the number of a recorded op, and a name to read.

    A debugger and a profiler see the position inside the name.
    """
    builder.set_loc(as_debug_file(file), line, column)
    builder.set_loc(builder.create_name_loc(f"{name}.{number}", builder.get_loc()))


def as_debug_file(file: str) -> str:
    """A file's name as it may stand in a module's locations, and so in the PTX, where ptxas reads `\\"` as the name's end."""
    return file.replace('"', "'")


def number_of(value) -> int | None:
    """The number of the recorded op that a value of a module comes from, None for a value of another origin."""
    found = NUMBER.search(str(value.get_loc()))
    return int(found[1]) if found else None


def number_said(location: str) -> int:
    """The number of the recorded op in a location as MLIR writes it; of a fusion, the first one; -1 if there is none."""
    found = NUMBER.search(location)
    return int(found[1]) if found else -1


def number_at(location) -> int:
    """The number of the recorded op in an MLIR location, -1 if there is none; of a fusion, the first of its numbers."""
    name = location.get_name()
    if name is None:
        text = str(location)
        return number_said(text) if text.startswith("loc(fused") else -1
    number = name.rpartition(".")[2]
    return int(number) if number.isdecimal() and len(number) < len(name) else -1
