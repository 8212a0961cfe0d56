"""What a launch on the simulator takes and returns: every argument name is the kernel's, and the compiled kernel is at hand."""

import inspect

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.testing import gpu_available


@mimw.jit
def named(x, y, seed, trace, races: tl.constexpr, target=1.0, search: tl.constexpr = 0, N: tl.constexpr = 64):
    """Parameters that the tools have, too."""
    at = tl.arange(0, N)
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + at))
    tl.store(y + at, tlx.local_load(tile[0]) * seed + trace + races + target + search)


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")


@pytest.fixture
def arrays():
    return np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def test_a_launch_gives_the_kernel_its_arguments(simulated, arrays):
    x, y = arrays
    named[(1, )](x, y, seed=3, trace=10, races=100, target=1000)
    assert (y == 3 * x + 1110).all()
    named[(1, )](x, y, 3, 10, 100)
    assert (y == 3 * x + 111).all()


def test_an_unknown_name_is_refused_as_on_a_gpu(simulated, arrays):

    @mimw.jit
    def plain(x, y):
        tl.store(y, tl.load(x))

    with pytest.raises(KeyError, match="Keyword argument seed was specified but unrecognised"):
        plain[(1, )](*arrays, seed=3)


@pytest.mark.parametrize("kernel", [named, mimw.autotune([mimw.Config({"N": 64})], key=[])(named)], ids=["kernel", "autotuned"])
def test_by_name_the_kernels_parameter_comes_first(arrays, kernel):
    x, y = arrays
    mimw.simulate(kernel, (1, ), x, y, seed=2, trace=0, races=False, target=5)
    assert (y == 2 * x + 5).all()
    assert mimw.check(kernel, (1, ), x, y, seed=2, trace=0, races=0, search=3, seeds=2).runs == 2


def test_what_is_given_by_position_leaves_the_tools_theirs(arrays):
    x, y = arrays
    run = mimw.simulate(named, (1, ), x, y, 2, 0, 0, 5.0, 0, 64, seed=9, trace=True, races=True, target="sm_100a")
    assert (y == 2 * x + 5).all() and run.trace is not None
    assert 0 < sum(run.lines.values()) <= run.cycles and all(site.file == __file__ for site in run.lines)
    assert mimw.simulate(named, (1, ), x, y, 2, 0, 0).trace is None
    assert mimw.predict(named, (1, ), x, y, 2, 0, 0, 5.0, 0, 64, target="sm_90a").cycles > 0


@pytest.mark.parametrize("tool", [mimw.simulate, mimw.check, mimw.predict, mimw.profile])
def test_the_tools_show_their_own_parameters(tool):
    assert {"kernel", "grid", "args", "meta"} < set(inspect.signature(tool).parameters)


# ---- what comes back ------------------------------------------------------------------------------------------------


def test_the_compiled_kernel_is_made_when_asked_for(simulated, arrays):
    launched = named[(1, )](*arrays, 2, np.int64(3), races=0, num_warps=2)
    assert launched.cycles > 0 and launched.counts["local_store"] == 1 and "compile" not in repr(launched)
    assert launched.metadata.num_warps == 2 and launched.asm["ttgir"].count("ttg.local_alloc") == 1
    assert launched.kernel is launched.kernel and "ptx" in launched.asm


@pytest.mark.skipif(gpu_available(), reason="compiles for the GPU's own target where there is one")
def test_it_is_what_a_launch_would_compile(simulated, arrays, monkeypatch):
    """Arrays that start at a multiple of 16 bytes are known to, others are not."""
    x, y = arrays
    assert x.ctypes.data % 16 == y.ctypes.data % 16 == 0
    assert named[(1, )](x, y, 16, 3, races=0).asm["ttgir"].count("tt.divisibility = 16") == 3
    off = np.zeros(68, np.float32)[1:65]
    assert named[(1, )](off, y, 3, 3, races=0).asm["ttgir"].count("tt.divisibility = 16") == 1
    monkeypatch.setenv("MIMW_TARGET", "gfx950")
    assert "amdgcn" in named[(1, )](x, y, np.int32(16), np.float32(3), races=0).asm


@pytest.mark.skipif(gpu_available(), reason="compiles for the GPU's own target where there is one")
def test_warmup_takes_the_same_arrays(simulated, arrays):
    x, y = arrays
    warm = named.warmup(x, y, np.int32(16), 3, races=0, target=np.float32(1), grid=(1, ))
    assert warm is named[(1, )](x, y, 16, 3, races=0, target=1.0).kernel and (y == 16 * x + 4).all()


@pytest.mark.skipif(gpu_available(), reason="compiles for the GPU's own target where there is one")
def test_descriptors_and_clusters(simulated):

    @mimw.jit
    def copy(a, b, N: tl.constexpr):
        tlx.cluster_barrier()
        b.store([0, 0], a.load([0, 0]))

    a, b = np.ones((32, 64), np.float16), np.zeros((32, 64), np.float16)
    describe = mimw.TensorDescriptor.from_tensor
    launched = copy[(2, )](describe(a, [32, 64]), describe(b, [32, 64]), N=3, ctas_per_cga=(2, 1, 1))
    assert (b == 1).all() and launched.metadata.ctas_per_cga == (2, 1, 1)
    assert "cp.async.bulk.tensor" in launched.asm["ptx"] and ".reqnctapercluster 2, 1, 1" in launched.asm["ptx"]
