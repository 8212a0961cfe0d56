"""fp8 products of few rows with scales of blocks: tiles that shares cut, rows and weights that no tile divides, hints and flags."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import skinny_scaled_gemm
from mimw.kernels.skinny_scaled_gemm import Configuration, arguments, configuration, room_for, suits
from mimw.kernels.skinny_scaled_gemm.configs import parts_of, predicted, programs_for, stages_for
from tests.kernels.test_block_scaled_gemm import exact
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

FP8, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16


def problem(m, n, k, programs, chosen=None, dtype=FP8, output=BF16):
    """(x, w, c, x_scales, w_scales, room, flags), the room full of what must not be used."""
    random, blocks = np.random.default_rng(0), -(-k // 128)
    x, w = random.standard_normal((m, k)).astype(dtype), random.standard_normal((n, k)).astype(dtype)
    x_scales = (random.random((blocks, -(-m // 4) * 4)) + 0.5).astype(np.float32)[:, :m].T
    w_scales = (random.random((-(-n // 128), blocks)) + 0.5).astype(np.float32)
    room, flags = room_for(m, n, k, programs, chosen)
    return (x, w, np.full((m, n), np.nan, output), x_scales, w_scales, np.full(room, np.nan, np.float32),
            np.zeros(flags, np.int32))


def holds(machine, arrays, programs, chosen=None, allowed=4e-3):
    x, w, c, x_scales, w_scales, _, flags = arrays
    grid, args, meta = arguments(*arrays, programs, chosen)
    machine.launch(skinny_scaled_gemm.kernel, grid, *args, **meta)
    wanted = exact(x, w, x_scales, w_scales)
    np.testing.assert_allclose(c.astype(np.float64), wanted, rtol=0, atol=allowed * np.abs(wanted).max())
    assert not flags.any()


@pytest.mark.long(but=["shape0-*", "shape1-*", "shape3-*"], everywhere=True)
@pytest.mark.parametrize("shape, programs, consumers", [
    ((5, 400, 400), 3, None),           # weights and K that no tile divides
    ((90, 200, 272), 3, 3),             # 96 rows by three consumers, the last tile of 192 weights has 8
    ((1, 64, 128), 4, 1),               # one chunk
    ((160, 136, 640), 5, 2),            # each tile of five programs
    ((33, 336, 144), 2, 2)])
def test_shapes(machine, shape, programs, consumers):
    m, n, k = shape
    tm = configuration(m, n, k, programs).tm
    chosen = consumers and Configuration(tm, min(3, stages_for(tm, consumers)), consumers)
    holds(machine, problem(m, n, k, programs, chosen), programs, chosen)


@pytest.mark.long(but=["shape0-*", "shape3-*"], everywhere=True)
@pytest.mark.parametrize("shape, parts, tm, stages", [
    ((5, 72, 400), 1, 16, 2),           # a whole K by two consumers, of which one has the last, short chunk; 56 weights are none
    ((1, 64, 128), 1, 16, 2),           # one chunk: the second consumer has none
    ((64, 100, 1152), 2, 64, 4),        # nine chunks: parts of four and of five
    ((33, 64, 1040), 4, 64, 2),         # slices of eight rows, of which the last have rows that are none
    ((90, 128, 512), 2, 128, 2)])
def test_parts(machine, shape, parts, tm, stages):
    chosen = Configuration(tm, stages, 2, parts)
    programs = programs_for(chosen, *shape, 0)
    assert programs == parts * -(-shape[1] // 64)
    holds(machine, problem(*shape, programs, chosen), programs, chosen)


@pytest.mark.parametrize("dtype, output", [(ml_dtypes.float8_e5m2, np.float32), (FP8, np.float16)])
def test_types(machine, dtype, output):
    holds(machine, problem(9, 72, 256, 2, dtype=dtype, output=output), 2)


@pytest.mark.parametrize("programs, chosen", [(5, Configuration(stages=2)), (4, Configuration(stages=2, parts=4))])
def test_the_order_of_sums_is_settled(programs, chosen):
    """To the bit the same for any order in which programs run, where they hand on what they have of one tile, or exchange it."""
    results = []
    for seed in (None, 1, 2):
        arrays = problem(3, 64, 640, programs, chosen, output=np.float32)
        grid, args, meta = arguments(*arrays, programs, chosen)
        assert grid == (programs, )
        mimw.simulate(skinny_scaled_gemm.kernel, grid, *args, **({} if seed is None else {"seed": seed}), **meta)
        results.append(arrays[2].tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("shape, programs, chosen", [((9, 200, 400), 3, Configuration(stages=2)),
                                                     ((9, 64, 1152), 2, Configuration(stages=2, parts=2))])
def test_no_interleaving_is_wrong(shape, programs, chosen):
    grid, args, meta = arguments(*problem(*shape, programs, chosen), programs, chosen)
    assert mimw.check(skinny_scaled_gemm.kernel, grid, *args, seeds=4, **meta).ok


def test_the_rule_predicts():
    """Few tiles are cut small, since sums that many programs hand on take longer than anything; many are wide, since X's rows come
    with each; rows beyond 64 go in steps of 32. Where tiles of 64 weights or their parts keep the programs busy, they are that."""
    assert [configuration(m, 4608, 7168, 132).consumers for m in (8, 64, 160)] == [1, 2, 2]
    assert [configuration(m, 24576, 1536, 132).consumers for m in (8, 64, 96, 160)] == [3, 3, 3, 2]
    assert [configuration(m, 4608, 512, 132).tm for m in (1, 17, 64, 65, 160, 256)] == [16, 32, 64, 96, 160, 256]
    assert [configuration(m, 4096, 7168, 132).tm for m in (1, 17, 64, 65, 128, 129)] == [16, 32, 64, 128, 128, 160]
    assert [parts_of(64, n, 7168, 132) for n in (1024, 2112, 4096, 4608, 7168, 24576)] == [8, 4, 2, 0, 1, 0]
    assert [parts_of(m, n, k, 132) for m, n, k in ((129, 4096, 7168), (64, 2112, 896), (64, 2112, 1024))] == [0, 0, 4]
    assert [parts_of(m, 7168, 16384, 132) for m in (64, 96, 128)] == [1, 0, 1]
    assert [suits(m, 32768, 512, 132) for m in (32, 64)] == [True, False]
    assert [suits(m, 4096, 7168, 132) for m in (64, 128, 160, 161)] == [True, True, True, False]
    assert [suits(m, 7168, 2048, 132) for m in (128, 160)] == [True, False]


def test_programs_have_whole_tiles_or_equal_shares():
    """256 tiles of two consumers are two for each of 128 programs; 192 would be two for 96, so 132 share them."""
    assert [programs_for(Configuration(64), 64, n, 512, 132) for n in (32768, 24576, 16384)] == [128, 132, 128]
    assert programs_for(Configuration(64), 64, 128, 256, 132) == 2


def test_fewer_rows_are_predicted_to_be_faster():
    assert predicted(160, 7168, 2048, 132, 1) > predicted(64, 7168, 2048, 132, 1) > predicted(16, 7168, 2048, 132, 1)


def test_refusals():
    x, w, c, x_scales, w_scales, room, flags = problem(5, 72, 256, 2)
    with pytest.raises(ValueError, match="M is 300; there may be up to 256 rows"):
        arguments(*problem(300, 72, 256, 2, Configuration(tm=256)), 2)
    with pytest.raises(ValueError, match="x_scales, as it lies in memory, must be contiguous along its last"):
        arguments(x, w, c, np.ascontiguousarray(x_scales), w_scales, room, flags, 2)
    with pytest.raises(ValueError, match="4 parts of tiles of 64 weights by 16 rows are 8 programs for 72 weights and 5 rows; the"):
        arguments(x, w, c, x_scales, w_scales, room, flags, 2, Configuration(stages=2, parts=4))
    with pytest.raises(ValueError, match="room has 1 elements"):
        arguments(x, w, c, x_scales, w_scales, room[:1], flags, 2)


@pytest.mark.long(but=["64-1-0"], everywhere=True)
@pytest.mark.parametrize("tm, consumers, parts", [(96, 3, 0), (160, 2, 0), (64, 1, 0), (128, 2, 4)])
def test_nothing_spills(tm, consumers, parts, tmp_path):
    chosen = Configuration(tm, 6 if parts else stages_for(tm, consumers), consumers, parts)
    _, args, meta = arguments(*problem(tm, 512, 1024, 132, chosen), 132, chosen)
    said = assembled(ptx_of(skinny_scaled_gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
