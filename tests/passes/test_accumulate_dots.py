"""Sums of products become accumulating products where nobody else sees the product."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.lowering.harness import Case


@mimw.jit
def products(x, KIND: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tlx.fence("gpu")
    a = tl.load(x + at)
    acc = tl.load(x + 1024 + at).to(tl.float32)
    if KIND == "sum":
        acc += tl.dot(a, a)
    if KIND == "sum in a loop":
        for _ in range(3):
            acc = tl.dot(a, a) + acc
    if KIND == "two":
        acc = acc + tl.dot(a, a) + tl.dot(a, a)
    if KIND == "product used twice":
        product = tl.dot(a, a)
        acc = acc + product * 2 + product
    if KIND == "not from zero":
        acc = acc + tl.dot(a, a, acc)
    if KIND == "doubled":
        product = tl.dot(a, a)
        acc = product + product
    if KIND == "in another block":
        product = tl.dot(a, a)
        for _ in range(3):
            acc += product
    tl.store(x + 2048 + at, acc)


@pytest.mark.parametrize("kind, sums", [
    ("sum", 0), ("sum in a loop", 0), ("two", 0), ("product used twice", 2), ("not from zero", 1), ("doubled", 1),
    ("in another block", 1),
])
def test_sums_left(kind, sums):
    compiled = Case(products, {"x": "*fp16"}, {"KIND": kind}).compiled()
    assert [op.name for op in compiled.program.walk()].count("fadd") == sums
    assert compiled.stage("cubin")


@pytest.mark.parametrize("kind, factor", [("sum in a loop", 3), ("two", 2)])
def test_the_result_stays(kind, factor):
    import numpy as np
    x = (np.arange(3072, dtype=np.float16) % 7).reshape(3, 32, 32)
    mimw.simulate(products, (1, ), x, kind)
    assert (x[2] == x[1] + factor * (x[0].astype(np.float32) @ x[0])).all()
