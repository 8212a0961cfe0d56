"""`mimw.jit` is a drop-in for `triton.jit`: launch syntax, warmup, autotuners, heuristics, caches, hooks."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
from triton import knobs

import mimw
import mimw.tlx as tlx
from mimw.compiler.triton_port.runtime import JITFunction, MockTensor
from mimw.errors import LaunchError
from mimw.runtime.compile_kernel import compile_kernel
from mimw.testing import gpu_available
from tests.processes import python

ROOT = Path(__file__).parent.parent


@mimw.jit
def scale(x, y, n, factor: tl.constexpr, BLOCK: tl.constexpr):
    tlx.fence("gpu")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@mimw.jit
def plain_scale(x, y, n, factor: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@pytest.fixture
def arrays():
    return np.arange(100, dtype=np.float32), np.zeros(100, np.float32)


@pytest.fixture
def cold(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


# ---- the decorator ----------------------------------------------------------------------------------------------------

def test_it_is_a_jit_function():
    assert isinstance(scale, JITFunction) and scale.__name__ == "scale" and scale.arg_names[-1] == "BLOCK"
    with pytest.raises(RuntimeError, match="Cannot call @triton.jit'd outside of the scope of a kernel"):
        scale(1, 2, 3, 4, 5)


def test_decorator_arguments():

    @mimw.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["x"], debug=True, noinline=False, version=3,
              repr=lambda _: "named", launch_metadata=lambda *_: {})
    def kernel(x, n):
        tl.store(x, n)

    assert [(p.do_not_specialize, p.do_not_specialize_on_alignment) for p in kernel.params] == [(False, True), (True, False)]
    assert (kernel.debug, kernel.version, kernel.repr(None)) == (True, 3, "named")


def test_parameters_are_those_of_triton_jit():
    import inspect
    ours = inspect.signature(mimw.jit).parameters
    assert list(ours) == [*inspect.signature(triton.jit).parameters, "source"]      # the last for functions out of `exec`
    assert {name: p.default for name, p in ours.items()} == {
        name: p.default for name, p in inspect.signature(triton.jit).parameters.items()} | {"fn": None, "source": None}


# ---- launches on the simulator ----------------------------------------------------------------------------------------

@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.setenv("MIMW_SIMULATE", "1")


@pytest.mark.parametrize("kernel", [scale, plain_scale])
@pytest.mark.parametrize("grid", [(4, ), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), )])
def test_launch(simulated, arrays, kernel, grid):
    x, y = arrays
    kernel[grid](x, y, 100, factor=3, BLOCK=32, num_warps=2, num_stages=1)
    assert (y == 3 * x).all()


def test_launch_obeys_a_changed_environment(arrays, monkeypatch):
    x, y = arrays
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    scale[(4, )](x, y, 100, 3, 32)
    assert (y == 3 * x).all()
    monkeypatch.setenv("MIMW_SIMULATE", "0")
    with pytest.raises(LaunchError, match=r"^x is an array of numpy, and a launch that is not simulated takes tensors on a GPU"):
        scale[(4, )](x, y, 100, 3, 32)


def test_pre_run_hooks(simulated, arrays):
    seen = []

    @mimw.jit
    def kernel(x, y):
        tl.store(y, tl.load(x))

    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(args)))
    kernel[(1, )](*arrays)
    assert seen == [2]


def test_unknown_keyword(simulated, arrays):
    with pytest.raises((KeyError, TypeError), match="nonsense"):
        scale[(4, )](*arrays, 100, 3, 32, nonsense=1)


def test_assertions_hold_in_the_simulator(simulated, arrays):

    @mimw.jit
    def kernel(x, y):
        tl.device_assert(tl.load(x) > 0, "x is positive")

    with pytest.raises(mimw.errors.SimulationError, match="x is positive"):
        kernel[(1, )](*arrays)


# ---- autotuners and heuristics ----------------------------------------------------------------------------------------

CONFIGS = [mimw.Config(dict(BLOCK=64), num_warps=2), mimw.Config(dict(BLOCK=32), num_warps=1, num_stages=2, maxnreg=64)]


@pytest.mark.parametrize("autotune", [mimw.autotune, triton.autotune])
@pytest.mark.parametrize("key", [["n"], []])
def test_autotune(simulated, arrays, autotune, key):
    x, y = arrays
    kernel = autotune(configs=CONFIGS, key=key)(scale)
    kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]), )](x, y, 100, factor=2)
    assert (y == 2 * x).all()


def test_fn_of_an_autotuned_kernel_launches(simulated, arrays):
    x, y = arrays
    mimw.autotune(configs=CONFIGS, key=["n"])(scale).fn[(4, )](x, y, 100, 5, BLOCK=32, num_warps=2)
    assert (y == 5 * x).all()


@pytest.mark.parametrize("order", ["outside", "inside"])
def test_heuristics(simulated, arrays, order):
    x, y = arrays
    heuristics = triton.heuristics({"factor": lambda args: 7 if args["n"] == 100 else 0})
    tune = mimw.autotune(configs=CONFIGS[:1], key=["n"])
    kernel = heuristics(tune(scale)) if order == "outside" else tune(heuristics(scale))
    kernel[(2, )](x, y, 100)
    assert (y == 7 * x).all()


def test_pre_hook_of_a_configuration(simulated, arrays):
    x, y = arrays
    seen = []
    config = mimw.Config(dict(BLOCK=128), pre_hook=lambda args: seen.append((args["n"], args["BLOCK"])))
    mimw.autotune(configs=[config], key=["n"])(scale)[(1, )](x, y, 100, factor=2)
    assert seen == [(100, 128)]


def test_config():
    config = mimw.Config(dict(BLOCK=32), num_warps=8, num_stages=2, maxnreg=80, ctas_per_cga=(2, 1, 1))
    assert isinstance(config, triton.Config)
    found = config.all_kwargs()
    assert {"BLOCK": 32, "num_warps": 8, "num_stages": 2, "maxnreg": 80, "ctas_per_cga": (2, 1, 1)}.items() <= found.items()
    assert "ctas_per_cga" not in mimw.Config(dict(BLOCK=32)).all_kwargs()
    assert "ctas_per_cga: (2, 1, 1)" in str(config)
    with pytest.raises(ValueError, match="must be divisible by 8"):
        mimw.Config({}, minRegAutoWS=20)


# ---- warmup and what it compiles --------------------------------------------------------------------------------------

no_gpu = pytest.mark.skipif(gpu_available(), reason="compiles for the GPU's own target where there is one")


@pytest.mark.parametrize("kernel", [scale, plain_scale])
def test_warmup(kernel, cold):
    compiled = kernel.warmup(MockTensor(tl.float32), MockTensor(tl.float32), 1024, 2.0, BLOCK=256, grid=(4, ), num_warps=8,
                             num_stages=2, maxnreg=128)
    assert {"ttgir", "llir", "ptx", "cubin"} <= set(compiled.asm)
    assert (compiled.metadata.num_warps, compiled.metadata.num_stages, compiled.metadata.num_ctas) == (8, 2, 1)
    assert ".maxnreg 128" in compiled.asm["ptx"] and ".reqntid 256" in compiled.asm["ptx"]


@no_gpu
def test_warmup_for_another_target(cold, monkeypatch):
    arguments = MockTensor(tl.float32), MockTensor(tl.float32), 1024, 2.0
    monkeypatch.setenv("MIMW_TARGET", "gfx942")
    assert "amdgcn" in plain_scale.warmup(*arguments, BLOCK=256, grid=(4, )).asm
    monkeypatch.setenv("MIMW_TARGET", "sm_100a")
    assert ".target sm_100a" in plain_scale.warmup(*arguments, BLOCK=256, grid=(4, )).asm["ptx"]


def test_specialisation(cold):
    """Divisible pointers and sizes are known to be; 1 is a constant; the same arguments compile once."""
    tensor = MockTensor(tl.float32)
    divisible = scale.warmup(tensor, tensor, 1024, 2.0, BLOCK=256, grid=(1, ))
    assert divisible.asm["ttgir"].count("tt.divisibility = 16") == 3
    assert scale.warmup(tensor, tensor, 1024, 2.0, BLOCK=256, grid=(1, )) is divisible
    assert scale.warmup(tensor, tensor, 2048, 2.0, BLOCK=256, grid=(1, )) is divisible
    odd = scale.warmup(tensor, tensor, 1023, 2.0, BLOCK=256, grid=(1, ))
    assert odd is not divisible and odd.asm["ttgir"].count("tt.divisibility = 16") == 2
    one = scale.warmup(tensor, tensor, 1, 2.0, BLOCK=256, grid=(1, ))
    assert one.src.signature["n"] == "constexpr"


def test_disk_cache(cold):
    """A second compile of the same specialisation comes from disk and records nothing."""

    def fresh():
        found = []
        knobs.compilation.listener = lambda cache_hit, **_: found.append(cache_hit)
        try:
            compiled = compile_kernel(scale, dict(x="*fp32", y="*fp32", n="i32"), dict(factor=2, BLOCK=64))
        finally:
            knobs.compilation.listener = None
        return found, compiled.stage("ptx")

    (first, ptx), (second, again) = fresh(), fresh()
    assert (first, second) == ([False], [True]) and ptx == again


def test_options_and_constants_are_in_the_cache_key(cold):
    signature = dict(x="*fp32", y="*fp32", n="i32")
    texts = {compile_kernel(scale, signature, dict(factor=factor, BLOCK=64), options=dict(num_warps=warps)).stage("ptx")
             for factor in (2, 3) for warps in (1, 2)}
    assert len(texts) == 4


def test_cache_hooks(cold):
    seen = []
    knobs.runtime.jit_cache_hook = lambda **found: seen.append(found["fn"].name) and False
    knobs.runtime.jit_post_compile_hook = lambda **found: seen.append("after")
    try:

        @mimw.jit
        def hooked(x):
            tlx.fence("gpu")
            tl.store(x, 1)

        hooked.warmup(MockTensor(tl.int32), grid=(1, ))
    finally:
        knobs.runtime.jit_cache_hook = knobs.runtime.jit_post_compile_hook = None
    assert len(seen) == 2 and seen[0].endswith("hooked") and seen[1] == "after"


def test_host_descriptors(simulated):

    @mimw.jit
    def copy(a, b, BM: tl.constexpr, BN: tl.constexpr):
        tlx.fence("gpu")
        b.store([0, 0], a.load([BM, 0]))

    x, y = np.arange(64 * 32, dtype=np.float32).reshape(64, 32), np.zeros((32, 32), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    copy[(1, )](describe(x, [32, 32]), describe(y, [32, 32]), 32, 32)
    assert (y == x[32:]).all()
    compiled = copy.warmup(describe(x, [32, 32]), describe(y, [32, 32]), 32, 32, grid=(1, ))
    assert "cp.async.bulk.tensor.2d" in compiled.asm["ptx"]


# ---- errors and threads -----------------------------------------------------------------------------------------------

@mimw.jit
def wants_big_tiles(x, STAGES: tl.constexpr):
    tiles = tlx.local_alloc((128, 128), tl.float32, STAGES)
    tl.static_assert(STAGES != 2)
    tlx.local_store(tiles[STAGES - 1], tl.zeros((128, 128), tl.float32))
    tl.store(x + tl.arange(0, 128), tl.sum(tlx.local_load(tiles[STAGES - 1]), 0))


def test_the_autotuner_skips_configurations_that_do_not_fit(simulated):
    """Too much shared memory and failed static assertions are what Triton's autotuner expects of a bad configuration."""
    kernel = triton.autotune(configs=[mimw.Config(dict(STAGES=n)) for n in (4, 2, 1)], key=[])(wants_big_tiles)
    y = np.ones(128, np.float32)
    kernel[(1, )](y)
    assert kernel.best_config.kwargs == dict(STAGES=1) and not y.any()


@mimw.jit
def broken(x, BAD: tl.constexpr):
    at = tl.arange(0, 64)
    tile = tlx.local_alloc((64, ), tl.int32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            for i in range(tl.program_id(0)):
                if i > 1:
                    if BAD:
                        undefined_helper(x)  # noqa: F821
                    tlx.local_store(tile[0], at * 0 + i)
            tl.store(x, 1)
        with tlx.async_task(num_warps=1):
            pass


def test_an_error_leaves_nothing_behind():
    """After a failure deep inside a task, in a branch, in a loop, the next compile is the same as ever."""
    before = compile_kernel(broken, dict(x="*i32"), dict(BAD=False)).program
    for _ in range(2):
        with pytest.raises(triton.CompilationError, match="undefined_helper is not defined"):
            compile_kernel(broken, dict(x="*i32"), dict(BAD=True))
    after = compile_kernel(broken, dict(x="*i32"), dict(BAD=False), options=dict(num_stages=2)).program
    assert mimw.ir.print_program(before) == mimw.ir.print_program(after)


def _many(cache: str, worker: int, sizes=(32, 64, 128, 256, 512)) -> list[str]:
    """Compiles kernels of different shapes and some that fail, in an order of the worker's own."""
    signature, texts = dict(x="*fp32", y="*fp32", n="i32"), {}
    for size in sizes[worker % len(sizes):] + sizes[:worker % len(sizes)]:
        texts[size] = compile_kernel(scale, signature, dict(factor=2, BLOCK=size)).stage("ptx")
        with pytest.raises(triton.CompilationError):
            compile_kernel(broken, dict(x="*i32"), dict(BAD=True))
        compile_kernel(plain_scale, signature, dict(factor=2, BLOCK=size))
    return [texts[size] for size in sizes]


def test_threads(cold):
    """Several threads compile different kernels and failing ones at once; each gets what one thread alone gets."""
    alone = _many(str(cold), 0)
    os.environ["TRITON_CACHE_DIR"] = str(cold / "threads")
    start = threading.Barrier(4)

    def work(worker):
        start.wait()
        return _many(str(cold), worker)

    with ThreadPoolExecutor(4) as pool:
        assert all(texts == alone for texts in pool.map(work, range(4)))


def test_processes(cold):
    """Two processes fill one cache at once. They print one after the other: of two writes to one file at the same moment a sandbox
    may keep one."""
    program = ("import hashlib, os, sys\nsys.path.insert(0, '.')\nfrom tests.test_jit import _many\nother = os.fork()\n"
               "texts = _many('', int(not other), (32, 64))\n"
               "if other:\n    assert os.waitpid(other, 0)[1] == 0\n"
               "print(hashlib.sha256(''.join(texts).encode()).hexdigest(), flush=True)\n")
    done = python("-c", program, TRITON_CACHE_DIR=str(cold), PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    one, other = done.stdout.split()
    assert one == other


def test_decorating_opens_no_device(tmp_path):
    """Kernels are decorated while modules are imported; the device must stay closed, or nobody could fork any more."""
    program = tmp_path / "kernels.py"
    program.write_text("import sys, mimw\nfrom triton.runtime.driver import driver\n\n@mimw.jit\ndef kernel(x):\n    pass\n\n"
                       "print(driver._default is None, 'torch' in sys.modules)\n")
    done = subprocess.run([sys.executable, str(program)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
                          capture_output=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_specialisation_data_can_be_serialised(cold):
    """What `preload` needs: the hook's JSON of a specialisation."""
    found = []
    knobs.runtime.jit_cache_hook = lambda **what: found.append(what["compile"]["specialization_data"]) and False
    try:
        scale.warmup(MockTensor(tl.float32), MockTensor(tl.float32), 96, 9.0, BLOCK=128, grid=(1, ))
    finally:
        knobs.runtime.jit_cache_hook = None
    assert json.loads(found[0])["constant_vals"] == [9.0, 128]
