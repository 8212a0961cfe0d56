"""A kernel whose binary is in the cache on disk: nothing is recorded until somebody asks, and whoever asks gets, hears and is
refused the same as when it was compiled."""

import os
import sys
import textwrap
import time
import warnings
from importlib.util import module_from_spec, spec_from_file_location

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.pipeline import stages as pipeline
from mimw.compiler.triton_port.runtime import MockTensor
from mimw.errors import GlobalChanged, KernelWarning, RemarkWarning
from mimw.kernels.gemm.kernel import GemmForm, gemm
from mimw.kernels.gemm.tiles import Tiles
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import stopping

MARGIN = 5      # how many times cheaper than recording alone a hit is at least; measured: 30 to 40
FACTOR = tl.constexpr(3)


@mimw.jit
def double(x, N: tl.constexpr):
    tile = tlx.local_alloc((N, ), tl.float32, 1)
    at = tl.arange(0, N)
    tlx.local_store(tile[0], 2 * tl.load(x + at))
    tl.store(x + at, tlx.local_load(tile[0]) * FACTOR)


@triton.constexpr_function
def from_environment():
    return float(os.environ["A_NUMBER"])


@mimw.jit
def of_environment(x):
    tlx.fence("gpu")
    tl.store(x, from_environment())


@mimw.jit
def greedy(x_ptr):
    start = 1.0
    with tlx.async_tasks():
        with tlx.async_task("default"):
            start += 1.0
            tl.store(x_ptr, start)
        with tlx.async_task(num_warps=8, num_regs=240, replicate=2):
            tl.store(x_ptr + 1 + tlx.async_task_replica_id(), 2.0)
    tl.store(x_ptr + 3, start)


@mimw.jit
def plain(x):
    tl.store(x, 1.0)


@pytest.fixture
def cold(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def recordings(monkeypatch):
    """The names of the kernels that are recorded."""
    found, record = [], pipeline.record_program
    monkeypatch.setattr(pipeline, "record_program", lambda fn, *rest: found.append(fn.__name__) or record(fn, *rest))
    return found


def of(kernel, **keywords):
    return compile_kernel(kernel, dict(x="*fp32"), dict(N=64), attrs={(0, ): [["tt.divisibility", 16]]}, **keywords)


def told(action, *categories):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return result, [(one.category, str(one.message), one.filename, one.lineno) for one in caught
                    if issubclass(one.category, KernelWarning)]


def test_nothing_is_recorded_until_asked(cold, recordings):
    miss, hit = of(double), of(double)
    assert recordings == ["double"]
    assert list(hit.stages) == list(miss.stages) and "ir" in hit.stages and len(hit.stages) == len(miss.stages)
    assert all(hit.stage(name) == miss.stage(name) for name in hit.stages if name != "ir")
    assert recordings == ["double"]
    assert hit.stage("ir") == miss.stage("ir") and hit.program.orchestrates()
    assert recordings == ["double", "double"]
    assert repr(list(hit.layouts.shared.values())) == repr(list(miss.layouts.shared.values()))
    assert list(map(str, hit.layouts.registers.values())) == list(map(str, miss.layouts.registers.values()))
    assert hit.program is hit.program and recordings == ["double", "double"]


def test_what_cannot_be_followed_is_recorded_by_each_process_and_its_binary_is_found(cold, recordings, monkeypatch):
    """And one that has changed is another kernel: what was recorded is in the key."""
    def compiled(value):
        monkeypatch.setenv("A_NUMBER", str(value))
        return compile_kernel(of_environment, dict(x="*fp32"))

    with stopping():
        texts = [compiled(value).stage("ttgir") for value in (3, 3, 5, 3)]
    assert texts[0] == texts[1] == texts[3] != texts[2] and recordings == ["of_environment"] * 4
    assert len(list((cold / "cache").rglob("of_environment.ttgir"))) == 2 and not list((cold / "cache").rglob("mimw_recorded.txt"))


def test_a_note_that_is_garbled_is_none(cold, recordings):
    of(double)
    (note, ) = (cold / "cache").rglob("mimw_recorded.txt")
    whole = note.read_text()
    note.write_text(whole[:-1])
    assert of(double).stage("ptx") and recordings == ["double"] * 2 and note.read_text() == whole


def test_a_stage_that_is_not_there(cold):
    of(double)
    with pytest.raises(KeyError, match="no stage 'amdgcn'; there are .*ptx.*, ir and sass"):
        of(double).stage("amdgcn")
    assert "sass" not in of(double).stages


def test_every_stage_of_ours_is_dumped(cold):
    miss, hit = of(double, dump=True), of(double, dump=True)
    assert list(hit.after) == list(miss.after) and hit.after.keys() and hit.after == miss.after


def test_a_plain_kernel_has_no_program(cold, recordings):
    for _ in range(2):
        compiled = compile_kernel(plain, dict(x="*fp32"))
        assert compiled.program is None and compiled.layouts is None and "ir" not in compiled.stages
    assert recordings == []


def test_the_same_warnings(cold, recordings):
    """Of a check and of the recording, at the same lines; asking for the program does not repeat them."""
    def compiled():
        return compile_kernel(greedy, dict(x_ptr="*fp32"))

    (_, first), (hit, second) = told(compiled), told(compiled)
    assert recordings == ["greedy"]
    assert first == second and {category for category, *_ in first} == {RemarkWarning, KernelWarning}
    assert {file for *_, file, _ in first} == {__file__}
    assert told(lambda: hit.program)[1] == [] and recordings == ["greedy", "greedy"]


def test_a_warning_may_be_an_error(cold):
    told(lambda: compile_kernel(greedy, dict(x_ptr="*fp32")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelWarning)
        warnings.simplefilter("error", RemarkWarning)
        with pytest.raises(RemarkWarning, match="greedy"):
            compile_kernel(greedy, dict(x_ptr="*fp32"))


def test_a_launch_from_the_cache_on_disk(cold, recordings):
    def launched():
        greedy.device_caches.clear()    # as a new process
        return greedy.warmup(MockTensor(tl.float32), grid=(1, ))

    (miss, first), (hit, second) = told(launched), told(launched)
    assert recordings == ["greedy"] and first and first == second
    assert hit is not miss and hit.asm["ptx"] == miss.asm["ptx"]


def test_the_lines_of_a_kernel_that_has_moved(cold, recordings):
    """Triton's key of a kernel has its text and line, not its file."""
    text = textwrap.dedent("""
        import triton.language as tl
        import mimw
        import mimw.tlx as tlx

        @mimw.jit
        def moved(x_ptr):
            with tlx.async_tasks():
                with tlx.async_task("default"):
                    tl.store(x_ptr, 1.0)
                with tlx.async_task(num_warps=8, num_regs=240, replicate=2):
                    tl.store(x_ptr + 1 + tlx.async_task_replica_id(), 2.0)
    """)
    for folder in ("here", "there"):
        path = cold / folder / "kernel.py"
        path.parent.mkdir()
        path.write_text(text)
        spec = spec_from_file_location("moved_kernel", path)
        module = module_from_spec(spec)
        sys.modules["moved_kernel"] = module
        spec.loader.exec_module(module)
        _, found = told(lambda: compile_kernel(module.moved, dict(x_ptr="*fp32")))
        assert [file for *_, file, _ in found] == [str(path)]
    del sys.modules["moved_kernel"]


def test_a_global_that_has_changed_since(cold, monkeypatch):
    """What would be recorded is another kernel than the one that was compiled."""
    of(double)
    hit = of(double)
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(4))
    with pytest.raises(GlobalChanged, match="FACTOR = 3, which is 4 now"):
        hit.program


def test_cost(cold):
    """In CPU time of this process, each the best of five."""
    types = dict(a_desc="tensordesc<bf16[128,64]>", b_desc="tensordesc<bf16[64,64]>", c_desc="tensordesc<bf16[64,64]>",
                 M="i32", N="i32", K="i32")
    sizes = dict(FORM=GemmForm(Tiles(128, 64, 8, 64, CONSUMERS=2, PIECES=1, STAGING=2, PING_PONG=False, B_IS_NK=False), STAGES=2))

    def compiled():
        return compile_kernel(gemm, types, sizes)

    def best(action):
        times = []
        for _ in range(5):
            start = time.process_time()
            action()
            times.append(time.process_time() - start)
        return min(times)

    compiled()
    hits = [compiled() for _ in range(5)]
    assert best(compiled) * MARGIN < best(lambda: hits.pop().program)
