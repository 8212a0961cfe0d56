"""`mimw.tlx.mem_ops`: the words that touch memory.

Input: a name. Output: the word of `mimw.tlx`, for kernels that import the words of memory by module. For example:

    from mimw.tlx.mem_ops import local_alloc, barrier_wait        tlx.local_alloc, tlx.barrier_wait
"""

from ..language.tlx.mem_ops import *  # noqa: F403
from ..language.tlx.mem_ops import __all__ as __all__
