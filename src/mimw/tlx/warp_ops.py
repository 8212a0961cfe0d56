"""`mimw.tlx.warp_ops`: votes and reductions of a warp.

Input: a name. Output: the function of that name, for kernels that import the functions by module. For example:

    from mimw.tlx.warp_ops import warp_redux
"""

from ..language.tlx.warp_ops import *  # noqa: F403
from ..language.tlx.warp_ops import __all__ as __all__
