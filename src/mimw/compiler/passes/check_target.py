"""Words that a chip cannot do are refused by name, before any later stage stumbles over them.

Input: a program and its target. Output: nothing, or a `TargetError` with the author's word and line. What an op needs stands in its
row of the op table (`needs`), what a chip has in `Target.features`. For example, on sm_80:

    TargetError at kernel.py:7: sm_80 cannot do 'async_tasks': it has no tasks on warps of their own.
"""

from __future__ import annotations

from ...errors import TargetError, excerpt
from ...ir import OPS, Buffer, Op, Program
from ...target import DSA, FEATURES, SHARED, TARGETS, TENSOR, TITLES, Target


def check_target(program: Program, target: Target) -> None:
    """Raise `TargetError` at the first op that `target` cannot do; the message names word, line and target."""
    for op in program.where(lambda row: row.needs or row.allocates == "buffer"):  # all other buffers are views of allocated ones
        feature = op.row.needs and not op.attrs.get("by_pointers") and op.row.needs_of(op)
        if feature and not target.has(feature):
            other = next(chip for chip in (TARGETS["sm_90a"], *TARGETS.values()) if chip.has(feature))
            raise TargetError(f"TargetError at {op.site}: {target} cannot do '{op.row.word}': it has no {FEATURES[feature]}.\n"
                              f"Mend: {_instead(op)}compile for a target that has it, such as {other}.\n"
                              f"{excerpt(op.site)}".rstrip())
        for result in op.results:
            if isinstance(result.type, Buffer) and target.lies_in(result.type.space) is None:
                raise TargetError(f"TargetError at {op.site}: {target} cannot hold a buffer in {TITLES[result.type.space]}: "
                                  f"{_elsewhere(result.type.space, target)}\n{excerpt(op.site)}".rstrip())


def _instead(op: Op) -> str:
    return f"write {op.row.instead} there, or " if op.row.instead else ""


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
    needs: dict[str, set[str]] = {}     # one word may be recorded as other ops on other chips
    for row in OPS.values():
        if row.needs:
            needs.setdefault(row.word, set()).add(row.needs)
    table = {word: tuple(name for name, chip in TARGETS.items() if any(map(chip.has, features)))
             for word, features in needs.items()}
    compiled = {name for name, chip in TARGETS.items() if chip.binary}
    table = {word: chips for word, chips in table.items() if not compiled.issubset(chips)}
    table["tmem"] = tuple(name for name, chip in TARGETS.items() if chip.space("tmem"))
    return table
