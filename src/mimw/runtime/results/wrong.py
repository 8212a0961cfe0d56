"""The error about a wrong element: who wrote it, where, and what its value was made of.

Input: a wrong element, and the book of a run's writers where there was one. Output: a `WrongResult`. For example:

    wrong_result(wrong, program, writers)
    WrongResult: 'y'[3] is 18, expected 21; 61 of 64 elements differ by more than the tolerance of 0.0001
      task 'add' of CTA (0, 0, 0): store at row_sums.py:21 wrote it
      its value was made at row_sums.py:13, row_sums.py:18, row_sums.py:27
"""

from __future__ import annotations

from typing import Any

from ...compiler.analysis.made_of import made_of
from ...compiler.analysis.written import accessed, parameters_behind
from ...compiler.triton_port.origin import is_tritons_file
from ...errors import WrongResult
from ...ir import Program, Site
from ...ir.site import UNKNOWN
from ...simulator import Writers
from .arrays import place
from .compare import Wrong

LINES = 8       # of those that made a value, the nearest to the store
OF_NOBODY = ("see whether the grid has a program for this element, along each dimension, and whether the mask or the coordinates "
             "of the store leave it out")
ON_A_GPU = "`mimw check`, or `mimw simulate`, names the program that writes it and the lines that make its value"
CUT = ("the lower 32 bits are right: a line above computes in 32 bits what needs 64; make its operand 64 bits wide before, as in "
       "`x.to(tl.int64)`")


def wrong_result(wrong: Wrong, program: Program | None = None, writers: Writers | None = None) -> WrongResult:
    """The error about a wrong element of a run of `program`. Without its `writers`, as after a launch on a GPU, nobody knows who
    wrote it."""
    if program is None or writers is None:
        return WrongResult(wrong.facts, hint=ON_A_GPU)
    writer = writers.at(_address(wrong))
    if writer is None:
        return WrongResult(f"{wrong.facts}\n  no program wrote it", *_stores(program, wrong.expected.name), hint=OF_NOBODY)
    made = _of_user(made_of(program, writer.op), writer.op.site)
    near = sorted(made[:LINES], key=lambda site: (site.file, site.line))
    more = f" and {len(made) - LINES} lines before" if len(made) > LINES else ""
    lines = f"\n  its value was made at {', '.join(map(str, near))}{more}" if near else ""
    return WrongResult(f"{wrong.facts}\n  {writer.where}: {writer.op.name} at {writer.op.site} wrote it{lines}",
                       writer.op.site, *near, hint=_mend(wrong))


def _of_user(sites: tuple[Site, ...], store: Site) -> list[Site]:
    """The lines of the author's, or of a library's kernel: in place of a line of Triton's own functions the one that calls it."""
    found = {(store.file, store.line): store}
    for site in sites:
        own = next((one for one in site.chain() if not is_tritons_file(one.file)), UNKNOWN)
        if own != UNKNOWN:
            found.setdefault((own.file, own.line), own)
    return list(found.values())[1:]


def _address(wrong: Wrong) -> int:
    start, _, strides, _ = place(wrong.expected.array)
    return start + sum(index * stride for index, stride in zip(wrong.index, strides))


def _stores(program: Program, name: str) -> list[Site]:
    """The stores through which the kernel writes the argument elsewhere."""
    found = [op.site for op in program.walk() for address in accessed(op, "write")
             if name in (parameters_behind(program, address) or ())]
    return list(dict.fromkeys(found))[:2]


def _mend(wrong: Wrong) -> str:
    """The hint that the numbers give, "" for none."""
    if _is_cut(wrong.got, wrong.want):
        return CUT
    elsewhere = wrong.elsewhere
    if elsewhere is None:
        return ""
    name = wrong.expected.name
    there = f"what is in {name}[{_shown(wrong.index)}] is expected in {name}[{_shown(elsewhere)}]"
    if len(elsewhere) > 1 and sorted(elsewhere) == sorted(wrong.index):
        return f"{there}: two coordinates are swapped, in the store or in a load of the value"
    return f"{there}: compare the coordinates of the store with those of the loads of the value"


def _shown(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))


def _is_cut(got: Any, want: Any) -> bool:
    """True for an integer of 64 bits of which the lower half is right."""
    if got.dtype.kind not in "iu" or want.dtype.kind not in "iu" or got.dtype.itemsize < 8:
        return False
    return int(got) & 0xFFFFFFFF == int(want) & 0xFFFFFFFF
