"""The kernels that are mutated: every one of tutorials/ and of src/mimw/kernels/, and some for several GPUs, at a small size, ready
to be checked."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import triton.language as tl

import mimw.tle
from mimw.kernels import (
    attention,
    attention_backward,
    attention_decode,
    attention_varlen,
    attention_varlen_backward,
    batched_gemm,
    block_scaled_gemm,
    cross_entropy,
    gather_matmul_scatter,
    gemm,
    grouped_gemm,
    moe,
    moe_align,
    norm,
    norm_backward,
    simplicial_attention,
    simplicial_attention_backward,
    skinny_gemm,
    softmax,
    sparse_mla,
    topk,
    topk_selector,
    wide_attention_backward,
)
from tests.kernels import carried_sums, collectives_of_ranks, cut_sequences, products_of_ranks, several_gpus, spread_experts

GPUS = "tests/kernels/several_gpus.py"
TUTORIALS = Path(__file__).parents[1] / "tutorials"


@dataclass(frozen=True)
class Case:
    """`file` is where the kernel stands, from the root of the repository; `make()` gives (kernel, grid, args, meta); `target` is
    the chip that it is for.

    `settled(arrays)` is what is one and the same for all right results, of the arrays among the args: by default they themselves.
    """

    name: str
    file: str
    make: Callable[[], tuple]
    settled: Callable[[list[np.ndarray]], list[np.ndarray]] = list
    target: str = "sm_90a"


def tutorial(stem: str):
    """The module of one tutorial."""
    name = f"tutorial_{stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TUTORIALS / f"{stem}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _numbers(*shapes, dtype=np.float16):
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


def _library_gemm(**configuration) -> tuple:
    a, b = _numbers((256, 256), (256, 192), dtype=ml_dtypes.bfloat16)
    c = np.zeros((256, 192), ml_dtypes.bfloat16)
    return gemm.kernel, *gemm.arguments(a, b, c, 2, gemm.Configuration(**configuration))


def _epilogue_gemm() -> tuple:
    """Four tiles of two consumers each, whose residual comes in two pieces by one slot."""
    a, b, residual = _numbers((256, 64), (64, 256), (256, 256), dtype=ml_dtypes.bfloat16)
    chosen = gemm.Configuration(bm=128, bn=128, stages=2, consumers=2, staging=1)
    return gemm.kernel, *gemm.arguments(a, b, np.zeros_like(residual), 2, chosen, residual=residual, bias=residual[0],
                                        activation="relu")


def _promoted_gemm() -> tuple:
    a, b = _numbers((256, 384), (128, 384), dtype=ml_dtypes.float8_e4m3fn)
    chosen = gemm.Configuration(bm=128, bn=128, stages=2, consumers=2, staging=1)
    return gemm.kernel, *gemm.arguments(a, b.T, np.zeros((256, 128), ml_dtypes.bfloat16), 1, chosen, promoted=True)


def _library_grouped(**configuration) -> tuple:
    """Three groups, an empty one among them, none a whole number of tiles, and rows behind them; two programs."""
    a, b = _numbers((220, 128), (3, 128, 128), dtype=ml_dtypes.bfloat16)
    c, ends = np.zeros((220, 128), ml_dtypes.bfloat16), np.array([130, 130, 200], np.int32)
    return grouped_gemm.kernel, *grouped_gemm.arguments(a, b, c, ends, 2, grouped_gemm.Configuration(**configuration))


def _experts(hidden: int = 64, inner: int = 256, stages: int = 0, **configuration) -> tuple:
    """The first product of a mixture of experts: two programs, three experts, one of them without tokens, blocks with padding."""
    chosen = moe.Configuration(**configuration)
    x, gate_up, down = _numbers((40, hidden), (3, 2 * inner, hidden), (3, hidden, inner), dtype=ml_dtypes.bfloat16)
    ids, weights = np.repeat(np.array([2, 0], np.int32), [50, 30]).reshape(40, 2), np.ones((40, 2), np.float32)
    room = {name: np.zeros(shape, x.dtype if name in ("inner", "rows") else np.int32)
            for name, shape in moe.room_for(40, 2, 3, inner, hidden, chosen).items()}
    for kernel, grid, args, meta in moe.launches(x, gate_up, down, ids, weights, np.zeros_like(x), room, 2, chosen):
        if kernel in (moe.kernel, moe.few_rows_gemm):
            return kernel, grid, args, meta | ({"STAGES": stages} if stages else {})
        mimw.simulate(kernel, grid, *args, **meta)


def _library_batched(**configuration) -> tuple:
    """Three matrices, none a whole number of tiles, times one."""
    a, b = _numbers((3, 100, 128), (1, 128, 128), dtype=ml_dtypes.bfloat16)
    c = np.zeros((3, 100, 128), ml_dtypes.bfloat16)
    return batched_gemm.kernel, *batched_gemm.arguments(a, b, c, 2, batched_gemm.Configuration(**configuration))


def _library_skinny() -> tuple:
    """Two tiles of four chunks, by three programs: each tile is cut, and the second program begins one and ends another."""
    chosen = skinny_gemm.Configuration(tm=16, stages=2)
    x, w = _numbers((9, 256), (256, 256), dtype=ml_dtypes.bfloat16)
    room, flags = (np.zeros(size, dtype) for size, dtype in zip(skinny_gemm.room_for(9, 256, 3, chosen), (np.float32, np.int32)))
    made = skinny_gemm.arguments(x, w.T, np.zeros((9, 256), ml_dtypes.bfloat16), room, flags, 3, chosen)
    return skinny_gemm.kernel, *made


def _library_block_scaled(k: int = 256, n: int = 128, **configuration) -> tuple:
    """Three groups, an empty one among them, none a whole number of tiles; two programs."""
    a, b = _numbers((164, k), (3, n, k), dtype=ml_dtypes.float8_e4m3fn)
    scale_a, scale_b = _numbers((k // 128, 164), (3, -(-n // 128), k // 128), dtype=np.float32)
    chosen = block_scaled_gemm.Configuration(staging=1, **configuration)
    made = block_scaled_gemm.arguments(a, b, np.zeros((164, n), ml_dtypes.bfloat16), scale_a.T, scale_b, 2,
                                       np.array([130, 130, 160], np.int32), chosen)
    return block_scaled_gemm.kernel, *made


def _gathered_product(blackwell: bool = False) -> tuple:
    """Two programs with two output tiles each; some rows come from nowhere, some go nowhere. On Blackwell one program with four."""
    a, b = _numbers((100, 192), (192, 128), dtype=ml_dtypes.bfloat16)
    random, c = np.random.default_rng(0), np.zeros((200, 128), ml_dtypes.bfloat16)
    source, target = random.integers(-9, 109, 190).astype(np.int32), random.permutation(220)[:190].astype(np.int32)
    chosen = gather_matmul_scatter.Configuration(bm=128, bn=64, stages=2, staging=1, load_warps=2)
    if blackwell:
        made = gather_matmul_scatter.arguments(a, b, c, source, target, 1, chosen, blackwell=True)
        return gather_matmul_scatter.blackwell_kernel, *made
    return gather_matmul_scatter.kernel, *gather_matmul_scatter.arguments(a, b, c, source, target, 2, chosen)


def _tutorial_gemm(stem: str, m: int, n: int, k: int, *further, **meta) -> tuple:
    module = tutorial(stem)
    a, b = _numbers((m, k), (k, n))
    return module.gemm, *module.arguments(a, b, np.zeros((m, n), np.float16), *further, **meta)


def _product_with_native_code(stem: str, k: int, **meta) -> tuple:
    """The launch that the tutorial's `multiply` makes."""
    made: list[tuple] = []
    arrays = *_numbers((64, k), (k, 128)), *_numbers((128, ), dtype=np.float32), np.zeros((64, 128), np.float16)
    tutorial(stem).multiply(lambda kernel, grid, *args, **more: made.append((kernel, grid, args, more)), *arrays, **meta)
    return made[0]


def _layer_norm() -> tuple:
    module = tutorial("05_cluster_layer_norm")
    x, w, b = _numbers((9, 200), 200, 200)
    return module.layer_norm, *module.arguments(x, w, b, np.zeros_like(x), clusters=2, CLUSTER=2, STAGES=2, num_warps=4)


SUM_AROUND = tutorial("22_several_gpus").sum_around


@mimw.jit
def sum_around_twice(x, y, slots, ready, free, world, N: tl.constexpr, SLOTS: tl.constexpr):
    """Two launches to `mimw.check`, which sees all accesses of both: what one leaves to the next counts."""
    for _ in tl.static_range(2):
        SUM_AROUND(x, y, slots, ready, free, world, N, SLOTS)


def _sum_around() -> tuple:
    """Three ranks with one slot each, so that a slot is given back before the next number comes."""
    module, world = tutorial("22_several_gpus"), mimw.World(3)
    numbers = [one.astype(np.float32) for one in _numbers(32, 32, 32)]
    x, y = world.each(numbers, "x"), world.each([np.zeros_like(one) for one in numbers], "y")
    return sum_around_twice, *module.arguments(world, x, y, 32, slots=1)


def _ragged_sums() -> tuple:
    """Rows of a few blocks, and of none."""
    module = tutorial("08_cluster_launch_control")
    return module.ragged_sums, *module.arguments(*module.rows(8, 60), BLOCK=32, STAGES=2)


def _tutorial_attention() -> tuple:
    module = tutorial("06_attention")
    q, k, v = _numbers(*[(1, 1, 256, 64)] * 3)
    return module.attention, *module.arguments(q, k, v, np.zeros_like(q), np.zeros(q.shape[:3], np.float32), BN=64)


def _tensor_attention() -> tuple:
    """256 queries and four blocks of keys."""
    module = tutorial("10_blackwell_attention")
    return module.attention, *module.arguments(*module.problem(1, 256, 16), BN=64, PARTS=1)


def _attention_backward() -> tuple:
    """128 of 384 keys, and three blocks of queries: with one program the sums of dQ have one order."""
    module = tutorial("18_blackwell_attention_backward")
    _, args, meta = module.arguments(*module.problem(1, 384, 16, False)[0], PARTS=2)
    return module.attention_backward, (1, 1), args, meta


def _grouped_gemm() -> tuple:
    """Two programs, three groups, an empty one among them."""
    module = tutorial("19_blackwell_grouped_gemm")
    arrays = module.problem((130, 0, 40), 128, 64)
    return module.grouped_gemm, *module.arguments(*arrays, 2, BN=64, BK=32, STAGES=2, PARTS=2)


def _pair_addmm() -> tuple:
    """Two pairs of CTAs and four tiles, two parts of each in two places; 32 rows of A behind the end of M."""
    module = tutorial("20_blackwell_pair_addmm")
    return module.addmm, *module.arguments(*module.matrices(480, 64, 48), BM=128, BN=32, BK=16, STAGES=2, PARTS=2, PLACES=2)


def _block_scaled_gemm() -> tuple:
    """One program and three tiles, two accumulators, nvfp4."""
    module = tutorial("21_blackwell_block_scaled_gemm")
    arrays, _ = module.problem(384, 128, 256, "nvfp4")
    return module.block_scaled_gemm, *module.arguments(*arrays, "nvfp4", 1, BN=128, BK=64, STAGES=2, PARTS=2, SUMS=2)


def _histogram() -> tuple:
    module = tutorial("07_radix_histogram")
    keys = np.random.default_rng(0).integers(0, 1 << 8, 600).astype(np.int32)
    meta = dict(BITS=4, COPIES=2, BLOCK=256, programs=2, num_warps=4)
    return module.histogram, *module.arguments(keys, np.zeros(16, np.int32), 0, **meta)


def _ties() -> tuple:
    """(x, values, indices): two rows of 100 small numbers, many of them equal, and room for the ten largest."""
    x = np.random.default_rng(0).integers(-20, 20, (2, 100)).astype(np.float16)
    return x, np.zeros((2, 10), np.float16), np.zeros((2, 10), np.int32)


def _tutorial_topk() -> tuple:
    module = tutorial("14_radix_topk")
    return module.radix_topk, *module.arguments(*_ties())


def _library_topk(**configuration) -> tuple:
    return topk.kernel, *topk.arguments(*_ties(), topk.Configuration(**configuration))


def _selector(ctas: int) -> tuple:
    """A row whose candidates fit, and one of equal numbers, which is counted digit by digit."""
    x = np.concatenate([np.random.default_rng(0).standard_normal((1, 150)), np.full((1, 150), 2.0)]).astype(np.float32)
    chosen = topk_selector.Configuration(ctas, 1, 1, 32)
    return topk_selector.kernel, *topk_selector.arguments(x, None, None, np.zeros((2, 10), np.int32), None, chosen)


def _simplicial_attention() -> tuple:
    """Four blocks of keys in two chunks, three second keys for two consumers, three tasks of one program."""
    q, k, v, k2, v2 = _numbers((1, 64, 3, 64), *4 * [(1, 1, 52, 64)])
    o, lse = np.zeros_like(q), np.zeros(q.shape[:3], np.float32)
    chosen = simplicial_attention.Configuration(bn=16, stages=2, chunk=2)
    return simplicial_attention.kernel, *simplicial_attention.arguments(q, k, v, k2, v2, o, lse, 1, (50, 3), chosen=chosen)


def _sparse_mla(form) -> tuple:
    """One query of 16 heads, its list of 72 rows in blocks of 16; some count for nothing."""
    q, kv = _numbers((1, 1, 16, 48), (1, 80, 1, 48), dtype=ml_dtypes.bfloat16)
    indices = np.random.default_rng(2).integers(0, 80, (1, 1, 1, 96)).astype(np.int32)
    indices[..., 5::11] = -1
    out, lse = np.zeros((1, 1, 16, 32), ml_dtypes.bfloat16), np.zeros((1, 1, 16), np.float32)
    return sparse_mla.arguments(q, kv, indices, np.full((1, 1, 1), 72, np.int32), out, lse, form=form, heads=16, block=16)


def _simplicial_gradients() -> tuple:
    """As forward."""
    q, do, k, v, k2, v2 = _numbers(*2 * [(1, 64, 3, 64)], *4 * [(1, 1, 52, 64)])
    rows, chosen = np.full(q.shape[:3], 5, np.float32), simplicial_attention.Configuration(bn=16, stages=2, chunk=2)
    return simplicial_attention_backward.kernel, *simplicial_attention_backward.arguments(
        q, k, v, k2, v2, do, rows, rows, np.zeros_like(q), 1, (50, 3), chosen=chosen)


def _choices(numel: int) -> np.ndarray:
    """An expert of eight for each token, the low numbers more often."""
    return (np.random.default_rng(0).random(numel)**3 * 8).astype(np.int32)


def _tutorial_align(in_cluster: bool) -> tuple:
    module = tutorial("15_moe_align")
    outs = [np.full(size, -7, np.int32) for size in module.sizes(300, 8, 4)]
    return module.align, *module.arguments(_choices(300), outs, 8, 4, in_cluster, BLOCK=128, num_warps=4)


def _library_align(numel: int, form: str, **configuration) -> tuple:
    """Tiles of 64 tokens: one a program up to 512 tokens, more than one above."""
    outs = [np.full(size, -7, np.int32) for size in (*moe_align.outputs(numel, 8, 4), 8)]
    return moe_align.arguments(_choices(numel), *outs, 8, 4, 2, moe_align.Configuration(form, 64, 4, **configuration))


def _experts_lists(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Of an alignment in blocks of four: an expert's tokens may stand in any order, but in front of its padding."""
    ids, tokens, experts, total, *_ = arrays
    expert = experts[np.arange(tokens.size) // 4]
    return [tokens[np.lexsort((tokens, expert))], tokens == ids.size, experts, total]


def _places(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Of a selection: what is there, and that no place comes twice; of equal numbers any may be chosen, in any order."""
    x, places = arrays
    found = np.sort(np.take_along_axis(x, places % x.shape[1], 1))
    return [found, np.array([len(set(row)) for row in places.tolist()]), places < 0]


def _softmax() -> tuple:
    """A mesh of two CTAs."""
    module = tutorial("16_cluster_reduction")
    (x, ) = _numbers((2, 100))
    return module.softmax, *module.arguments(x, np.zeros_like(x), mimw.tle.device_mesh({"cluster": 2}), num_warps=4)


def _attention() -> tuple:
    """Two tiles in one program, so that it starts the second before it has finished the first."""
    q, k, v = _numbers(*[(1, 1, 256, 64)] * 3)
    o, lse, counter = np.zeros_like(q), np.zeros(q.shape[:3], np.float32), np.zeros(1, np.int32)
    chosen = attention.Configuration(bm=128, bn=64)
    return attention.kernel, *attention.arguments(q, k, v, o, lse, counter, 1, True, chosen=chosen)


def _attention_varlen() -> tuple:
    """Three sequences, one without queries, in one program: tiles that end inside of the next sequence, blocks without a mask."""
    q, k, v = _numbers((100, 1, 64), *[(370, 1, 64)] * 2)
    o, lse, counter = np.zeros_like(q), np.zeros((1, 100), np.float32), np.zeros(1, np.int32)
    cu_q, cu_k = (np.array(starts, np.int32) for starts in ((0, 60, 60, 100), (0, 70, 90, 370)))
    chosen = attention_varlen.Configuration(bm=128, bn=64)
    return attention_varlen.kernel, *attention_varlen.arguments(q, k, v, o, lse, cu_q, cu_k, counter, 1, 60, 280, True,
                                                                chosen=chosen)


def _library_norm(stages: int, drawn: bool = False) -> tuple:
    """Pairs of CTAs, slots that two consumers take in turn, a residual, chunks that stick out of a row; with `drawn` two pairs that
    draw their rows."""
    x, w, b = _numbers((7, 168), 168, 168)
    chosen = norm.Configuration("ring", 2, 64, 2, 4, stages, 2, drawn=drawn)
    return norm.arguments(x, w, b, np.zeros_like(x), x[::-1].copy(), np.zeros_like(x), chosen=chosen, room=1 + drawn,
                          counter=np.zeros(1, np.int32))


def _library_norm_backward(ahead: bool = False) -> tuple:
    """The same of a gradient; its sums over rows are made by another launch. `ahead`: two rows at a time by one consumer, the first
    pass over them together with the second one over the two before them."""
    rows = 6 if ahead else 7
    x, dy, more, w = _numbers((rows, 168), (rows, 168), (rows, 168), 168)
    mean, rstd = _numbers(rows, rows, dtype=np.float32)
    chosen = norm.Configuration("ring", 2, 64, 2, 4, 2 + (not ahead), 1 + (not ahead), rows=1 + ahead, ahead=ahead)
    parts = np.zeros((2, norm_backward.parts_of(rows, 168, chosen, 1), 168), np.float32)
    return norm_backward.arguments(x, dy, w, mean, rstd, np.zeros_like(x), w.copy(), w.copy(), parts, more, chosen, 1)[0]


def _gradients_of_queries() -> tuple:
    """128 of 150 queries, four blocks of keys, of which the last two need a mask."""
    q, do, dq, k, v = _numbers(*[(1, 1, 150, 64)] * 3, *[(1, 1, 500, 64)] * 2)
    lse, rows = np.zeros(q.shape[:3], np.float32), np.zeros((2, 1, 192), np.float32)
    chosen = attention_backward.Configuration(bm=64)
    *_, (kernel, _, args, meta) = attention_backward.launches(q, k, v, q, lse, do, dq, k, v, rows, None, True, chosen=chosen,
                                                              one_order=True)
    return kernel, (1, 1, 1), args, meta


def _gradients() -> tuple:
    """128 of 300 keys, five blocks of queries, two of which need the mask: with one program the sums of dQ have one order."""
    q, do, k, v, dk, dv = _numbers(*[(1, 1, 298, 64)] * 2, *[(1, 1, 300, 64)] * 4)
    chosen = attention_backward.Configuration(bm=64)
    rows, sums = (np.zeros(shape, np.float32) for shape in attention_backward.workspace(q, chosen))
    _, args, meta = attention_backward.arguments(q, k, v, do, dk, dv, rows, sums, True, chosen=chosen)
    return attention_backward.kernel, (1, 1, 1), args, meta


def _packed_gradients(number: int = 1, dim: int = 64, one_order: bool = False, keys: int = 190) -> tuple:
    """Keys, or queries, of the longer of two sequences, which end inside of a block: with one program the sums of dQ have one
    order."""
    q, do, o, dq, k, v, dk, dv = _numbers(*[(200, 1, dim)] * 4, *[(40 + keys, 1, dim)] * 4)
    cu_q, cu_k = (np.array(starts, np.int32) for starts in ((0, 30, 200), (0, 40, 40 + keys)))
    chosen = None if dim > 64 else attention_varlen_backward.Configuration(bm=64)
    work = [None if one is None else np.zeros(*one) for one in
            attention_varlen_backward.workspace(q, k, v, cu_q, 170, keys, True, chosen, one_order)]
    before, *others = attention_varlen_backward.launches(
        q, k, v, o, np.zeros((1, 200), np.float32), do, dq, dk, dv, cu_q, cu_k, work, 170, keys, True, chosen=chosen,
        one_order=one_order)
    mimw.simulate(before[0], before[1], *before[2], **before[3])
    kernel, _, args, meta = others[number - 1]
    return kernel, (1, 1), args, meta


def _wide_gradients() -> tuple:
    """64 of 130 keys, heads of 72 with values of 40, four blocks of queries of two heads."""
    q, dq, o, do = _numbers(*[(1, 2, 100, 72)] * 2, *[(1, 2, 100, 40)] * 2)
    k, dk, v, dv = _numbers(*[(1, 1, 130, 72)] * 2, *[(1, 1, 130, 40)] * 2)
    rows, lse = np.zeros(wide_attention_backward.workspace(q), np.float32), np.zeros(q.shape[:3], np.float32)
    _, (kernel, _, args, meta), _ = wide_attention_backward.launches(q, k, v, o, lse, do, dq, dk, dv, rows, True)
    return kernel, (1, 1, 1), args, meta


def _decoding(streams: int) -> tuple:
    """Four sequences, in pages of 16 keys, with strangers behind them; two workers of one consumer share the first, and the second
    has the others, or one worker of two consumers, who have 64 and 16 rows of the same keys, has all. A ring of two blocks of keys
    and of values, so that a producer may begin an item before its consumers have read the one before."""
    q, k, v = _numbers((4, 1 if streams == 2 else 16, 5, 64), (14, 16, 1, 64), (14, 16, 1, 64), dtype=ml_dtypes.bfloat16)
    chosen = attention_decode.Configuration(bn=32, stages=4, streams=streams, least=1)
    o, lse = np.zeros_like(q), np.zeros((4, 5, q.shape[1]), np.float32)
    table, lengths = np.full((4, 9), 99, np.int32), np.array([130, 20, 20, 5], np.int32)
    table[0], table[1, :2], table[2, :2], table[3, 0] = [3, 1, 6, 4, 0, 13, 2, 12, 5], [7, 8], [3, 9], 11
    room = np.zeros(attention_decode.room_for(q, 1, 1, chosen), np.float32)
    return attention_decode.arguments(q, k, v, lengths, o, lse, room, 1, table, chosen=chosen)[0]


def _decoding_few_rows(few: int) -> tuple:
    """Five sequences, in pages of 32 keys, with strangers behind them: the first program has three of one block and half of the
    fourth; who comes last adds the parts. A ring of two blocks, so that a producer is up to two sequences ahead."""
    q, k, v = _numbers((5, 1, 5, 64), (16, 32, 1, 64), (16, 32, 1, 64), dtype=ml_dtypes.bfloat16)
    chosen = attention_decode.Configuration(bn=64, stages=2, streams=1, least=1, drawn=0, few=few)
    o, lse = np.zeros_like(q), np.zeros((5, 5, 1), np.float32)
    table, lengths = np.full((5, 7), 99, np.int32), np.array([20, 30, 10, 200, 130], np.int32)
    table[:3, 0], table[3], table[4, :5] = [11, 14, 10], [13, 2, 12, 5, 7, 8, 9], [3, 1, 6, 4, 0]
    room = np.zeros(attention_decode.room_for(q, 1, 2, chosen), np.float32)
    flags = np.zeros(attention_decode.flags_for(2, chosen), np.int32)
    return attention_decode.arguments(q, k, v, lengths, o, lse, room, 2, table, chosen=chosen, flags=flags)[0]


def _library_softmax() -> tuple:
    """Pairs of CTAs, three slots that two consumers take in turn, chunks that stick out of a row."""
    (x, ) = _numbers((7, 168))
    return softmax.arguments(x, np.zeros_like(x), chosen=softmax.Configuration("ring", 2, 64, 2, 4, 3, 2), room=1)


def _library_cross_entropy() -> tuple:
    """In place, with smoothing: as the softmax, a second exchange of each row, and rows that begin and end anywhere."""
    x, lines = _numbers((7, 165))[0], np.zeros((2, 7), np.float32)
    chosen = cross_entropy.Configuration("ring", 2, 64, 2, 4, 3, 2)
    return cross_entropy.arguments(x, np.arange(7) * 20, *lines, x, smoothing=0.1, chosen=chosen, room=1)


def _collective(collective: str, form: str, numbers: int) -> tuple:
    """Launches that follow each other, or more chunks than there are slots, by one program a rank."""
    return collectives_of_ranks.collecting(collective, form, numbers=numbers, again=True, programs=1)[0]


CASES = (
    Case("GEMM, one consumer", "src/mimw/kernels/gemm/kernel.py",
         lambda: _library_gemm(bm=64, bn=64, stages=3, consumers=1, staging=1)),
    Case("GEMM, cooperative", "src/mimw/kernels/gemm/kernel.py",
         lambda: _library_gemm(bm=128, bn=128, stages=2, consumers=2, staging=2)),
    Case("GEMM, ping-pong", "src/mimw/kernels/gemm/kernel.py",
         lambda: _library_gemm(bm=64, bn=128, stages=2, consumers=2, staging=1, ping_pong=True)),
    Case("GEMM, residual", "src/mimw/kernels/gemm/kernel.py", _epilogue_gemm),
    Case("GEMM, promoted sums", "src/mimw/kernels/gemm/kernel.py", _promoted_gemm),
    Case("Grouped product", "src/mimw/kernels/grouped_gemm/kernel.py",
         lambda: _library_grouped(bm=128, bn=128, stages=2, staging=1)),
    Case("Grouped product, ping-pong", "src/mimw/kernels/grouped_gemm/kernel.py",
         lambda: _library_grouped(bm=64, bn=128, stages=2, staging=1, ping_pong=True)),
    Case("Product of experts", "src/mimw/kernels/moe/kernel.py", lambda: _experts(bm=64, bn=128, consumers=2, ping_pong=True)),
    Case("Product of experts, few rows", "src/mimw/kernels/moe/few_rows.py",
         lambda: _experts(192, 64, 2, bm=16, bn=128, swapped=True)),
    Case("Product of experts, rows picked", "src/mimw/kernels/moe/kernel.py",
         lambda: _experts(bm=32, bn=128, consumers=2, ping_pong=True, load_warps=4)),
    Case("Batched product", "src/mimw/kernels/batched_gemm/kernel.py",
         lambda: _library_batched(bm=64, bn=128, stages=2, staging=1, ping_pong=True)),
    Case("Skinny product", "src/mimw/kernels/skinny_gemm/kernel.py", _library_skinny),
    Case("Block-scaled product", "src/mimw/kernels/block_scaled_gemm/kernel.py",
         lambda: _library_block_scaled(stages=2, together=1)),
    Case("Block-scaled product, pairs", "src/mimw/kernels/block_scaled_gemm/kernel.py",
         lambda: _library_block_scaled(640, stages=3, apart=1)),
    Case("Block-scaled product, tall", "src/mimw/kernels/block_scaled_gemm/kernel.py",
         lambda: _library_block_scaled(n=160, bm=256, rows=128, stages=2, together=1, apart=2)),
    Case("Gather, GEMM, scatter", "src/mimw/kernels/gather_matmul_scatter/kernel.py", _gathered_product),
    Case("Gather, GEMM, scatter, Blackwell", "src/mimw/kernels/gather_matmul_scatter/blackwell.py", lambda: _gathered_product(True),
         target="sm_100a"),
    Case("Attention", "src/mimw/kernels/attention/kernel.py", _attention),
    Case("Attention, packed sequences", "src/mimw/kernels/attention_varlen/kernel.py", _attention_varlen),
    Case("Attention, backward", "src/mimw/kernels/attention_backward/kernel.py", _gradients),
    Case("Attention, backward, one order", "src/mimw/kernels/attention_backward/kernel.py", _gradients_of_queries),
    Case("Attention, packed sequences, backward", "src/mimw/kernels/attention_varlen_backward/kernel.py", _packed_gradients),
    Case("Attention, packed sequences, backward, one order", "src/mimw/kernels/attention_varlen_backward/kernel.py",
         lambda: _packed_gradients(2, one_order=True, keys=450)),
    Case("Attention, packed sequences, backward, wide", "src/mimw/kernels/attention_varlen_backward/kernel.py",
         lambda: _packed_gradients(1, 136)),
    Case("Attention, backward, wide heads", "src/mimw/kernels/wide_attention_backward/kernel.py", _wide_gradients),
    Case("2-simplicial attention", "src/mimw/kernels/simplicial_attention/kernel.py", _simplicial_attention),
    Case("Sparse MLA, pipe", "src/mimw/kernels/sparse_mla/pipe.py", lambda: _sparse_mla(sparse_mla.pipelined)),
    Case("Sparse MLA, seesaw", "src/mimw/kernels/sparse_mla/seesaw.py", lambda: _sparse_mla(sparse_mla.seesaw)),
    Case("Sparse MLA, without roles", "src/mimw/kernels/sparse_mla/shared.py", lambda: _sparse_mla(sparse_mla.shared)),
    Case("Decoding", "src/mimw/kernels/attention_decode/kernel.py", lambda: _decoding(2)),
    Case("Decoding, many rows", "src/mimw/kernels/attention_decode/kernel.py", lambda: _decoding(1)),
    Case("Decoding, few rows", "src/mimw/kernels/attention_decode/finished.py", lambda: _decoding_few_rows(2)),
    Case("Decoding, warps apart", "src/mimw/kernels/attention_decode/few.py", lambda: _decoding_few_rows(1)),
    Case("2-simplicial attention, backward", "src/mimw/kernels/simplicial_attention_backward/kernel.py", _simplicial_gradients),
    Case("Top-k, one CTA", "src/mimw/kernels/topk/kernel.py", lambda: _library_topk(warps=1)),
    Case("Top-k, cluster", "src/mimw/kernels/topk/kernel.py", lambda: _library_topk(ctas=2, warps=1)),
    Case("Top-k selector, one CTA", "src/mimw/kernels/topk_selector/kernel.py", lambda: _selector(1), _places),
    Case("Top-k selector, cluster", "src/mimw/kernels/topk_selector/kernel.py", lambda: _selector(2), _places),
    Case("MoE align, grid", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(120, "grid"), _experts_lists),
    Case("MoE align, many tiles", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(1100, "grid"), _experts_lists),
    Case("MoE align, cluster", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(120, "cluster"), _experts_lists),
    Case("MoE align, pull", "src/mimw/kernels/moe_align/kernel.py", lambda: _library_align(120, "cluster", pull=True),
         _experts_lists),
    Case("Norm, ring", "src/mimw/kernels/norm/kernel.py", lambda: _library_norm(3)),
    Case("Norm, drawn rows", "src/mimw/kernels/norm/kernel.py", lambda: _library_norm(2, True)),
    Case("Norm backward, ring", "src/mimw/kernels/norm_backward/kernel.py", _library_norm_backward),
    Case("Norm backward, ahead", "src/mimw/kernels/norm_backward/kernel.py", lambda: _library_norm_backward(True)),
    Case("Softmax, ring", "src/mimw/kernels/softmax/kernel.py", _library_softmax),
    Case("Cross entropy, ring", "src/mimw/kernels/cross_entropy/kernel.py", _library_cross_entropy),
    Case("Tutorial 01", "tutorials/01_pipelined_gemm.py",
         lambda: _tutorial_gemm("01_pipelined_gemm", 128, 64, 320, BM=64, BN=64, STAGES=3, num_warps=4)),
    Case("Tutorial 02", "tutorials/02_warp_specialised_gemm.py",
         lambda: _tutorial_gemm("02_warp_specialised_gemm", 384, 128, 320, 2, BN=128, STAGES=2)),
    Case("Tutorial 03", "tutorials/03_ping_pong_gemm.py",
         lambda: _tutorial_gemm("03_ping_pong_gemm", 128, 256, 320, 2, BM=64, BN=64, STAGES=2)),
    Case("Tutorial 04", "tutorials/04_multicast_gemm.py",
         lambda: _tutorial_gemm("04_multicast_gemm", 256, 256, 320, 2, BN=128, STAGES=2)),
    Case("Tutorial 05", "tutorials/05_cluster_layer_norm.py", _layer_norm),
    Case("Tutorial 06", "tutorials/06_attention.py", _tutorial_attention),
    Case("Tutorial 07", "tutorials/07_radix_histogram.py", _histogram),
    Case("Tutorial 08", "tutorials/08_cluster_launch_control.py", _ragged_sums, target="sm_100a"),
    Case("Tutorial 09", "tutorials/09_blackwell_gemm.py",
         lambda: _tutorial_gemm("09_blackwell_gemm", 256, 192, 128, BN=64, BK=32, STAGES=2, PARTS=2), target="sm_100a"),
    Case("Tutorial 10", "tutorials/10_blackwell_attention.py", _tensor_attention, target="sm_100a"),
    Case("Tutorial 11", "tutorials/11_tle_pipe_gemm.py",
         lambda: _tutorial_gemm("11_tle_pipe_gemm", 128, 64, 320, BM=64, BN=64, STAGES=3, num_warps=4)),
    Case("Tutorial 12", "tutorials/12_tle_warp_specialised_gemm.py",
         lambda: _tutorial_gemm("12_tle_warp_specialised_gemm", 256, 128, 256, 1, BN=128, STAGES=2)),
    Case("Tutorial 14", "tutorials/14_radix_topk.py", _tutorial_topk),
    Case("Tutorial 15, cluster", "tutorials/15_moe_align.py", lambda: _tutorial_align(True), _experts_lists),
    Case("Tutorial 15, grid", "tutorials/15_moe_align.py", lambda: _tutorial_align(False), _experts_lists),
    Case("Tutorial 16", "tutorials/16_cluster_reduction.py", _softmax),
    Case("Tutorial 17", "tutorials/17_distributed_dot.py",
         lambda: _tutorial_gemm("17_distributed_dot", 32, 64, 192, BM=32, BN=64, BK=32, STAGES=3, num_warps=4)),
    Case("Tutorial 18", "tutorials/18_blackwell_attention_backward.py", _attention_backward, target="sm_100a"),
    Case("Tutorial 19", "tutorials/19_blackwell_grouped_gemm.py", _grouped_gemm, target="sm_100a"),
    Case("Tutorial 20", "tutorials/20_blackwell_pair_addmm.py", _pair_addmm, target="sm_100a"),
    Case("Tutorial 21", "tutorials/21_blackwell_block_scaled_gemm.py", _block_scaled_gemm, target="sm_100a"),
    Case("Tutorial 24", "tutorials/24_raw_code.py",
         lambda: _product_with_native_code("24_raw_code", 96, BM=64, BN=64, BK=32, STAGES=2)),
    Case("Tutorial 26", "tutorials/26_mlir_text.py", lambda: _product_with_native_code("26_mlir_text", 192, STAGES=2)),
)

# Of these there are no runs without tile data, no samples and no smaller launches.
ON_SEVERAL_GPUS = (
    Case("Two GPUs, stream", GPUS, several_gpus.streaming),
    Case("Two GPUs, exchange", GPUS, several_gpus.exchanging),
    Case("Four GPUs, all-gather", GPUS, several_gpus.gathering),
    Case("Tutorial 22", "tutorials/22_several_gpus.py", _sum_around),
    Case("Three GPUs, GEMM and reduce-scatter", "src/mimw/kernels/gemm_reduce_scatter/kernel.py",
         lambda: products_of_ranks.scattering(3, m=192, n=128, bn=128, twice=True)[0]),
    Case("Two GPUs, GEMM and all-reduce", "src/mimw/kernels/gemm_reduce_scatter/kernel.py",
         lambda: products_of_ranks.scattering(m=128, n=128, bn=128, everywhere=True, twice=True)[0]),
    Case("Two GPUs, GEMM and carried sums", "src/mimw/kernels/gemm_reduce_scatter/kernel.py",
         lambda: carried_sums.carrying(m=128, n=128, bn=128, everywhere=True, launches=2)[0]),
    Case("Two GPUs, all-gather and GEMM", "src/mimw/kernels/all_gather_gemm/kernel.py",
         lambda: products_of_ranks.gathering(m=256, k=128, twice=True, longest=2048)[0]),
    Case("Two GPUs, keys of attention", "src/mimw/kernels/ring_attention/gather.py", cut_sequences.gathering),
    Case("Two GPUs, shares of attention's gradients", "src/mimw/kernels/ring_attention_backward/collect.py",
         cut_sequences.collecting),
    Case("Two GPUs, dispatch to experts", "src/mimw/kernels/moe_dispatch/kernel.py",
         lambda: spread_experts.dispatching(2, 6, 2, 2, 8, programs=1, times=2)[0]),
    Case("Two GPUs, dispatch by numbers", "src/mimw/kernels/moe_dispatch/rows.py",
         lambda: spread_experts.listing(2, 4, 2, 2, 8, programs=1, block=2, times=2, seed=3)[0]),     # last rows leave
    Case("Two GPUs, combine from experts", "src/mimw/kernels/moe_combine/kernel.py",
         lambda: spread_experts.combining(2, 3, 2, 2, 16, chosen=spread_experts.ALONE, times=2)[0]),
    Case("Collectives with flags", "src/mimw/kernels/collectives/flagged.py", lambda: _collective("all_reduce", "flagged", 64)),
    Case("Collectives in slots", "src/mimw/kernels/collectives/ring.py", lambda: _collective("all_reduce", "ring", 270)),
    Case("Collectives in slots, ahead", "src/mimw/kernels/collectives/ring.py", lambda: _collective("all_gather", "ring-lag", 450)),
    Case("All-reduce in two hops", "src/mimw/kernels/collectives/two_shot.py", lambda: _collective("all_reduce", "two_shot", 400)),
    Case("All-reduce of symmetric tensors", "src/mimw/kernels/collectives/direct.py",
         lambda: _collective("all_reduce", "direct", 128)),
    Case("All-gather of symmetric tensors", "src/mimw/kernels/collectives/direct.py",
         lambda: _collective("all_gather", "direct", 128)),
)

# Their mutants have not been judged yet: a seed takes 3 to 4 seconds, so 200 seeds and all mutants take an hour. What ranks tell
# each other is in files of its own, gather.py and collect.py, whose cases are above.
NOT_JUDGED = (
    Case("Two GPUs, attention", "src/mimw/kernels/ring_attention/kernel.py",
         lambda: cut_sequences.forward(2, True, heads=2, putters=2)[:4]),
    Case("Two GPUs, attention's gradients", "src/mimw/kernels/ring_attention_backward/kernel.py",
         lambda: cut_sequences.backward(2, True)[0][1]),
)
