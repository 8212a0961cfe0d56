"""Docstrings that open with a clause in place of a noun or a verb: "What a kernel asks", "Whether a launch fits".

    clauses(files())            places and first lines

Input: files. Output: the docstrings of functions and classes whose first word is one of CLAUSES. (The page of a module has a form
of its own, and its own test.)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .sources import Definition, File, statements

CLAUSES = {"What", "Where", "Whether", "Who", "Whose", "Which", "When", "How", "That", "As", "If", "Why", "While", "Because",
           "Until", "Unless", "Since"}


def docstrings(files: Iterable[File]) -> Iterator[tuple[str, str]]:
    """(place, first line) of each function and class that has one."""
    for file in files:
        for node in statements(file.tree):
            if isinstance(node, Definition) and (text := (ast.get_docstring(node, clean=False) or "").strip()):
                yield f"{file.place(node)} {node.name}", text.splitlines()[0]


def clauses(files: Iterable[File]) -> list[str]:
    return [f"{place}: {line}" for place, line in docstrings(files) if line.split()[0].strip("`,:;.") in CLAUSES]
