"""Arrays of an operator's types: numpy ones that hold nothing, for compiling, and torch ones on a GPU, for measuring.

Input: a shape and a type by its short name. Output: an array. For example:

    empty((4096, 4096), "bf16")         numpy; costs no memory until it is written
    normal((4096, 4096), "bf16")        torch, on the GPU, standard normal
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

NUMPY = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "tf32": np.float32, "fp32": np.float32, "fp8": ml_dtypes.float8_e4m3fn,
         "i32": np.int32}
TORCH = {"bf16": "bfloat16", "fp16": "float16", "tf32": "float32", "fp32": "float32", "fp8": "float8_e4m3fn", "i32": "int32"}


def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A numpy array of anything."""
    return np.empty(shape, NUMPY[dtype])


def bytes_of(dtype: str) -> int:
    return np.dtype(NUMPY[dtype]).itemsize


def torch_type(dtype: str):
    """The type in torch."""
    import torch
    return getattr(torch, TORCH[dtype])


def normal(shape: tuple[int, ...], dtype: str):
    """Standard normal numbers on the GPU; 8-bit ones are rounded from fp32."""
    import torch
    wanted = torch_type(dtype)
    return torch.randn(shape, device="cuda", dtype=wanted if wanted.itemsize > 1 else torch.float32).to(wanted)


def blank(shape: tuple[int, ...], dtype: str):
    """Fill an array on the GPU with NaN, so that elements that a launch leaves out show."""
    import torch
    return torch.full(shape, float("nan"), device="cuda", dtype=torch_type(dtype))


def relative_error(actual, expected) -> float:
    """||actual - expected|| / ||expected|| of torch tensors."""
    return ((actual.double() - expected.double()).norm() / expected.double().norm()).item()
