"""The mixture of experts: blocks of all sizes, both schedules, rows picked and copied, types, and routing of all kinds."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import moe
from mimw.kernels.moe import Configuration
from mimw.kernels.moe.configs import SHARED_BYTES, columns_of, configuration, product_meta

TYPES = {"bf16": (ml_dtypes.bfloat16, 1e-2), "fp16": (np.float16, 2e-3), "tf32": (np.float32, 3e-3)}    # type, allowed error
CUTS = {
    "decoding": Configuration(bm=16, bn=128, ping_pong=True, load_warps=4),
    "decoding, one consumer": Configuration(bm=32, bn=64, consumers=1, load_warps=1),
    "ping-pong": Configuration(bm=64, bn=128, ping_pong=True),
    "two CTAs an SM": Configuration(bm=16, bn=64, consumers=1, lines=2, ctas=2),
    "few rows": Configuration(bm=16, bn=256, group_m=1, swapped=True),
    "few rows, two CTAs an SM": Configuration(bm=16, bn=128, lines=2, ctas=2, swapped=True),
    "few rows, narrow": Configuration(bm=32, bn=64, lines=2, swapped=True),
    "few rows, drawn": Configuration(bm=16, bn=128, swapped=True, drawn=True),
    "cooperative": Configuration(bm=128, bn=256, load_warps=4),
    "cooperative, rows copied": Configuration(bm=128, bn=128, staging=2),
}


def problem(tokens, k, experts, inner, hidden, dtype="bf16", ids=None):
    """(x, gate_up, down, ids, weights)."""
    random, type_ = np.random.default_rng(0), TYPES[dtype][0]
    draw = lambda *shape: (random.standard_normal(shape) * shape[-1]**-0.5).astype(type_)  # noqa: E731
    ids = random.integers(0, experts, (tokens, k)) if ids is None else ids
    return (random.standard_normal((tokens, hidden)).astype(type_), draw(experts, 2 * inner, hidden), draw(experts, hidden, inner),
            ids, random.random((tokens, k)).astype(np.float32))


def reference(x, gate_up, down, ids, weights):
    x, gate_up, down = (array.astype(np.float64) for array in (x, gate_up, down))
    out = np.zeros_like(x)
    for token, slot in np.ndindex(ids.shape):
        gate, up = np.split(gate_up[ids[token, slot]] @ x[token], 2)
        out[token] += weights[token, slot] * (down[ids[token, slot]] @ (gate / (1 + np.exp(-gate)) * up))
    return out


def made(arrays, chosen, programs=3):
    """(the launches, out)."""
    x, gate_up, down, ids, _ = arrays
    out, shapes = np.full_like(x, 7), moe.room_for(*ids.shape, *down.shape[::2], x.shape[1], chosen)
    room = {name: np.full(shape, -7, x.dtype if name in ("inner", "rows") else np.int32) for name, shape in shapes.items()}
    return moe.launches(*arrays, out, room, programs, chosen), out


def holds(machine, arrays, chosen, dtype="bf16", programs=3):
    launches, out = made(arrays, chosen, programs)
    for kernel, grid, args, meta in launches:
        machine.launch(kernel, grid, *args, **meta)
    wanted = reference(*arrays)
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=0, atol=TYPES[dtype][1] * np.abs(wanted).max())


@pytest.mark.long(but=["decoding", "ping-pong", "two CTAs an SM", "few rows, drawn", "cooperative, rows copied"], everywhere=[
    "decoding", "ping-pong", "few rows, drawn", "cooperative, rows copied"])
@pytest.mark.parametrize("cut", CUTS)
def test_cuts(machine, cut):
    """Extents that no tile divides, more blocks than one for some experts, and last blocks of which half is padding."""
    holds(machine, problem(70, 2, 3, 72, 136, ids=np.repeat([2, 0], [100, 40]).reshape(70, 2)), CUTS[cut])


def quantised(rows):
    """In e4m3, 128 numbers a scale, and back."""
    wide = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 128))).reshape(len(rows), -1, 128)
    scale = np.abs(wide).max(-1, keepdims=True) / 448
    return ((wide / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale).reshape(len(rows), -1)[:, :rows.shape[1]]


@pytest.mark.long(but=["sizes1-*", "sizes3-*"], everywhere=["sizes3-*"])
@pytest.mark.parametrize("sizes, bm, swapped", [((9, 2, 2, 128, 208), 16, 0), ((40, 2, 2, 128, 400), 128, 0),
                                                ((9, 2, 2, 128, 208), 16, 1), ((20, 2, 2, 256, 144), 32, 2)])
def test_fp8_with_scales(machine, sizes, bm, swapped):
    """Against fp64 sums of the quantised numbers; an odd number of chunks along K, and an even one."""
    (tokens, k, experts, inner, hidden), random = sizes, np.random.default_rng(0)
    x, *_, ids, weights = problem(*sizes)
    fp8, shapes = ml_dtypes.float8_e4m3fn, ((experts, 2 * inner, hidden), (experts, hidden, inner))
    gate_up, down = matrices = [random.standard_normal(shape).astype(fp8) for shape in shapes]
    scales = [random.random((shape[0], -(-shape[1] // 128), -(-shape[2] // 128))).astype(np.float32) * 0.1 for shape in shapes]
    wide = [matrix.astype(np.float64) * scale.repeat(128, 1)[:, :matrix.shape[1]].repeat(128, 2)[..., :matrix.shape[2]]
            for matrix, scale in zip(matrices, scales)]
    wanted, out, types = np.zeros((tokens, hidden)), np.zeros_like(x), {None: x.dtype, "fp8": fp8}
    for token, slot in np.ndindex(tokens, k):
        gate, up = np.split(wide[0][ids[token, slot]] @ quantised(x[token:token + 1].astype(np.float64))[0], 2)
        h = quantised((gate / (1 + np.exp(-gate)) * up)[None].astype(x.dtype).astype(np.float64))[0]
        wanted[token] += weights[token, slot] * (wide[1][ids[token, slot]] @ h)
    room = {name: np.zeros(shape, types.get(type_, type_))
            for name, (shape, type_) in moe.scaled_room_for(tokens, k, experts, inner, hidden, bm).items()}
    for kernel, grid, args, meta in moe.scaled_launches(x, gate_up, down, *scales, ids, weights, out, room, 3, bm, swapped):
        machine.launch(kernel, grid, *args, **meta)
    assert np.linalg.norm(out - wanted) <= 1.5e-2 * np.linalg.norm(wanted)


def blocked(sizes, counts, bm, drawn, programs=3, halves=(64, 64)):
    """(launches, y, what rows of each block should become, the rows that are some token's): rows in blocks, with scales of their
    own; what fills blocks up is not a number."""
    (inner, hidden), random, fp8, local = sizes, np.random.default_rng(1), ml_dtypes.float8_e4m3fn, len(counts)
    blocks = -(-np.array(counts) // bm)
    places = (int(blocks.sum()) + 2) * bm       # there is room for more
    rows, scales = np.full((places, hidden), np.nan, fp8), np.full((places, -(-hidden // 128)), np.nan, np.float32)
    used = np.concatenate([begin * bm + np.arange(count) for begin, count in zip(blocks.cumsum() - blocks, counts)])
    rows[used] = random.standard_normal((len(used), hidden)).astype(fp8)
    scales[used] = random.random((len(used), scales.shape[1])) + 0.5
    shapes = (local, 2 * inner, hidden), (local, hidden, inner)
    matrices = [random.standard_normal(shape).astype(fp8) for shape in shapes]
    weights = [random.random((shape[0], -(-shape[1] // 128), -(-shape[2] // 128))).astype(np.float32) * 0.1 for shape in shapes]
    wide = [matrix.astype(np.float64) * scale.repeat(128, 1)[:, :matrix.shape[1]].repeat(128, 2)[..., :matrix.shape[2]]
            for matrix, scale in zip(matrices, weights)]
    wanted, expert = np.zeros((places, hidden)), np.repeat(np.arange(local), counts)
    for row, of in zip(used, expert):
        gate, up = np.split(wide[0][of] @ (rows[row].astype(np.float64) * scales[row].repeat(128)[:hidden]), 2)
        h = quantised((gate / (1 + np.exp(-gate)) * up)[None].astype(ml_dtypes.bfloat16).astype(np.float64))[0]
        wanted[row] = wide[1][of] @ h
    types, y = {None: ml_dtypes.bfloat16, "fp8": fp8}, np.zeros((places, hidden), ml_dtypes.bfloat16)
    room = {name: np.zeros(shape, types.get(type_, type_))
            for name, (shape, type_) in moe.blocked_room_for(places, inner, hidden, bm).items()}
    room["counter"][:] = -7
    ends = (blocks.cumsum() * bm).astype(np.int32)
    launches = moe.blocked_launches(rows, scales, ends, *matrices, *weights, y, room, programs, bm, drawn,
                                    halves=halves)
    return launches, y, wanted, used


@pytest.mark.long(but=["sizes0-*", "sizes2-*", "sizes3-*"], everywhere=["sizes0-*", "sizes3-*"])
@pytest.mark.parametrize("sizes, counts, bm, drawn, half", [
    ((128, 208), (5, 0, 17, 1), 16, False, 64), ((128, 208), (5, 0, 17, 1), 16, True, 64), ((256, 400), (130, 60), 128, True, 64),
    ((128, 128), (0, 0), 64, True, 64), ((256, 400), (130, 60), 128, True, 128), ((128, 272), (5, 0, 70, 1), 64, False, 128)])
def test_fp8_of_rows_in_blocks(machine, sizes, counts, bm, drawn, half):
    """An expert without rows, a block more than a program has, an odd number of chunks along K; no rows at all; wide tiles, of
    which the last one has no second half."""
    launches, y, wanted, used = blocked(sizes, counts, bm, drawn, halves=(half, half))
    for kernel, grid, args, meta in launches:
        machine.launch(kernel, grid, *args, **meta)
    assert np.linalg.norm(y[used] - wanted[used]) <= 1.5e-2 * np.linalg.norm(wanted)


def test_tiles_that_are_drawn_are_the_same():
    """The same bits, whoever draws which; no interleaving of the launches is wrong."""
    found = []
    for drawn, half in ((False, 64), (True, 64), (True, 128)):
        launches, y, *_ = blocked((128, 144), (20, 3), 16, drawn, programs=2, halves=(half, half))
        for kernel, grid, args, meta in launches:
            assert not drawn or mimw.check(kernel, grid, *args, seeds=2, **meta).ok
            mimw.simulate(kernel, grid, *args, **meta)
        found.append(y.tobytes())
    assert found[0] == found[1] == found[2]


def test_tokens_in_fp8_with_their_scales(machine):
    """As they go to other GPUs: a scale for each 128 numbers beside the row; the first ones alone where a total says so."""
    x = np.random.default_rng(0).standard_normal((7, 1200)).astype(ml_dtypes.bfloat16)
    for total in (None, np.array([5], np.int32)):
        rows, scales = np.zeros(x.shape, ml_dtypes.float8_e4m3fn), np.zeros((7, 10), np.float32)
        kernel, grid, args, meta = moe.quantise_arguments(x, rows, scales, 1, total)
        machine.launch(kernel, grid, *args, **meta)
        back = rows.astype(np.float64) * scales.repeat(128, 1)[:, :1200]
        count = 7 if total is None else 5
        np.testing.assert_allclose(back[:count], quantised(x[:count].astype(np.float64)), rtol=1e-6)
        assert not scales[count:].any()


@pytest.mark.parametrize("dtype, cut", [("fp16", "decoding"), ("tf32", "ping-pong")])
def test_types(machine, dtype, cut):
    holds(machine, problem(20, 2, 3, 40, 72, dtype), CUTS[cut], dtype)


@pytest.mark.long(but=["all to one, twice", "experts without tokens"], everywhere=True)
@pytest.mark.parametrize("ids", [np.full((20, 2), 3), np.zeros((1, 1), np.int32), np.tile([1, 4], (20, 1)), np.arange(6)[:, None]],
                         ids=["all to one, twice", "one token", "experts without tokens", "one each"])
def test_routing(machine, ids):
    holds(machine, problem(*ids.shape, 6, 64, 64, ids=ids), CUTS["decoding"], programs=9)


def test_strides(machine):
    """Rows of wider arrays, weights that lie the other way round."""
    x, gate_up, down, ids, weights = problem(20, 2, 3, 64, 64)
    wide = [np.concatenate([array, array], -1)[..., :array.shape[-1]] for array in (x, gate_up, down)]
    holds(machine, (*wide, ids, np.asfortranarray(weights)), CUTS["decoding"])
    holds(machine, (*wide, ids, weights), CUTS["ping-pong"])


def test_no_interleaving_is_wrong():
    """Few seeds; 200 of each kernel and cut are in benchmarks/notes/moe.md."""
    launches, _ = made(problem(20, 2, 3, 72, 72), CUTS["decoding"], 2)
    for kernel, grid, args, meta in launches:
        if kernel is moe.kernel and meta["FORM"].GATED.value:
            assert mimw.check(kernel, grid, *args, seeds=2, **meta).ok
        mimw.simulate(kernel, grid, *args, **meta)


def test_a_block_too_few_is_a_race():
    """Blocks that overlap are written twice: what moe_align pads to must be what the products take for a block."""
    launches, _ = made(problem(20, 2, 3, 64, 64), CUTS["decoding"], 2)
    for kernel, grid, args, meta in launches:
        if kernel is moe.kernel:
            descriptor = args[2]
            args = *args[:2], mimw.TensorDescriptor(descriptor.base, descriptor.shape, [8, 1], descriptor.block_shape), *args[3:]
            report = mimw.check(kernel, grid, *args, seeds=1, shrink=False, **meta)
            assert report.findings[0].kind == "DataRace"
            break
        mimw.simulate(kernel, grid, *args, **meta)


def test_configurations():
    """Blocks grow with the rows that an expert has; tiles are narrower where few blocks are; all fit into shared memory."""
    assert [configuration(*sizes).bm for sizes in ((8, 256), (4096, 256), (32768, 256), (2, 8))][::3] == [16, 16]
    assert configuration(1 << 17, 8).bm >= 128
    chosen = Configuration(bm=16, ping_pong=True)
    assert [columns_of(chosen, n, rows, 8, 132, gated) for n, rows, gated in ((4096, 2, False), (14336, 2, True), (4096, 64, False))
            ] == [64, 256, 256]
    for cut in CUTS.values():
        for gated in (True, False):
            meta = product_meta(cut, cut.bn, 2, 2, gated, bool(cut.load_warps))
            tall = cut.bm if cut.swapped else max(64, cut.bm)
            share = max(64, cut.bm if cut.ping_pong else cut.bm // cut.consumers)
            staging = 0 if cut.swapped else meta["STAGING"] * cut.consumers * share * 128
            ring = meta["STAGES"] * (tall + cut.bn) * 128 * cut.lines
            assert meta["STAGES"] >= 3 and ring + staging <= SHARED_BYTES // cut.ctas


@pytest.mark.parametrize("change, text", [
    (dict(down=np.zeros((2, 64, 72), np.float16)), "down is 2 x 64 x 72; for x 8 x 64 and gate_up 2 x 128 x 64 it"),
    (dict(gate_up=np.zeros((2, 128, 64), np.float32)), "x is float16 and gate_up float32"),
    (dict(ids=np.zeros((8, 2), np.int16)), "ids is int16; it may be int32, int64"),
    (dict(x=np.zeros((8, 128), np.float16)[:, ::2]), "x must be contiguous along its last dimension; its strides are"),
])
def test_refusals(change, text):
    arrays = dict(x=np.zeros((8, 64), np.float16), gate_up=np.zeros((2, 128, 64), np.float16),
                  down=np.zeros((2, 64, 64), np.float16), ids=np.zeros((8, 2), np.int32), weights=np.zeros((8, 2))) | change
    with pytest.raises(ValueError, match=text):
        made(tuple(arrays.values()), None)


def test_refuses_room_of_another_size():
    arrays = problem(8, 2, 2, 64, 64)
    room = {name: np.zeros(1, np.int32) for name in moe.room_for(8, 2, 2, 64, 64)}
    with pytest.raises(ValueError, match="room.'tokens'. is 1 of int32; it must be 46 of int32"):
        moe.launches(*arrays, np.zeros_like(arrays[0]), room, 1)
