"""`mimw.tlx.mem_ops`: the words that touch memory."""

from ..language.tlx.mem_ops import *  # noqa: F403
from ..language.tlx.mem_ops import __all__ as __all__
