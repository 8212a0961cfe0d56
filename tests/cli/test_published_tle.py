"""A published TLE script, as it stands, through `mimw run`."""

import pytest

from tests.processes import mimw

_SCRIPT = '''
import numpy as np
import triton
import triton.language as tl
import IMPORT as tle


@triton.jit
def produce(writer, x_ptr, steps, N: tl.constexpr):
    for step in range(steps):
        slot = writer.acquire(step)
        tl.store(tle.gpu.local_ptr(slot.tile), tl.load(x_ptr + step * N + tl.arange(0, N)))
        writer.commit(step)


@triton.jit
def consume(reader, y_ptr, steps, N: tl.constexpr):
    for step in range(steps):
        tile = tl.load(tle.gpu.local_ptr(reader.wait(step).slot.tile))
        reader.release(step)
        before, total = tle.cumsum(tile)
        tl.store(y_ptr + step * N + tl.arange(0, N), before)


@triton.jit
def sums(x_ptr, y_ptr, steps, N: tl.constexpr):
    tile = tle.gpu.alloc([2, N], tl.int32, layout=None, scope=tle.gpu.smem, nv_mma_shared_layout=False)
    pipe = tle.pipe(capacity=2, scope="cta", name="tiles", tile=tile)
    tle.gpu.warp_specialize([(consume, (pipe.reader(), y_ptr, steps, N)), (produce, (pipe.writer(), x_ptr, steps, N))], [1], [24])


x = np.arange(5 * 64, dtype=np.int32).reshape(5, 64)
y = np.zeros_like(x)
sums[(1,)](x, y, 5, N=64)
assert (y == np.cumsum(x, axis=1) - x).all()
print("right")
'''


@pytest.mark.parametrize("name", ["triton.experimental.tle.language", "triton.experimental.tle"])
def test_run(tmp_path, name):
    path = tmp_path / "sums.py"
    path.write_text(_SCRIPT.replace("IMPORT", name))
    run = mimw("run", path, MIMW_SIMULATE="1")
    assert (run.stdout, run.stderr, run.returncode) == ("right\n", "", 0)
