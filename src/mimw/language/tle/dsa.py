"""`tle.dsa`, for accelerators with local memories that software manages: names to import, none of them offered yet.

Input: any arguments. Output: `NotYet`, which names the word:

    tle.dsa.alloc([128], tl.float32)        not yet: tle.dsa.alloc is not offered by this release
"""

from __future__ import annotations

from ..names import suggesting
from . import ascend
from .missing import missing

__all__ = [
    "ascend", "add", "alloc", "copy", "div", "extract_element", "extract_slice", "hint", "insert_slice", "local_ptr", "max", "min",
    "mul", "parallel", "pipeline", "sub", "subview", "to_buffer", "to_tensor",
]

add = missing("tle.dsa.add")
alloc = missing("tle.dsa.alloc")
copy = missing("tle.dsa.copy")
div = missing("tle.dsa.div")
extract_element = missing("tle.dsa.extract_element")
extract_slice = missing("tle.dsa.extract_slice")
hint = missing("tle.dsa.hint")
insert_slice = missing("tle.dsa.insert_slice")
local_ptr = missing("tle.dsa.local_ptr")
max = missing("tle.dsa.max")
min = missing("tle.dsa.min")
mul = missing("tle.dsa.mul")
parallel = missing("tle.dsa.parallel")
pipeline = missing("tle.dsa.pipeline")
sub = missing("tle.dsa.sub")
subview = missing("tle.dsa.subview")
to_buffer = missing("tle.dsa.to_buffer")
to_tensor = missing("tle.dsa.to_tensor")

__getattr__ = suggesting("tle.dsa", __all__)
