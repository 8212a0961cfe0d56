"""Tensors that are no arguments: a table has their addresses, and `memory=` or the live tensors of the process hold them."""

from importlib import import_module

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import tlx
from mimw.errors import OutOfBounds, SimulatorMisuse
from mimw.simulator import live_tensors
from mimw.testing import gpu_available
from tests.processes import mimw as command

N, TILE = 32, (8, 16)


@mimw.jit
def doubled(table, n, N: tl.constexpr):
    """Row g of the table: the addresses of x and y; y = 2 x, of each group's own array."""
    g, at = tl.program_id(0), tl.arange(0, N)
    x = tl.load(table + 2 * g).to(tl.pointer_type(tl.float32))
    y = tl.load(table + 2 * g + 1).to(tl.pointer_type(tl.float32))
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


@mimw.jit
def described(table, N: tl.constexpr):
    """The same through descriptors that the kernel makes, and two tasks."""
    g = tl.program_id(0)
    x = tl.make_tensor_descriptor(tl.load(table + 2 * g).to(tl.pointer_type(tl.float32)), [N, N], [N, 1], [8, 16])
    y = tl.make_tensor_descriptor(tl.load(table + 2 * g + 1).to(tl.pointer_type(tl.float32)), [N, N], [N, 1], [8, 16])
    tile = tlx.local_alloc((8, 16), tl.float32, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task(num_warps=1):
            tlx.barrier_expect_bytes(full[0], 8 * 16 * 4)
            tlx.async_descriptor_load(x, tile[0], [8, 16], full[0])
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            y.store([0, 0], 2 * tlx.local_load(tile[0]))


@pytest.fixture
def group():
    arrays = [np.arange(N * N, dtype=np.float32).reshape(N, N) + 1000 * i for i in range(4)]
    return arrays, np.array([one.ctypes.data for one in arrays], np.int64)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_a_table_of_addresses_leads_into_memory(group, dtype):
    arrays, table = group
    mimw.simulate(doubled, (2, ), table.astype(dtype), 32, N=32, memory=arrays)
    assert (arrays[1].flat[:32] == 2 * arrays[0].flat[:32]).all() and (arrays[3].flat[:32] == 2 * arrays[2].flat[:32]).all()
    assert arrays[1].flat[32] == 1032       # the rest is as it was


def test_descriptors_lead_there_too(group):
    arrays, table = group
    mimw.simulate(described, (2, ), table, N=N, memory=tuple(arrays))
    assert (arrays[1][:8, :16] == 2 * arrays[0][8:16, 16:32]).all() and arrays[3][0, 0] == 2 * arrays[2][8, 16]


def test_a_launch_takes_it_and_so_do_all_tools(group, monkeypatch):
    arrays, table = group
    monkeypatch.setenv("MIMW_SIMULATE", "1")
    before = [one.copy() for one in arrays]
    assert mimw.check(described, (2, ), table, N=N, memory=arrays, seeds=2).ok
    assert mimw.predict(described, (2, ), table, N=N, memory=arrays).microseconds > 0
    assert "ld.global" in mimw.compile(described, (2, ), table, N=N, memory=arrays).ptx
    assert all((one == old).all() for one, old in zip(arrays, before))     # as they were
    frozen = doubled.freeze((2, ), table, 32, N=32, memory=arrays)
    doubled[(1, )](table, 16, N=32, memory=arrays)
    assert arrays[1].flat[15] == 30 and arrays[1].flat[16] == 1016
    frozen()
    assert arrays[3].flat[31] == 2 * 2031


def test_an_address_in_no_array_is_refused_by_line_address_and_the_nearest_array(group):
    arrays, table = group
    with pytest.raises(OutOfBounds, match=rf"load reads address {table[2]:#x}: element .* of ") as found:
        mimw.simulate(doubled, (2, ), table, 32, N=32, memory=arrays[:2])
    assert "memory=[...]" in found.value.hint and "2 * tl.load(x + at" in str(found.value)
    table[3] = table[1] + N * N * 4
    with pytest.raises(OutOfBounds, match=r"store writes address 0x\w+: element 1024 of memory\[1\], which has 1024 elements"):
        mimw.simulate(doubled, (2, ), table, 32, N=32, memory=arrays[:3])
    with pytest.raises(OutOfBounds) as plain:
        mimw.simulate(_beyond, (1, ), arrays[0], N=2048)
    assert plain.value.hint == "mask the access or enlarge the array"      # no table, no word of it


@mimw.jit
def _beyond(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 0.0)


def test_what_is_no_list_of_arrays_is_misuse(group):
    arrays, table = group
    with pytest.raises(SimulatorMisuse, match="memory= is a ndarray"):
        mimw.simulate(doubled, (1, ), table, 32, N=32, memory=arrays[0])
    with pytest.raises(SimulatorMisuse, match=r"'memory\[0\]' should be a numpy array"):
        mimw.simulate(doubled, (1, ), table, 32, N=32, memory=[7])


def test_a_parameter_of_that_name_is_the_kernels():

    @mimw.jit
    def kernel(memory, n):
        tl.store(memory, n)

    x = np.zeros(1, np.int32)
    mimw.simulate(kernel, (1, ), n=7, memory=x)
    assert x[0] == 7


def test_two_programs_that_write_one_array_by_its_address_race(group):
    arrays, table = group
    table[3] = table[1]
    report = mimw.check(doubled, (2, ), table, 32, N=32, memory=arrays, seeds=2)
    assert [finding.kind for finding in report.findings] == ["DataRace"] and "memory[1]" in str(report.findings[0])


@mimw.jit
def both_ways(x, table):
    """Program 0 writes its argument, program 1 what a table leads to."""
    if tl.program_id(0) == 0:
        tl.store(x, 1.0)
    else:
        tl.store(tl.load(table).to(tl.pointer_type(tl.float32)) + 4, 2.0)


def test_one_memory_as_an_argument_and_by_address_is_one_memory():
    whole = np.zeros(8, np.float32)
    table = np.array([whole.ctypes.data], np.int64)
    report = mimw.check(both_ways, (2, ), whole[4:], table, memory=[whole], seeds=2)
    assert [finding.kind for finding in report.findings] == ["DataRace"]
    assert mimw.check(both_ways, (2, ), whole[2:4], table, memory=[whole], seeds=2).ok


@pytest.mark.parametrize("alive", ["", "tensors"])
def test_each_gpu_of_a_world_has_its_own(alive, monkeypatch):
    monkeypatch.setenv("MIMW_MEMORY", alive)    # live tensors are on no GPU of a world
    world = mimw.World(2)
    x = world.each(lambda rank: np.full(64, rank, np.float32))
    y = world.each(lambda rank: np.zeros(64, np.float32))
    table = world.each(lambda rank: np.array([x[rank].ctypes.data, y[rank].ctypes.data]))
    mimw.simulate(doubled, (1, ), table, 32, N=32, memory=[x, y])
    assert y[0].max() == 0 and (y[1][:32] == 2).all()
    with pytest.raises(SimulatorMisuse, match=r"memory\[1\] is one array for 2 GPUs"):
        mimw.simulate(doubled, (1, ), table, 32, N=32, memory=[x, y[0]])


# ---- the tensors of a process --------------------------------------------------------------------------------------------

SCRIPT = '''
import torch, triton, triton.language as tl
@triton.jit
def scaled(table, sizes, SCALE: tl.constexpr, N: tl.constexpr):
    g, at = tl.program_id(0), tl.arange(0, N)
    x = tl.load(table + g).to(tl.pointer_type(tl.float16))
    n = tl.load(sizes + g)
    tl.store(x + at, tl.load(x + at, mask=at < n) * SCALE, mask=at < n)
xs = [torch.ones(5 * (i + 1), dtype=torch.float16) for i in range(3)]
table = torch.tensor([x.data_ptr() for x in xs])
sizes = torch.tensor([x.numel() for x in xs], dtype=torch.int32)
scaled[(3, )](table, sizes, SCALE=2, N=16)
print([x.tolist() == [2.0] * len(x) for x in xs])
sizes[1] = 11
table[1] = 64
scaled[(3, )](table, sizes, SCALE=2, N=16)
'''


def test_under_mimw_run_every_live_tensor_is_memory(tmp_path):
    pytest.importorskip("torch", reason="tensors of a process")
    (tmp_path / "grouped.py").write_text(SCRIPT)
    run = command("run", str(tmp_path / "grouped.py"), MIMW_SIMULATE="1")
    assert run.stdout == "[True, True, True]\n", run.stderr
    assert "OutOfBounds" in run.stderr and "address 0x40" in run.stderr and run.returncode == 1


def test_live_tensors_are_the_outermost_ones_with_memory():
    torch = pytest.importorskip("torch", reason="tensors of a process")
    whole = torch.zeros(64)
    part, empty, nowhere = whole[8:16], torch.empty(0), torch.empty(4, device="meta")
    sparse = torch.eye(3).to_sparse()
    found = {id(one) for one in live_tensors()}
    assert id(whole) in found and found.isdisjoint(map(id, (part, empty, nowhere, sparse)))
    del whole
    assert id(part) in {id(one) for one in live_tensors()} or part._base is not None


def test_only_a_kernel_that_makes_pointers_looks_for_tensors(monkeypatch):
    torch = pytest.importorskip("torch", reason="tensors of a process")
    monkeypatch.delenv("MIMW_MEMORY", raising=False)        # which `mimw run` sets
    x, y = torch.arange(32.0), torch.zeros(32)
    table = np.array([x.data_ptr(), y.data_ptr()])
    with pytest.raises(OutOfBounds):
        mimw.simulate(doubled, (1, ), table, 32, N=32)
    monkeypatch.setenv("MIMW_MEMORY", "tensors")
    mimw.simulate(doubled, (1, ), table, 32, N=32)
    assert (y == 2 * x).all()
    monkeypatch.setattr(import_module("mimw.runtime.launch"), "live_tensors", lambda: pytest.fail("a kernel of arguments only"))
    mimw.simulate(_beyond, (1, ), x, N=32)
    monkeypatch.setenv("MIMW_MEMORY", "all")
    with pytest.raises(SimulatorMisuse, match="MIMW_MEMORY is 'all'"):
        mimw.simulate(_beyond, (1, ), x, N=32)


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_keyword_changes_nothing():
    import torch

    x, y = torch.arange(32.0, device="cuda"), torch.zeros(32, device="cuda")
    table = torch.tensor([x.data_ptr(), y.data_ptr()], device="cuda")
    first = doubled[(1, )](table, 32, N=32)
    assert doubled[(1, )](table, 32, N=32, memory=[x, y]) is first and (y == 2 * x).all()
    doubled.freeze((1, ), table, 32, N=32, memory=[x, y])()
