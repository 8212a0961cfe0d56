"""`mimw.compile_ahead`: launches are left out, binaries compiled by other processes, and found by the launches."""

from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.compiler.pipeline import stages as pipeline
from mimw.compiler.triton_port.runtime import MockTensor, keep_file
from mimw.runtime.text_modules import text_module
from mimw.tools.compile_ahead import compiled, noted


@mimw.jit
def scale(x, y, FACTOR: tl.constexpr):
    at = tl.arange(0, 64)
    tile = tlx.local_alloc((64, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + at))
    tl.store(y + at, tlx.local_load(tile[0]) * FACTOR)


@mimw.jit
def twice(value):
    return value + value


@mimw.jit
def mapped(y, HOW: tl.constexpr):
    at = tl.arange(0, 64)
    tl.store(y + at, HOW(at.to(tl.float32)))


@tle.struct
class Form:
    """Constants of a launch."""
    SIZE: tl.constexpr
    FACTOR: tl.constexpr = 2.0


@mimw.jit
def formed(y, FORM: tl.constexpr):
    at = tl.arange(0, FORM.SIZE)
    tl.store(y + at, at * FORM.FACTOR)


@mimw.jit
def wrong(x):
    tile = tlx.local_alloc((1 << 20, ), tl.float32, 1)
    tl.store(x, tl.sum(tlx.local_load(tile[0])))


@pytest.fixture
def cold(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for kernel in (scale, mapped, formed, wrong):
        kernel.device_caches.clear()


@pytest.fixture
def recorded(monkeypatch):
    """The names of the kernels that this process records."""
    found, record = [], pipeline.record_program
    monkeypatch.setattr(pipeline, "record_program", lambda fn, *rest: found.append(fn.__name__) or record(fn, *rest))
    return found


def scaled(x, y, *factors):
    for factor in factors:
        scale[(1, )](x, y, FACTOR=factor)


def arrays():
    return np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


def warm(kernel, *arguments, **meta):
    kernel.device_caches.clear()        # as another process begins
    return kernel.warmup(*arguments, grid=(1, ), **meta)


@pytest.mark.usefixtures("cold")
def test_binaries_come_from_other_processes_and_nothing_is_launched(recorded):
    x, y = arrays()
    done = mimw.compile_ahead(scaled, x, y, 2.0, 3.0, 2.0, jobs=2)
    assert done.binaries == 2 and not done.failed and not y.any()
    for factor in (2.0, 3.0):
        warm(scale, MockTensor(tl.float32), MockTensor(tl.float32), FACTOR=factor)
    assert not recorded                 # both were in the cache
    scaled(x, y, 3.0)                   # a launch is a launch again
    assert (y == 3 * x).all()


@pytest.mark.usefixtures("cold")
def test_each_rank_has_its_share_compiled(recorded):
    shares = [mimw.compile_ahead(scaled, *arrays(), 2.0, 3.0, 4.0, jobs=1, share=(rank, 2)).binaries for rank in range(2)]
    assert shares == [2, 1]
    for factor in (2.0, 3.0, 4.0):
        warm(scale, MockTensor(tl.float32), MockTensor(tl.float32), FACTOR=factor)
    assert not recorded


@pytest.mark.usefixtures("cold")
def test_a_kernel_with_a_helper_for_an_argument(recorded):
    _, y = arrays()
    assert mimw.compile_ahead(lambda: mapped[(1, )](y, HOW=twice), jobs=1).binaries == 1
    warm(mapped, MockTensor(tl.float32), HOW=twice)
    assert not recorded


@pytest.mark.usefixtures("cold")
def test_a_kernel_of_a_text_that_was_written_here(recorded):
    """As an orchestrated one: no name imports it, but its file is there."""
    text = "import triton.language as tl\nimport mimw\n\n\n@mimw.jit\ndef written(x):\n    tl.store(x, 3.0)\n"
    kernel = text_module(keep_file("7e07", "written.py", text), "written", text).written
    done = mimw.compile_ahead(lambda: kernel[(1, )](np.zeros(1, np.float32)), jobs=1)
    assert done.binaries == 1 and not done.failed and not recorded
    warm(kernel, MockTensor(tl.float32))
    assert not recorded


@pytest.mark.usefixtures("cold")
def test_what_another_process_does_not_find_leaves_the_others_to_it(recorded):
    x, y = arrays()
    text = "import triton.language as tl\nimport mimw\n\n\n@mimw.jit\ndef gone(x):\n    tl.store(x, 3.0)\n"
    kernel = text_module(path := keep_file("7e07", "gone.py", text), "gone", text).gone
    with noted() as jobs:
        kernel[(1, )](x)
        scaled(x, y, 2.0)
    Path(path).unlink()
    failed = compiled(list(jobs.values()), 1)
    assert len(failed) == 1 and "does not find: FileNotFoundError" in failed[0]
    warm(scale, MockTensor(tl.float32), MockTensor(tl.float32), FACTOR=2.0)
    assert not recorded


@pytest.mark.usefixtures("cold")
def test_a_kernel_with_a_struct_of_constants(recorded):
    _, y = arrays()
    assert mimw.compile_ahead(lambda: [formed[(1, )](y, FORM=Form(size)) for size in (16, 32, 16)], jobs=2).binaries == 2
    for size in (16, 32):
        warm(formed, MockTensor(tl.float32), FORM=Form(size))
    assert not recorded


@pytest.mark.usefixtures("cold")
def test_a_kernel_with_descriptors_and_constants_in_tuples(recorded, monkeypatch):
    """As the GEMM's tiles of 176 columns have them."""
    from mimw.kernels import gemm

    monkeypatch.setenv("MIMW_TARGET", "sm_90a")
    gemm.kernel.device_caches.clear()
    a, b, c = (np.zeros(shape, np.float16) for shape in ((128, 64), (64, 176), (128, 176)))
    grid, args, meta = gemm.arguments(a, b, c, 1, gemm.Configuration(bm=128, bn=176, stages=2))
    done = mimw.compile_ahead(lambda: gemm.kernel[grid](*args, **meta), jobs=1)
    assert done.binaries == 1 and not done.failed
    warm(gemm.kernel, *args, **meta)
    assert not recorded


@pytest.mark.usefixtures("cold")
def test_a_kernel_that_no_other_process_can_import_is_compiled_at_once(recorded):
    @mimw.jit
    def local(x):
        tile = tlx.local_alloc((64, ), tl.float32, 1)
        tlx.local_store(tile[0], tl.full((64, ), 1.0, tl.float32))
        tl.store(x + tl.arange(0, 64), tlx.local_load(tile[0]))

    x, _ = arrays()
    assert mimw.compile_ahead(lambda: local[(1, )](x), jobs=1).binaries == 0
    assert recorded == ["local"]
    warm(local, MockTensor(tl.float32))
    assert recorded == ["local"]


@pytest.mark.usefixtures("cold")
def test_what_does_not_compile_is_told_and_the_rest_is_there():
    x, y = arrays()

    def both():
        wrong[(1, )](x)
        scale[(1, )](x, y, FACTOR=5.0)

    done = mimw.compile_ahead(both, jobs=1)
    assert done.binaries == 1 and len(done.failed) == 1
    assert done.failed[0].startswith("wrong: ") and "4194304" in done.failed[0].replace(",", "")


@pytest.mark.usefixtures("cold")
def test_a_frozen_launch_is_left_out():
    x, y = arrays()
    frozen = []
    done = mimw.compile_ahead(lambda: frozen.append(scale.freeze((1, ), x, y, FACTOR=6.0)), jobs=1)
    frozen[0]()
    assert done.binaries == 1 and not y.any()


@pytest.mark.usefixtures("cold")
def test_operators_launch_nothing_either():
    torch = pytest.importorskip("torch", reason="operators need torch")
    from mimw import ops

    x = torch.randn(3, 40)
    done = mimw.compile_ahead(ops.softmax, x, -1, jobs=1)
    assert done.binaries == 1 and not done.failed


def test_who_launches_by_itself_stands_still_also_when_it_is_imported_late():
    class Engine:
        def __call__(self):
            return "launched"

    def late():
        mimw.jit.meanwhile(Engine, "__call__", lambda engine: said.append("noted"))
        return Engine()()

    said = []
    mimw.compile_ahead(late)
    assert said == ["noted"] and Engine()() == "launched"
    mimw.compile_ahead(Engine())
    assert said == ["noted"] * 2


def test_an_error_of_the_function_comes_out_and_launches_are_launches_again():
    with pytest.raises(ZeroDivisionError):
        mimw.compile_ahead(lambda: 1 // 0)
    x, y = arrays()
    scaled(x, y, 7.0)
    assert (y == 7 * x).all()


def test_a_benchmark_that_rehearses_its_cases_up_to_their_checks(cold):
    """Each case is wrong, since nothing was launched; all cases are compiled, and nothing by no processes."""
    pytest.importorskip("torch")
    from benchmarks.gpu import compiled_before

    (x, y), asked = arrays(), []

    def measure(factor):
        asked.append(factor)
        scaled(x, y, factor)
        assert np.array_equal(y, x * factor), "wrong"
        asked.append("timed")

    compiled_before(0, measure, [(2, ), (3, )])
    assert asked == []
    compiled_before(1, measure, [(2, ), (3, )])
    assert asked == [2, 3] and not y.any()


def test_nothing_is_timed_while_launches_are_left_out():
    """What launches leave out may pass a check, where memory holds an older result: a benchmark went on to time its peers."""
    from mimw.testing.benchmark import alternate
    from mimw.tools.compile_ahead import noted

    with noted(), pytest.raises(RuntimeError, match="launches are left out"):
        alternate({"mimw": lambda: None})
