"""Words of AMD's matrix cores: they change which registers hold a tile, a slice is numpy's, products lie as their author says."""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Value
from . import word
from .dots import into, operand, sizes
from .tiles import derived, finish

MFMA = {"gfx942": ("3, [32, 32, 8]", "3, [16, 16, 16]"), "gfx950": ("4, [32, 32, 16]", "4, [16, 16, 32]", "4, [32, 32]")}
WMMA_WARPS = "warp_bases=((0, 1), (1, 0)), reg_bases=((0, 2), (2, 0))"


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


@word("laid_out", 1)
def laid_out_product(make: Maker):
    """A product of a buffer and a tile whose sum, and whose operands, lie as an instruction has them; by four warps."""
    element, draws = make.draws.pick(["f16", "bf16"]), make.draws
    shape = (64, 64)
    if not make.shared(64 * 64 * 2):
        return False
    a, b, name = operand(make, element, shape), operand(make, element, shape), make.name("b")
    make.head.append(f"{name} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 1)")
    make.captured.append(name)
    lines = [f"tlx.local_store({name}[0], {a.kernel})"]
    total, left, right = f"{name}t", f"tlx.local_load({name}[0])", b.kernel
    if make.chip == "gfx1250":
        lines.append(f"{total} = tlx.require_amd_wmma_layout(tl.zeros({shape}, tl.float32), {WMMA_WARPS})")
    else:
        layout, width = f"MFMA_{name}", draws.pick([8, 4])
        instruction, warps = draws.pick(MFMA[make.chip]), draws.pick([[2, 2], [4, 1], [1, 4]])
        make.functions.append(
            f"{layout}: tl.constexpr = tlx.amd_mfma_layout({instruction}, {draws.pick([True, False])}, {warps})\n"
            f"{layout}_A: tl.constexpr = tlx.dot_operand_layout(0, {layout}, {width})\n"
            f"{layout}_B: tl.constexpr = tlx.dot_operand_layout(1, {layout}, {width})\n"
        )
        lines.append(f"{total} = tlx.zeros({shape}, tl.float32, layout={layout})")
        left, right = f"tlx.local_load({name}[0], layout={layout}_A)", f"tlx.require_layout({right}, {layout}_B)"
    lines.append(f"{total} = tl.dot({left}, {right}, {total})")
    make.let(
        Value(f"tlx.release_layout({total})", f"cast(wide({a.reading}) @ wide({b.reading}), np.float32)", "f32", shape, 64 * 64,
              a.uses | b.uses, frozenset({*a.states, *b.states, name})),
        before=lines,
        warps=(4,),
    )
