"""`tle.dsa`, for accelerators with local memories that software manages: buffers, copies, arithmetic, loops. `mimw.tle.dsa`.

Input: the arguments of a call in a kernel. Output: ops of `mimw.ir`. For example:

    a = tle.dsa.alloc([128], tl.float32, tle.dsa.ascend.UB)     %a = local_alloc buffer<fp32[128] in ub>
    tle.dsa.copy(x + at, a, [n])                                dsa_load %3, %a, [%n]

A chip with these memories runs the ops as they are (the target `ascend_910b`); on GPUs the same program gets registers and shared
memory for them (docs/SPACES.md).
"""

from ...names import suggesting
from .. import ascend
from .arithmetic import add, div, max, min, mul, sub
from .buffers import alloc, buffer, buffer_type, subview, to_buffer, to_tensor
from .copy import copy
from .hint import hint
from .loops import parallel, pipeline
from .pointers import local_ptr
from .slices import extract_element, extract_slice, insert_slice

__all__ = [
    "add", "alloc", "ascend", "buffer", "buffer_type", "copy", "div", "extract_element", "extract_slice", "hint", "insert_slice",
    "local_ptr", "max", "min", "mul", "parallel", "pipeline", "sub", "subview", "to_buffer", "to_tensor",
]

__getattr__ = suggesting("tle.dsa", __all__)
