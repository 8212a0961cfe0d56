"""Predicted timelines of products in tensor memory and of copies of single rows: the sums, what bounds a kernel, named waits."""

import sys
from importlib import import_module, util
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw import tlx
from mimw.kernels import gather_matmul_scatter as fused
from mimw.simulator.costs import Figure, Model
from tests.kernels.lines import line_of
from tests.kernels.tensor_product import READS, WAITS, tensor_product, tensor_product_case
from tests.timing.test_predict import ROUND

# One SM at 1 GHz, on which what is not looked at is free: products at 4096 multiply-adds a cycle, 64 bytes a cycle into the SM.
BLACKWELL = ROUND | {
    "launch.request_ns": 0, "tcgen05.issue": 0, "tcgen05.commit": 0, "tcgen05.latency": 0, "tensor.rows": 128,
    "tensor.macs_16": 4096, "tensor_memory.load_bytes": 1 << 30, "tensor_memory.store_bytes": 1 << 30, "tensor_memory.latency": 0,
    "chip.tensor_columns": 512, "tma.rows": 4, "tma.rows_cycles": 0, "tma.rows_issue": 0}


@pytest.fixture
def chip(monkeypatch):
    """`chip(name=value, ...)` predicts for a chip of round figures, with those changed."""
    def change(**figures):
        found = BLACKWELL | {name.replace("__", "."): value for name, value in figures.items()}
        made = Model("sm_100a", "round figures", {name: Figure(value, "", "a test") for name, value in found.items()})
        monkeypatch.setattr(import_module("mimw.tools.timing.predict"), "model", lambda target: made)
    return change


def predicted(case):
    kernel, grid, args, meta = case
    return mimw.predict(kernel, grid, *args, target="sm_100a", **meta)


# A slot is 128 x 64 of A and of B in fp16, 32 KiB: 512 cycles to load; a product of 128 x 128 x 64 takes 256. There are sixteen.

def test_loads_bound_a_ring(chip):
    chip()
    found = predicted(tensor_product_case())
    assert found.cycles == pytest.approx(16 * 512 + 256, rel=1e-3)
    assert found.bound.startswith("loads into the SM") and found.units["tensor"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("m", [128, 64])
def test_products_bound_a_ring(chip, m):
    """Of 64 rows they take as long as of 128."""
    chip(memory__sm_gb_per_s=1 << 20)
    found = predicted(tensor_product_case(m=m))
    assert found.cycles == pytest.approx(16 * 256, rel=1e-3) and found.bound.startswith("tensor cores")


def test_operands_in_shared_memory_bound_narrow_products(chip):
    """Of N = 64 an instruction takes 6 KiB of operands for 32 cycles of arithmetic: 48 at 128 bytes a cycle."""
    chip(memory__sm_gb_per_s=1 << 20, tensor__operand_bytes=128)
    assert predicted(tensor_product_case(n=64)).cycles == pytest.approx(16 * 4 * 48, rel=1e-3)


def test_the_issue_of_instructions_takes_the_task_s_time(chip):
    """A product of 128 x 128 x 64 is four instructions: what takes longer, its issue or the product, bounds the ring."""
    chip(memory__sm_gb_per_s=1 << 20, tcgen05__issue=100)
    assert predicted(tensor_product_case()).cycles == pytest.approx(16 * 400 + 256, rel=1e-3)


def test_a_commit_arrives_later_than_the_product_ends(chip):
    """With one slot every round waits for it; with four only the last does."""
    chip(memory__sm_gb_per_s=1 << 20, tcgen05__latency=500)
    assert predicted(tensor_product_case(stages=1)).cycles == pytest.approx(16 * 756, rel=1e-3)
    assert predicted(tensor_product_case(stages=4)).cycles == pytest.approx(16 * 256 + 500, rel=1e-3)


@pytest.mark.parametrize("figure, cycles", [("tensor_memory__load_bytes", 65536 / 4 / 16), ("tensor_memory__latency", 5000)])
def test_a_load_of_tensor_memory_is_a_wait_with_a_name(chip, figure, cycles):
    chip(memory__sm_gb_per_s=1 << 20, **{figure: 16 if "bytes" in figure else 5000})
    found = predicted(tensor_product_case())
    assert found.cycles == pytest.approx(16 * 256 + cycles, rel=1e-3)
    waits = {bubble.what: bubble for bubble in found.bubbles() if bubble.lane[1] == "reader"}
    assert waits["a load of tensor memory"].time == pytest.approx(cycles / 1000, rel=1e-3)
    assert waits["a load of tensor memory"].site.line == line_of(tensor_product, READS)
    assert waits["done (tcgen05)"].site.line == line_of(tensor_product, WAITS)
    assert waits["done (tcgen05)"].time == pytest.approx(4.096, rel=1e-3)
    assert "a load of tensor memory" in str(found) and "free (tcgen05)" in str(found)


def test_a_latency_bound_kernel_names_its_wait_for_products(chip):
    chip(memory__sm_gb_per_s=1 << 20, tcgen05__latency=3000)
    found = predicted(tensor_product_case(stages=1))
    assert found.bound.startswith("latency: no unit is busy more than") and "(tcgen05) at" in found.bound
    assert "never waits" not in found.bound


def test_a_task_that_cannot_issue_fast_enough_is_named(chip):
    chip(memory__sm_gb_per_s=1 << 20, tcgen05__issue=1000)
    found = predicted(tensor_product_case())
    assert found.bound.startswith("latency") and "'multiplier' never waits for long" in found.bound


@pytest.mark.parametrize("n, ctas, shared", [(256, 2, 250_000), (128, 4, 240_000)])
def test_an_sm_holds_as_many_ctas_as_columns_allow(chip, n, ctas, shared):
    """Two CTAs of 256 columns; of 128 four, and no more would fit into shared memory, scratch included."""
    chip(chip__registers=1 << 20, chip__shared_bytes=shared)
    kernel, _, args, meta = tensor_product_case(n=n, stages=1)
    found = mimw.predict(kernel, (4, ), *args, target="sm_100a", **meta)
    assert found.residency == (ctas, "tensor memory" if ctas == 2 else "shared memory")


@mimw.jit
def waits_at_once(a_desc, b_desc, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The synchronous form, stored back to tensor memory and read again."""
    a, b = tlx.local_alloc((M, K), tl.float16, 1), tlx.local_alloc((K, N), tl.float16, 1)
    total = tlx.local_alloc((M, N), tl.float32, 1, tlx.storage_kind.tmem)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], (M + N) * K * 2)
    tlx.async_descriptor_load(a_desc, a[0], [0, 0], full[0])
    tlx.async_descriptor_load(b_desc, b[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    tlx.async_dot(a[0], b[0], total[0], use_acc=False)
    tlx.local_store(total[0], tlx.local_load(total[0]) * 2)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], tlx.local_load(total[0]))


def test_the_synchronous_form_waits(chip):
    """512 cycles of loads, 256 + 100 of the product, and three accesses to tensor memory: 64 KiB by four quarters."""
    chip(tcgen05__latency=100, tensor_memory__load_bytes=32, tensor_memory__store_bytes=16, tensor_memory__latency=10)
    a, b, out = np.empty((128, 64), np.float16), np.empty((64, 128), np.float16), np.zeros((128, 128), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [128, 64]), describe(b, [64, 128]), out
    found = mimw.predict(waits_at_once, (1, ), *args, target="sm_100a", M=128, N=128, K=64)
    assert found.cycles == pytest.approx(512 + 356 + 512 + 1024 + 512 + 3 * 10, abs=2)
    assert not out.any()
    assert {"async_dot", "a load of tensor memory", "a store of tensor memory"} <= {bubble.what for bubble in found.bubbles()}


# ---- rows ----------------------------------------------------------------------------------------------------------------------

@mimw.jit
def gathers(a_desc, picked, out, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    tile = tlx.local_alloc((ROWS, WIDTH), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    rows = tl.load(picked + tl.arange(0, ROWS))
    tlx.barrier_expect_bytes(full[0], ROWS * WIDTH * 2)
    tlx.async_descriptor_gather(a_desc, tile[0], rows, 0, full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(out + tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :], tlx.local_load(tile[0]))


@pytest.mark.parametrize("rows_an_instruction", [1, 4])
@pytest.mark.parametrize("width", [32, 64, 128])
def test_rows_take_an_instruction_each_or_one_for_four(chip, width, rows_an_instruction):
    """Of rows wider than a swizzle, 128 bytes, each part is a copy of its own."""
    chip(memory__sm_gb_per_s=1 << 20, tma__rows=rows_an_instruction, tma__rows_cycles=40)
    a, picked, out = np.empty((256, width), np.float16), np.zeros(64, np.int32), np.zeros((64, width), np.float16)
    found = mimw.predict(gathers, (1, ), mimw.TensorDescriptor.from_tensor(a, [1, width]), picked, out, target="sm_100a",
                         ROWS=64, WIDTH=width)
    assert found.cycles == pytest.approx(64 / rows_an_instruction * max(1, width // 64) * 40 + width, abs=2)     # and shared memory
    assert found.bound.startswith("TMA's copies of single rows")


@pytest.mark.parametrize("warps", [1, 4])
def test_warps_share_the_issue_of_copies_of_rows(chip, warps):
    chip(memory__sm_gb_per_s=1 << 20, tma__rows_issue=400)
    a, picked, out = np.empty((256, 64), np.float16), np.zeros(64, np.int32), np.zeros((64, 64), np.float16)
    found = mimw.predict(gathers, (1, ), mimw.TensorDescriptor.from_tensor(a, [1, 64]), picked, out, target="sm_100a", ROWS=64,
                         WIDTH=64, num_warps=warps)
    assert found.cycles == pytest.approx(16 * 400 / warps + 64 * 4 / warps, abs=2)


# ---- the chip's own figures ---------------------------------------------------------------------------------------------------

def test_a_ring_of_one_cta_is_bound_by_its_products():
    """One SM has all of L2, and 128 x 256 x 64 loads 48 KiB for 512 cycles of products: 94 of some 100 bytes a cycle."""
    found = predicted(tensor_product_case(k=16384, n=256))
    assert found.bound.startswith("tensor cores") and found.cycles == pytest.approx(256 * 512, rel=0.1)
    assert found.chip == "NVIDIA B200 (published figures, unmeasured)"


def test_half_the_rows_are_bound_by_the_loads():
    found = predicted(tensor_product_case(k=16384, m=64, n=64))
    assert not found.bound.startswith("tensor cores") and found.units["tensor"] < 0.75


def import_tutorial(name):
    path = Path(__file__).parents[2] / "tutorials" / f"{name}.py"
    spec = util.spec_from_file_location(f"predicted_{path.stem}", path)
    module = sys.modules[spec.name] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tutorial_09(m, n, k):
    """(kernel, grid, args, meta) of tutorial 09's GEMM."""
    tutorial = import_tutorial("09_blackwell_gemm")
    a, b, c = (np.empty(shape, np.float16) for shape in ((m, k), (k, n), (m, n)))
    grid, args, meta = tutorial.arguments(a, b, c)
    return tutorial.gemm, grid, args, meta


@pytest.mark.parametrize("m, n, k, microseconds, bound", [
    (1024, 2048, 8192, 44, "tensor cores"),             # 64 SMs, which have all of L2
    (8192, 8192, 8192, 647, "L2 bandwidth"),            # 148 SMs, each with 70 bytes a cycle of the 96 that its products take
    (32768, 4096, 64, 61, "L2 stores")])                # 256 MB of C
def test_what_bounds_a_gemm(m, n, k, microseconds, bound):
    found = predicted(tutorial_09(m, n, k))
    assert found.microseconds == pytest.approx(microseconds, rel=0.03) and found.bound.startswith(bound)
    assert found.residency == (1, "shared memory")


@pytest.mark.parametrize("warps, tflops", [(1, 431), (2, 623), (4, 727)])
def test_the_fused_gather_is_bound_by_the_issue_of_too_few_warps(warps, tflops):
    """On an H200, as measured: benchmarks/results/gather_matmul_scatter.jsonl."""
    matrix, rows = np.zeros((4096, 4096), np.float16), np.arange(4096, dtype=np.int32)
    grid, args, meta = fused.arguments(matrix, matrix, matrix, rows, rows, 132, fused.Configuration(load_warps=warps))
    found = mimw.predict(fused.kernel, grid, *args, target="sm_90a", **meta)
    assert 2 * 4096 ** 3 / found.microseconds / 1e6 == pytest.approx(tflops, rel=0.12)
    assert ("'producer' never waits" in found.bound) == (warps < 4) and found.bound.startswith("tensor cores") == (warps == 4)


def test_the_tutorial_of_launch_control_is_bound_by_latency():
    tutorial = import_tutorial("08_cluster_launch_control")
    starts = np.arange(0, 4097, 4, dtype=np.int32)
    args = np.zeros(4096, np.float32), starts, np.zeros(1024, np.float32)
    found = predicted((tutorial.ragged_sums, (1024, ), args, dict(BLOCK=128, STAGES=2)))
    assert found.bound.startswith("latency") and "launch control" in found.busy()


def half(*shape):
    return np.empty(shape, np.float16)


def single(*shape):
    return np.empty(shape, np.float32)


ROWS = 1, 2, 512, 128       # of attention: batch, heads, rows, head dim
TUTORIALS = {
    "10_blackwell_attention": ("attention", (*(half(*ROWS) for _ in range(4)), single(*ROWS[:3]))),
    "18_blackwell_attention_backward": ("attention_backward", (
        *(half(*ROWS) for _ in range(4)), single(*ROWS), half(*ROWS), half(*ROWS), single(*ROWS[:3]), single(*ROWS[:3]))),
    "19_blackwell_grouped_gemm": ("grouped_gemm", (
        half(512, 256), half(2, 256, 256), half(2, 256), half(512, 256), np.array([0, 300, 512], np.int32), 4)),
    "20_blackwell_pair_addmm": ("addmm", tuple(half(512, 512) for _ in range(4))),
    "21_blackwell_block_scaled_gemm": ("block_scaled_gemm", (
        *(np.empty((512, 256), np.uint8) for _ in range(2)), *(np.empty((1, 4, 8, 2, 256), np.uint8) for _ in range(2)),
        half(512, 512), "nvfp4", 4)),
}


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_tutorials_for_blackwell(name):
    """Each has a timeline, in which products and tensor memory have lanes, and waits for them names."""
    kernel, arrays = TUTORIALS[name]
    tutorial = import_tutorial(name)
    found = predicted((getattr(tutorial, kernel), *tutorial.arguments(*arrays)))
    waits = {bubble.what for bubble in found.bubbles()}
    assert "a load of tensor memory" in waits and any(what.endswith("(tcgen05)") for what in waits) and found.bound
    assert {"tensor core", "tensor memory"} <= set(found.busy()) and found.units["tensor"] > 0 < found.units["tensor memory"]
