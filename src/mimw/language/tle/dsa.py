"""`tle.dsa`, for accelerators with local memories that software manages: names to import, none of them offered yet."""

from __future__ import annotations

from types import SimpleNamespace

from ..names import suggesting
from .missing import missing

_WORDS = ("add", "alloc", "copy", "div", "extract_element", "extract_slice", "hint", "insert_slice", "local_ptr", "max", "min",
          "mul", "parallel", "pipeline", "sub", "subview", "to_buffer", "to_tensor")
__all__ = ["ascend", *_WORDS]

ascend = SimpleNamespace(**{space: f"ascend.{space}" for space in ("UB", "L1", "L0A", "L0B", "L0C")})
globals().update({name: missing(f"tle.dsa.{name}") for name in _WORDS})

__getattr__ = suggesting("tle.dsa", __all__)
