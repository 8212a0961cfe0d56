"""`tle.raw`: native code inside a kernel.

Input: a function declared in another language, on the host, and the arguments of its call in a kernel. Output: ops that hand
buffers, pointers and numbers to the function's code. For example, with a function of a CUDA file:

    @tle.raw.dialect(name="cuda", file="scale.cu")
    def scale(x: tle.raw.InOut["memref<?xf32, 3>"], factor: tle.raw.Input["f32"]): ...

    tile = tle.raw.call(scale, [tile, 2.0])         in a kernel: the tile goes through shared memory

docs/RAW.md says what each dialect is handed, and what is checked. A dialect is a row of `dialects.DIALECTS`.
"""

from ...names import suggesting
from ..body.modules import MODULES
from ..body.modules import PUBLISHED as PUBLISHED
from .annotations import InOut, Input, Output
from .calls import call, call_smem
from .dialects import dialect, language

__all__ = ["InOut", "Input", "Output", "call", "call_smem", "dialect", "language"]

# What bodies in MLIR's words name: `from mimw.tle.raw import ir, arith, nvvm, tensor`.
globals().update(MODULES)
__all__ += sorted(MODULES)

__getattr__ = suggesting("tle.raw", __all__)
