"""`tle.dsa.pipeline` and `tle.dsa.parallel`: loops that say what may overlap.

Input: bounds, a step and a number of stages, as of `tl.range`. Output: a `for` op that says which it is. For example:

    for i in tle.dsa.pipeline(0, n, num_stages=3):      for 0 n 1 .. dsa='pipeline' tt.num_stages=3
        tle.dsa.copy(x + i * 64 + at, a, [64])          loaded two trips ahead, where nothing is in the way

The values are those of the loop in its order, always.
"""

from __future__ import annotations

import triton.language.core as tl

from ...core import host_constructible


@host_constructible
class pipeline(tl.range):
    """A loop whose copies into buffers are to run ahead of the trip that uses them.

    args:      arg1, arg2, step - start, end and step, as of `range`: ints or integer scalars
               num_stages - how many trips have a copy under way or in use: 1 is none ahead, by default 2 (double buffering)
               loop_unroll_factor - as of `tl.range`
    orders:    as the loop trip by trip. A copy is started ahead only where that can change no value: its addresses follow from the
               loop's variable, from what the loop leaves alone, and from what it carries by such arithmetic; and no trip stores to
               global memory, unless the copy promises `inter_no_alias`. Else the loop runs as it is written, and
               `mimw explain` says why.
    errors:    RuntimeError when iterated on the host
    lowers to: on NVIDIA ttg.async_copy_global_to_local (cp.async) into `num_stages` slots of shared memory
    """

    def __init__(self, arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None, _semantic=None):
        super().__init__(arg1, arg2, step, num_stages, loop_unroll_factor)


@host_constructible
class parallel(tl.range):
    """A loop whose trips are independent of each other: a promise of the author.

    args:      as of `pipeline`; without `num_stages` nothing runs ahead
    orders:    trips in any order would do; they run one after the other. On a GPU all warps share the elements of each trip, and
               with `num_stages` copies run ahead as in a `pipeline` whose copies all promise `inter_no_alias`.
    errors:    RuntimeError when iterated on the host
    lowers to: scf.for
    """

    def __init__(self, arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None, _semantic=None):
        super().__init__(arg1, arg2, step, num_stages, loop_unroll_factor)


KINDS: dict[type, str] = {pipeline: "pipeline", parallel: "parallel"}
