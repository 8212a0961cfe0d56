"""Words that a chip cannot do are refused by name, before any later stage stumbles over them.

Input: a program and its target. Output: nothing, or a `TargetError` with the author's word and line. What an op needs stands in its
row of the op table (`needs`), what a chip has in `Target.features`. For example, on sm_80:

    TargetError at kernel.py:7: sm_80 cannot do 'async_tasks': it has no tasks on warps of their own.
"""

from __future__ import annotations

from ..errors import TargetError, excerpt
from ..ir import OPS, Buffer, Program
from ..target import FEATURES, TARGETS, Target


def check_target(program: Program, target: Target) -> None:
    """Raise `TargetError` at the first op that `target` cannot do; the message names word, line and target."""
    for op in program.where(lambda row: row.needs or row.allocates == "buffer"):  # all other buffers are views of allocated ones
        feature = op.row.needs and op.row.needs_of(op)
        if feature and not target.has(feature):
            other = next(chip for chip in (TARGETS["sm_90a"], *TARGETS.values()) if chip.has(feature))
            raise TargetError(f"TargetError at {op.site}: {target} cannot do '{op.row.word}': it has no {FEATURES[feature]}.\n"
                              f"Mend: compile for a target that has it, such as {other}.\n{excerpt(op.site)}".rstrip())
        if any(isinstance(result.type, Buffer) and not target.space(result.type.space) for result in op.results):
            raise TargetError(f"TargetError at {op.site}: {target} cannot hold a buffer in tensor memory: tmem is only "
                              f"available on Blackwell.\nMend: allocate the buffer in shared memory.\n"
                              f"{excerpt(op.site)}".rstrip())


def word_targets() -> dict[str, tuple[str, ...]]:
    """The words that not every target has, each with the targets that do; made for a table in the documentation."""
    needs: dict[str, set[str]] = {}     # one word may be recorded as other ops on other chips
    for row in OPS.values():
        if row.needs:
            needs.setdefault(row.word, set()).add(row.needs)
    table = {word: tuple(name for name, chip in TARGETS.items() if any(map(chip.has, features)))
             for word, features in needs.items()}
    table["tmem"] = tuple(name for name, chip in TARGETS.items() if chip.space("tmem"))
    return table
