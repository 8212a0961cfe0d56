"""The fences between proxies that Triton adds behind TTGIR, in its stage for LLVM, as a module of TTGIR that has them.

Input: the text of a finished module for an NVIDIA chip, and its capability. Output: the text with those fences:

    with_late_fences(text, 90)        ttng.fence_async_shared before a wgmma that reads what a cp.async of the loop has written

Triton's pass of the stage before, `fence_insertion`, puts a fence in front of a loop if the buffers are made there, whatever the
loop writes; this one looks at each access and its bytes, for which shared memory is allocated first. Stock Triton runs it where
control flow has become branches; here loops stay loops. In a program of several CTAs (`num_ctas`) that stage also lets its cluster
meet: behind new mbarriers, between accesses of different CTAs to the same bytes, and at the end.
"""

from __future__ import annotations

import re

from triton._C.libtriton import nvidia, passes

from .late_passes import after_passes

_PTX = 87
_SEVERAL = re.compile(r'"ttg.num-ctas" = (?!1 )')
_FIRST = 90     # the first chip with an asynchronous proxy


def with_late_fences(text: str, capability: int, file: str = "") -> str:
    """The module with the fences; allocations have their places as attributes. The text as it is for a chip without an asynchronous
    proxy. Ops without a location of their own are then located in `file`, where they stand in the text. `MlirProblem` for a text
    that MLIR cannot read, and for one that Triton would not compile either."""
    if capability < _FIRST:
        return text

    def add(manager) -> None:
        passes.ttgpuir.add_allocate_warp_groups(manager, False)
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, capability, _PTX)
        nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(manager)
        nvidia.passes.ttnvgpuir.add_proxy_fence_insertion(manager, capability)
        if _SEVERAL.search(text):
            nvidia.passes.ttgpuir.add_membar(manager, capability, _PTX)

    return after_passes(text, file, "late_fences", add)
