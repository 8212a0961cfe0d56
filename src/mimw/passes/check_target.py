"""Words that a chip cannot do are refused by name, before any later stage stumbles over them.

Input: a program and its target. Output: nothing, or a `TargetError` with the author's word and line. For example, on sm_80:

    TargetError at kernel.py:7: sm_80 cannot do 'async_tasks': it has no tasks on warps of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from ..errors import TargetError, excerpt
from ..ir import OPS, Buffer, Op, Program
from ..target import TARGETS, Target


@dataclass(frozen=True)
class Feature:
    """What a word may need of a chip: a flag of `Target`, and what a chip without it lacks, in words."""

    flag: str
    lack: str


# By the fact `needs` of an op's row. `grid_barrier` and `proxies` are features of two ops in one of their forms.
FEATURES = MappingProxyType({
    "tasks": Feature("has_tasks", "tasks on warps of their own"),
    "mbarrier": Feature("has_mbarrier", "barriers in shared memory that count bytes"),
    "tma": Feature("has_tma", "TMA"),
    "bulk": Feature("has_tma", "bulk copies"),
    "clusters": Feature("has_tma", "clusters"),
    "wgmma": Feature("has_wgmma", "asynchronous dots into registers (wgmma)"),
    "dependent_launch": Feature("has_tma", "programmatic dependent launch"),
    "grid_barrier": Feature("has_tma", "barrier among all CTAs of a grid"),
    "proxies": Feature("has_tma", "asynchronous proxy to fence"),
})
_PROXY_FENCE = "fence('async_shared')"


def check_target(program: Program, target: Target) -> None:
    """Raise `TargetError` at the first op that `target` cannot do; the message names word, line and target."""
    for op in program.walk():
        feature, word = _needed(op)
        if feature and not getattr(target, feature.flag):
            raise TargetError(f"TargetError at {op.site}: {target} cannot do '{word}': it has no {feature.lack}.\n"
                              f"Mend: compile for a target that has it, such as sm_90a.\n{excerpt(op.site)}".rstrip())
        if not target.tensor_memory_columns and any(_in_tensor_memory(result.type) for result in op.results):
            raise TargetError(f"TargetError at {op.site}: {target} cannot hold a buffer in tensor memory: tmem is only "
                              f"available on Blackwell.\nMend: allocate the buffer in shared memory.\n"
                              f"{excerpt(op.site)}".rstrip())


def word_targets() -> dict[str, tuple[str, ...]]:
    """The words that not every target has, each with the targets that do; made for a table in the documentation."""
    words = {row.word: FEATURES[row.needs] for row in OPS.values() if row.needs} | {_PROXY_FENCE: FEATURES["proxies"]}
    table = {word: tuple(name for name, chip in TARGETS.items() if getattr(chip, feature.flag)) for word, feature in words.items()}
    table["tmem"] = tuple(name for name, chip in TARGETS.items() if chip.tensor_memory_columns)
    return table


def _needed(op: Op) -> tuple[Feature | None, str]:
    """The feature that an op needs, and the word that the op was."""
    if op.name == "fence" and op.scope == "async_shared":
        return FEATURES["proxies"], _PROXY_FENCE
    if op.name == "distributed_barrier" and op.attrs["grid"]:   # a cluster's mesh is refused at once
        return FEATURES["grid_barrier"], op.row.word
    return FEATURES.get(op.row.needs), op.row.word


def _in_tensor_memory(type_) -> bool:
    return isinstance(type_, Buffer) and type_.space == "tmem"
