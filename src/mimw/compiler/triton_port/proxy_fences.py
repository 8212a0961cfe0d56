"""Fences between generic and asynchronous accesses of shared memory that Triton puts in on its way to LLVM IR.

Input: the final TTGIR of a kernel for a chip of NVIDIA's, a text or a module (which the passes then change). Output: its text with
those fences. An example:

    with_proxy_fences(text, 90)         .. ttng.fence_async_shared {bCluster = false} in front of a copy over what threads have read

They stand behind TTGIR as `asm["ttgir"]` has it: the LLVM stage begins with passes that assign shared memory, and the next one looks
for accesses of the same bytes through both proxies.
"""

from __future__ import annotations

from typing import Any

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import nvidia, passes

from .text import finished_module

_FIRST = 90     # the first chip with an asynchronous proxy
_PTX = 86       # the version of PTX that the pass asks for; nothing here depends on it


def with_proxy_fences(ttgir: Any, capability: int) -> str:
    """The text of the module with the fences; as it is for a chip without an asynchronous proxy."""
    if capability < _FIRST:
        return str(ttgir)
    module = finished_module(ttgir) if isinstance(ttgir, str) else ttgir
    manager = mlir.pass_manager(module.context)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, capability, _PTX)
    nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(manager)     # without which the next pass refuses tensor memory
    nvidia.passes.ttnvgpuir.add_proxy_fence_insertion(manager, capability)
    manager.run(module, "proxy_fences")
    return str(module)
