"""TTGIR with the fences that Triton's LLVM stage puts in first: between threads and TMA or tensor cores that touch the same bytes.

Input: the text of a module that stock Triton made, after its passes on TTGIR. Output: the same with fences, which is what runs:

    with_proxy_fences(compiled.asm["ttgir"], 90)        .. ttg.local_store ..; ttng.fence_async_shared; ttng.async_tma_copy ..

Kernels rely on it: Triton's own front end writes fewer fences than that. It looks at one task at a time, and leaves out what only
an mbarrier orders, so that an author's missing fence between two partitions is missing here, too. The pass asks where arrays lie,
so it runs behind the allocation of shared memory, which the text has then as `allocation.offset`.
"""

from __future__ import annotations

import os
import tempfile

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import nvidia, passes

from .text import any_context, parsed_file

_PTX = 87       # which PTX there is decides about scratch memory of a few conversions, and about no fence


def with_proxy_fences(text: str, capability: int) -> str:
    """The text with the fences of Triton's pass, for a chip of that compute capability, 90 or 100.

    errors:    RuntimeError of MLIR, with its complaint, for a module that Triton would not compile on either
    """
    handle, path = tempfile.mkstemp(suffix=".ttgir")
    try:
        with os.fdopen(handle, "w") as written:
            written.write(text)
        context = any_context()
        module = parsed_file(path, context)
    finally:
        os.unlink(path)
    manager = mlir.pass_manager(context)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, capability, _PTX)
    nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(manager)
    nvidia.passes.ttnvgpuir.add_proxy_fence_insertion(manager, capability)
    manager.run(module, "proxy_fences")
    return str(module)
