"""The thread that waits for launches, with a device made by hand; the copies of arguments; the simulator's verdict."""

import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.pipeline import Kernel, gpu_target
from mimw.errors import LaunchError
from mimw.runtime.host import HostArray, TensorDescriptor
from mimw.runtime.simulate import resolve
from mimw.runtime.watchdog import guard as guards
from mimw.runtime.watchdog.arguments import TooLarge, on_the_host
from mimw.runtime.watchdog.guard import Guard
from mimw.runtime.watchdog.launch import Launch
from mimw.runtime.watchdog.verdict import verdict
from mimw.target import target
from tests.kernels.hangs import case

from .fabricated import Table, stamped
from .test_report import both_wait

WATCH = Guard._watch


class Device:
    """Events are done when their stream has come so far: `progress[stream]`, counted in events."""

    def __init__(self):
        self.recorded, self.progress, self.tables, self.given_back = {}, {}, 0, 0

    def enter(self):
        pass

    def capturing(self, stream):
        return stream == 99

    def record(self, stream):
        self.recorded[stream] = self.recorded.get(stream, 0) + 1
        return stream, self.recorded[stream]

    def done(self, event):
        stream, number = event
        if self.progress.get(stream) == "failed":
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        return number <= self.progress.get(stream, 0)

    def give_back(self, event):
        self.given_back += 1

    def host_memory(self, size):
        self.tables += 1
        memory = HostArray(np.ones(size, np.uint8))
        memory.bytes, memory.size = memory.array, size
        return memory

    def copied(self, address, size, until):
        import ctypes
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).copy()


class Compiled:
    """As much of a compiled kernel as a report reads."""

    def __init__(self, program):
        self.stamped = program


@pytest.fixture
def guard(monkeypatch):
    monkeypatch.setattr(guards, "around_launches", lambda before, behind: None)
    monkeypatch.setattr(guards, "active_target", lambda: gpu_target(target("sm_90a")))
    monkeypatch.setattr(Guard, "_watch", lambda self: None)         # the tests look themselves
    said, ended = [], []
    found = Guard(Device(), ended=lambda: ended.append(True), say=said.append)
    found.said, found.ends, found.limit = said, ended, 5.0
    return found


def begun(guard, name="wrong_parity", stream=7) -> Launch:
    kernel, grid, args, meta = case(name)
    fn, args, meta = resolve(kernel, args, meta)
    launch = Launch(fn, args, meta, grid, stream=stream, extents=grid)
    guard.begin(launch)
    guard.behind(launch)
    return launch


def test_the_time_of_a_launch_begins_when_the_work_before_it_is_done(guard):
    first, second = begun(guard), begun(guard)
    assert guard.look(0.0) is None and first.since is None           # another library's kernel runs
    guard.device.progress[7] = 1
    assert guard.look(100.0) is None and (first.since, second.since) == (100.0, None)
    assert guard.look(104.9) is None
    guard.device.progress[7] = 3                                    # the first has come back, the second runs
    assert guard.look(105.5) is None and second.since == 105.5
    assert guard.look(110.6) is second
    guard.device.progress[7] = 4
    assert guard.look(111.0) is None and not guard.streams[7] and guard.device.given_back == 4


def test_streams_are_looked_at_each_for_itself(guard):
    begun(guard, stream=1)
    other = begun(guard, stream=2)
    guard.device.progress[2] = 1
    guard.look(0.0)
    assert guard.look(6.0) is other


def test_a_launch_that_failed_has_come_back(guard):
    begun(guard)
    guard.device.progress[7] = "failed"
    assert guard.look(0.0) is None and not guard.streams[7]


def test_the_thread_ends_with_the_process_once_all_has_come_back(guard):
    begun(guard)
    guard.thread = threading.Thread(target=WATCH, args=(guard, ), daemon=True)
    guard.thread.start()
    ending = threading.Thread(target=guard.finish, daemon=True)
    ending.start()
    ending.join(0.1)
    assert ending.is_alive() and guard.thread.is_alive()            # the launch may hang yet, and somebody must say so
    guard.device.progress[7] = 2
    ending.join(5)
    assert not ending.is_alive() and not guard.thread.is_alive() and not guard.ends


def test_tables_are_used_again_and_empty(guard):
    launch = begun(guard)
    table = guard.table(launch, 3 * 288)
    assert table.size == 4096 and not table.bytes.any()
    table.bytes[5] = 1
    guard.device.progress[7] = 2
    guard.look(0.0)
    assert guard.table(begun(guard), 3 * 288) is table and not table.bytes.any() and guard.device.tables == 1


def test_the_report_names_all_there_is_to_know(guard):
    launch = begun(guard)
    table = Table(stamped(case("wrong_parity")), 3)
    for cta in range(3):
        both_wait(table, cta)
    launch.compiled, launch.memory = Compiled(table.program), guard.table(launch, table.bytes.size)
    launch.memory.bytes[:table.bytes.size] = table.bytes
    guard.say_and_end(launch)
    first, places, opinion = guard.said
    assert guard.ends == [True]
    assert "mimw: 'handed_on' on grid (3, 1, 1), launched at " in first and "test_guard.py:" in first
    assert "with source=float32[1536]" in first and "FLIP=0 has not come back within 5 s (MIMW_WATCHDOG)" in first
    assert "status 124" in first and places.startswith("WaitCycle: no task of CTA (0, 0, 0) and 2 others")
    assert opinion.startswith("The simulator, on the same launch: WaitCycle")


def test_the_process_ends_though_the_report_fails(guard):
    launch = begun(guard)
    launch.compiled = Compiled(object())
    launch.memory = guard.table(launch, 300)
    guard.say_and_end(launch)
    assert guard.ends == [True] and guard.said[-1].startswith("The report ends here: AttributeError")


def test_without_stamps_the_lines_are_told(guard, monkeypatch):
    monkeypatch.setattr(guards, "verdict", lambda *args: "no verdict")
    launch = begun(guard, "right")
    kernel = Kernel(None, {}, {}, {})
    kernel.program = stamped(case("right"))
    launch.compiled = type("Compiled", (), {"src": type("Source", (), {"kernel": kernel})})
    guard.say_and_end(launch)
    assert "leaves no stamps. It may wait at" in guard.said[1] and "barrier_wait on 'full'" in guard.said[1]


# ---- the simulator's verdict ---------------------------------------------------------------------------------------------

def launch_of(name) -> Launch:
    kernel, grid, args, meta = case(name)
    return Launch(kernel, args, meta, grid, extents=grid)


@pytest.mark.parametrize("name, expected", [
    ("wrong_parity", "WaitCycle"), ("missing_arrive", "TooFewArrivals"), ("missing_bytes", "BytesNeverSent"), ("spin", "Livelock"),
    ("named_barrier", "Deadlock"), ("cluster", "WaitCycle"), ("right", "runs the same launch to its end")])
def test_the_verdict(name, expected):
    launch = launch_of(name)
    assert expected in verdict(launch, lambda: launch.args, 10.0, [], "sm_90a").splitlines()[0]


def test_only_the_cluster_that_hangs_is_simulated_if_others_do_not_matter():
    launch = launch_of("right")
    assert "runs CTA (2, 0, 0) of the same launch to its end" in verdict(launch, lambda: launch.args, 10.0, [(2, 0, 0)], "sm_90a")
    told = verdict(launch_of("wrong_parity"), lambda: launch_of("wrong_parity").args, 10.0, [(1, 0, 0)], "sm_90a")
    assert "of CTA (1, 0, 0) waits" in told and "CTA (0, 0, 0)" not in told


@mimw.jit
def _follows(table):
    tl.store(tl.load(table).to(tl.pointer_type(tl.float32)), 1.0)


def test_no_verdict_on_addresses_of_the_gpu():
    table = np.array([0x7f00_0000_0000], np.int64)      # of a tensor on a GPU, whose copy lies elsewhere
    told = verdict(Launch(_follows, (table, ), {}, (1, )), lambda: (table, ), 10.0, [], "sm_90a")
    assert told.startswith("No verdict of the simulator: the kernel follows addresses of the GPU's memory")


def test_no_verdict(monkeypatch):
    launch = launch_of("right")

    def refuses():
        raise TooLarge("its arrays hold 300 MB, and up to 256 MB are copied")

    assert "could not be copied (its arrays hold 300 MB" in verdict(launch, refuses, 10.0, [], "sm_90a")
    monkeypatch.setattr("mimw.runtime.watchdog.verdict._LIMITS", (0.05, 0.05))
    assert "has not finished the same launch within 0.05 s" in verdict(launch, lambda: time.sleep(0.5), 1.0, [], "sm_90a")


# ---- copies of arguments -------------------------------------------------------------------------------------------------

class OnDevice:
    """An array that looks like one of a GPU: only its address is used."""

    def __init__(self, array: np.ndarray):
        self.array, self.dtype, self.shape = array, array.dtype, array.shape
        self.data_ptr, self.stride, self.element_size = (getattr(HostArray(array), name)
                                                         for name in ("data_ptr", "stride", "element_size"))


def copies(*values, most=1 << 20):
    return on_the_host(values, lambda address, size: Device().copied(address, size, 0.0), most)


def test_arrays_are_copied_with_their_strides_and_what_they_share():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    whole, part, turned, number = copies(OnDevice(base), OnDevice(base[1:3]), OnDevice(base.T), 5)
    assert (whole == base).all() and (turned == base.T).all() and number == 5
    part[0, 0] = -1
    assert whole[1, 0] == -1 and base[1, 0] == 6                     # one memory among the copies, another one than the arrays'


def test_descriptors_tuples_and_empty_arrays():
    base = np.ones((8, 16), np.float16)
    descriptor = TensorDescriptor(OnDevice(base), [8, 16], [16, 1], [8, 16])
    (copy, ), empty = copies((descriptor, ), OnDevice(np.zeros((0, 3), np.int32)))
    assert copy.block_shape == [8, 16] and empty.shape == (0, 3)


def test_what_is_too_large_is_not_copied():
    with pytest.raises(TooLarge, match="its arrays hold 2 MB, and up to 1 MB are copied"):
        copies(OnDevice(np.zeros(1 << 19, np.float32)))


def test_a_launch_is_named_by_the_line_of_its_user():
    kernel, grid, args, meta = case("right")
    launch = Launch(kernel, args, meta, grid)
    assert launch.where == f"{__file__}:{sys._getframe().f_lineno - 1}"


def test_an_amd_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(guards, "active_target", lambda: gpu_target(target("gfx942")))
    monkeypatch.setattr(guards, "driver", SimpleNamespace(active=SimpleNamespace(get_current_device=lambda: 0)))
    with pytest.raises(LaunchError) as caught:
        guards.guard()
    assert str(caught.value).splitlines()[0] == \
        "MIMW_WATCHDOG watches launches on NVIDIA GPUs; this one is an AMD GPU (gfx942)"
