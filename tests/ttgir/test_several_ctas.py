"""Programs of several CTAs (`num_ctas`), as stock Triton and Gluon compile them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import mimw
from mimw.compiler.ttgir import read_ttgir
from mimw.errors import NotYet, PeerExited
from mimw.runtime.ttgir import launch_of
from mimw.simulator import run
from mimw.target import asking, wanted
from tests.kernels import several_ctas as kernels
from tests.ttgir.checked import QUICK, described, right, told
from tests.ttgir.modules import ran

SIZES = pytest.mark.parametrize("ctas", [2, 4])
RNG = np.random.default_rng(0)


@SIZES
def test_a_row_in_several_ctas(ctas):
    x = RNG.random((3, 1000), np.float32)
    right(kernels.rows_divided, (3, ), x, np.zeros_like(x), 1000, BLOCK=1024, num_ctas=ctas,
          expected={"out": x / x.sum(1, keepdims=True)})


@SIZES
def test_products(ctas):
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((256, 96), (96, 64)))
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    right(kernels.product, (2, ), a, b, np.zeros_like(wanted), 96, M=128, N=64, BK=32, num_ctas=ctas, expected={"c": wanted})
    a, b = (RNG.standard_normal((128, 128)).astype(np.float16) for _ in "ab")
    blocks = [mimw.TensorDescriptor(one, [128, 128], [128, 1], block)
              for one, block in ((a, [128, 64]), (b, [64, 128]), (np.zeros_like(a), [128, 128]))]
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    right(kernels.product_by_blocks, (1, ), *blocks, 128, BLOCK=64, num_ctas=ctas, expected={"c": wanted}, tolerance=0.05)


@SIZES
def test_elements_that_go_to_other_ctas(ctas):
    x = RNG.random((64, 64), np.float32)
    right(kernels.turned, (1, ), x, np.zeros(64 * 66, np.float32), B=64, num_ctas=ctas,
          expected={"out": np.concatenate([x.T.ravel(), x.sum(0), x.sum(1)])})


@SIZES
def test_sums_in_tasks(ctas):
    """The CTAs meet in each task by itself, as often as it needs."""
    x = RNG.random((3, 256), np.float32)
    right(kernels.sums_in_tasks, (1, ), x, np.zeros_like(x), num_ctas=ctas, expected={"out": x / x.sum(1, keepdims=True)})


def test_a_tile_that_one_task_hands_to_the_other():
    x = RNG.random((64, 64), np.float32)
    right(kernels.handed_over, (1, ), x, np.zeros_like(x), RIGHT=True, num_ctas=2, expected={"out": x})
    report = mimw.check_compiled(kernels.handed_over, (1, ), x, np.zeros_like(x), RIGHT=False, num_ctas=2, target="sm_90a", **QUICK)
    assert ("DataRace", "tile.store(gl.load(x + rows[:, None] * 64 + columns[None, :]))") in told(report, kernels)


@SIZES
def test_what_one_cta_does_for_all(ctas):
    """Atomics and numbers: once a program, and all know what was there."""
    x = RNG.integers(0, 16, 256).astype(np.int32)
    total, out, bins = (np.zeros(size, np.int32) for size in (1, 2, 16))
    right(kernels.counted, (2, ), x, total, out, bins, B=256, num_ctas=ctas,
          expected={"total": np.array([2 * x.sum()]), "bins": 2 * np.bincount(x, minlength=16)})
    mimw.check_compiled(kernels.counted, (1, ), x, total, out, bins, B=256, num_ctas=ctas, target="sm_90a", **QUICK)


@SIZES
def test_what_another_program_is_told(ctas):
    """By an atomic of the first CTA: before one that releases all CTAs meet, and behind one that acquires, as Triton lets them."""
    x, flag = RNG.integers(0, 16, 256).astype(np.int32), np.zeros(2, np.int32)
    args, how = (x, np.zeros(512, np.int32), flag), dict(B=256, num_ctas=ctas)
    right(kernels.told_to_another_program, (2, ), *args, RELEASE="release", ACQUIRE="acquire", **how,
          expected={"out": np.concatenate([x, x[::-1] + 1]), "flag": np.ones(2)})
    for orders in (dict(RELEASE="relaxed", ACQUIRE="acquire"), dict(RELEASE="release", ACQUIRE="relaxed")):
        report = mimw.check_compiled(kernels.told_to_another_program, (2, ), *args, target="sm_90a", **QUICK, **orders, **how)
        assert ("DataRace", "tl.store(out + at, tl.load(x + at))") in told(report, kernels)


def test_a_stray_access_names_the_cta():
    x = RNG.random(1000, np.float32)
    (finding, ) = mimw.check_compiled(kernels.rows_divided, (1, ), x, np.zeros_like(x), 1024, BLOCK=1024, num_ctas=2,
                                      target="sm_90a", **QUICK).findings
    assert "CTA 1, warp 3, lane 26, register 0: element (1000)" in str(finding)


def test_a_look_into_another_cta_is_refused():
    """tl.gather: Triton 3.9 makes code that reads what nobody has written (docs/BUGS.md)."""
    x = RNG.random(256, np.float32)
    with pytest.raises(NotYet, match="elements picked along a dimension that lies in several CTAs"):
        mimw.check_compiled(kernels.looked_up, (1, ), x, np.zeros_like(x), B=256, num_ctas=2, target="sm_90a", **QUICK)
    right(kernels.looked_up, (1, ), x, np.zeros_like(x), B=256, expected={"out": x[::-1]})


def test_a_product_of_a_product():
    """Triton 3.9 reads the first product from the shared memory of the other CTA, and no meeting stands between (docs/BUGS.md)."""
    a, b, c = (RNG.integers(-1, 2, shape).astype(np.float16) for shape in ((64, 192), (192, 64), (192, 64)))
    tall = [mimw.TensorDescriptor(one, [192, 64], [64, 1], [64, 64]) for one in (b, c)]
    args = a, *tall, np.zeros((64, 64), np.float32)
    parts = [(a[:, at:at + 64] @ b[at:at + 64]).astype(np.float32) @ c[at:at + 64] for at in (0, 64, 128)]
    right(kernels.product_of_a_product, (1, ), *args, TRIPS=3, expected={"d": sum(parts)})
    report = mimw.check_compiled(kernels.product_of_a_product, (1, ), *args, TRIPS=3, num_ctas=2, target="sm_90a", **QUICK)
    assert "DataRace" in {kind for kind, _ in told(report, kernels)} and "remote_load" in str(report)


def test_a_tile_for_two_ctas():
    """Multicast, and an mbarrier at which both arrive."""
    source, target = torch.randn(192, 64).half(), torch.zeros(192, 64).half()
    args = described(source, [64, 64], [[0, 0]]), target
    right(kernels.sent_to_both, (1, ), *args, RIGHT=True, num_ctas=2, expected={"target": source.numpy()})
    report = mimw.check_compiled(kernels.sent_to_both, (1, ), *args, RIGHT=False, num_ctas=2, target="sm_90a", **QUICK)
    assert told(report, kernels) == [("CopyReadEarly", "tma.async_load(source, [trip * 64, 0], full, tile, multicast=True)")]
    mimw.simulate(kernels.sent_to_both, (1, ), *args, RIGHT=True, num_ctas=2)
    assert torch.equal(source, target)


def test_products_of_two_ctas():
    a, b, c = torch.randn(256, 128).half(), torch.randn(128, 64).half(), torch.zeros(256, 64).half()
    args = described(a, [256, 64], [[1, 0]]), described(b, [64, 64], [[0, 1]]), described(c, [256, 64], [[1, 0]])
    wanted = (a.float() @ b.float()).numpy()
    how = dict(num_ctas=2, target="sm_100a")
    right(kernels.product_of_a_pair, (1, ), *args, RIGHT=True, expected={"c": wanted}, tolerance=0.05, **how)
    report = mimw.check_compiled(kernels.product_of_a_pair, (1, ), *args, RIGHT=False, **QUICK, **how)
    assert ("TooManyArrivals", "mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)") in told(report, kernels)


def test_products_of_two_ctas_in_tasks():
    """The warps of all tasks come to the meetings of the cluster outside of them, and a commit arrives in both CTAs."""
    a, b, c = torch.randn(256, 256).half(), torch.randn(256, 64).half(), torch.zeros(256, 64).half()
    args = described(a, [256, 64], [[1, 0]]), described(b, [64, 64], [[0, 1]]), described(c, [256, 64], [[1, 0]])
    how = dict(K=256, num_ctas=2, target="sm_100a")
    right(kernels.pair_in_tasks, (1, ), *args, RIGHT=True, expected={"c": (a.float() @ b.float()).numpy()}, tolerance=0.1, **how)
    report = mimw.check_compiled(kernels.pair_in_tasks, (1, ), *args, RIGHT=False, **QUICK, **how)
    assert ("TooManyArrivals", "mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta)") in told(report, kernels)


@pytest.mark.parametrize("ctas", [1, 2])
def test_launch_control_of_gluons(ctas):
    """ttng.clc_is_canceled, ttng.clc_get_program_id: of a program of several CTAs one asks, and all get the answer."""
    out, how = np.full(6, -1, np.int32), dict(num_ctas=ctas, target="sm_100a")
    right(kernels.drawn, (6, ), out, RIGHT=True, expected={"out": np.arange(6)}, **how)
    report = mimw.check_compiled(kernels.drawn, (6, ), out, RIGHT=False, **QUICK, **how)
    assert report.ok if ctas == 1 else told(report, kernels)[0] == ("CopyReadEarly", "clc.try_cancel(answer, landed)")


LAYOUTS = """#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[1]]}>
#both = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[0]]}>
#other = #ttg.linear<{register = [[64], [128]], lane = [[1], [2], [4], [8], [16]], warp = [[0], [0]], block = [[32]]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], CGALayout = [[1]]}>
#same = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0], CGALayout = [[0]]}>
#smem = #ttg.shared_memory
"""
MODULE = """module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:%d",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%%x: !tt.ptr<f32>, %%n: i32) {
%s
    tt.return
  }
}
"""
AT = "%at = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #line>"
FROM = AT + """
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>, #line>
    %ps = tt.addptr %from, %at : tensor<256x!tt.ptr<f32>, #line>, tensor<256xi32, #line>
    %a = tt.load %ps : tensor<256x!tt.ptr<f32>, #line>
"""


def module(body: str, chip: int = 90) -> str:
    return LAYOUTS + MODULE % (chip, body)


REFUSED = {
    "tt.scan": FROM + """%s = "tt.scan"(%a) <{axis = 0 : i32, reverse = false}> ({
        ^bb0(%l: f32, %r: f32):
          %m = arith.addf %l, %r : f32
          tt.scan.return %m : f32
        }) : (tensor<256xf32, #line>) -> tensor<256xf32, #line>""",
    "ttg.memdesc_subslice": "%m = ttg.local_alloc : () -> !ttg.memdesc<256xf32, #plain, #smem, mutable>\n"
                            "%r = ttg.memdesc_subslice %m[64] : !ttg.memdesc<256xf32, #plain, #smem, mutable> -> "
                            "!ttg.memdesc<64xf32, #plain, #smem, mutable, 256>",
}


@pytest.mark.parametrize("op", REFUSED)
def test_what_is_refused_over_several_ctas(op):
    """With the text and the line of the op, as anything that is not read."""
    text = module(REFUSED[op])
    with pytest.raises(NotYet, match=op) as raised:
        read_ttgir(text, "k.ttgir")
    assert f"k.ttgir:{next(number for number, line in enumerate(text.splitlines(), 1) if op in line)}" in str(raised.value)


def test_parts_that_take_turns():
    """A CTA has every second stretch of 32 elements; then the other half of all."""
    x = np.arange(256, dtype=np.float32)
    body = FROM + """%t = ttg.convert_layout %a : tensor<256xf32, #line> -> tensor<256xf32, #other>
        %u = arith.addf %t, %t : tensor<256xf32, #other>
        %b = ttg.convert_layout %u : tensor<256xf32, #other> -> tensor<256xf32, #line>
        tt.store %ps, %b : tensor<256x!tt.ptr<f32>, #line>"""
    ran(module(body), x, 0)
    assert (x == 2 * np.arange(256)).all()


@pytest.mark.parametrize("meets", [True, False])
def test_a_buffer_of_other_ctas(meets):
    """Stored by one CTA, loaded by the other, and stored there by it: right only where the cluster meets between."""
    meeting = "ttng.cluster_barrier" * meets
    body = FROM + f"""%m = ttg.local_alloc : () -> !ttg.memdesc<256xf32, #plain, #smem, mutable>
        ttg.local_store %a, %m : tensor<256xf32, #line> -> !ttg.memdesc<256xf32, #plain, #smem, mutable>
        {meeting}
        %t = ttg.local_load %m : !ttg.memdesc<256xf32, #plain, #smem, mutable> -> tensor<256xf32, #other>
        %u = arith.addf %t, %t : tensor<256xf32, #other>
        {meeting}
        ttg.local_store %u, %m : tensor<256xf32, #other> -> !ttg.memdesc<256xf32, #plain, #smem, mutable>
        {meeting}
        %b = ttg.local_load %m : !ttg.memdesc<256xf32, #plain, #smem, mutable> -> tensor<256xf32, #line>
        tt.store %ps, %b : tensor<256x!tt.ptr<f32>, #line>"""
    x = np.arange(256, dtype=np.float32)
    report = mimw.check_ttgir(module(body), (1, ), x, 0, late_fences=False, expected={"x": 2 * x}, **QUICK)
    assert report.ok is meets


@pytest.mark.parametrize("meeting, other", [("ttng.cluster_barrier", ""), ("", ""), ("", "ttng.cluster_barrier")])
def test_a_meeting_where_warps_have_parted(meeting, other):
    """Those of one region meet, by mbarriers of their own; what other regions do is not ordered by it."""
    body = f"""%m = ttg.local_alloc : () -> !ttg.memdesc<256xf32, #plain, #smem, mutable>
    ttg.warp_specialize(%x)
    default {{
      {FROM}
      ttg.local_store %a, %m : tensor<256xf32, #line> -> !ttg.memdesc<256xf32, #plain, #smem, mutable>
      {meeting}
      %t = ttg.local_load %m : !ttg.memdesc<256xf32, #plain, #smem, mutable> -> tensor<256xf32, #other>
      %u = arith.addf %t, %t : tensor<256xf32, #other>
      %b = ttg.convert_layout %u : tensor<256xf32, #other> -> tensor<256xf32, #line>
      tt.store %ps, %b : tensor<256x!tt.ptr<f32>, #line>
      ttg.warp_yield
    }}
    partition0(%p: !tt.ptr<f32>) num_warps(1) {{
      {other}
      ttg.warp_return
    }} : (!tt.ptr<f32>) -> ()"""
    x = np.arange(256, dtype=np.float32)
    report = mimw.check_ttgir(module(body), (1, ), x, 0, late_fences=False, expected={"x": 2 * x}, **QUICK)
    assert report.ok is bool(meeting) and {finding.kind for finding in report.findings} <= {"DataRace", "UnwrittenRead"}


def test_all_of_a_tile_is_cut_where_no_cta_needs_another():
    """From a tile that both have to the halves nobody meets."""
    body = """%r = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32, #both>
        %h = ttg.convert_layout %r : tensor<256xi32, #both> -> tensor<256xi32, #line>
        %f = arith.sitofp %h : tensor<256xi32, #line> to tensor<256xf32, #line>
        """ + FROM + "tt.store %ps, %f : tensor<256x!tt.ptr<f32>, #line>"
    reading = read_ttgir(module(body), "k.ttgir")
    assert not reading.program.named("cluster_tile") and reading.program.named("cluster_part") and reading.is_clusters
    x = np.zeros(256, np.float32)
    ran(module(body), x, 0)
    assert (x == np.arange(256)).all()


def test_a_cta_that_does_not_come():
    body = FROM + """%zero = arith.constant 0 : i32
        %one = arith.cmpi ne, %n, %zero : i32
        scf.if %one {
          %b = ttg.convert_layout %a : tensor<256xf32, #line> -> tensor<256xf32, #both>
        }"""
    reading = read_ttgir(module(body), "k.ttgir")
    (branch, ) = reading.program.named("if")
    text = module(body)
    ran(text, np.zeros(256, np.float32), 1)     # both come
    ranked = replace(branch, args=(reading.program.body.ops[0].result, *branch.args[1:]))
    program = replace(reading.program, body=replace(reading.program.body, ops=tuple(
        ranked if op is branch else op for op in reading.program.body.ops)))
    launch = launch_of(replace(reading, program=program), (1, ), (np.zeros(256, np.float32), 1))
    with asking(wanted("sm_90a")), pytest.raises(PeerExited, match="does not come to this op"):
        run(launch.program, launch.grid, launch.values, seed=0, races=True)
