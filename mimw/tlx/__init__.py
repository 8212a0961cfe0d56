"""TLX, as kernels import it: `import mimw.tlx as tlx`. All of it is defined in `mimw.language.tlx`."""

from ..language.tlx import *  # noqa: F403
from ..language.tlx import __all__ as __all__
from . import mem_ops, types, warp_spec
