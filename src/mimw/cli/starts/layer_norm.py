"""A layer norm to start from: plain `tl` words, a row a program, and the words of warps where you want them.

    python layer_norm.py                on the GPU (with torch), or simulated on numpy where there is none
    mimw check layer_norm.py:case       reads and writes outside of arrays, races, wrong results
    mimw predict layer_norm.py:case     time on an H200, and what bounds it

Input: x (rows, width), weight and bias (width, ), fp32. Output: (x - mean) / sqrt(variance + eps) * weight + bias.
"""

import numpy as np
import triton
import triton.language as tl

import mimw


@mimw.jit
def layer_norm(x, weight, bias, y, width, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < width
    values = tl.load(x + row * width + at, mask=inside, other=0.0)
    mean = tl.sum(values, 0) / width
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
    out = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(y + row * width + at, out, mask=inside)


def launch(x, weight, bias, y):
    """(kernel, grid, args, meta), for numpy arrays or torch tensors."""
    rows, width = x.shape
    return layer_norm, (rows, ), (x, weight, bias, y, width, 1e-5), {"BLOCK": triton.next_power_of_2(width)}


def case():
    """The launch that `mimw check`, `explain`, `predict` and `export` are given, and what its result should be."""
    x = np.random.default_rng(0).standard_normal((4, 200), np.float32)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * 2 + 1
    weight, bias = np.full(200, 2.0, np.float32), np.ones(200, np.float32)
    return mimw.Case(*launch(x, weight, bias, np.zeros_like(x)), expected={"y": expected})


def main():
    kernel, grid, args, meta = wanted = case()
    x, expected = args[0], wanted.expected["y"]
    try:
        import torch
        if torch.cuda.is_available():
            kernel, grid, args, meta = launch(*(torch.from_numpy(array).cuda() for array in args[:4]))
    except ImportError:
        pass
    kernel[grid](*args, **meta)         # simulated where there is no GPU
    y = args[3] if isinstance(args[3], np.ndarray) else args[3].cpu().numpy()
    difference = abs(y - expected).max()
    print(f"layer norm of {x.shape[0]} rows: largest difference {difference:.3g}")
    assert difference < 1e-4


if __name__ == "__main__":
    main()
