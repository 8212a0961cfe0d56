"""`mimw.tlx.inline_ptx_lib`: arithmetic on pairs of fp32.

Input: a name. Output: the function of that name, for kernels that import the functions by module. For example:

    from mimw.tlx.inline_ptx_lib import _mul_f32x2
"""

from ..language.tlx.inline_ptx_lib import *  # noqa: F403
from ..language.tlx.inline_ptx_lib import __all__ as __all__
