"""Prints which of our register layouts are, as linear maps, what Triton makes of them; run by test_pins."""

from mimw.compiler.triton_port.builder import new_module, to_gluon
from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.runtime import GPUTarget, make_backend
from mimw.ir.layouts import Blocked, DotOperand, Mma, Slice
from mimw.ir.linear import linear_of

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


def main() -> None:
    backend, context = make_backend(GPUTarget("cuda", 90, 32)), mlir_context()
    backend.load_dialects(context)
    builder, _ = new_module(context, "cuda:90", backend.parse_options({"num_warps": 4, "enable_fp_fusion": True}))
    equal = 0
    for layout, shape in CASES:
        theirs = builder.to_linear_layout(to_gluon(layout)._to_ir(builder), list(shape))
        ours = linear_of(layout, shape)
        pairs = zip((ours.registers, ours.lanes, ours.warps), (theirs.reg_bases, theirs.lane_bases, theirs.warp_bases))
        if all([list(basis) for basis in mine] == their for mine, their in pairs):
            equal += 1
        else:
            print("different", layout, shape, ours, theirs)
    print(equal, "equal")


main()
