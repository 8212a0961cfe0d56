"""Operators of products: matmul, addmm, scaled_mm, grouped, gathered and of experts.

Input: a `Draw`. Output: a `Case`. For example:

    CASES["matmul"](draw).found()
"""

from __future__ import annotations

import torch

from mimw import ops
from tests.ops.test_products import ACTIVATIONS

from .draws import Case, Draw, with_gradients

TYPES = (torch.bfloat16, torch.bfloat16, torch.float16, torch.float32)
FP8 = torch.float8_e4m3fn


def _close(dtype: torch.dtype) -> float:
    return 1e-4 if dtype is torch.float32 else 1e-2


def matmul(draw: Draw) -> Case:
    dtype, turned, batched = draw.kind(*TYPES), draw.kind((0, 0), (0, 1), (1, 0), (1, 1)), draw.kind(False, False, True)
    m, n, k = draw.extent(1, draw.kind(1500, 64)), draw.extent(1, 1500), draw.extent(1, 1500)
    batch = (draw.number(1, 5), ) if batched else ()
    a, b = draw.matrix(*batch, m, k, dtype=dtype, turned=turned[0]), draw.matrix(*batch, k, n, dtype=dtype, turned=turned[1])
    if not draw.kind(False, True):
        return Case(lambda: (ops.matmul(a, b), ), lambda: (a.double() @ b.double(), ), _close(dtype))
    dy = draw.normal(*batch, m, n, dtype=dtype)
    return Case(lambda: with_gradients(ops.matmul, [a, b], [dy], False), lambda: with_gradients(torch.matmul, [a, b], [dy], True),
                _close(dtype))


def addmm(draw: Draw) -> Case:
    dtype, turned, activation = draw.kind(*TYPES), draw.kind(0, 1), draw.kind(*ACTIVATIONS)
    m, n, k = (draw.extent(1, 1500) for _ in range(3))
    a, b = draw.normal(m, k, dtype=dtype, scale=0.1), draw.matrix(k, n, dtype=dtype, turned=turned)
    added = draw.normal(*draw.kind((n, ), (m, n)), dtype=dtype)
    return Case(lambda: (ops.addmm(added, a, b, 0.5, 2.0, activation), ),
                lambda: (ACTIVATIONS[activation](0.5 * added.double() + 2 * (a.double() @ b.double())), ), _close(dtype))


def scaled_mm(draw: Draw) -> Case:
    form = draw.kind("one", "rows", "blocks", "micro")
    m, n, k = draw.extent(1, 1000), draw.extent(1, 1000), draw.extent(1, 2000)
    a, b = draw.normal(m, k, dtype=FP8), draw.normal(n, k, dtype=FP8).T
    blocks, small = -(-k // 128), -(-k // 32)
    shapes = {"one": ((1, ), (1, )), "rows": ((m, 1), (1, n)), "blocks": ((m, blocks), (blocks, -(-n // 128))),
              "micro": ((m, small), (small, n))}[form]
    scales = [draw.normal(*shape, dtype=torch.float32).abs() + 0.5 for shape in shapes]
    if form == "micro":
        scales = [scale.to(torch.float8_e8m0fnu) for scale in scales]

    def expected():
        left, right = scales
        if form == "blocks":
            left = left.repeat_interleave(128, 1)[:, :k]
            right = right.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
        if form == "micro":
            left, right = left.float().repeat_interleave(32, 1)[:, :k], right.float().repeat_interleave(32, 0)[:k]
        return ((a.double() * left.double()) @ (b.double() * right.double()), )

    return Case(lambda: (ops.scaled_mm(a, b, *scales), ), expected, 1e-2)


def grouped_matmul(draw: Draw) -> Case:
    dtype, turned, groups = draw.kind(*TYPES[:3]), draw.kind(0, 1), draw.kind(3, 8)
    m, n, k = draw.extent(1, 1200, 1), draw.extent(8, 600), draw.extent(8, 600)
    a, b = draw.normal(m, k, dtype=dtype), draw.matrix(groups, k, n, dtype=dtype, turned=turned)
    ends = draw.integers(0, m + 1, groups, dtype=torch.int32).sort()[0]

    def expected():
        out, first = torch.zeros(m, n, device=draw.device, dtype=torch.float64), 0
        for group, end in enumerate(ends.tolist()):
            out[first:end] = a[first:end].double() @ b[group].double()
            first = end
        return (out, )

    return Case(lambda: (ops.grouped_matmul(a, b, ends), ), expected, _close(dtype))


def gather_matmul_scatter(draw: Draw) -> Case:
    dtype, m, n, k = draw.kind(*TYPES[:3]), draw.extent(1, 800, 1), draw.extent(8, 500), draw.extent(8, 500)
    a, b = draw.normal(m, k, dtype=dtype), draw.normal(k, n, dtype=dtype)
    picked = draw.extent(1, 800, 1)
    source, target = draw.integers(-2, m + 2, picked, dtype=torch.int32), draw.permutation(picked + 9)[:picked].int() - 3

    def expected():
        rows = torch.cat((a, a.new_zeros(1, k))).double()[torch.where((source < 0) | (source >= m), m, source).long()]
        out = torch.zeros(m + 1, n, dtype=torch.float64, device=draw.device)
        out[torch.where((target < 0) | (target >= m), m, target).long()] = rows @ b.double()
        return (out[:m], )

    return Case(lambda: (ops.gather_matmul_scatter(a, b, source, target), ), expected, _close(dtype))


def moe(draw: Draw) -> Case:
    dtype, experts, each = draw.kind(*TYPES[:3]), draw.kind(4, 16), draw.kind(1, 2)
    tokens, hidden, inner = draw.extent(1, 600, 1), draw.extent(64, 512, 64), draw.extent(64, 512, 64)
    x = draw.normal(tokens, hidden, dtype=dtype)
    first = draw.normal(experts, 2 * inner, hidden, dtype=dtype, scale=0.1)
    second = draw.normal(experts, hidden, inner, dtype=dtype)
    ids, weights = draw.integers(0, experts, tokens, each), draw.normal(tokens, each, dtype=torch.float32).softmax(1)

    def expected():
        out = torch.zeros(tokens, hidden, dtype=torch.float64, device=draw.device)
        for expert in range(experts):
            token, place = (ids == expert).nonzero(as_tuple=True)
            gate, up = (x[token].double() @ first[expert].double().T).chunk(2, 1)
            y = (torch.nn.functional.silu(gate) * up).to(dtype).double() @ second[expert].double().T
            out.index_add_(0, token, y.to(dtype).double() * weights[token, place, None].double())
        return (out, )

    return Case(lambda: (ops.moe(x, first, second, ids, weights), ), expected, 2e-2)


def moe_align(draw: Draw) -> Case:
    """The numbers of an expert's tokens come in any order, so sorted ones are compared."""
    experts, block, n = draw.kind(8, 64, 300), draw.kind(16, 64), draw.extent(1, 40000, 1)
    ids = draw.integers(0, experts, n, dtype=torch.int32)
    counts = torch.bincount(ids, minlength=experts)
    blocks = -(-counts // block)

    def owners():
        return torch.repeat_interleave(torch.arange(experts, device=draw.device), blocks, output_size=int(blocks.sum()))

    def sorted_by_owner(tokens):
        return (owners().repeat_interleave(block) * (n + 1) + tokens).sort()[0]

    def found():
        tokens, of, used = ops.moe_align(ids, experts, block)
        length = int(blocks.sum()) * block
        return sorted_by_owner(tokens[:length].long()), tokens[length:], of[:length // block], used

    def expected():
        length = int(blocks.sum()) * block
        starts = (blocks.cumsum(0) - blocks) * block
        order = ids.long().sort(stable=True)[1]
        place = torch.arange(n, device=draw.device) - (counts.cumsum(0) - counts)[ids[order].long()]
        tokens = torch.full((length, ), n, device=draw.device)
        tokens[starts[ids[order].long()] + place] = order
        rest = n + experts * (block - 1) - length
        return sorted_by_owner(tokens), torch.full((rest, ), n, device=draw.device), owners(), blocks.sum()[None] * block

    return Case(found, expected, 0.0)


CASES = {"matmul": matmul, "addmm": addmm, "scaled_mm": scaled_mm, "grouped_matmul": grouped_matmul,
         "gather_matmul_scatter": gather_matmul_scatter, "moe": moe, "moe_align": moe_align}
