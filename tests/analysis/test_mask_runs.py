"""Runs of equal elements in masks, as far as they are sure."""

import pytest

from mimw.compiler.analysis import Uses
from mimw.compiler.analysis.mask_runs import mask_run
from mimw.ir import Tensor
from tests.analysis.building import I1, I32, Kernel

LINE, PLANE = Tensor(I32, (64, )), Tensor(I32, (16, 64))


def by_sixteen(k: Kernel):
    return k.param("n", attrs=(("tt.divisibility", 16), ))


def columns(k: Kernel, start=0):
    return k.op("make_range", LINE, start, start + 64)


def spread(k: Kernel, scalar, shape=LINE):
    return k.op("splat", shape, scalar)


def below_parameter(k, n):
    return k.op("icmpSLT", columns(k), spread(k, n))


def below_what_is_left(k, n):
    with k.loop(8) as (step, _):
        left = k.op("sub", n, k.op("mul", step, k.number(64)))
        mask = k.op("icmpSLT", columns(k), spread(k, left))
        k.op("assert", mask, "used")
    return mask


def offset_columns(k, n):
    return k.op("icmpSGE", k.op("add", columns(k), spread(k, k.op("mul", k.param("i"), k.number(32)))), spread(k, n))


def rows_only(k, n):
    rows = k.op("expand_dims", k.op("make_range", Tensor(I32, (16, )), 0, 16), 1)
    return k.op("broadcast", k.op("icmpSLT", rows, spread(k, k.param("m"), Tensor(I32, (16, 1)))), Tensor(I1, (16, 64)))


def rows_and_columns(k, n):
    wide = k.op("broadcast", k.op("expand_dims", below_parameter(k, n), 0), Tensor(I1, (16, 64)))
    return k.op("and", rows_only(k, n), wide)


def up_to_and_with(k, n):
    return k.op("icmpSLE", columns(k), spread(k, n))


def above(k, n):
    return k.op("icmpSGT", spread(k, n), columns(k))


def below_anything(k, n):
    return k.op("icmpSLT", columns(k), spread(k, k.param("m")))


def strided(k, n):
    return k.op("icmpSLT", k.op("mul", columns(k), spread(k, k.number(2))), spread(k, n))


def below_seven_columns_on(k, n):
    return k.op("icmpSLT", columns(k, 7), spread(k, n))


@pytest.mark.parametrize("build, run", [
    (below_parameter, 16), (below_what_is_left, 16), (offset_columns, 16), (rows_only, 64), (rows_and_columns, 16), (above, 16),
    (up_to_and_with, 1), (below_anything, 1), (strided, 1), (below_seven_columns_on, 1)])
def test_runs(build, run):
    k = Kernel()
    build(k, by_sixteen(k))
    program = k.program()
    masks = [op for op in program.walk() if op.results and getattr(op.results[0].type, "element", None) == I1]
    assert mask_run(Uses(program), masks[-1].result) == run
