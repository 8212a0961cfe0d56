"""Launches of kernels of the Gluon tutorials, by name, for `compiled_checks`.

    GLUON["gluon-04-memcpy"]        a Case: file, target, and a launch whose arrays are as small as the kernel's tiles allow

Input: nothing. Output: `GLUON`. Files are those of Triton's repository, or, where no commit of it that Triton 3.9 takes could be
read, those of a fork at a commit of 2026, with the same text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .compiled_checks_sources import Case, Launch
from .others_sources import Source

TRITON, FORK, FORKED = "triton-lang/triton", "byoshimi-gmail/triton", "3c764883c5db3a69c8b7692f7a20ee7953b39a14"
FOLDER = "python/tutorials/gluon"
GLUON: dict[str, Case] = {}
FIFTH = Source(FORK, FORKED, f"{FOLDER}/05-wgmma.py", "")
SEVENTH = Source(FORK, FORKED, f"{FOLDER}/07-persistence.py", "")
EIGHTH = Source(FORK, FORKED, f"{FOLDER}/08-warp-specialization.py", "")
NEEDS = {"05-wgmma": FIFTH, "07-persistence": SEVENTH}
PRODUCT = "a_desc @ b_desc"


def case(name: str, repository: str, commit: str, file: str, function: str, target: int = 90, needs: dict[str, Source] = NEEDS
         ) -> Callable[[Callable[[Any], Launch]], Callable[[Any], Launch]]:
    """The function below launches that kernel."""
    def keep(launch: Callable[[Any], Launch]) -> Callable[[Any], Launch]:
        GLUON[name] = Case(name, Source(repository, commit, f"{FOLDER}/{file}", function), target, launch, needs)
        return launch
    return keep


ONE = TRITON, "3142bd1c90982049ca2acda66e9fbbe2367ecbe6", "01-intro.py"
TWO = TRITON, "146d2321df6ff215fea332f99201dcbca1beabff", "02-layouts.py"
THREE = TRITON, "2618691b76cfb633e829acf1ca4d9cdcc33c783a", "03-async-copy.py"
FOUR = TRITON, "0c8ca22f3ce3b257c60ed9e847c62beb25bc3501", "04-tma.py"
FIVE_FIRST = TRITON, "0c8ca22f3ce3b257c60ed9e847c62beb25bc3501", "05-wgmma.py"
FIVE, SIX, SEVEN, EIGHT = ((FORK, FORKED, name) for name in (
    "05-wgmma.py", "06-tcgen05.py", "07-persistence.py", "08-warp-specialization.py"))
NINE = TRITON, "2ab0821f18b9175a70cc8a6b2a5d7132741842de", "09-tma-gather-scatter.py"
TEN = TRITON, "043d3a7d22210add297c9601645ff230629c4e0b", "10-tcgen05-copy.py"
TWELVE = TRITON, "37b971349536b929a277209f4f0aa42e15dba745", "12-cluster-launch-control.py"
FOURTEEN = TRITON, "00a287a7530fdc5fe89a2a01ac1de19f66aca85a", "14-multicta.py"


@case("gluon-01-copy-scalar", *ONE, "copy_scalar_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(in_ptr="fp32[1]", out_ptr="fp32[1]"), results={"out_ptr": "in_ptr"}, options=dict(num_warps=1))


@case("gluon-01-memcpy", *ONE, "memcpy_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((2,), dict(in_ptr="fp32[40]", out_ptr="fp32[40]", xnumel=40), dict(XBLOCK=32), {"out_ptr": "in_ptr"},
                  options=dict(num_warps=1))


@case("gluon-02-memcpy", *TWO, "memcpy_1d_kernel")
def _(tutorial: Any) -> Launch:
    layout = tutorial.gl.BlockedLayout([2], [32], [4], [0])
    return Launch((2,), dict(in_ptr="fp32[500]", out_ptr="fp32[500]", xnumel=500), dict(XBLOCK=256, layout=layout),
                  {"out_ptr": "in_ptr"})


@case("gluon-03-memcpy", *THREE, "memcpy_1d_cpasync_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((2,), dict(in_ptr="fp32[200]", out_ptr="fp32[200]", xnumel=200), dict(XBLOCK=128), {"out_ptr": "in_ptr"})


def _add(**constants: Any) -> Launch:
    arrays = {f"{name}_ptr": "fp32[40,160]" for name in "abc"}
    strides = {f"{axis}stride_{name}": stride for name in "abc" for axis, stride in (("x", 160), ("y", 1))}
    return Launch((2,), arrays | dict(xnumel=40, ynumel=160) | strides, dict(XBLOCK=32, YBLOCK=64) | constants,
                  {"c_ptr": "a_ptr + b_ptr"})


def _plain(tutorial: Any) -> Any:
    return tutorial.gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[1, 0])


@case("gluon-03-add", *THREE, "elementwise_add_kernel")
def _(tutorial: Any) -> Launch:
    return _add()


@case("gluon-03-add-async", *THREE, "elementwise_add_cpasync_kernel")
def _(tutorial: Any) -> Launch:
    return _add(smem_layout=_plain(tutorial))


@case("gluon-03-add-pipelined", *THREE, "elementwise_add_pipelined_kernel")
def _(tutorial: Any) -> Launch:
    return _add(smem_layout=_plain(tutorial), num_buffers=2)


@case("gluon-03-add-pipelined-3", *THREE, "elementwise_add_pipelined_kernel")
def _(tutorial: Any) -> Launch:
    return _add(smem_layout=_plain(tutorial), num_buffers=3)


@case("gluon-04-memcpy", *FOUR, "memcpy_1d_tma_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((2,), dict(in_desc="fp32[100]/64", out_desc="fp32[100]/64"), dict(XBLOCK=64), {"out_desc": "in_desc"},
                  options=dict(num_warps=1))


def _added(**constants: Any) -> Launch:
    return Launch((2,), {f"{name}_desc": "fp32[40,320]/32,64" for name in "abc"} | dict(xnumel=40, ynumel=320),
                  dict(XBLOCK=32, YBLOCK=64) | constants, {"c_desc": "a_desc + b_desc"})


@case("gluon-04-add", *FOUR, "elementwise_add_tma_kernel")
def _(tutorial: Any) -> Launch:
    return _added(num_buffers=2)


@case("gluon-04-add-3", *FOUR, "elementwise_add_tma_kernel")
def _(tutorial: Any) -> Launch:
    return _added(num_buffers=3)


def _small(in_registers: bool) -> Launch:
    return Launch((1,), dict(a_desc="fp16[64,32]/64,32", b_desc="fp16[32,32]/32,32", c_desc="fp32[64,32]/64,32",
                             d_desc="fp32[64,32]/64,32"),
                  dict(LHS_IN_REG=in_registers, INSTR_SHAPE_N=32, num_warps=4), {"d_desc": f"{PRODUCT} + c_desc"})


@case("gluon-05-small", *FIVE_FIRST, "small_mma_kernel")
def _(tutorial: Any) -> Launch:
    return _small(False)


@case("gluon-05-small-registers", *FIVE_FIRST, "small_mma_kernel")
def _(tutorial: Any) -> Launch:
    return _small(True)


@case("gluon-05-overlapped", *FIVE_FIRST, "blocked_mma_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((1, 2), dict(a_desc="fp16[64,128]/64,32", b_desc="fp16[128,64]/32,32", c_desc="fp32[64,64]/64,32"),
                  dict(TRANSPOSE_B=False, OVERLAP_MMA=True, num_warps=4), {"c_desc": PRODUCT})


def _product(rows: int, columns: int, depth: int, m: int, n: int, k: int, grid: tuple[int, ...] | None = None, tile_m: int = 0,
             store_n: int = 0, warps: int = 4, **constants: Any) -> Launch:
    return Launch(grid or (rows // (tile_m or m), columns // n),
                  dict(a_desc=f"fp16[{rows},{depth}]/{m},{k}", b_desc=f"fp16[{depth},{columns}]/{k},{n}",
                       c_desc=f"fp16[{rows},{columns}]/{m},{store_n or n}"),
                  constants | dict(num_warps=warps), {"c_desc": PRODUCT}, options=dict(num_warps=warps))


@case("gluon-05-matmul", *FIVE, "blocked_matmul_kernel")
def _(tutorial: Any) -> Launch:
    return _product(64, 64, 96, 64, 32, 32, TRANSPOSE_B=False)


@case("gluon-05-matmul-turned", *FIVE, "blocked_matmul_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((1, 2), dict(a_desc="fp16[64,96]/64,32", b_desc="fp16[64,96]/32,32", c_desc="fp16[64,64]/64,32"),
                  dict(TRANSPOSE_B=True, num_warps=4), {"c_desc": "a_desc @ b_desc.T"})


@case("gluon-05-pipelined", *FIVE, "blocked_matmul_pipelined_kernel")
def _(tutorial: Any) -> Launch:
    return _product(64, 64, 128, 64, 32, 32)


@case("gluon-05-pipelined-8-warps", *FIVE, "blocked_matmul_pipelined_kernel")
def _(tutorial: Any) -> Launch:
    return _product(128, 32, 128, 128, 32, 32, warps=8)


@case("gluon-06-memory", *SIX, "tmem_example_kernel", 100)
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(in_ptr="fp32[64,64]", out_ptr="fp32[64,64]"), dict(M=64, N=64, num_warps=4), {"out_ptr": "in_ptr"})


def _fifth(tutorial: Any, in_memory: bool, use_commit: bool) -> Launch:
    return Launch((1,), dict(a_desc="fp16[128,32]/128,32", b_desc="fp16[32,32]/32,32", c_desc="fp32[128,32]/128,32",
                             d_desc="fp32[128,32]/128,32"),
                  dict(tmem_block=tutorial.gl.constexpr((128, 32)), LHS_IN_TMEM=in_memory, USE_COMMIT=use_commit, num_warps=4),
                  {"d_desc": f"{PRODUCT} + c_desc"})


@case("gluon-06-small", *SIX, "small_mma_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _fifth(tutorial, False, True)


@case("gluon-06-small-memory", *SIX, "small_mma_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _fifth(tutorial, True, False)


@case("gluon-06-matmul", *SIX, "blocked_matmul_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(128, 64, 96, 128, 32, 32, TRANSPOSE_B=False)


@case("gluon-06-pipelined", *SIX, "blocked_matmul_pipelined_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(256, 32, 160, 128, 32, 32, tile_m=256)


@case("gluon-07-pipelined-90", *SEVEN, "matmul_pipelined_kernel")
def _(tutorial: Any) -> Launch:
    return _product(64, 32, 160, 64, 32, 32, MMAImpl=tutorial.WGMMA, num_buffers=3)


@case("gluon-07-pipelined-100", *SEVEN, "matmul_pipelined_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(128, 32, 160, 128, 32, 32, MMAImpl=tutorial.MMAv5, num_buffers=3)


@case("gluon-07-persistent-90", *SEVEN, "persistent_matmul_kernel")
def _(tutorial: Any) -> Launch:
    return _product(128, 64, 128, 64, 32, 32, (2,), MMAImpl=tutorial.WGMMA, SchedulerImpl=tutorial.PersistentTileScheduler,
                    num_buffers=3)


@case("gluon-07-persistent-100", *SEVEN, "persistent_matmul_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(256, 64, 128, 128, 32, 32, (2,), MMAImpl=tutorial.MMAv5, num_buffers=3,
                    SchedulerImpl=tutorial.GroupedPersistentTileScheduler(8))


@case("gluon-07-overlapped-90", *SEVEN, "persistent_matmul_pipelined_kernel")
def _(tutorial: Any) -> Launch:
    return _product(128, 64, 128, 64, 32, 32, (2,), MMAImpl=tutorial.WGMMA, SchedulerImpl=tutorial.PersistentTileScheduler,
                    num_buffers=3, STEALB=False)


@case("gluon-07-overlapped-100", *SEVEN, "persistent_matmul_pipelined_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(256, 64, 128, 128, 32, 32, (2,), MMAImpl=tutorial.MMAv5, num_buffers=3, STEALB=False,
                    SchedulerImpl=tutorial.GroupedPersistentTileScheduler(8))


@case("gluon-07-stealing-100", *SEVEN, "persistent_matmul_pipelined_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(256, 64, 256, 128, 32, 64, (2,), MMAImpl=tutorial.MMAv5, num_buffers=4, STEALB=True,
                    SchedulerImpl=tutorial.GroupedPersistentTileScheduler(8))


@case("gluon-08-add", *EIGHT, "elementwise_add_warp_specialized_kernel")
def _(tutorial: Any) -> Launch:
    return _added(num_load_buffers=2, num_store_buffers=2, num_warps=4)


@case("gluon-08-matmul", *EIGHT, "matmul_warp_specialized_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(128, 256, 64, 128, 64, 32, (1,), SchedulerImpl=tutorial.t7.PersistentTileScheduler,
                    num_buffers=2, SUBTILE_FACTOR=2, store_n=32)


@case("gluon-09-gather", *NINE, "async_gather_kernel", 100)
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(out_ptr="bf16[32,64]", out_stride_x=64, out_stride_y=1, tensor_desc="bf16[64,64]/1,64",
                             x_offsets_ptr="i32[32]", y_offset=0), dict(BLOCK_X=32), {"out_ptr": "tensor_desc[x_offsets_ptr]"},
                  {"x_offsets_ptr": "np.arange(32) * 7 % 64"}, _rows(tutorial, tensor_desc=(32, 64)))


@case("gluon-09-scatter", *NINE, "async_scatter_kernel", 100)
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(tensor_desc="bf16[64,64]/1,64", x_offsets_ptr="i32[32]", y_offset=0, src_ptr="bf16[32,64]",
                             src_stride_x=64, src_stride_y=1), dict(BLOCK_X=32),
                  {"tensor_desc": "np.where((np.arange(64)[:, None] % 2) == 0, src_ptr[np.arange(64) // 2], tensor_desc)"},
                  {"x_offsets_ptr": "np.arange(32) * 2"}, _rows(tutorial, tensor_desc=(32, 64)))


def _rows(tutorial: Any, **shapes: tuple[int, int]) -> dict[str, Any]:
    """Layouts of the tiles that rows are gathered into: those of the tile, while a descriptor's block is one row."""
    gl = tutorial.gl
    return {name: gl.NVMMASharedLayout.get_default_for(list(shape), gl.bfloat16) for name, shape in shapes.items()}


@case("gluon-09-matmul", *NINE, "matmul_fused_gather_scatter_kernel", 100)
def _(tutorial: Any) -> Launch:
    return Launch((2,), dict(X_desc="bf16[256,128]/1,32", W_desc="bf16[128,64]/32,32", out_desc="bf16[256,64]/1,32",
                             X_gather_indx_ptr="i32[256]", out_scatter_indx_ptr="i32[256]"),
                  dict(BLOCK_M=128, SchedulerImpl=tutorial.t7.GroupedPersistentTileScheduler(8), num_buffers=3),
                  {"out_desc": "(X_desc[X_gather_indx_ptr] @ W_desc)[np.argsort(out_scatter_indx_ptr)]"},
                  {"X_gather_indx_ptr": "np.arange(256) * 7 % 256", "out_scatter_indx_ptr": "np.arange(256) * 5 % 256"},
                  _rows(tutorial, X_desc=(128, 32), out_desc=(128, 32)), tolerance=5e-2)


@case("gluon-10-copy", *TEN, "tcgen05_copy_kernel", 100, NEEDS | {"08-warp-specialization": EIGHTH})
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(in_ptr="fp32[128,32]", in_stride0=32, in_stride1=1, out_ptr="fp32[128,32]", out_stride0=32,
                             out_stride1=1),
                  dict(M=128, N=32, smem_layout=tutorial.gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2),
                       tmem_layout=tutorial.TensorMemoryLayout(block=(128, 32), col_stride=1)), {"out_ptr": "in_ptr"})


@case("gluon-10-accumulate", *TEN, "matmul_accumulate_kernel", 100, NEEDS | {"08-warp-specialization": EIGHTH})
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(a_desc="fp16[256,64]/128,32", b_desc="fp16[64,64]/32,32", c_desc="fp32[256,64]/128,32",
                             d_ptr="fp32[256,64]", d_stride_m=64, d_stride_n=1),
                  dict(SchedulerImpl=tutorial.t7.GroupedPersistentTileScheduler(8), num_buffers=2),
                  {"d_ptr": f"{PRODUCT} + c_desc"})


@case("gluon-12-launch-control", *TWELVE, "persistent_matmul_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(256, 64, 96, 128, 32, 32, (4,), MMAImpl=tutorial.t7.MMAv5, SchedulerImpl=tutorial.ClcTileScheduler,
                    num_buffers=3)


@case("gluon-12-static", *TWELVE, "persistent_matmul_kernel", 100)
def _(tutorial: Any) -> Launch:
    return _product(256, 64, 96, 128, 32, 32, (2,), MMAImpl=tutorial.t7.MMAv5, SchedulerImpl=tutorial.StaticTileScheduler,
                    num_buffers=3)


@case("gluon-14-softmax", *FOURTEEN, "multicta_softmax_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((2,), dict(x_ptr="fp32[2,512]", out_ptr="fp32[2,512]", x_row_stride=512, out_row_stride=512), dict(BLOCK_N=512),
                  {"out_ptr": "np.exp(x_ptr) / np.exp(x_ptr).sum(1, keepdims=True)"}, options=dict(num_warps=1, num_ctas=2))


def _pair(tutorial: Any, **shapes: Any) -> dict[str, Any]:
    return {name: tutorial.gl.NVMMASharedLayout.get_default_for(list(shape), tutorial.gl.float16, cga_layout=cga)
            for name, (shape, cga) in shapes.items()}


@case("gluon-14-two-ctas", *FOURTEEN, "two_cta_tcgen05_kernel", 100)
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(a_desc="fp16[256,64]/256,64", b_desc="fp16[64,64]/64,64", c_desc="fp16[256,64]/256,64"), {},
                  {"c_desc": PRODUCT}, {}, _pair(tutorial, a_desc=((256, 64), [(1, 0)]), b_desc=((64, 64), [(0, 1)]),
                                                 c_desc=((256, 64), [(1, 0)])), dict(num_ctas=2))


@case("gluon-14-multicast", *FOURTEEN, "tma_multicast_copy_kernel")
def _(tutorial: Any) -> Launch:
    return Launch((1,), dict(in_desc="fp16[64,64]/64,64", out_desc="fp16[64,64]/64,64"), {}, {"out_desc": "in_desc"}, {},
                  _pair(tutorial, in_desc=((64, 64), [[0, 0]]), out_desc=((64, 64), [[0, 0]])), dict(num_ctas=2))


@case("gluon-14-loop", *FOURTEEN, "tma_tcgen05_kernel", 100)
def _(tutorial: Any) -> Launch:
    a, b, c = ((1, 0), (2, 0)), ((0, 1), (0, 0)), ((1, 0), (2, 0))
    return Launch((1,), dict(a_desc="fp16[512,128]/512,64", b_desc="fp16[128,64]/64,64", out_desc="fp16[512,64]/512,64"),
                  dict(NUM_K_TILES=2, acc_tmem_layout=tutorial.TensorMemoryLayout(block=(128, 64), col_stride=1, cga_layout=c,
                                                                                 two_ctas=True)),
                  {"out_desc": PRODUCT}, {}, _pair(tutorial, a_desc=((512, 64), a), b_desc=((64, 64), b), out_desc=((512, 64), c)),
                  dict(num_ctas=4))
