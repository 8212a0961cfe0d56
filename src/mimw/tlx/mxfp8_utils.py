"""`mimw.tlx.mxfp8_utils`: tiles as microscaled fp8.

Input: a name. Output: the function of that name, for kernels that import the functions by module. For example:

    from mimw.tlx.mxfp8_utils import _to_mxfp8_block
"""

from ..language.tlx.mxfp8_utils import *  # noqa: F403
from ..language.tlx.mxfp8_utils import __all__ as __all__
