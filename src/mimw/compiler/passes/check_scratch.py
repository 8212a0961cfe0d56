"""The compiled kernel must fit into the shared memory of a CTA, with the scratch that Triton's ops take for themselves.

Input: a program, its target, and what Triton's allocator decided: all bytes and their pieces. Output: nothing, or
`OutOfSharedMemory` with the map of the bytes and the lines that need the scratch. `check_shared` refuses before lowering
what cannot fit whatever the layouts are; only the finished layouts determine the size of the scratch:

    check_scratch(program, target, 251272, pieces)      OutOfSharedMemory: 251272 bytes .., 18824 of them scratch, ..
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from ...errors import OutOfSharedMemory
from ...ir import Block, Program, Tensor, Value
from ...ir.types import element_of
from ...target import Target
from ..analysis import COUNTERS, counter_bytes
from ..storage import Row, compiled_rows, shared_plan, written
from .check_shared import fewer_buffers

_MOST_SITES = 3  # lines of scratch whose text is shown
_MOST_NEEDS = 4  # of one place that are in the map
_MENDS = {
    "convert_layout": "the tile changes hands between threads through shared memory: cut it into pieces there, narrow its "
                      "elements before, or give it the shape in which it is used next.",
    "reduce": "warps exchange values in shared memory to reduce: reduce a smaller tile, or the dimension that one warp holds.",
    "scan": "warps exchange values in shared memory to scan: scan a smaller tile, or fewer columns at a time.",
    "gather": "elements move between warps through shared memory: gather from a smaller tile, or from a buffer.",
    "local_alloc": "a product's operand, or what a descriptor loads or stores, goes through a tile of its own there, and where "
                   "Triton pipelines the loop through several: take fewer num_stages or smaller tiles, or copy between the "
                   "descriptor and a buffer that you have anyway.",
}
_OTHER_MEND = "use smaller tiles there."


def check_scratch(program: Program, target: Target, total: int, pieces: Iterable[Any]) -> None:
    """Raise `OutOfSharedMemory` if `total` bytes, the compiler's counters among them, are more than `target.shared_bytes`; `pieces`
    are the parts of the total that Triton's allocator knows."""
    if total <= target.shared_bytes:
        return
    rows, excess = compiled_rows(program, shared_plan(program), pieces), total - target.shared_bytes
    buffers = sum(row.size for row in rows if row.entry)
    beyond = sorted((row for row in rows if row.end > target.shared_bytes),
                    key=lambda row: (row.entry is not None, -row.size))
    sites = dict.fromkeys(site for row in beyond for site in row.sites)
    raise OutOfSharedMemory(
        f"{total} bytes of shared memory are needed, {total - buffers} of them scratch and padding, but a CTA on {target} has "
        f"{target.shared_bytes}: {excess} too many.\n" + "\n".join(_lines(rows, counter_bytes(program, target), total, target)),
        *list(sites)[:_MOST_SITES], hint=_hint(rows, beyond[0] if beyond else None, excess),
        required=total, limit=target.shared_bytes)


def _lines(rows: list[Row], counters: int, total: int, target: Target) -> list[str]:
    """The map: where each row lies, its size, and the line that it is for."""
    digits, used, lines = len(str(total)), 0, []
    for row in rows:
        if row.start > used:
            lines.append((f"{used:>{digits}} .. {row.start:>{digits}}", "free", row.start - used, ""))
        used = max(used, row.end)
        same = [other for other in rows if other.start == row.start and other.entry is None]
        if row in same[_MOST_NEEDS:]:
            continue
        where = str(written(row.sites[0])) if row.sites else ""
        if same[_MOST_NEEDS:] and row is same[_MOST_NEEDS - 1]:
            where += f" and {len(same) - _MOST_NEEDS} more, of less"
        lines.append((f"{row.start:>{digits}} .. {row.end:>{digits}}", row.name if row.entry else f"scratch: {row.op}", row.size,
                     where))
    margin = " " * (2 * digits + 4)
    lines += [(margin, COUNTERS, counters, "")] * bool(counters)
    lines += [(margin, "sum", total, ""), (margin, "limit", target.shared_bytes, str(target)),
              (margin, "excess", total - target.shared_bytes, "")]
    name, size = max(len(row[1]) for row in lines), max(len(str(row[2])) for row in lines)
    return [f"    {place}  {what:<{name}}  {bytes_:>{size}} bytes  {where}".rstrip() for place, what, bytes_, where in lines]


def _hint(rows: list[Row], worst: Row | None, excess: int) -> str:
    stages = fewer_buffers(tuple(row.entry for row in rows if row.entry), excess)
    if worst is None or worst.entry:
        return stages or "use smaller tiles, or fewer stages."
    mend = f"the {worst.name} takes {worst.size} bytes: {_MENDS.get(worst.op, _OTHER_MEND)}"
    return f"{mend} Or: {stages}" if stages else mend


def may_not_fit(program: Program, target: Target, num_stages: int) -> bool:
    """True unless the program fits whatever layouts its tiles get.

    Counted are all buffers and barriers; in each task twice its largest tile, since an op's scratch is at most one tile with
    padding, or a histogram in each warp; the tiles that descriptors stage; and the buffers in which Triton may pipeline the
    operands of a `tl.dot`.
    """
    ops = list(program.walk())
    bound = shared_plan(program).total + counter_bytes(program, target)
    bound += sum(2 * largest for largest in _largest(program.body, program.num_warps))
    bound += sum(_bytes(value) for op in ops if "descriptor" in op.row.places for value in (*op.operands, *op.results))
    bound += sum((num_stages + 1) * _bytes(value) for op in ops if op.row.layout == "dot" for value in op.operands[:-1])
    return bound > target.shared_bytes


def _largest(block: Block, num_warps: int) -> Iterator[int]:
    """The bytes of the largest tile of a block, then those of each task in it."""
    most, pending = 0, list(block.ops)
    while pending:
        op = pending.pop()
        most = max([most, *map(_bytes, op.results), num_warps * _bytes(op.result) if op.name == "histogram" else 0])
        if op.name == "warp_specialize":
            for task, inner in zip(op.attrs["tasks"], op.blocks, strict=True):
                yield from _largest(inner, num_warps if task.is_default else task.num_warps)
        else:
            pending += [inner for region in op.blocks for inner in region.ops]
    yield most


def _bytes(value: Value) -> int:
    return prod(value.type.shape) * max(1, element_of(value.type).bytes) if isinstance(value.type, Tensor) else 0
