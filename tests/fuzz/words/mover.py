"""Copies by AMD's tensor data mover: blocks in, also over the edges of their tensor, and tiles out.

    tlx.async_amd_descriptor_load(d0, b0[0], [i * 16 + 3, 8])
    tlx.async_amd_descriptor_wait(0)
    tlx.async_amd_descriptor_store(d1, g0[0], [i * 16, 0])
"""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Line, Mark, Value
from . import word
from .tiles import SMALL, input_array

ROW_BYTES = 16      # of a descriptor of the host, at least
BLOCK_AT = '''
def block_at(array, corner, shape, *_):
    """The block there, 0 outside; one that begins in front of the array is 0 altogether."""
    found = np.zeros(shape, array.dtype)
    if min(corner) >= 0:
        part = array[tuple(slice(at, at + extent) for at, extent in zip(corner, shape))]
        found[tuple(slice(0, extent) for extent in part.shape)] = part
    return found
'''


def _wait(pending: int, channel: str) -> Line:
    return Line(f"tlx.async_amd_descriptor_wait({pending})", Mark("wait of a load", channel))


def _described(make: Maker, element: str, shape: tuple[int, ...]) -> tuple[str, str, list[str]]:
    """(array, descriptor, the lines that make it): of the host, or made in the kernel, where a row may be of any length."""
    array = input_array(make, element, shape)
    if make.draws.chance(60):
        return array, make.descriptor(array, shape), []
    full, name = make.arguments[array].shape, make.name("t")
    strides = [full[1], 1] if len(shape) == 2 else [1]
    return array, name, [f"{name} = tl.make_tensor_descriptor({array}, {list(full)}, {strides}, {list(shape)})"]


def _corner(make: Maker, shape: tuple[int, ...]) -> tuple[str, bool]:
    """Where a block begins, the same text in both languages, and whether that may be beside the tile of this round."""
    draws, first = make.draws, f"{make.instance()} * {shape[0]}"
    if not draws.chance(40):
        return f"[{first}, 0]" if len(shape) == 2 else f"[{first}]", False
    down, right = draws.integer(-2, shape[0]), draws.integer(-1, shape[-1])
    return f"[{first} + {down}, {right}]" if len(shape) == 2 else f"[{first} + {down}]", True


@word("mover", 4)
def block_in(make: Maker):
    """One block, maybe from beside its tile; by a descriptor as it is, or put at the place before."""
    element, shape = make.draws.pick(["f32", "i32", "f16", "bf16", "i8"]), make.shape()
    size = shape[0] * (shape[1] if len(shape) == 2 else 1) * ELEMENTS[element].bytes
    if shape[-1] * ELEMENTS[element].bytes < ROW_BYTES or not make.shared(size):
        return False
    array, descriptor, lines = _described(make, element, shape)
    (at, beside), buffer, channel = _corner(make, shape), make.name("b"), f"a{len(make.counts)}{make.name('m')}"
    make.head.append(f"{buffer} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 1)")
    make.captured.append(buffer)
    make.reading_function("block_at", BLOCK_AT)
    if make.draws.chance(30):
        lines.append(f"tlx.amd_descriptor_prefetch_tensor({descriptor}, {at})")
    if make.draws.chance(40):
        place = make.name("t")
        lines += [
            f"{place} = tlx.update_tensor_descriptor({descriptor}, add_offsets={at}, clamp_bounds=True)",
            f"tlx.async_amd_descriptor_load({place}, {buffer}[0]{make.draws.pick(['', ', pred=flag < 100'])})",
        ]
    else:
        lines.append(f"tlx.async_amd_descriptor_load({descriptor}, {buffer}[0], {at})")
    found = f"block_at({array}, {at}, {shape}, seen('{channel}'))" if beside else (
        f"take({array}, {make.instance()}, {shape}, seen('{channel}'))")
    make.let(
        Value(f"tlx.local_load({buffer}[0])", found, element, shape, SMALL, states=frozenset({buffer})),
        before=[*lines, _wait(0, channel)],
        private=True,
    )


@word("mover", 2)
def two_blocks_in(make: Maker):
    """Two blocks at once, each by other warps; or one after the other, and the first is read while the second is on its way."""
    element, shape = make.draws.pick(["f32", "i32", "f16"]), make.shape(2)
    size = 2 * shape[0] * shape[1] * ELEMENTS[element].bytes
    if shape[-1] * ELEMENTS[element].bytes < ROW_BYTES or not make.shared(size):
        return False
    buffer, channel, at = make.name("b"), f"a{len(make.counts)}{make.name('m')}", f"[{make.instance()} * {shape[0]}, 0]"
    make.head.append(f"{buffer} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 2)")
    make.captured.append(buffer)
    values, descriptors = [], []
    for slot in range(2):
        array = input_array(make, element, shape)
        descriptors.append(make.descriptor(array, shape))
        reading = f"take({array}, {make.instance()}, {shape}{f', seen({channel!r})' if slot == 0 else ''})"
        values.append(Value(f"tlx.local_load({buffer}[{slot}])", reading, element, shape, SMALL, states=frozenset({buffer})))
    if make.draws.chance(50):
        places = [make.name("t") for _ in range(2)]
        lines = [f"{place} = tlx.update_tensor_descriptor({one}, add_offsets={at}, clamp_bounds=True)"
                 for place, one in zip(places, descriptors)]
        members = ", ".join(f"({place}, {buffer}[{slot}], {1 << slot})" for slot, place in enumerate(places))
        make.let(values[0], before=[*lines, f"tlx.async_amd_descriptor_load_fused([{members}])", _wait(0, channel)], private=True,
                 warps=(2, 4, 8))
        make.let(values[1])
        return
    loads = [f"tlx.async_amd_descriptor_load({one}, {buffer}[{slot}], {at})" for slot, one in enumerate(descriptors)]
    make.let(values[0], before=[*loads, _wait(1, channel)], private=True)
    make.let(values[1], before=[_wait(0, channel)], private=True)


@word("mover", 3)
def block_out(make: Maker):
    """A tile to the program's part of an output of its own."""
    fitting = [tile for tile in make.tiles if tile.shape and tile.shape[-1] * ELEMENTS[tile.element].bytes >= ROW_BYTES
               and tile.element in ("f32", "i32", "f16", "bf16", "i8")]
    if not fitting:
        return block_in(make)
    tile = make.draws.pick(fitting)
    if not make.shared(tile.bytes):
        return False
    shape, element, stage, index = tile.shape, tile.element, make.name("g"), make.instance()
    full = (make.instances() * shape[0], *shape[1:])
    target = make.array(element, full, ("zeros",), output=True)
    make.head.append(f"{stage} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 1)")
    make.captured.append(stage)
    at = f"[{index} * {shape[0]}{', 0' * (len(shape) - 1)}]"
    make.step(
        [
            f"tlx.local_store({stage}[0], {tile.kernel})",
            f"tlx.async_amd_descriptor_store({make.descriptor(target, shape)}, {stage}[0], {at})",
            Line("tlx.async_amd_descriptor_wait(0)", Mark("wait of a move", f"s{stage}")),
        ],
        [f"seen('s{stage}')", f"{target}[{index} * {shape[0]}:({index} + 1) * {shape[0]}] = {tile.reading}"],
        tile.uses,
        (*tile.states, stage),
    )
