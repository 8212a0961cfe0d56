"""Operators of rows: norms, softmax, SwiGLU, cross entropy, rotary embedding, top-k.

Input: a `Draw`. Output: a `Case`. For example:

    CASES["softmax"](draw).found()
"""

from __future__ import annotations

import torch
from torch.nn import functional

from mimw import ops
from tests.ops.test_cross_entropy import expected_of
from tests.ops.test_rope import turned

from .draws import Case, Draw, with_gradients

TYPES = (torch.bfloat16, torch.bfloat16, torch.float16, torch.float32)


def _shape(draw: Draw) -> tuple[int, int]:
    """Rows and columns: few long ones, many short ones."""
    n = draw.extent(1, draw.kind(1024, 40000), None)
    return draw.number(1, max(1, min(600, (1 << 22) // n))), n


def _both(draw: Draw, ours, torchs, inputs: list, allowed: float) -> Case:
    """Values and gradients of functions of the inputs."""
    with torch.no_grad():
        likes = ours(*inputs)
    dys = [draw.normal(*y.shape, dtype=y.dtype) for y in (likes if isinstance(likes, tuple) else (likes, ))]
    return Case(lambda: with_gradients(ours, inputs, dys, False), lambda: with_gradients(torchs, inputs, dys, True), allowed)


def norm(draw: Draw) -> Case:
    (rows, n), dtype, layer, more = _shape(draw), draw.kind(*TYPES), draw.kind(True, False), draw.kind(True, False)
    inputs = [draw.normal(rows, n, dtype=dtype), draw.normal(n, dtype=dtype)]
    inputs += [draw.normal(n, dtype=dtype)] * layer + [draw.normal(rows, n, dtype=dtype)] * more

    def ours(x, w, *rest):
        residual = rest[-1] if more else None
        return ops.layer_norm(x, n, w, rest[0], residual=residual) if layer else ops.rms_norm(x, n, w, 1e-5, residual=residual)

    def torchs(x, w, *rest):
        total = x + rest[-1] if more else x
        if more:    # rounded, with the gradient of the sum
            total = total + (total.detach().to(dtype).double() - total.detach())
        y = functional.layer_norm(total, (n, ), w, rest[0]) if layer else functional.rms_norm(total, (n, ), w, 1e-5)
        return (y, total) if more else y

    return _both(draw, ours, torchs, inputs, 3e-2 if dtype is torch.bfloat16 else 1e-2)


def softmax(draw: Draw) -> Case:
    (rows, n), dtype, log = _shape(draw), draw.kind(*TYPES), draw.kind(True, False)
    ours, torchs = (ops.log_softmax, torch.log_softmax) if log else (ops.softmax, torch.softmax)
    return _both(draw, lambda x: ours(x, 1), lambda x: torchs(x, 1), [draw.normal(rows, n, dtype=dtype, scale=3)], 2e-2)


def swiglu(draw: Draw) -> Case:
    (rows, n), dtype = _shape(draw), draw.kind(*TYPES)
    gate, up = draw.normal(rows, 2 * n, dtype=dtype).chunk(2, 1)
    return _both(draw, ops.swiglu, lambda gate, up: functional.silu(gate) * up, [gate, up], 1e-2)


def cross_entropy(draw: Draw) -> Case:
    (rows, n), dtype, inplace = _shape(draw), draw.kind(*TYPES), draw.kind(True, False)
    reduction, options = draw.kind("mean", "sum", "none"), draw.kind({}, {"label_smoothing": 0.1}, {"z_loss": 1e-3})
    target = draw.integers(0, n, rows)
    if rows > 1:
        target[draw.number(0, rows - 1)] = -100
    x = draw.normal(rows, n, dtype=dtype, scale=3)
    options = options | {"reduction": reduction}
    return _both(draw, lambda x: ops.cross_entropy(x * 1, target, inplace_backward=inplace, **options),
                 lambda x: expected_of(x, target, **options), [x], 2e-2)


def rope(draw: Draw) -> Case:
    dtype, half, interleaved = draw.kind(*TYPES), draw.kind(64, 32, 20), draw.kind(True, False)
    inplace, heads_last, dim = draw.kind(True, False), draw.kind(True, False), draw.kind(128, 2 * half)
    batch, length, heads, kv_heads = draw.number(1, 3), draw.extent(1, 300, 1), draw.number(1, 9), draw.number(1, 3)

    def drawn(heads):
        if heads_last:
            return draw.normal(batch, length, heads, dim, dtype=dtype).transpose(1, 2)
        return draw.normal(batch, heads, length, dim, dtype=dtype)

    q, k = drawn(heads), drawn(kv_heads)
    tables = [draw.normal(length + 5, half, dtype=torch.float32) for _ in range(2)]
    positions = draw.integers(0, length + 5, batch, length) if draw.kind(True, False) else None
    where = torch.arange(length, device=draw.device) if positions is None else positions
    return Case(lambda: ops.rope((q.clone(), k.clone()), *tables, positions, interleaved=interleaved, inplace=inplace),
                lambda: tuple(turned(x, *tables, where, interleaved) for x in (q, k)), 1e-2)


def topk(draw: Draw) -> Case:
    """Values are torch's to the bit; at their indices the values lie, and no index comes twice."""
    (rows, n), dtype, largest = _shape(draw), draw.kind(*TYPES), draw.kind(True, False)
    x, k = draw.normal(rows, n, dtype=dtype), min(draw.extent(1, draw.kind(32, 1000), 1), n)

    def found():
        values, indices = ops.topk(x, k, 1, largest)
        twice = (indices.sort(1)[0].diff(dim=1) == 0).sum()
        return values, x.gather(1, indices), twice

    def expected():
        values, _ = torch.topk(x, k, 1, largest)
        return values, values, torch.zeros((), dtype=torch.int64, device=x.device)

    return Case(found, expected, 0.0)


def topk_selector(draw: Draw) -> Case:
    """The values at the columns, sorted, are torch's to the bit; no column comes twice; -1 behind a window with fewer."""
    (rows, n), dtype, windows = _shape(draw), draw.kind(*TYPES), draw.kind(True, False)
    x, k = draw.normal(rows, n, dtype=dtype), draw.extent(1, draw.kind(32, 2048), 1)
    starts = draw.integers(0, n // 2 + 1, rows, dtype=torch.int32) if windows else torch.zeros(rows, device=draw.device).int()
    ends = draw.integers(n // 2, n + 1, rows, dtype=torch.int32) if windows else torch.full_like(starts, n)
    columns = torch.arange(n, device=draw.device)
    seen = x.float().masked_fill((columns < starts[:, None]) | (columns >= ends[:, None]), float("-inf"))
    seen = functional.pad(seen, (0, max(0, k - n)), value=float("-inf"))

    def found():
        indices = ops.topk_selector(x, k, *((starts, ends) if windows else ()))
        values = seen.gather(1, indices.clamp(min=0).long()).masked_fill(indices < 0, float("-inf"))
        ordered = indices.sort(1)[0]
        twice = ((ordered.diff(dim=1) == 0) & (ordered[:, 1:] >= 0)).sum()
        return values.sort(1, descending=True)[0], (indices >= 0).sum(1), twice

    def expected():
        return seen.topk(k, 1)[0], (ends - starts).clamp(max=k).long(), torch.zeros((), dtype=torch.int64, device=x.device)

    return Case(found, expected, 0.0)


def linear_cross_entropy(draw: Draw) -> Case:
    """Gradients of hidden states, weight and bias, against whole logits."""
    (rows, hidden), dtype, bias = _shape(draw), draw.kind(torch.bfloat16, torch.float16), draw.kind(True, False)
    classes, options = draw.number(2, 300), draw.kind({}, {"label_smoothing": 0.1}, {"z_loss": 1e-3})
    rows, hidden = min(rows, 200), min(hidden, 200)
    target = draw.integers(0, classes, rows)
    inputs = [draw.normal(rows, hidden, dtype=dtype), draw.normal(classes, hidden, dtype=dtype, scale=hidden ** -0.5)]
    inputs += [draw.normal(classes, dtype=dtype)] * bias

    def expected(x, weight, *more):
        return expected_of(functional.linear(x, weight, *more), target, **options)
    return _both(draw, lambda x, weight, *more: ops.linear_cross_entropy(x, weight, target, linear_bias=more[0] if more else None,
                                                                         **options), expected, inputs, 3e-2)


CASES = {"norm": norm, "softmax": softmax, "swiglu": swiglu, "cross_entropy": cross_entropy,
         "linear_cross_entropy": linear_cross_entropy, "rope": rope, "topk": topk,
         "topk_selector": topk_selector}
