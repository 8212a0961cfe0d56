"""Operands of AMD's matrix instructions lie as Triton says itself, asked in a process of its own, which complains of leaks."""

import json
import subprocess
import sys

import pytest

from mimw.compiler.triton_port.operand_layouts import operand_layout

_ASK = '''
import json
from mimw.compiler.triton_port.builder import GluonOpBuilder
from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.runtime import GPUTarget, make_backend
from triton.experimental.gluon.language import DotOperandLayout
from triton.experimental.gluon.language.amd import AMDMFMALayout, AMDWMMALayout

context, found = mlir_context(), []
make_backend(GPUTarget("hip", "gfx950", 64)).load_dialects(context)
builder = GluonOpBuilder(context)
PARENTS = [AMDMFMALayout(3, [32, 32, 8], True, [2, 2]), AMDMFMALayout(3, [16, 16, 16], False, [4, 1]),
           AMDMFMALayout(4, [32, 32, 16], True, [1, 8]), AMDMFMALayout(4, [16, 16, 128], True, [2, 2]),
           AMDWMMALayout(3, True, [[0, 1], [1, 0]], [], [16, 16, 32])]
for parent in PARENTS:
    for operand in (0, 1):
        for wide in (4, 8, 16):
            for shape in ((64, 64), (32, 128), (256, 32), (16, 64)):
                linear = builder.to_linear_layout(DotOperandLayout(operand, parent, wide)._to_ir(builder), list(shape))
                found.append([PARENTS.index(parent), operand, wide, shape, linear.reg_bases, linear.lane_bases, linear.warp_bases])
print(json.dumps(found))
'''
# The same parents as a module's text has them.
PARENTS = ["#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], isTransposed = true}>",
           "#ttg.amd_mfma<{version = 3, warpsPerCTA = [4, 1], instrShape = [16, 16, 16], isTransposed = false}>",
           "#ttg.amd_mfma<{version = 4, warpsPerCTA = [1, 8], instrShape = [32, 32, 16], isTransposed = true}>",
           "#ttg.amd_mfma<{version = 4, warpsPerCTA = [2, 2], instrShape = [16, 16, 128], isTransposed = true}>",
           "#ttg.amd_wmma<{version = 3, isTranspose = true, ctaLayout = {warp = [[0, 1], [1, 0]]}, instrShape = [16, 16, 32]}>"]


@pytest.fixture(scope="module")
def asked():
    """(parent, operand, elements a lane, shape, bases of registers, of lanes, of warps), by Triton's own map."""
    return json.loads(subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True).stdout)


def test_operands_lie_as_triton_says(asked):
    for parent, operand, wide, shape, *bases in asked:
        text = f"#ttg.dot_op<{{opIdx = {operand}, parent = {PARENTS[parent]}, kWidth = {wide}}}>"
        registers, lanes, warps = ([tuple(basis) for basis in each] for each in bases)
        found = operand_layout(text, tuple(shape))
        assert {*found.registers} - {(0, 0)} == {*registers} - {(0, 0)}, (text, shape)
        assert (list(found.lanes), list(found.warps)) == (lanes, warps), (text, shape)
    assert len(asked) == len(PARENTS) * 2 * 3 * 4


@pytest.mark.parametrize("text", [
    PARENTS[0], "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, instrShape = [16, 8]}>, kWidth = 2}>",
    "#ttg.dot_op<{opIdx = 0, parent = #ttg.amd_mfma<{version = 3, warpsPerCTA = [4, 1], instrShape = [4, 64, 4]}>, kWidth = 4}>"])
def test_what_is_no_such_operand_is_not_followed(text):
    assert operand_layout(text, (64, 64)) is None
