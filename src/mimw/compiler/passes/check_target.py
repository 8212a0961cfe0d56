"""Words that a chip cannot do are refused by name, before any later stage stumbles over them.

Input: a program and its target. Output: nothing, or a `TargetError` with the author's word and line. What an op needs stands in its
row of the op table (`needs`), what a chip has in `Target.features`. For example, on sm_80:

    TargetError at kernel.py:7: sm_80 cannot do 'async_tasks': it has no tasks on warps of their own.
"""

from __future__ import annotations

from ...errors import TargetError, excerpt
from ...ir import OPS, Buffer, Op, OpDef, Program
from ...target import DSA, FEATURES, SHARED, TARGETS, TENSOR, TITLES, Target

_INSTEAD = {"clusters": "pass data for other programs through global memory", "bulk": "copy by pointers",
            "tensor_memory": "add up in a tile, by tl.dot", "multimem": "access the memory of each GPU"}
"""The alternative to what a chip of another vendor lacks, by feature."""


def check_target(program: Program, target: Target) -> None:
    """Raise `TargetError` at the first op that `target` cannot do; the message names word, line and target."""
    for op in program.where(lambda row: row.needs or row.allocates == "buffer"):  # all other buffers are views of allocated ones
        feature = op.row.needs and not op.attrs.get("by_pointers") and op.row.needs_of(op)
        if feature and not _takes(target, op.row):
            other = next(chip for chip in (TARGETS["sm_90a"], *TARGETS.values()) if chip.has(feature))
            raise TargetError(f"TargetError at {op.site}: {target} cannot do '{op.row.word}': it has no {FEATURES[feature]}.\n"
                              f"Mend: {_instead(op, target)}compile for a target that has it, such as {other}.\n"
                              f"{excerpt(op.site)}".rstrip())
        for result in op.results:
            if isinstance(result.type, Buffer) and target.lies_in(result.type.space) is None:
                raise TargetError(f"TargetError at {op.site}: {target} cannot hold a buffer in {TITLES[result.type.space]}: "
                                  f"{_elsewhere(result.type.space, target)}\n{excerpt(op.site)}".rstrip())


def _takes(target: Target, row: OpDef) -> bool:
    """True if the chip has the feature that ops of the row need, or they become others there."""
    return target.has(row.needs) or row.needs in target.mapped and bool(row.becomes)


def _instead(op: Op, target: Target) -> str:
    """The way round on this chip, the first half of a mend."""
    if op.row.instead:
        return f"write {op.row.instead} there, or "
    feature = op.row.needs_of(op)
    return f"{_INSTEAD[feature]}; or " if target.mapped and feature in _INSTEAD else ""


def _elsewhere(space: str, target: Target) -> str:
    """The targets that have that space, and the mend, in words."""
    have = ", ".join(name for name, chip in TARGETS.items() if chip.space(space))
    mend = "allocate the buffer in shared memory" if target.space(SHARED) else (
        f"allocate it by tle.dsa.alloc in one of {', '.join(name.upper() for name in target.spaces if name in DSA)}")
    only = "tmem is only available on Blackwell" if space == TENSOR else f"{space} is what {have} have"
    return f"{only}.\nMend: {mend}."


def word_targets() -> dict[str, tuple[str, ...]]:
    """The words that not every chip with a compiler here has, each with the targets that do; made for a table in the
    documentation."""
    rows: dict[str, list[OpDef]] = {}     # one word may be recorded as other ops on other chips
    for row in OPS.values():
        if row.needs and "ttgir" not in row.traits:      # which no word records
            rows.setdefault(row.word, []).append(row)
    table = {word: tuple(name for name, chip in TARGETS.items() if any(_takes(chip, row) for row in of_word))
             for word, of_word in rows.items()}
    compiled = {name for name, chip in TARGETS.items() if chip.binary}
    table = {word: chips for word, chips in table.items() if not compiled.issubset(chips)}
    table["tmem"] = tuple(name for name, chip in TARGETS.items() if chip.space("tmem"))
    return table
