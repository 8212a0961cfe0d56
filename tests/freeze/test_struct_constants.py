"""Launches whose constants are one struct: an equal one, made anew for each launch, is the same launch to caches, to a frozen one
and to the autotuner."""

from typing import NamedTuple

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.export import export
from tests.freeze.fake_gpu import Held

X, Y = Held(0x1000), Held(0x2000)


@tle.struct
class Form:
    """FACTOR for each of SIZE numbers."""
    SIZE: tl.constexpr
    FACTOR: tl.constexpr = 3


@mimw.jit
def scaled(x, y, FORM: tl.constexpr):
    at = tl.arange(0, FORM.SIZE)
    tlx.fence("gpu")
    tl.store(y + at, tl.load(x + at) * FORM.FACTOR)


def test_equal_structs_are_one_launch(gpu):
    kernel = mimw.jit(scaled.fn)
    first = kernel[1, ](X, Y, Form(128))
    assert all(kernel[1, ](X, Y, FORM=Form(128)) is first for _ in range(3))
    assert kernel[1, ](X, Y, Form(64)) is not first
    (kernels, keys, *_), = kernel.device_caches.values()
    assert len(kernels) == len(keys) == 2


def test_a_frozen_launch_has_it(gpu):
    kernel = mimw.jit(scaled.fn)
    first = kernel[1, ](X, Y, Form(128))
    frozen = kernel.freeze((1, ), X, Y, Form(128))
    assert frozen() is first and frozen.parameters == ("x", "y")


def test_the_autotuner_changes_one_constant(gpu):
    def bench(run, **_):
        run()
        newest = list(kernel.device_caches[0][0].values())[-1]
        return [2.0 if "5.0" in newest.asm["ttgir"] else 1.0] * 3

    forms = [Form(128).replace(FACTOR=factor) for factor in (5, 7)]
    kernel = mimw.jit(scaled.fn)
    tuned = mimw.autotune([mimw.Config(dict(FORM=form)) for form in forms], [], do_bench=bench)(kernel)
    tuned[1, ](X, Y)
    assert tuned.best_config.kwargs == dict(FORM=Form(128, 7))


class Steps(NamedTuple):
    """The distances of rows of x and y."""
    x: int
    y: int


@mimw.jit
def moved(x, y, steps, FORM: tl.constexpr):
    at = tl.arange(0, FORM.SIZE)
    tl.store(y + tl.program_id(0) * steps.y + at, tl.load(x + tl.program_id(0) * steps.x + at))


def test_an_export_names_constants_and_items_of_named_tuples():
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    made = export(moved, (2, ), x, y, Steps(64, 128), Form(64), target="sm_90a")
    assert "FORM=Form(SIZE=64, FACTOR=3)" in made.files["moved.h"]
    assert [one.name for one in made.arguments] == ["x", "y", "steps_x", "steps_y"]
