"""A program as the text of a kernel: recorded again it is the same program, or it has no text and says why."""

import importlib

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.compiler.orchestrate.text import module_text
from mimw.errors import NotYet
from tests.fuzz.launch import arrays_of, bound, launch_meta, shared
from tests.orchestrate.again import again, kernel_of, recorded

CASES = ("attention", "attention:causal", "gemm_bias_gelu", "gemm_descriptors", "gemm_fp8_blocks", "gemm_int4", "gemm_persistent",
         "gemm_pointers", "grouped_gemm", "layer_norm", "linear_attention", "softmax_rows")


def launch_of(name: str):
    module, _, function = name.partition(":")
    kernel, _, args, meta, _ = getattr(importlib.import_module(f"tests.orchestrate.cases.{module}"), function or "case")()
    return recorded(kernel, args, meta)


def written(kernel, args, folder, chip="sm_90a", **meta) -> str:
    """The text of a kernel, which is to record the same."""
    text, differs = again(recorded(kernel, args, meta, chip), "kernel", folder, kernel.__name__)
    assert differs is None, text
    return text


@pytest.mark.parametrize("name", CASES)
def test_the_cases_record_again(name, tmp_path):
    text, differs = again(launch_of(name), name.partition(":")[0], tmp_path)
    assert differs is None, text
    assert max(map(len, text.splitlines())) <= 120


def test_text_of_a_plain_gemm(golden):
    golden(module_text(launch_of("gemm_descriptors").program, "gemm", docstring="C = A B.", host="def grid(M):\n    return (M, )"))


# ---- tasks and pipes -----------------------------------------------------------------------------------------------------

@mimw.jit
def gemm_in_tasks(a_desc, b_desc, c_desc, K):
    m, n = tl.program_id(0) * 128, tl.program_id(1) * 128
    tiles = tle.pipe(capacity=2, name="tiles", readers=("upper", "lower"), a=tle.gpu.alloc([2, 128, 64], tl.float16),
                     b=tle.gpu.alloc([2, 64, 128], tl.float16))
    out = tlx.local_alloc((64, 128), tl.float16, 2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            writer = tiles.writer()
            for k in range(0, K, 64):
                slot = writer.acquire(k // 64)
                tle.gpu.copy(a_desc, slot.a, [128, 64], [m, k])
                tle.gpu.copy(b_desc, slot.b, [64, 128], [k, n])
                writer.commit(k // 64)
        with tlx.async_task(num_warps=4, num_regs=232):     # upper
            acc = tl.zeros((64, 128), tl.float32)
            for k in range(0, K, 64):
                read = tiles.reader("upper").wait(k // 64).slot
                acc = tlx.async_dot(tlx.local_slice(read.a, [0, 0], [64, 64]), read.b, acc)
                acc = tlx.async_dot_wait(0, acc)
                tiles.reader("upper").release(k // 64)
            tlx.local_store(out[0], acc.to(tl.float16))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(c_desc, out[0], [m, n])
            tlx.async_descriptor_store_wait(0)
        with tlx.async_task(num_warps=4, num_regs=232):     # lower
            acc = tl.zeros((64, 128), tl.float32)
            for k in range(0, K, 64):
                read = tiles.reader("lower").wait(k // 64).slot
                acc = tlx.async_dot(tlx.local_slice(read.a, [64, 0], [64, 64]), read.b, acc)
                acc = tlx.async_dot_wait(0, acc)
                tiles.reader("lower").release(k // 64, pred=k + 64 < K)
            tlx.local_store(out[1], acc.to(tl.float16))
            tlx.fence("async_shared")
            tlx.async_descriptor_store(c_desc, out[1], [m + 64, n])
            tlx.async_descriptor_store_wait(0)


def test_text_of_tasks(golden, tmp_path):
    a, b, c = (np.zeros((128, 128), np.float16) for _ in range(3))
    describe = mimw.TensorDescriptor.from_tensor
    args = describe(a, [128, 64]), describe(b, [64, 128]), describe(c, [64, 128]), 128
    text, differs = again(recorded(gemm_in_tasks, args, {"num_warps": 4}), "gemm_in_tasks", tmp_path)
    assert differs is None, text
    golden(text)


# ---- what a name means ---------------------------------------------------------------------------------------------------

@mimw.jit
def crossing(x, y, n):
    at = tl.arange(0, 32)
    a, b, last = tl.load(x + at), tl.load(x + 32 + at), tl.zeros((32, ), tl.float32)
    total = 0
    for i in range(n):
        before = a
        a, b = b, a + b
        last = before
        for j in range(total, total + 3):
            total += j
        if i % 2 == 0:
            last = last * 2
            a, b = b, a
        else:
            b = last
    tl.store(y + at, a)
    tl.store(y + 32 + at, b - last)
    tl.store(y + 64 + at, total.to(tl.float32))
    while total > n:
        total, n = n, total - 1
    tl.store(y + 96 + at, (total + n).to(tl.float32))


def test_names_that_cross_keep_their_old_values(tmp_path):
    rng = np.random.default_rng(0)
    x, args = rng.standard_normal(64).astype(np.float32), []
    text = written(crossing, (x, np.zeros(128, np.float32), 5), tmp_path)
    for kernel in (crossing, kernel_of(text, "kernel", tmp_path, "crossing_run")):
        y = np.zeros(128, np.float32)
        mimw.simulate(kernel, (1, ), x, y, 5)
        args.append(y)
    assert np.array_equal(*args) and args[0].any()


@mimw.jit
def signs(x, u, y, v, n):
    at = tl.arange(0, 64)
    a, b = tl.load(x + at), tl.load(u + at)
    tl.store(y + at, a // 3 + a % 3 + (a >> 2) + tl.minimum(a, -5) + (-7) // a)
    tl.store(v + at, b // 3 + b % 3 + (b >> 2) + tl.maximum(b, 200) + (b > 127).to(tl.uint8))
    tl.store(y + at, tl.where(a < 0, a, b.to(tl.int32)), mask=at < n)
    tl.store(y + at, (b.to(tl.int8, bitcast=True).to(tl.float32) * 0.5 + b.to(tl.float32)).to(tl.int32), mask=(at < n) & (a != -1))
    big = tl.full((), 1 << 40, tl.int64) + n
    tl.store(y + at, ((big * a) >> 33).to(tl.int32), mask=at >= n)
    tl.store(v + at, (~b).to(tl.uint8) ^ (b << 1))
    tl.store(y + at, tl.cumsum(a, 0) + tl.sum(a, 0) + tl.max(tl.abs(a), 0) - a)


def test_signs_and_the_types_of_numbers(tmp_path):
    x, u = np.arange(-20, 44, dtype=np.int32), np.arange(160, 224, dtype=np.uint8)
    text = written(signs, (x, u, np.zeros(64, np.int32), np.zeros(64, np.uint8), 7), tmp_path)
    assert "1099511627776 + n.to(tl.int64)" in text


@mimw.jit
def pieces(x, y, d, count, n):
    at = tl.arange(0, 16)
    tile = tl.load(x + at[:, None] * 16 + at[None, :], mask=at[None, :] < n, other=-1.5, cache_modifier=".cg", volatile=True)
    even, odd = tl.split(tl.join(tile, tile * 2.0))
    both = tl.cat(even, odd, can_reorder=True, dim=0) if tile.shape[0] == 1 else tl.join(even, odd).permute(2, 0, 1).reshape(32, 16)
    best, where = tl.max(tile, 1, return_indices=True)
    half = (tile.to(tl.float16) - 0.25).to(tl.float8e4nv).to(tl.float32)
    tl.store(y + at[:, None] * 16 + at[None, :], half + tl.trans(tile) + tl.sum(both, 0)[None, :] + best[:, None] + where[:, None])
    made = tl.make_tensor_descriptor(y, [n, 16], [16, 1], [16, 16])
    made.store([0, 0], tl.exp2(made.load([0, 0])) / (tl.sqrt(tl.abs(tile)) + 1.0))
    d.atomic_add([d.shape[0] - 16, 0], tl.fma(tile, tile, tile))
    tl.atomic_add(count, 1, sem="relaxed", scope="cta")
    tl.atomic_max(count + at, at, mask=at < n)
    tl.store(count + 1, tl.atomic_cas(count, 3, n))
    tl.device_assert(n > 0, "n")
    tl.assume(n < 100)
    for i in tl.range(0, n, 2, num_stages=3):
        tl.multiple_of(i, 2)
        tl.store(count + i, tl.cdiv(n, 4), eviction_policy="evict_first")


def test_words_of_tl(tmp_path):
    x, y, z, count = (np.ones((16, 16), kind) for kind in (np.float32, np.float32, np.float32, np.int32))
    text = written(pieces, (x, y, mimw.TensorDescriptor.from_tensor(z, [16, 16]), count, 7), tmp_path)
    for part in ('cache_modifier=".cg", volatile=True', "num_stages=3", 'sem="relaxed", scope="cta"', "d.shape[0]", "def combine("):
        assert part in text.replace("\n" + " " * 12, " "), text


@mimw.jit
def names(tl_, max, range_, lambda_):
    sum = tl.load(max) + 1.0
    print_ = sum * sum
    tl.store(range_, print_ + sum + lambda_)


def test_no_name_hides_one_that_python_or_triton_needs(tmp_path):
    text = written(names, (1.5, np.zeros(1, np.float32), np.zeros(1, np.float32), 2.5), tmp_path)
    assert "def kernel(tl_, max2, range_, lambda_):" in text and "sum2 = " in text


@mimw.jit
def refused(x):
    at = tl.arange(0, 64)
    tl.store(x + at, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [at], tl.int32, True, 1))


def test_an_op_without_text_is_refused_with_its_line():
    with pytest.raises(NotYet, match="inline_asm has no text of a kernel yet") as told:
        module_text(recorded(refused, (np.zeros(64, np.int32), ), {}).program, "refused")
    assert "test_text.py" in str(told.value)


# ---- random programs -----------------------------------------------------------------------------------------------------

SEEDS = (4, 7, 10, 13, 14, 16, 17, 18, 24, 25, 27, 29, 30, 31, 32, 33, 34, 35, 37, 38)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_programs_record_again(tmp_path):
    """Every program of these seeds has a text. `python -m tests.fuzz 0 1000 --stages written` tries more."""
    for seed in SEEDS:
        program, kernel = shared(seed)
        args = bound(program, arrays_of(program), mimw.TensorDescriptor.from_tensor)
        text, differs = again(recorded(kernel, args, launch_meta(program), program.chip), "kernel", tmp_path, f"seed_{seed}")
        assert differs is None, f"{seed}: {text}"
