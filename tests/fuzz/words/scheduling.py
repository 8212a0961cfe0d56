"""Hints of AMD's chips: they change no number."""

from __future__ import annotations

from ..maker import Maker
from ..tree import Value
from . import word
from .tiles import SMALL, input_array, offsets


@word("scheduling", 2)
def kept_in_place(make: Maker):
    """A place that the compiler moves only some instructions across."""
    make.step([f"tlx.amd_sched_barrier({make.draws.pick([0, 1, 8, 0x20, 0x40, 0x100, 0x200, 0x388, 0xFFF])})"], ["pass"])


@word("scheduling", 1)
def uniform_base(make: Maker):
    """A load by a pointer that is promised to be equal in all lanes."""
    shape, element = make.shape(1), make.draws.pick(["f32", "f16", "i32"])
    array, base = input_array(make, element, shape), make.name("p")
    make.let(
        Value(f"tl.load({base} + {offsets(shape)})", f"take({array}, {make.instance()}, {shape})", element, shape, SMALL),
        before=[f"{base} = tlx.assume_uniform({array} + {make.instance()} * {shape[0]})"],
    )


@word("scheduling", 1)
def another_range(make: Maker):
    """Numbers in a row that are made anew."""
    (extent,) = shape = make.shape(1)
    identity = make.draws.pick(["'store'", "7", "'row', 'inner'"])
    kernel = f"tlx.rematerialized_range(0, {extent}, {identity})"
    make.let(Value(kernel, f"np.arange({extent}).astype(np.int32)", "i32", shape, extent))
