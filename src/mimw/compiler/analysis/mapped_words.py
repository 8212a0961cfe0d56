"""The words of a kernel that become others on a chip, which lacks what they are made of.

Input: a program as the author wrote it, and a chip. Output: a `MappedWord` for each call of such a word. For example, on gfx942:

    tlx.async_dot(a[slot], b[slot], acc)      MappedWord("async_dot", gemm.py:12, "a product at once of what the buffers hold")
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Op, Program, Site
from ...target import Target


@dataclass(frozen=True)
class MappedWord:
    """A word, where it is called, and what it becomes."""

    word: str
    site: Site
    becomes: str


def mapped_words(program: Program, target: Target) -> tuple[MappedWord, ...]:
    """Those words in program order; one for several ops of one line."""
    found = (op for op in program.where(lambda row: row.becomes) if _is_mapped(op, target))
    return tuple(dict.fromkeys(MappedWord(op.row.word, op.site, op.row.becomes) for op in found))


def _is_mapped(op: Op, target: Target) -> bool:
    feature = op.row.needs_of(op)
    return bool(feature) and feature in target.mapped and not op.attrs.get("by_pointers")
