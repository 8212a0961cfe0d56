"""`mimw.tlx.subtile_ops`: tiles cut into tiles side by side.

Input: a name. Output: the function of that name, for kernels that import the functions by module. For example:

    from mimw.tlx.subtile_ops import _split_n_2D
"""

from ..language.tlx.subtile_ops import *  # noqa: F403
from ..language.tlx.subtile_ops import __all__ as __all__
