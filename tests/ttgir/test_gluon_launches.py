"""Kernels of Gluon's under `mimw.simulate`, `check` and the other tools, and launched where there is no GPU."""

import warnings

import numpy as np
import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

import mimw
from mimw.errors import (
    CheckFailed,
    CopyReadEarly,
    KernelError,
    LaunchError,
    NotAKernel,
    NotYet,
    OutOfBounds,
    OutOfSharedMemory,
    SimulationError,
    UnknownKeyword,
)
from mimw.runtime import ttgir
from mimw.runtime.before_launch import looking
from mimw.runtime.gluon_jit import gluon_jit
from mimw.runtime.jit import without_a_gpu
from mimw.testing.gpus import gpu_available
from mimw.tools import checking
from mimw.tools.every_launch import EveryLaunch
from tests.kernels import gluon_kernels
from tests.kernels.gluon_kernels import column_sums, scaled, tiles_of
from tests.kernels.wild_compiled import freed_the_next_one

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
TILES = np.arange(4)[:, None] + np.arange(128)      # what `freed_the_next_one` writes


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    """Launches run on the simulator, also beside a GPU."""
    monkeypatch.setenv("MIMW_SIMULATE", "1")


def numbers(count=256):
    return np.arange(count, dtype=np.float32), np.full(count, -1, np.float32)


def line_of(text, module=gluon_kernels):
    return next(number for number, line in enumerate(open(module.__file__), 1) if text in line)


@pytest.mark.parametrize("num_warps", [4, 8])
def test_elements_behind_a_mask(num_warps):
    """Arrays of numpy; launch options reach Gluon, where the kernel asks for them."""
    x, y = numbers()
    run = mimw.simulate(scaled, (2, ), x, y, 200, 1.5, BLOCK=128, num_warps=num_warps)
    assert (y[:200] == 1.5 * x[:200]).all() and (y[200:] == -1).all() and run.counts["masked_store"] == 2


@pytest.mark.parametrize("tiles, slots", [(7, 2), (2, 3)])
def test_a_ring_of_tiles_by_tma(tiles, slots):
    """Tensors of torch, a descriptor of Gluon's; also with fewer tiles than slots. Expected results are compared."""
    x, y = torch.randn(tiles * 16, 64), torch.zeros(64)
    mimw.simulate(column_sums, (1, ), tiles_of(x), y, tiles, SLOTS=slots, WAITS=True, expected={"y": x.sum(0).numpy()},
                  tolerance=1e-4)
    assert torch.allclose(y, x.sum(0), atol=1e-4)


def test_partitions():
    out = np.zeros((4, 128), np.int32)
    run = mimw.simulate(freed_the_next_one, (1, ), out, RIGHT=True, trace=True)
    assert (out == TILES).all() and {event.lane for event in run.trace.events} >= {"default", "partition0"}


def test_a_wait_that_is_missing_is_found_at_its_line():
    """A run ends in it, a check reports it; there is no mend, as changes are made in words of mimw."""
    x, y = torch.randn(7 * 16, 64), torch.zeros(64)
    launch = column_sums, (1, ), tiles_of(x), y, 7
    with pytest.raises(CopyReadEarly) as error:
        mimw.simulate(*launch, SLOTS=2, WAITS=False)
    assert line_of("# READ") in [site.line for site in error.value.sites]
    report = mimw.check(*launch, SLOTS=2, WAITS=False, seeds=1, jobs=1, mends=True, shrink=False)
    assert report.findings[0].kind == "CopyReadEarly" and report.mend is None and not y.any()
    assert line_of("# READ") in [site.line for site in report.findings[0].sites]
    again = report.replay(report.findings[0])
    assert isinstance(again.error, CopyReadEarly) and report.replay.memory() is None
    right = mimw.check(*launch, SLOTS=2, WAITS=True, seeds=1, jobs=1, rounds=False, expected={"y": x.sum(0).numpy()},
                       tolerance=1e-4)
    assert right.ok and "'y' as expected" in right.results


def test_a_launch_compiles_once_and_anew_after_a_change(monkeypatch):
    """Of the kernel's globals, which Gluon takes as they are when it compiles."""
    made, compiled = [], ttgir.compiled_ttgir
    monkeypatch.setattr(ttgir, "compiled_ttgir", lambda *given: made.append(given) or compiled(*given))
    monkeypatch.setitem(times_factor.fn.__globals__, "FACTOR", gl.constexpr(2))
    y = np.zeros(1, np.float32)
    for _ in range(3):
        mimw.simulate(times_factor, (1, ), y, 7.0)
    assert y == 14 and len(made) == 1
    mimw.simulate(times_factor, (1, ), y, 2)        # an integer is another specialisation
    assert y == 4 and len(made) == 2
    monkeypatch.setitem(times_factor.fn.__globals__, "FACTOR", gl.constexpr(3))
    mimw.simulate(times_factor, (1, ), y, 7.0)
    assert y == 21 and len(made) == 3


FACTOR = gl.constexpr(2)


@gluon.jit
def times_factor(y, x):
    gl.store(y, x * FACTOR)


def test_several_gpus():
    world = mimw.World(2)
    x, y = world.each(lambda rank: np.full(8, rank + 1, np.float32)), world.each(lambda rank: np.zeros(8, np.float32))
    mimw.simulate(scaled, (1, ), x, y, 8, 2.0, BLOCK=256)
    assert [y[rank][0] for rank in range(2)] == [2, 4]


@pytest.mark.skipif(gpu_available(), reason="a GPU is launched on")
def test_a_launch_of_gluons_own_kernel():
    """Through Triton's launch: a binary is made and not loaded. The warps of partitions are none of the launch's."""
    without_a_gpu()     # as the first kernel of `mimw.jit` does
    x, y, out = torch.randn(7 * 16, 64), torch.zeros(64), torch.zeros(4, 128, dtype=torch.int32)
    column_sums[(1, )](tiles_of(x), y, 7, SLOTS=2, WAITS=True)
    assert torch.allclose(y, x.sum(0), atol=1e-4)
    freed_the_next_one[(1, )](out, RIGHT=True)
    assert (out.numpy() == TILES).all()
    written = torch.zeros(256)
    numbered[(1, )](written, num_warps=8)
    assert written.eq(torch.arange(256)).all()
    with pytest.raises(NotYet, match="picked along a dimension that lies in several CTAs"):
        backwards[(1, )](written, num_ctas=2)


def test_a_launch_under_the_published_names():
    """`gluon.jit` under `mimw run`: Triton makes no binary before somebody asks, and arrays may be numpy's."""
    kernel, (x, y) = gluon_jit(scaled.fn), numbers()
    run = kernel[lambda meta: (2, )](x, y, 256, 3.0, BLOCK=128)
    assert (y == 3 * x).all() and run.name == "scaled" and run.cycles > 0
    column = torch.zeros(64)
    with pytest.raises(CopyReadEarly):
        gluon_jit(column_sums.fn)[(1, )](tiles_of(torch.ones(112, 64)), column, 7, SLOTS=2, WAITS=False)
    assert gluon_jit(do_not_specialize=["n"])(scaled.fn).params[2].do_not_specialize


def test_autotuned_and_with_heuristics():
    kernel = mimw.autotune([mimw.Config({"BLOCK": 64}), mimw.Config({"BLOCK": 32})], ["n"])(gluon_jit(scaled.fn))
    x, y = numbers(64)
    kernel[lambda meta: (64 // meta["BLOCK"], )](x, y, 64, 2.0)
    assert (y == 2 * x).all()
    assert mimw.check(kernel, (1, ), x, y, 64, 2.0, seeds=1, jobs=1).ok


def test_what_is_checked_before_a_launch(monkeypatch):
    """MIMW_CHECK=1: a wrong specialisation is never launched, and looked at once."""
    monkeypatch.setenv("MIMW_CHECK", "1")
    kernel, y, tiles = gluon_jit(column_sums.fn), torch.zeros(64), tiles_of(torch.ones(7 * 16, 64))
    for _ in range(2):
        with pytest.raises(CheckFailed, match=f"gluon_kernels.py:{line_of('# READ')}"):
            kernel[(1, )](tiles, y, 7, SLOTS=2, WAITS=False)
    kernel[(1, )](tiles, y, 7, SLOTS=2, WAITS=True)
    assert (y == 7 * 16).all()


def test_descriptors_of_a_gpu_are_checked_on_stand_ins(monkeypatch):
    """Under MIMW_CHECK=1 beside a GPU; their layouts stay."""
    host = torch.ones(112, 64)
    monkeypatch.setattr(checking, "stand_in", lambda tensor, storages: host)
    tiles = tiles_of(torch.empty(112, 64, device="meta"))
    found = checking.on_host(tiles, {})
    assert found.base is host and (found.layout, found.block_shape) == (tiles.layout, tiles.block_shape)
    assert checking.on_host(found, {}) is found


def test_each_launch_of_a_session_is_checked_equal_ones_once():
    found = []
    every = EveryLaunch(1, found.append)
    x, y = numbers()
    with looking(every.look):
        for count in (200, 200, 100):
            gluon_jit(scaled.fn)[(2, )](x, y, count, 1.5, BLOCK=128)
        with pytest.raises(NotYet, match="picked along a dimension that lies in several CTAs"):
            gluon_jit(backwards.fn)[(1, )](y, num_ctas=2)
    assert every.tally.launches == 4 and len(every.tally.reports) == 2 and not found
    assert list(every.tally.unchecked) == ["backwards"] and every.tally.unchecked["backwards"].startswith("NotYet")


@gluon.jit
def backwards(x):
    """What is not read: elements of another CTA."""
    at = gl.arange(0, 64, gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[1]]))
    gl.store(x + at, gl.gather(gl.load(x + at), 63 - at, 0))


@gluon.jit
def numbered(x, num_warps: gl.constexpr):
    at = gl.arange(0, 32 * num_warps, gl.BlockedLayout([1], [32], [num_warps], [0]))
    gl.store(x + at, at.to(gl.float32))


@pytest.mark.parametrize("warps", [2, 8])
def test_a_parameter_that_is_an_option_too(warps):
    """As Triton has it: layouts are made of the kernel's parameter `num_warps`, and it is compiled with so many."""
    x, y = np.zeros(32 * warps, np.float32), np.zeros(32 * warps, np.float32)
    mimw.simulate(numbered, (1, ), x, num_warps=warps)
    gluon_jit(numbered.fn)[(1, )](y, num_warps=warps)
    assert (x == np.arange(32 * warps)).all() and (y == x).all()
    assert mimw.check(numbered, (1, ), x, num_warps=warps, seeds=1, jobs=1).ok


def test_predictions_are_those_of_the_same_schedule_in_our_words():
    """Tile by tile the GEMM of the library and the one in Gluon do the same."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from benchmarks.gluon_gemm import gemm
    from mimw.kernels.gemm import Configuration, arguments
    from mimw.kernels.gemm import kernel as ours

    a, b, c = (torch.empty(shape, dtype=torch.bfloat16) for shape in ((256, 512), (512, 256), (256, 256)))
    grid, args, meta = arguments(a, b, c, 2, Configuration(bm=128, bn=128, stages=4, consumers=2, staging=2))
    blocks = [128, 64], [64, 128], [64, 64]
    described = [TensorDescriptor.from_tensor(one, block, gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16))
                 for one, block in zip((a, b, c), blocks)]
    theirs = mimw.predict(gemm, grid, *described, 256, 256, 512, BM=128, BN=128, BK=64, GROUP_M=8, STAGES=4, CONSUMERS=2, PIECES=2)
    mine = mimw.predict(ours, grid, *args, **meta)
    assert theirs.cycles == pytest.approx(mine.cycles, rel=0.05) and theirs.residency == mine.residency


def test_the_registers_of_a_prediction_are_the_binarys():
    """Of more CTAs than the chip has SMs: how many an SM holds follows from them."""
    x, y = numbers(1000 * 128)
    assert mimw.predict(scaled, (1000, ), x, y, 1000 * 128, 1.5, BLOCK=128).residency[0] > 4


def test_the_debugger_stands_at_lines_and_knows_names():
    x = torch.ones(7 * 16, 64)
    with mimw.debug(column_sums, (1, ), tiles_of(x), torch.zeros(64), 7, SLOTS=2, WAITS=True) as session:
        session.until("full[0]")
        assert (session["tiles[0]"] == 1).all() and session["x_desc"].shape == (7 * 16, 64) and session["SLOTS"] == 2


@gluon.jit
def asserted(x, LIMIT: gl.constexpr):
    gl.device_assert(gl.load(x) < LIMIT, "too large")


@gluon.jit
def held(x, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    tile = gl.allocate_shared_memory(gl.float32, [N], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    tile.store(gl.full([N], 1.0, gl.float32, layout))
    gl.store(x + gl.arange(0, N, layout), tile.load(layout))


@gluon.jit
def broken_off(x):
    breakpoint()
    gl.store(x, 1.0)


def refused(kind, match, kernel, *args, tool=mimw.simulate, grid=(1, ), **meta):
    with pytest.raises(kind, match=match) as error:
        tool(kernel, grid, *args, **meta)
    return error.value


def test_what_a_run_finds_or_gluon_refuses():
    x = np.zeros(128, np.float32)
    refused(SimulationError, "too large", asserted, x, LIMIT=0.0)
    refused(OutOfBounds, "warp 3, lane 0, register 0: element \\(96\\)", held, x[:96], N=128)
    large = refused(OutOfSharedMemory, "takes 524288 bytes", held, x, N=1 << 17)
    assert (large.required, large.limit) == (524288, 232448)
    assert mimw.check(held, (1, ), x, N=1 << 17, seeds=1).findings[0].kind == "OutOfSharedMemory"
    wrong = refused(KernelError, "Gluon does not compile this: .* requires 8 warps", held, x, N=128, num_warps=8)
    assert wrong.sites[0].line == line_of("gl.full([N]", pytest.importorskip(__name__))
    refused(UnknownKeyword, "num_warps", held, x, N=128, num_wraps=8)
    refused(LaunchError, "70000", held, x, N=128, grid=(1, 70000))


def test_tools_that_need_a_kernel_of_ours_say_so():
    x = np.zeros(1, np.float32)
    for tool in (mimw.compile, mimw.explain, mimw.orchestrate):
        refused(NotYet, "backwards is a kernel of Gluon's", backwards, x, tool=tool)
    refused(NotYet, "Gluon has no breakpoint", broken_off, x)
    with pytest.raises(NotAKernel, match="a kernel of Gluon's"):
        mimw.jit(backwards)


def test_options_of_a_compiled_check_reach_gluon():
    """They come by the tool's own call, and the kernel stays one of Gluon's."""
    x, y = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mimw.check_compiled(scaled, (2, ), x, y, 256, 1.5, BLOCK=128, num_warps=8, seeds=1, jobs=1, rounds=False,
                                   expected={"y": 1.5 * x}).ok


@pytest.mark.gpu
def test_on_a_gpu(monkeypatch):
    """`mimw run --check` beside a GPU: what is wrong is not launched, and what is right runs there."""
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("the kernel copies by TMA")
    monkeypatch.setenv("MIMW_SIMULATE", "0")
    monkeypatch.setenv("MIMW_CHECK", "1")
    kernel, x, y = gluon_jit(column_sums.fn), torch.randn(7 * 16, 64, device="cuda"), torch.full((64, ), -1.0, device="cuda")
    with pytest.raises(CheckFailed):
        kernel[(1, )](tiles_of(x), y, 7, SLOTS=2, WAITS=False)
    assert (y == -1).all()
    kernel[(1, )](tiles_of(x), y, 7, SLOTS=2, WAITS=True)
    assert torch.allclose(y, x.sum(0), atol=1e-4)
