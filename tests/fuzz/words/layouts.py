"""What is said about layouts: it changes how a tile lies, never what it holds."""

from __future__ import annotations

from ..maker import Maker
from . import word
from .tiles import derived, finish


@word("layouts", 2)
def required(make: Maker):
    """A tile of 256 numbers in a layout of the author's, with or without release."""
    if make.amd:
        return False
    one = make.operand(make.draws.pick(["f32", "i32", "f16"]), (256,))
    make.skips["gfx"] = "the layout names the threads of warps of 32"
    lanes = "__layout256__"
    name = make.name("h")
    lines = [f"{name} = tlx.require_layout({one.kernel}, {lanes})"]
    if make.draws.chance(50):
        lines.append(f"tlx.assert_same_layout({name}, {lanes})")
    value = derived((one,), f"tlx.release_layout({name})", one.reading, one.element, one.shape, one.bound, whole=True)
    make.let(value, before=lines)


@word("layouts", 0.5)
def dumped(make: Maker):
    one = make.operand()
    make.step([f"tlx.dump_layout({one.kernel})"], ["pass"], one.uses, one.states)


@word("layouts", 1)
def spaces(make: Maker):
    """tle.gpu.memory_space: a wish, and the tile itself comes back."""
    one = make.operand(make.draws.pick(["f32", "i32", "f16"]))
    finish(
        make,
        derived(
            (one,),
            f"tle.gpu.memory_space({one.kernel}, 'shared_memory')",
            one.reading,
            one.element,
            one.shape,
            one.bound,
            whole=True,
        ),
    )


@word("barriers", 1)
@word("layouts", 1.5)
def laid_out_buffers(make: Maker):
    """A buffer in each of the shared layouts that a kernel may ask for."""
    from ..tree import Value
    from .shared import HOLDS, held

    if not make.shared(32 * 32 * 4 + 512):
        return False
    name = make.name("b")
    layout = make.draws.pick(
        [
            "tlx.swizzled_layout(3, 2, 5)",
            "tlx.swizzled_shared_layout_encoding.make_default(2)",
            "tlx.nv_mma_shared_layout_encoding.make_default([32, 32], tl.float32)",
            "tlx.padded_shared_layout_encoding.with_identity_for([(32, 4)], [32, 32])",
            "tlx.shared_linear_layout_encoding([(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (1, 0), (2, 0), (4, 0), (8, 0), (16, 0)])",
        ]
    )
    make.functions.append(f"layout_{name}: tl.constexpr = {layout}\n")
    make.head.append(f"{name} = tlx.local_alloc((32, 32), tl.float32, 1, layout=layout_{name})")
    make.captured.append(name)
    value = held(make.operand(shape=(32, 32)), "f32")
    make.step(
        [f"tlx.local_store({name}[0], {value.kernel})"],
        [f"{name} = {value.reading}"],
        value.uses,
        (*value.states, name),
    )
    make.let(Value(f"tlx.local_load({name}[0])", name, "f32", (32, 32), HOLDS, states=frozenset({name})))
