"""Words of AMD's matrix cores: they change which registers hold a tile, and a slice is numpy's."""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from . import word
from .dots import into, operand, sizes
from .tiles import derived, finish


@word("shapes", 1)
def slices(make: Maker):
    """Any box of a tile, at any place."""
    one, draws = make.operand(), make.draws
    shape = tuple(draws.pick([extent >> bits for bits in range(3) if extent >> bits]) for extent in one.shape)
    first = tuple(draws.integer(0, extent - size) for extent, size in zip(one.shape, shape, strict=True))
    box = ", ".join(f"{start}:{start + size}" for start, size in zip(first, shape, strict=True))
    kernel = f"tlx.extract_slice({one.kernel}, {list(shape)}, {list(first)})"
    finish(make, derived((one,), kernel, f"({one.reading})[{box}]", one.element, shape, one.bound, whole=True))


@word("tiles", 1)
def kept(make: Maker):
    """A tile in registers of one kind, handed over, or committed."""
    one = make.operand(make.draws.pick(["f32", "f16", "i32", "bf16"]))
    kind = make.draws.pick(["agpr", "vgpr"])
    kernel = make.draws.pick(
        [
            f"tlx.amd_register_resident({one.kernel}, '{kind}', {make.draws.pick([1, 2, 4, 32])})",
            f"tlx.amd_register_handoff({one.kernel}, '{kind}')",
            f"tlx.amd_mfma_commit({one.kernel})",
            f"tlx.amd_mfma_commit({one.kernel}, {one.kernel})[0]",
        ]
    )
    finish(make, derived((one,), kernel, one.reading, one.element, one.shape, one.bound, whole=True))


@word("dots", 0.7)
def scheduled(make: Maker):
    """A product whose sum lives on in registers of one kind."""
    element = make.draws.pick(["f16", "bf16", "f8e5"], [4, 2, 1])
    m, n, k = sizes(make)
    total = into(make, m, n, "f32")
    m, n = total.shape
    if ELEMENTS[element].bytes == 1:
        k = max(k, 32)
    a, b = operand(make, element, (m, k)), operand(make, element, (k, n))
    role = make.draws.pick(["'persistent'", "'transient'", "'transient', 0, 'agpr'"])
    make.step(
        [f"{total.name} = tlx.amd_scheduled_mfma({a.kernel}, {b.kernel}, {total.name}, {role})"],
        [f"{total.name} = cast(wide({total.name}) + wide({a.reading}) @ wide({b.reading}), {total.name}.dtype)"],
        a.uses | b.uses,
        (*a.states, *b.states, total.name),
    )
