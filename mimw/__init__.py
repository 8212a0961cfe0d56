"""Warp-group orchestration for stock Triton: which warps do what, where a tile lives, what waits for what."""

from . import tle, tlx
from .aliases import install_aliases
from .autotune import Config, autotune
from .check import check
from .host import TensorDescriptor
from .jit import jit
from .simulate import simulate

__version__ = "0.1.0"

__all__ = [
    "Config",
    "TensorDescriptor",
    "__version__",
    "autotune",
    "check",
    "install_aliases",
    "jit",
    "simulate",
    "tle",
    "tlx",
]
