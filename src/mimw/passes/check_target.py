"""Words that a chip cannot do are refused by name, before any later stage stumbles over them."""

from __future__ import annotations

from ..errors import TargetError, excerpt
from ..ir import Buffer, Op, Program
from ..target import TARGETS, Target

# op -> (the flag of `Target` that it needs, the word as the author wrote it, what the chip lacks)
_NEEDS = {
    "warp_specialize": ("has_tasks", "async_tasks", "tasks on warps of their own"),
    "alloc_barriers": ("has_mbarrier", "alloc_barriers", "barriers in shared memory that count bytes"),
    "barrier_expect": ("has_mbarrier", "barrier_expect_bytes", "barriers in shared memory that count bytes"),
    "barrier_wait": ("has_mbarrier", "barrier_wait", "barriers in shared memory that count bytes"),
    "barrier_arrive": ("has_mbarrier", "barrier_arrive", "barriers in shared memory that count bytes"),
    "tma_load": ("has_tma", "async_descriptor_load", "TMA"),
    "tma_fetch": ("has_tma", "tle.gpu.copy from a tensor descriptor", "TMA"),
    "tma_store": ("has_tma", "async_descriptor_store", "TMA"),
    "tma_store_wait": ("has_tma", "async_descriptor_store_wait", "TMA"),
    "tma_prefetch": ("has_tma", "async_descriptor_prefetch_tensor", "TMA"),
    "prefetch_descriptor": ("has_tma", "prefetch(tensormap=True)", "TMA"),
    "bulk_load": ("has_tma", "async_load(bulk=True)", "bulk copies"),
    "bulk_store": ("has_tma", "async_store", "bulk copies"),
    "make_tensor_descriptor": ("has_tma", "tl.make_tensor_descriptor", "TMA"),
    "descriptor_load": ("has_tma", "desc.load", "TMA"),
    "descriptor_store": ("has_tma", "desc.store", "TMA"),
    "descriptor_reduce": ("has_tma", "desc.atomic_*", "TMA"),
    "cluster_barrier": ("has_tma", "cluster_barrier", "clusters"),
    "fence_mbarrier_init": ("has_tma", "fence_mbarrier_init_cluster", "clusters"),
    "cluster_cta_rank": ("has_tma", "cluster_cta_rank", "clusters"),
    "cluster_size_1d": ("has_tma", "cluster_size_1d", "clusters"),
    "descriptor_slots": ("has_tma", "allocate_tensor_descriptor", "TMA"),
    "fill_descriptor_slot": ("has_tma", "make_tensor_descriptor", "TMA"),
    "view_descriptor_slot": ("has_tma", "reinterpret_tensor_descriptor", "TMA"),
    "async_dot": ("has_wgmma", "async_dot", "asynchronous dots into registers (wgmma)"),
    "async_dot_wait": ("has_wgmma", "async_dot_wait", "asynchronous dots into registers (wgmma)"),
}
_GRID_BARRIER = ("has_tma", "distributed_barrier", "barrier among all CTAs of a grid")  # a cluster's mesh is refused at once
_DEPENDENT_LAUNCH = ("has_tma", "gdc_wait or gdc_launch_dependents", "programmatic dependent launch")
_PROXY_FENCE = ("has_tma", "fence('async_shared')", "asynchronous proxy to fence")


def check_target(program: Program, target: Target) -> None:
    """Raise `TargetError` at the first op that `target` cannot do; the message names word, line and target."""
    for op in program.walk():
        flag, word, lack = _needed(op)
        if flag and not getattr(target, flag):
            raise TargetError(f"TargetError at {op.site}: {target} cannot do '{word}': it has no {lack}.\n"
                              f"Mend: compile for a target that has it, such as sm_90a.\n{excerpt(op.site)}".rstrip())
        if not target.tensor_memory_columns and any(_in_tensor_memory(result.type) for result in op.results):
            raise TargetError(f"TargetError at {op.site}: {target} cannot hold a buffer in tensor memory: tmem is only "
                              f"available on Blackwell.\nMend: allocate the buffer in shared memory.\n"
                              f"{excerpt(op.site)}".rstrip())


def word_targets() -> dict[str, tuple[str, ...]]:
    """The words that not every target has, each with the targets that do; made for a table in the documentation."""
    rows = [*_NEEDS.values(), _PROXY_FENCE]
    table = {word: tuple(name for name, chip in TARGETS.items() if getattr(chip, flag)) for flag, word, _ in rows}
    table["tmem"] = tuple(name for name, chip in TARGETS.items() if chip.tensor_memory_columns)
    return table


def _needed(op: Op) -> tuple[str, str, str]:
    if op.name == "fence" and op.args[0] == "async_shared":
        return _PROXY_FENCE
    if op.name == "distributed_barrier" and op.attrs["grid"]:
        return _GRID_BARRIER
    if op.name in ("grid_dependency_wait", "grid_dependency_launch_dependents"):
        return _DEPENDENT_LAUNCH
    return _NEEDS.get(op.name, ("", "", ""))


def _in_tensor_memory(type_) -> bool:
    return isinstance(type_, Buffer) and type_.space == "tmem"
