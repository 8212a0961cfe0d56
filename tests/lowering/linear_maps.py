"""Prints which of our register layouts are, as linear maps, what Triton makes of them; run by test_pins."""

from itertools import product

from triton._C.libtriton.gluon_ir import get_amd_mfma_scale_layout

from mimw.compiler.triton_port.builder import new_module, to_gluon
from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.runtime import GPUTarget, make_backend
from mimw.ir.layouts import AmdMfma, AmdWmma, Blocked, DotOperand, Mma, Slice
from mimw.ir.linear import linear_of
from mimw.ir.matrix_core_maps import scales

ROWS, COLUMNS = Blocked((1, 4), (4, 8), (2, 2), (1, 0)), Blocked((2, 1), (8, 4), (1, 4), (0, 1))
ACC = Mma((4, 1), (16, 64, 16))
CASES = [
    (Blocked((1, ), (32, ), (4, ), (0, )), (64, )), (Blocked((1, ), (32, ), (4, ), (0, )), (1024, )), (ROWS, (16, 64)),
    (ROWS, (4, 16)), (COLUMNS, (64, 32)), (Blocked((1, 1, 2), (4, 2, 4), (2, 1, 2), (2, 1, 0)), (8, 8, 16)), (ACC, (64, 64)),
    (Mma((4, 1), (16, 32, 16)), (128, 64)), (Mma((8, 1), (16, 128, 16)), (128, 128)), (Mma((4, 2), (16, 64, 16)), (64, 128)),
    (Mma((4, 1), (16, 8, 16)), (64, 8)), (Slice(1, ACC), (64, )), (Slice(0, ACC), (64, )), (Slice(1, ROWS), (16, )),
    (Slice(0, ROWS), (128, )), (DotOperand(0, ACC, 2), (64, 64)), (DotOperand(0, Mma((8, 1), (16, 64, 32)), 4), (128, 64)),
    (DotOperand(0, Mma((4, 2), (16, 64, 8)), 1), (64, 32)), (DotOperand(0, ACC, 2), (128, 32)),
]


def matrix_cores():
    """Accumulators of AMD's matrix cores, slices and operands of them, for tiles of more and less than an instruction a warp."""
    shapes = ((128, 128), (64, 32), (16, 64), (256, 256))
    squares = (((32, 32, 8), False), ((32, 32, 16), True), ((16, 16, 16), False), ((16, 16, 32), True), ((64, 4, 64), True),
               ((4, 64, 64), False))
    accumulators = [AmdMfma(4, shape, turned, warps, 32, tiles) for (shape, turned), warps, tiles in product(
        squares, ((1, 1), (2, 2), (1, 4), (8, 1)), ((1, 1), (2, 1), (4, 2)))]
    accumulators += [AmdMfma(3, (16, 16, 4), turned, (4, 1), 64) for turned in (False, True)]
    placed = ((((0, 1), (1, 0)), ()), (((0, 2), (2, 0)), ((0, 1), (1, 0))), (((0, 1), (0, 2)), ()), ((), ()),
              (((1, 0), (2, 0)), ((0, 1), )))
    accumulators += [AmdWmma(3, turned, warps, registers, (16, 16, depth)) for turned, (warps, registers), depth in product(
        (False, True), placed, (4, 32, 128))]
    for layout, shape in product(accumulators, shapes):
        yield layout, shape
        yield Slice(1, layout), shape[:1]
        for index, k_width in product((0, 1), (4, 8, 16)):
            yield DotOperand(index, layout, k_width), shape
    for warps, shape in product(((1, 2, 2), (2, 2, 1), (4, 1, 1)), ((4, 64, 64), (1, 32, 128))):
        layout = AmdMfma(4, (32, 32, 16), True, warps, 32, (1, 1, 1))
        yield from ((layout, shape), (DotOperand(0, layout, 8), shape), (DotOperand(1, layout, 8), shape))


def tables_of_scales():
    """Layouts of scales of operand A and B, with what Triton's function for them takes."""
    every = product((16, 32), ((1, 1), (2, 1), (2, 2)), ((2, 2), (4, 1), (1, 8)), (32, 128), (2, 4, 8))
    for size, tiles, warps, rows, blocks in every:
        layout = AmdMfma(4, (size, size, 2048 // size), True, warps, 32, tiles)
        for index in (0, 1):
            theirs = get_amd_mfma_scale_layout(index, [rows, blocks], size, list(tiles), list(warps))
            yield scales(index, layout, (rows, blocks)), theirs


def main() -> None:
    _compare(GPUTarget("cuda", 90, 32), "cuda:90", CASES)
    _compare(GPUTarget("hip", "gfx950", 64), "hip:gfx950", matrix_cores())
    print(sum(_same(ours, theirs) for ours, theirs in tables_of_scales()), "equal tables of scales")


def _compare(target, name, cases) -> None:
    backend, context = make_backend(target), mlir_context()
    backend.load_dialects(context)
    builder, _ = new_module(context, name, backend.parse_options({"num_warps": 4, "enable_fp_fusion": True}))
    equal = 0
    for layout, shape in cases:
        theirs = builder.to_linear_layout(to_gluon(layout)._to_ir(builder), list(shape))
        ours = linear_of(layout, shape)
        if _same(ours, theirs):
            equal += 1
        else:
            print("different", layout, shape, ours, theirs)
    print(equal, "equal", name)


def _same(ours, theirs) -> bool:
    pairs = zip((ours.registers, ours.lanes, ours.warps), (theirs.reg_bases, theirs.lane_bases, theirs.warp_bases))
    return all([list(basis) for basis in mine] == their for mine, their in pairs)


main()
