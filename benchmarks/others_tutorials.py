"""Launches of kernels of Triton's tutorials, by name, beside those of others_launches.py.

Input: nothing. Output: further entries of `KERNELS`; `GROUPS`, the matrices of the grouped products by the kernel's name, which its
arguments have by their addresses alone. For example:

    KERNELS["triton-08-grouped-tma"].launch()       (grid, arguments and options by name)
    a, b, ends = GROUPS["triton-08-grouped-tma"]    all rows, a matrix for each group, the row behind each group's last one
"""

from __future__ import annotations

import torch

from .others_launches import Launch, kernel, random, tiles, whole

TRITON = "triton-lang/triton"
LATER = TRITON, "7649d87cce6c12361bb9da234b9b227b2880b499"
PERSISTENT = TRITON, "02936a198800b2c0180cf63f2a69e776bcca6d7d", "python/tutorials/09-persistent-matmul.py"
ATTENTION = TRITON, "003da478d84f5bb0f51b3988cf0ea0bbe60282b7", "python/tutorials/06-fused-attention.py"
GROUPS: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}


@kernel("triton-03-matmul", *LATER, "python/tutorials/03-matrix-multiplication.py", "matmul_kernel")
def _matmul(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = (random(*shape, dtype=torch.float16) for shape in ((m, k), (k, n), (m, n)))
    return (tiles(m, 128) * tiles(n, 256), ), dict(
        a_ptr=a, b_ptr=b, c_ptr=c, M=m, N=n, K=k, stride_am=k, stride_ak=1, stride_bk=n, stride_bn=1, stride_cm=n, stride_cn=1,
        BLOCK_SIZE_M=128, BLOCK_SIZE_N=256, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, ACTIVATION="", num_warps=8, num_stages=3)


def _grouped(name: str, turned: bool, groups: int = 4, m: int = 2048, n: int = 4096, k: int = 4096) -> Launch:
    """Four groups of one size, in matrices that lie one behind the other; `turned`: B as (n, k)."""
    shape = (groups, n, k) if turned else (groups, k, n)
    a, b, c = (random(*each, dtype=torch.float16) for each in ((groups * m, k), shape, (groups * m, n)))
    GROUPS[name] = a, b.mT if turned else b, whole([m * (at + 1) for at in range(groups)])
    tables = {f"group_{letter}_ptrs": whole([part.data_ptr() for part in parts], torch.int64)
              for letter, parts in (("a", a.split(m)), ("b", b), ("c", c.split(m)))}
    return (132, ), tables | dict(
        group_gemm_sizes=whole([m, n, k] * groups), g_lds=whole([k, k if turned else n, n] * groups), group_size=groups, NUM_SM=132,
        BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, num_warps=8, num_stages=3)


@kernel("triton-08-grouped", *LATER, "python/tutorials/08-grouped-gemm.py", "grouped_matmul_kernel")
def _by_pointers() -> Launch:
    return _grouped("triton-08-grouped", False)


@kernel("triton-08-grouped-tma", *LATER, "python/tutorials/08-grouped-gemm.py", "grouped_matmul_tma_kernel")
def _by_descriptors() -> Launch:
    grid, given = _grouped("triton-08-grouped-tma", True)
    return grid, given | {"FP8": False}


@kernel("triton-09-persistent", *PERSISTENT, "matmul_kernel_persistent")
def _persistent(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    a, b, c = (random(*shape, dtype=torch.float16) for shape in ((m, k), (k, n), (m, n)))
    return (132, ), dict(
        a_ptr=a, b_ptr=b, c_ptr=c, M=m, N=n, K=k, stride_am=k, stride_ak=1, stride_bk=n, stride_bn=1, stride_cm=n, stride_cn=1,
        BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8, NUM_SMS=132, num_warps=8, num_stages=3)


@kernel("triton-09-descriptors", *PERSISTENT, "matmul_kernel_descriptor_persistent")
def _descriptors(m: int = 4096, n: int = 4096, k: int = 4096) -> Launch:
    """B lies as (n, k)."""
    a, b, c = (random(*shape, dtype=torch.float16) for shape in ((m, k), (n, k), (m, n)))
    return (132, ), dict(
        a_ptr=a, b_ptr=b, c_ptr=c, M=m, N=n, K=k, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128, BLOCK_SIZE_K=64, GROUP_SIZE_M=8,
        EPILOGUE_SUBTILE=False, NUM_SMS=132, WARP_SPECIALIZE=False, num_warps=8, num_stages=3)


@kernel("triton-06-backward", *ATTENTION, "_attn_bwd")
def _backward(batch: int = 4, heads: int = 32, length: int = 4096, dim: int = 128) -> Launch:
    """By the tutorial's own tiles: 32 queries, 128 keys. Its forward kernel by block pointers is none that Triton 3.9 compiles."""
    tensors = {name: random(batch, heads, length, dim, dtype=torch.float16) for name in ("Q", "K", "V", "DO", "DQ", "DK", "DV")}
    rows = {name: random(batch, heads, length, dtype=torch.float32) for name in "MD"}
    return (tiles(length, 128), 1, batch * heads), tensors | rows | dict(
        sm_scale=dim ** -0.5, H=heads, N_CTX=length, HEAD_DIM=dim, stride_z=heads * length * dim, stride_h=length * dim,
        stride_tok=dim, stride_d=1, BLOCK_M1=32, BLOCK_N1=128, BLOCK_M2=128, BLOCK_N2=32, BLK_SLICE_FACTOR=2, num_warps=4,
        num_stages=5)
