"""TLX, as kernels import it: `import mimw.tlx as tlx`. All words of TLX are defined in `mimw.language.tlx`.

Input: a name. Output: the word of that name, or an AttributeError that names a close one. For example:

    tlx.local_alocc     AttributeError: tlx has no 'local_alocc'. Did you mean tlx.local_alloc or tlx.local_load?
"""

from ..language.names import suggesting
from ..language.tlx import *  # noqa: F403
from ..language.tlx import __all__ as __all__
from . import mem_ops as mem_ops
from . import types as types
from . import warp_spec as warp_spec

__getattr__ = suggesting("tlx", [*__all__, "mem_ops", "types", "warp_spec"])
