"""`desc.store(.., store_reduce=)`: each element combined with what is there, atomically."""

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.lowering.harness import Case

KINDS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@mimw.jit
def stores(x, desc, ROWS: tl.constexpr, KIND: tl.constexpr, IN_TASK: tl.constexpr):
    if IN_TASK:
        with tlx.async_tasks():
            with tlx.async_task("default"):
                pass
            with tlx.async_task(num_warps=4):
                at = tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :]
                desc.store([ROWS * (tl.program_id(0) % 2), 0], tl.load(x + at), store_reduce=KIND)
    else:
        at = tl.arange(0, ROWS)[:, None] * 64 + tl.arange(0, 64)[None, :]
        desc.store([ROWS * (tl.program_id(0) % 2), 0], tl.load(x + at), store_reduce=KIND)


@pytest.mark.long(everywhere=[
    "-float32-False", "add-float16-False", "add-int32-True", "and-int32-False", "max-bfloat16-False", "min-int32-False",
    "or-int32-False", "xor-int32-False"])
@pytest.mark.parametrize("in_task", [False, True])
@pytest.mark.parametrize("kind, dtype", [(kind, np.int32) for kind in KINDS] + [("add", np.float32), ("add", np.float16),
                                         ("max", ml_dtypes.bfloat16), ("", np.float32)])
def test_combined(machine, kind, dtype, in_task):
    x = np.random.default_rng(0).integers(-8, 8, (16, 64)).astype(dtype)
    y = np.random.default_rng(1).integers(-8, 8, (32, 64)).astype(dtype)
    before, programs = y.copy(), 1 if kind == "" else 4
    machine.launch(stores, (programs, ), x, mimw.TensorDescriptor.from_tensor(y, [16, 64]), 16, kind, in_task)
    if kind == "":
        assert (y[:16] == x).all() and (y[16:] == before[16:]).all()
        return
    wanted = before.reshape(2, 16, 64)
    for _ in range(2):
        wanted = KINDS[kind](wanted, x)
    assert (y.reshape(2, 16, 64) == wanted).all()


@pytest.mark.parametrize("kind, dtype, text", [
    ("add", np.int64, "the hardware cannot add int64; it can int32, uint32, uint64"),
    ("mul", np.float32, "store_reduce must be one of"), ("xor", np.float32, "desc.store: the hardware cannot xor fp32")])
def test_refused(kind, dtype, text):
    x, y = np.zeros((16, 64), dtype), np.zeros((32, 64), dtype)
    with pytest.raises(Exception, match=text):
        mimw.simulate(stores, (1, ), x, mimw.TensorDescriptor.from_tensor(y, [16, 64]), 16, kind, False)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_instruction(target, sass_has):
    case = Case(stores, {"x": "*fp32", "desc": "tensordesc<fp32[16,64]>"}, {"ROWS": 16, "KIND": "add", "IN_TASK": True})
    compiled = case.compiled(target)
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add" in compiled.stage("ptx")
    sass_has(compiled, "UTMAREDG.2D.ADD")
