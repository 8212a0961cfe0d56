"""Stages that Triton's own pass adds without a word, and loops that it refuses with no more than its name."""

import pytest
from triton._C.libtriton import amd
from triton._C.libtriton import ir as mlir

from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.text import module_of
from mimw.compiler.triton_port.warp_pipeline import unended_stages

KERNEL = """module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 8 : i32, ttg.target = "hip:gfx950",
    "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @kernel(%%p: !tt.ptr<i32>, %%n: i32) {
    %%c0 = arith.constant 0 : i32
    %%c1 = arith.constant 1 : i32
    scf.for %%i = %%c0 to %%n step %%c1 : i32 {
%s
    }
    tt.return
  }
}
"""
STORE, ADD, WAIT = "tt.store %p, %i : !tt.ptr<i32>", "%{0} = arith.addi %i, %i : i32", "%{0} = ttg.async_wait {{num = 0 : i32}}"
BORDER = 'rocdl.sched.barrier none {triton.warp_pipeline.border = "a"}'
NAMES = {"store": STORE, "add": ADD, "wait": WAIT, "border": BORDER}


def pipelined(body):
    lines = (NAMES[word].format(f"v{at}") if word in ("add", "wait") else NAMES[word] for at, word in enumerate(body.split()))
    context = mlir_context()
    amd.load_dialects(context)
    module, manager = module_of(KERNEL % "\n".join(lines), context), mlir.pass_manager(context)
    amd.passes.ttgpuir.add_warp_pipeline(manager)
    manager.run(module, "warp_pipeline")
    return module


@pytest.mark.parametrize("body, stages, unended", [
    ("store border wait store border", 2, 0), ("store border store border wait", 2, 0), ("border border", 2, 0),
    ("store border add store border", 2, 0), ("store border store border add", 3, 1), ("store", 0, 0)])
def test_stages_that_triton_adds(body, stages, unended):
    module = pipelined(body)
    assert unended_stages(module) == unended and str(module).count("triton.warp_pipeline.stage = ") == stages
    assert str(module).count("triton.warp_pipeline.pipelined_for") == (stages > 0)


@pytest.mark.parametrize("body", ["store border", "store wait store border store border"])
def test_loops_that_triton_refuses(body):
    with pytest.raises(RuntimeError, match="PassManager::run failed"):
        pipelined(body)
