"""No kernel that needs more shared memory than a CTA has is launched: every door refuses it, on a machine without a GPU as well."""

import inspect
import pickle
import sys

import numpy as np
import pytest
import triton
import triton.language as tl
from triton._C.libtriton import nvidia
from triton.backends.nvidia.compiler import CUDABackend

import mimw
import mimw.tlx as tlx
from mimw.cli import main
from mimw.compiler.pipeline import refusals
from mimw.compiler.triton_port.allocation import surely_fits
from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.text import module_of
from mimw.errors import OutOfSharedMemory
from mimw.runtime.compile_kernel import compile_kernel
from mimw.target import target

TYPES = {"x": "*fp16", "y": "*fp16", "n": "i32"}
FEW_EACH = dict(num_warps=8)      # the fewer elements a thread has, the less LLVM has to do


@mimw.jit
def crowded(x, y, n, STAGES: tl.constexpr):
    """STAGES tiles of 32 KB; the sum of a tile and a transposed one takes another 32 KB in scratch, with eight warps."""
    ring = tlx.local_alloc((64, 256), tl.float16, STAGES)
    rows, columns = tl.arange(0, 64), tl.arange(0, 256)
    tile = tl.load(x + rows[:, None] * 256 + columns[None, :])
    for stage in tl.static_range(STAGES):
        tlx.local_store(ring[stage], tile)
    turned = tl.load(x + rows[:, None] + columns[None, :] * 64)
    tl.store(y + rows[:, None] * 256 + columns[None, :], tlx.local_load(ring[n]) + turned)


def line_of(text):
    return crowded.starting_line_number + inspect.getsource(crowded.fn).splitlines().index(text)


LAST = line_of("    tl.store(y + rows[:, None] * 256 + columns[None, :], tlx.local_load(ring[n]) + turned)")


def arrays():
    return np.ones((64, 256), np.float16), np.zeros((64, 256), np.float16)


@pytest.mark.parametrize("chip, most, total", [("sm_90a", 6, 262144), ("sm_100a", 6, 262144), ("gfx942", 1, None),
                                               ("gfx950", 4, None)])
def test_compiling(chip, most, total):
    assert compile_kernel(crowded, TYPES, dict(STAGES=most), chip, FEW_EACH).metadata.shared <= target(chip).shared_bytes
    with pytest.raises(triton.CompilationError) as caught:
        compile_kernel(crowded, TYPES, dict(STAGES=most + 1), chip, FEW_EACH)
    cause = caught.value.__cause__
    assert isinstance(cause, OutOfSharedMemory) and cause.sites[0].line == LAST
    assert f"Or: allocate {most} instead of {most + 1} buffers of 'ring'." in str(caught.value)
    assert cause.limit == target(chip).shared_bytes < cause.required and total in (None, cause.required)


def test_it_is_refused_before_there_is_llvm_ir(monkeypatch):
    """Which takes most of a compilation; and in the words that the finished kernel is refused in."""
    with pytest.raises(triton.CompilationError) as late, monkeypatch.context() as patch:
        patch.setattr(refusals, "may_not_fit", lambda *what: False)
        compile_kernel(crowded, TYPES, dict(STAGES=7), options=FEW_EACH)
    monkeypatch.setattr(CUDABackend, "make_llir", None)
    with pytest.raises(triton.CompilationError) as early:
        compile_kernel(crowded, TYPES, dict(STAGES=7), options=dict(num_warps=8, maxnreg=128))  # another entry of the cache
    assert str(early.value) == str(late.value) and "scratch: convert_layout" in str(early.value)


def test_the_binary_in_the_cache_is_refused_as_well(monkeypatch):
    """One whose shared memory looked as if it would do."""
    monkeypatch.setattr(refusals, "may_not_fit", lambda *what: False)
    for _ in range(2):
        with pytest.raises(triton.CompilationError, match="OutOfSharedMemory"):
            compile_kernel(crowded, TYPES, dict(STAGES=7), options=FEW_EACH)
        monkeypatch.setattr(CUDABackend, "make_llir", None)


def test_it_is_tritons_out_of_resources_too():
    """Code that falls back to smaller tiles when Triton says `OutOfResources` goes on doing so."""
    with pytest.raises(triton.OutOfResources) as caught:
        compile_kernel(crowded, TYPES, dict(STAGES=7), options=FEW_EACH)
    assert (caught.value.required, caught.value.limit, caught.value.name) == (262144, 232448, "OutOfSharedMemory")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.required) == (str(caught.value), 262144)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    monkeypatch.setattr(sys.modules["mimw.runtime.jit"], "gpu_is_active", lambda: False)
    crowded.device_caches.clear()
    yield
    crowded.device_caches.clear()


def test_warmup(no_gpu, monkeypatch):
    x, y = (triton.runtime.jit.MockTensor(tl.float16) for _ in range(2))
    assert crowded.warmup(x, y, 0, 6, grid=(1, ), **FEW_EACH).metadata.shared <= 232448
    with pytest.raises(triton.CompilationError, match="OutOfSharedMemory"):
        crowded.warmup(x, y, 0, 7, grid=(1, ), **FEW_EACH)


@pytest.mark.parametrize("command", ["compile", "explain"])
def test_commands(command, capsys):
    asked = [command, f"{__file__}:crowded", "--signature", "*fp16, *fp16, i32", "--constexpr"]
    assert main([*asked, "STAGES=6"]) == 0
    assert main([*asked, "STAGES=7"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("mimw: OutOfSharedMemory") and "scratch: convert_layout" in printed


@pytest.mark.parametrize("chip, most", [("sm_90a", 6), ("gfx950", 4)])
def test_check(chip, most):
    x, y = arrays()
    assert mimw.check(crowded, (1, ), x, y, 0, most, seeds=1, target=chip).ok
    report = mimw.check(crowded, (1, ), x, y, 0, most + 1, seeds=1, target=chip)
    assert [finding.kind for finding in report.findings] == ["OutOfSharedMemory"] and report.runs == 0


def test_the_simulator_gives_values_whatever_the_layouts_need():
    x, y = arrays()
    mimw.simulate(crowded, (1, ), x, y, 0, 7)
    assert (y == 2).all()
    with pytest.raises(triton.CompilationError, match="OutOfSharedMemory"):  # buffers alone are too many
        mimw.simulate(crowded, (1, ), x, y, 0, 8)


def test_autotuning_skips_what_does_not_fit(no_gpu):
    configurations = [mimw.Config(dict(STAGES=stages)) for stages in (8, 7, 6)]
    tuned = mimw.autotune(configs=configurations, key=[])(crowded)
    compiled = tuned.warmup(*(triton.runtime.jit.MockTensor(tl.float16) for _ in range(2)), 0, grid=(1, ))
    assert [kernel.metadata.shared <= 232448 for kernel in compiled] == [True]
    x, y = arrays()
    tuned[(1, )](x, y, 0)
    assert (y == 2).all()
    with pytest.raises(triton.CompilationError, match="OutOfSharedMemory"):
        mimw.autotune(configs=configurations[:1], key=[])(crowded)[(1, )](x, y, 0)


def test_stocks_autotuner_skips_it_by_the_error(no_gpu):
    """What Triton's `_bench` catches; its timing needs no GPU when `do_bench` is given."""
    tuned = triton.autotune(configs=[mimw.Config(dict(STAGES=stages)) for stages in (7, 6)], key=[],
                            do_bench=lambda call, quantiles: call() or [1.0] * 3)(crowded)
    tuned.nargs = {}
    mocked = [triton.runtime.jit.MockTensor(tl.float16) for _ in range(2)]
    found = [tuned._bench(*mocked, 0, config=config, grid=(1, ), warmup=True) for config in tuned.configs]
    assert found == [[float("inf")] * 3, [1.0] * 3]


@mimw.jit
def plain(x, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(x + at, tl.trans(tl.load(x + at)))


def test_a_kernel_without_our_words_stays_tritons():
    compiled = compile_kernel(plain, {"x": "*fp64"}, dict(N=256), options=dict(num_warps=32))
    assert compiled.metadata.shared > 232448        # its launch ends in OutOfResources


@pytest.mark.gpu
def test_a_launch_is_refused_by_us():
    import torch
    x, y = torch.ones(64, 256, device="cuda", dtype=torch.float16), torch.zeros(64, 256, device="cuda", dtype=torch.float16)
    crowded[(1, )](x, y, 0, 6)
    assert (y == 2).all()
    with pytest.raises(triton.CompilationError, match="scratch: convert_layout"):
        crowded[(1, )](x, y, 0, 7)


MODULE = """
#shared = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#blocked = #ttg.blocked<{{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}}>
#other = #ttg.blocked<{{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}}>
#smem = #ttg.shared_memory
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel() {{
    %ring = ttg.local_alloc : () -> !ttg.memdesc<4x128x64xbf16, #shared, #smem, mutable>
    %tile = arith.constant dense<0.0> : tensor<128x64xbf16, #blocked>
    {further}
    tt.return
  }}
}}
"""
STAGED = "%in = ttg.local_alloc %tile : (tensor<128x64xbf16, #blocked>) -> !ttg.memdesc<128x64xbf16, #shared, #smem>"


@pytest.mark.parametrize("further, limit, sure", [
    ("", 4 * 16384 + 1024, True), ("", 4 * 16384 + 1023, False),
    ("%out = ttg.convert_layout %tile : tensor<128x64xbf16, #blocked> -> tensor<128x64xbf16, #other>", 1 << 20, False),
    (STAGED, 5 * 16384, False), (STAGED, 6 * 16384, True)])
def test_a_look_at_the_module_may_be_enough(further, limit, sure):
    """Buffers side by side, and no op with scratch: then the allocator is not asked before there is LLVM IR."""
    context = mlir_context()
    nvidia.load_dialects(context)
    assert surely_fits(module_of(MODULE.format(further=further), context), limit) is sure
