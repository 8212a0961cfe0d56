"""Launches of kernels of Triton's own tutorials, by name, for `compiled_checks`.

    TUTORIALS["triton-03-matmul"]       a Case: file, target, and a launch of a few tiles

Input: nothing. Output: `TUTORIALS`. The same kernels as benchmarks/others_tutorials.py, where they are measured, on a few tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .compiled_checks_sources import Case, Launch
from .others_sources import Source
from .others_tutorials import ATTENTION, LATER, PERSISTENT, TRITON

TUTORIALS: dict[str, Case] = {}
FIRST = TRITON, "0086dd44249d758c4bb564b36984e6c23e0c012f", "python/tutorials/01-vector-add.py"
SECOND = TRITON, "fd237c7cf9a7262f32fedbaa5027ab2736ead134", "python/tutorials/02-fused-softmax.py"
THIRD = *LATER, "python/tutorials/03-matrix-multiplication.py"
NORM = TRITON, "545699290b851e70231ee3017481851170f1583d", "python/tutorials/05-layer-norm.py"
OLD_NORM = TRITON, "0a99ae9ad2f7872191b7acb1f7afb11cdb5382e5", "python/tutorials/05-layer-norm.py"     # no barrier before the lock
MADE = Callable[[], Launch]


def case(name: str, file: tuple[str, str, str], function: str, target: int = 90) -> Callable[[MADE], MADE]:
    """The function below launches that kernel."""
    def keep(launch: MADE) -> MADE:
        TUTORIALS[name] = Case(name, Source(*file, function), target, lambda module: launch())
        return launch
    return keep


@case("triton-01-add", FIRST, "add_kernel")
def _() -> Launch:
    return Launch((2,), dict(x_ptr="fp32[200]", y_ptr="fp32[200]", output_ptr="fp32[200]", n_elements=200), dict(BLOCK_SIZE=128),
                  {"output_ptr": "x_ptr + y_ptr"})


@case("triton-02-softmax", SECOND, "softmax_kernel")
def _() -> Launch:
    return Launch((2,), dict(output_ptr="fp32[6,100]", input_ptr="fp32[6,100]", input_row_stride=100,
                             output_row_stride=100, n_rows=6, n_cols=100), dict(BLOCK_SIZE=128, num_stages=4),
                  {"output_ptr": "np.exp(input_ptr) / np.exp(input_ptr).sum(1, keepdims=True)"})


def _product(m: int, n: int, k: int, tiles: dict[str, int], grid: int, **options: int) -> Launch:
    return Launch((grid,), dict(a_ptr=f"fp16[{m},{k}]", b_ptr=f"fp16[{k},{n}]", c_ptr=f"fp16[{m},{n}]", M=m, N=n, K=k, stride_am=k,
                                stride_ak=1, stride_bk=n, stride_bn=1, stride_cm=n, stride_cn=1), tiles,
                  {"c_ptr": "a_ptr @ b_ptr"}, options=options)


TILES = dict(BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=32, GROUP_SIZE_M=8)


@case("triton-03-matmul-90", THIRD, "matmul_kernel")
def _() -> Launch:
    return _product(128, 64, 128, TILES | dict(ACTIVATION=""), 2, num_stages=3)


@case("triton-03-matmul-80", THIRD, "matmul_kernel", 80)
def _() -> Launch:
    return _product(128, 64, 128, TILES | dict(ACTIVATION=""), 2, num_stages=4)


@case("triton-03-matmul-100", THIRD, "matmul_kernel", 100)
def _() -> Launch:
    return _product(256, 64, 128, TILES | dict(ACTIVATION="", BLOCK_SIZE_M=128), 2, num_stages=3)


@case("triton-03-matmul-ragged", THIRD, "matmul_kernel")
def _() -> Launch:
    launch = _product(80, 72, 104, TILES | dict(ACTIVATION="leaky_relu"), 4, num_stages=3)
    return replace(launch, results={"c_ptr": "np.where(a_ptr @ b_ptr >= 0, a_ptr @ b_ptr, 0.01 * (a_ptr @ b_ptr))"})


def _norm(**constants: int) -> Launch:
    return Launch((3,), dict(X="fp16[3,200]", Y="fp16[3,200]", W="fp16[200]", B="fp16[200]", Mean="fp32[3]", Rstd="fp32[3]",
                             stride=200, N=200, eps=1e-5), constants,
                  {"Y": "(X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + eps) * W + B", "Mean": "X.mean(1)",
                   "Rstd": "1 / np.sqrt(X.var(1) + eps)"})


@case("triton-05-norm", NORM, "_layer_norm_fwd_fused")
def _() -> Launch:
    return _norm(BLOCK_SIZE=128)


def _backward(**more: str) -> Launch:
    """Four rows, two of which share a sum and its lock."""
    names = dict(zip(("Mean", "Rstd"), ("M", "V"))) if more else {}
    arrays = dict(DX="fp16[4,200]", DY="fp16[4,200]", DW="fp32[2,200]", DB="fp32[2,200]", X="fp16[4,200]", W="fp16[200]", **more)
    arrays |= {names.get("Mean", "Mean"): "fp32[4]", names.get("Rstd", "Rstd"): "fp32[4]"}
    if more:
        arrays |= dict(eps=1e-5)
    mean, rstd = (names.get(name, name) for name in ("Mean", "Rstd"))
    hat, wdy = f"((X - {mean}[:, None]) * {rstd}[:, None])", "(W * DY)"
    return Launch((4,), arrays | dict(Lock="i32[4]", stride=200, N=200), dict(GROUP_SIZE_M=2, BLOCK_SIZE_N=256),
                  {"DX": f"({wdy} - ({hat} * ({hat} * {wdy}).mean(1, keepdims=True) + {wdy}.mean(1, keepdims=True)))"
                         f" * {rstd}[:, None]",
                   "DW": f"(DY * {hat}).reshape(2, 2, 200).sum(0)", "DB": "DY.reshape(2, 2, 200).sum(0)",
                   "Lock": "np.array([0, 0, 1, 1])"},
                  {"DW": "np.zeros((2, 200))", "DB": "np.zeros((2, 200))"})


@case("triton-05-norm-backward", NORM, "_layer_norm_bwd_dx_fused")
def _() -> Launch:
    return _backward()


@case("triton-05-norm-backward-old", OLD_NORM, "_layer_norm_bwd_dx_fused")
def _() -> Launch:
    return _backward(B="fp16[200]")


@case("triton-05-norm-sums", NORM, "_layer_norm_bwd_dwdb")
def _() -> Launch:
    return Launch((2,), dict(DW="fp32[40,100]", DB="fp32[40,100]", FINAL_DW="fp32[100]", FINAL_DB="fp32[100]", M=40, N=100),
                  dict(BLOCK_SIZE_M=32, BLOCK_SIZE_N=64), {"FINAL_DW": "DW.sum(0)", "FINAL_DB": "DB.sum(0)"})


SOFTMAX = "(lambda s: np.exp(s - s.max(-1, keepdims=True)) / np.exp(s - s.max(-1, keepdims=True)).sum(-1, keepdims=True))"


def _attention(causal: bool) -> Launch:
    scores = "desc_q @ desc_k.T * 0.125" + (" + np.triu(np.full((128, 128), -1e9), 1)" if causal else "")
    return Launch((2, 1), dict(sm_scale=0.125, M="fp32[1,1,128]", Z=1, H=1, desc_q="fp16[128,64]/64,64",
                               desc_k="fp16[128,64]/64,64", desc_v="fp16[128,64]/64,64", desc_o="fp16[128,64]/64,64", N_CTX=128),
                  dict(HEAD_DIM=64, BLOCK_M=64, BLOCK_N=64, FP8_OUTPUT=False, STAGE=3 if causal else 1),
                  {"desc_o": f"{SOFTMAX}({scores}) @ desc_v"}, options=dict(num_warps=4, num_stages=2))


@case("triton-06-attention-90", ATTENTION, "_attn_fwd_tma")
def _() -> Launch:
    return _attention(False)


@case("triton-06-attention-causal-90", ATTENTION, "_attn_fwd_tma")
def _() -> Launch:
    return _attention(True)


@case("triton-06-attention-100", ATTENTION, "_attn_fwd_tma", 100)
def _() -> Launch:
    return _attention(False)


@case("triton-06-preprocess", ATTENTION, "_attn_bwd_preprocess")
def _() -> Launch:
    return Launch((2, 1), dict(O="fp16[1,1,128,64]", DO="fp16[1,1,128,64]", Delta="fp32[1,1,128]", Z=1, H=1, N_CTX=128),
                  dict(BLOCK_M=64, HEAD_DIM=64), {"Delta": "(O * DO).sum(-1)"})


@case("triton-06-backward", ATTENTION, "_attn_bwd")
def _() -> Launch:
    tensors = {name: "fp16[1,1,128,64]" for name in ("Q", "K", "V", "DO", "DQ", "DK", "DV")}
    return Launch((1, 1, 1), tensors | dict(M="fp32[1,1,128]", D="fp32[1,1,128]", sm_scale=0.125, H=1, N_CTX=128, stride_z=8192,
                                            stride_h=8192, stride_tok=64, stride_d=1),
                  dict(HEAD_DIM=64, BLOCK_M1=32, BLOCK_N1=128, BLOCK_M2=128, BLOCK_N2=32, BLK_SLICE_FACTOR=2),
                  options=dict(num_warps=4, num_stages=2))


@case("triton-09-matmul", PERSISTENT, "matmul_kernel")
def _() -> Launch:
    return _product(128, 64, 128, TILES, 2, num_stages=3)


@case("triton-09-persistent-90", PERSISTENT, "matmul_kernel_persistent")
def _() -> Launch:
    return _product(128, 128, 64, TILES | dict(NUM_SMS=2), 2, num_stages=3)


@case("triton-09-persistent-100", PERSISTENT, "matmul_kernel_persistent", 100)
def _() -> Launch:
    return _product(256, 128, 64, TILES | dict(BLOCK_SIZE_M=128, NUM_SMS=2), 2, num_stages=3)


def _made(m: int, block: int, specialised: bool, halves: bool = False) -> Launch:
    """B lies as (n, k); the kernel makes its descriptors."""
    return Launch((2,), dict(a_ptr=f"fp16[{m},64]", b_ptr="fp16[128,64]", c_ptr=f"fp16[{m},128]", M=m, N=128, K=64),
                  TILES | dict(BLOCK_SIZE_M=block, EPILOGUE_SUBTILE=halves, NUM_SMS=2, WARP_SPECIALIZE=specialised),
                  {"c_ptr": "a_ptr @ b_ptr.T"}, options=dict(num_warps=4, num_stages=3))


@case("triton-09-descriptors-90", PERSISTENT, "matmul_kernel_descriptor_persistent")
def _() -> Launch:
    return _made(128, 64, False)


@case("triton-09-descriptors-halves-90", PERSISTENT, "matmul_kernel_descriptor_persistent")
def _() -> Launch:
    return _made(128, 64, False, True)


@case("triton-09-descriptors-100", PERSISTENT, "matmul_kernel_descriptor_persistent", 100)
def _() -> Launch:
    return _made(256, 128, False)


@case("triton-09-specialised-100", PERSISTENT, "matmul_kernel_descriptor_persistent", 100)
def _() -> Launch:
    return _made(256, 128, True)
