"""Mends of a kernel's source that were tried: the change with which `mimw.check` finds nothing any more.

Input: a kernel, and what a check has found. Output: a `Mend`: a sentence, edits for a machine, a diff. For example:

    mend = mend_for(kernel, report.findings, look, seconds=10)
    edited(text, mend.edits)            the text of the file with the mend in it

The files:

    kernel_source.py   the kernel's file; the same kernel made of a changed text
    listing.py         statements with their blocks, names and words
    candidate.py       a change that may mend, and what findings say for it
    changes.py         changes inside of a statement: parities, indices, chunks, counts, bytes
    moves.py           words at another place, or one too many
    missing.py         words that are missing
    search.py          the likely ones first, each tried, until one is clean
    edits.py           edits applied, shown as a diff
"""

from .edits import Mend, diff, edited
from .search import mend_for

__all__ = ["Mend", "diff", "edited", "mend_for"]
