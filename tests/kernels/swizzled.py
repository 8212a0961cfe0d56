"""A layout, not a kernel: for buffers in which neighbours should not lie together.

    tle.gpu.alloc([64, 64], tl.float16, layout=swizzled([64, 64], tl.float16, WANTED))
"""

import triton

import mimw.tle as tle


@triton.constexpr_function
def swizzled(shape, dtype, wanted):
    """The layout that tensor cores read, or None: the choice is the compiler's. 64-bit elements have none."""
    return tle.gpu.nv_mma_shared_layout.make_default(shape, dtype) if wanted and dtype.primitive_bitwidth <= 32 else None
