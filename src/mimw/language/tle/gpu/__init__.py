"""TLE-Struct for GPUs: shared memory named, pointed into and copied; partitions that run side by side. `mimw.tle.gpu`.

Input: the arguments of a call in a kernel. Output: ops of `mimw.ir`. For example:

    tiles = tle.gpu.alloc([4, 64], tl.float16)      %tiles = local_alloc buffer<fp16[4, 64]>
"""

from ...names import suggesting
from .copy import copy
from .layouts import layout, nv_mma_shared_layout, shared_layout, swizzled_shared_layout, tensor_memory_layout
from .memory import alloc, memory_space
from .pointers import local_ptr
from .types import buffered_tensor, buffered_tensor_type, scope, smem, storage_kind, tmem
from .warp_specialize import warp_specialize

__all__ = [
    "alloc", "buffered_tensor", "buffered_tensor_type", "copy", "layout", "local_ptr", "memory_space",
    "nv_mma_shared_layout", "scope", "shared_layout", "smem", "storage_kind", "swizzled_shared_layout", "tensor_memory_layout",
    "tmem", "warp_specialize",
]

__getattr__ = suggesting("tle.gpu", __all__)
