"""Tutorial 23 on the simulator by the rules of both chips, and on the GPU; and that each loop is what its text says."""

from functools import partial

import numpy as np
import pytest

import mimw
from mimw.errors import IllegalPath
from mimw.runtime.simulate import prepare
from mimw.testing import compare
from tests.compiling import to_assembly

CHIPS = ("sm_90a", "ascend_910b")


@pytest.fixture(params=[*CHIPS, pytest.param("gpu", marks=pytest.mark.gpu)])
def launch(request):
    """`launch(kernel, grid, *numpy arrays, **meta)` by the rules of a chip, or on a GPU."""
    if request.param != "gpu":
        return partial(mimw.simulate, target=request.param)
    return request.getfixturevalue("on_the_gpu")


@pytest.fixture
def on_the_gpu():
    from mimw.testing.machines import Gpu
    return Gpu().launch


def some(*shape, kind=np.float32):
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32).astype(kind)


@pytest.mark.parametrize("n, block", [(1234, 100), (96, 128)])
def test_vector_add(launch, tutorial, n, block):
    x, y, z = some(n), some(n) + 1, np.full(n + 5, np.nan, np.float32)
    tutorial.add_arrays(launch, x, y, z, BLOCK=block, programs=3)
    np.testing.assert_array_equal(z[:n], x + y)
    assert np.isnan(z[n:]).all()


def test_softmax(launch, tutorial):
    x, y = some(3, 100), np.zeros((3, 100), np.float32)
    tutorial.softmax_rows(launch, x, y)
    powers = np.exp(x - x.max(1, keepdims=True))
    compare(y, powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_layer_norm(launch, tutorial):
    x, weight, bias, y = some(5, 100), some(100), some(100) + 1, np.zeros((5, 100), np.float32)
    tutorial.normalise_rows(launch, x, weight, bias, y, programs=2)
    centred = x - x.mean(1, keepdims=True)
    compare(y, centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * weight + bias, rtol=1e-4, atol=1e-5)


def test_matmul(launch, tutorial):
    a, b, c = some(128, 96, kind=np.float16), some(96, 64, kind=np.float16), np.zeros((128, 64), np.float16)
    tutorial.multiply(launch, a, b, c, BM=64, BN=64, BK=32, num_warps=4)
    compare(c, a.astype(np.float32) @ b, rtol=2e-3, atol=2e-2)


def test_attention(launch, tutorial):
    q, k, v = (some(2, 128, 64, kind=np.float16) * np.float16(1 + i / 2) for i in range(3))
    o = np.zeros_like(q)
    tutorial.attend(launch, q, k, v, o, BM=64, BN=32, num_warps=4)
    scores = np.einsum("hid,hjd->hij", q.astype(np.float32), k) / 8
    powers = np.exp(scores - scores.max(2, keepdims=True))
    compare(o, np.einsum("hij,hjd->hid", powers / powers.sum(2, keepdims=True), v.astype(np.float32)), rtol=5e-3, atol=5e-3)


def test_the_product_takes_its_operands_from_the_ring(tutorial):
    """Copies to shared memory two trips ahead, products of what lies there, and no tile through registers in between."""
    sizes = dict(BM=128, BN=128, BK=64, STAGES=3)
    signature = {**dict.fromkeys("abc", "*fp16"), **dict.fromkeys("MNK", "i32")}
    ptx = to_assembly(tutorial.matmul, signature, sizes, options={"num_warps": 8},
                      attrs={(index, ): [["tt.divisibility", 16]] for index in range(6)}).stage("ptx")
    loop = ptx[ptx.index("cp.async.wait_group"):]
    order = [loop.index(one) for one in ("wgmma.mma_async", "wgmma.wait_group.sync.aligned 1", "cp.async.cg.shared.global")]
    assert order == sorted(order), "a product is under way while the next copies start, into the slot of the one before"
    assert ptx.count("cp.async.commit_group") == 3 and "cp.async.wait_group \t1" in ptx
    assert "st.shared" not in ptx[:ptx.rindex("wgmma.wait_group")] and "ldmatrix" not in ptx[:ptx.rindex("wgmma.wait_group")]


def test_engines_of_an_ascend_core_overlap(tutorial, edited):
    """Stages are worth their room in L1; attention goes through global memory between the cube and the vector core; and there is no
    way from UB to the cube."""
    def predicted(kernel, grid, *args, num_warps, **meta):
        return mimw.predict(kernel, grid, *args, target="ascend_910b", **meta)

    def multiplied(program, stages):
        found = []
        a, c = np.empty((128, 512), np.float16), np.empty((128, 128), np.float16)
        program.multiply(lambda *args, **meta: found.append(predicted(*args, **meta)), a, a.T, c, BN=128, STAGES=stages)
        return found[0]

    assert multiplied(tutorial, 3).cycles < 0.7 * multiplied(tutorial, 1).cycles
    found, q = [], np.empty((1, 128, 64), np.float16)
    tutorial.attend(lambda *args, **meta: found.append(predicted(*args, **meta)), q, q, q, q)
    assert {lane for _, lane in found[0].trace.lanes()} == {"Scalar", "MTE1", "MTE2", "MTE3", "Vector", "Cube", "FixPipe"}
    with pytest.raises(IllegalPath, match="a tensor cannot go from the unified buffer .UB. to the L0A buffer on ascend_910b"):
        multiplied(edited("left = tle.dsa.alloc([BM, BK], tl.float16, L1)", "left = tle.dsa.alloc([BM, BK], tl.float16, UB)"), 1)


def test_no_promise_no_overlap(edited):
    """Take the hint away, and the loop says why it runs in order."""
    alone = edited("tle.dsa.hint(inter_no_alias=True)", "tle.dsa.hint()")
    x = some(300)
    launch = {}
    alone.add_arrays(lambda kernel, grid, *args, **meta: launch.update(program=prepare(kernel, grid, args, meta).program),
                     x, x, x, BLOCK=128, programs=1)
    (loop, ) = launch["program"].named("for")
    assert "tle.dsa.copy at line" in loop.attrs["alone"] and "inter_no_alias=True" in loop.attrs["alone"]
    assert not launch["program"].named("async_load")
