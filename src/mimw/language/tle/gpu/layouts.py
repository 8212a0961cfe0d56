"""The layout classes of TLE: those of TLX under TLE's names.

Input: nothing. Output: other names of the classes in `language/tlx/layouts.py`, so that kernels written for TLE find
them:

    tle.gpu.nv_mma_shared_layout        the class tlx.nv_mma_shared_layout_encoding
"""

from ...tlx.layouts import layout_encoding as layout
from ...tlx.layouts import nv_mma_shared_layout_encoding as nv_mma_shared_layout
from ...tlx.layouts import shared_layout_encoding as shared_layout
from ...tlx.layouts import swizzled_shared_layout_encoding as swizzled_shared_layout
from ...tlx.layouts import tensor_memory_layout_encoding as tensor_memory_layout

__all__ = ["layout", "nv_mma_shared_layout", "shared_layout", "swizzled_shared_layout", "tensor_memory_layout"]
