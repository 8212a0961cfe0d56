"""The product of two matrices, on tensor cores.

Input: a (M, K) and b (K, N), rows contiguous; b may also have contiguous columns, as `weight.T` has. Output: c (M, N). For example:

    c = gemm(a, b)
    y = gemm(x, weight.T)               a linear layer
"""

import torch

SCHEMA = "(Tensor a, Tensor b) -> Tensor"


def outputs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """c, unfilled."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise RuntimeError(f"gemm: a is {tuple(a.shape)} of {a.dtype}, and b {tuple(b.shape)} of {b.dtype}; they are to be (M, K) "
                           "and (K, N) of one type")
    return torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)


def call(forms, c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Fill c. Persistent programs, one a multiprocessor, take the tiles of c in turn; small tiles where large ones are too few."""
    (m, k), n = a.shape, b.shape[1]
    if not c.numel() or not k:
        c.zero_()
        return
    programs = forms.processors(a.device)
    tile = 128 if -(-m // 128) * -(-n // 128) >= programs // 2 else 64
    by_columns = b.stride(0) == 1 and b.stride(1) != 1
    forms(lambda facts: (min(programs, -(-m // facts["rows"]) * -(-n // facts["columns"])), ),
          {"tile": tile, "by_columns": by_columns}, a_desc=a, b_desc=b.T if by_columns else b, c_desc=c, M=m, N=n, K=k)
