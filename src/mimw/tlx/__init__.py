"""TLX, as kernels import it: `import mimw.tlx as tlx`. All words of TLX are defined in `mimw.language.tlx`.

Input: a name. Output: the word of that name, or an AttributeError that names a close one. For example:

    tlx.local_alocc     AttributeError: tlx has no 'local_alocc'. Did you mean tlx.local_alloc or tlx.local_load?
"""

from ..language.names import suggesting
from ..language.tlx import *  # noqa: F403
from ..language.tlx import __all__ as __all__
from . import inline_ptx_lib as inline_ptx_lib
from . import mem_ops as mem_ops
from . import mxfp8_utils as mxfp8_utils
from . import subtile_ops as subtile_ops
from . import types as types
from . import warp_ops as warp_ops
from . import warp_spec as warp_spec

__getattr__ = suggesting("tlx", [*__all__, "inline_ptx_lib", "mem_ops", "mxfp8_utils", "subtile_ops", "types", "warp_ops",
                                 "warp_spec"])
