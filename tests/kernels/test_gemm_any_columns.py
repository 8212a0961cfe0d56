"""The GEMM with tiles as wide as no power of two: pieces, the last round, epilogues, batches, and which tile is chosen."""

import re

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw import ops
from mimw.errors import KernelError
from mimw.kernels import batched_gemm, gemm
from mimw.kernels.descriptors import Maps
from mimw.kernels.gemm import Configuration
from mimw.kernels.gemm.configs import BESIDES, SHARED_BYTES, as_row, configuration
from mimw.kernels.gemm.pieces import begin, kind, pending, slot, width, widths
from mimw.kernels.gemm.rounds import COLUMNS, IN_TURN, MOST_SHARED, MOST_STAGES, microseconds
from mimw.tuning.operators.gemm import cuts
from tests.kernels import odd_parts

torch = pytest.importorskip("torch")
BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
SCHEDULES = {
    "176": Configuration(bm=128, bn=176, stages=3, staging=1),
    "two staging tiles": Configuration(bm=128, bn=208, stages=2, staging=2),
    "turns": Configuration(bm=64, bn=112, stages=3, staging=1, ping_pong=True),
    "tall": Configuration(bm=256, bn=160, stages=2, staging=1),
    "three equal pieces": Configuration(bm=128, bn=192, stages=2, staging=2),
}


def matrices(m, n, k, inputs=np.float16, output=np.float16, nk=True):
    """(a, b, c, what c becomes), b of rows along K, or along N."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(inputs) for shape in ((m, k), (n, k)))
    b = b.T if nk else np.ascontiguousarray(b.T)
    return a, b, np.full((m, n), np.nan, output), a.astype(np.float32) @ b.astype(np.float32)


def holds(c, want, allowed=2e-3):
    np.testing.assert_allclose(c.astype(np.float32), want, rtol=0, atol=allowed * np.abs(want).max())


@pytest.mark.long(everywhere=[
    "B (K, N)-176", "B (N, K)-three equal pieces", "B (K, N)-turns", "B (N, K)-two staging tiles", "B (N, K)-tall"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("nk", [True, False], ids=["B (N, K)", "B (K, N)"])
def test_products(machine, schedule, nk):
    a, b, c, want = matrices(264, 272, 200, nk=nk)
    grid, args, meta = gemm.arguments(a, b, c, 3, SCHEDULES[schedule])
    machine.launch(gemm.kernel, grid, *args, **meta)
    holds(c, want)


@pytest.mark.parametrize("schedule", ["tall", "three equal pieces"])
def test_a_by_columns(machine, schedule):
    """Of which a consumer's 128 rows are two stripes of the buffer."""
    a, b, c, want = matrices(264, 272, 200)
    grid, args, meta = gemm.arguments(np.ascontiguousarray(a.T).T, b, c, 3, SCHEDULES[schedule])
    assert meta["FORM"].tiles.A_IS_KM
    machine.launch(gemm.kernel, grid, *args, **meta)
    holds(c, want)


@pytest.mark.parametrize("inputs, output", [(np.float32, np.float32), (FP8, BF16), (BF16, np.float32)],
                         ids=["tf32", "fp8", "fp32 out"])
def test_types(machine, inputs, output):
    a, b, c, want = matrices(136, 184, 144, inputs, output)
    grid, args, meta = gemm.arguments(a, b, c, 2, SCHEDULES["176"])
    machine.launch(gemm.kernel, grid, *args, **meta)
    holds(c, want, 5e-3)


@pytest.mark.long(everywhere=["shape1-7-176", "shape0-7-turns"])
@pytest.mark.parametrize("schedule", ["176", "turns"])
@pytest.mark.parametrize("shape, programs", [((520, 392, 264), 7), ((100, 264, 456), 7)])
def test_the_last_round_is_shared_out(machine, monkeypatch, schedule, shape, programs):
    monkeypatch.setattr(gemm.configs, "CHUNK", 1000.0)
    chosen, (m, n, k) = SCHEDULES[schedule], shape
    a, b, c, want = matrices(m, n, k)
    numbers, count = gemm.room_for(m, n, k, 2, programs, chosen)
    room, flags = np.full(numbers, np.nan, np.float32), np.zeros(count, np.int32)
    grid, args, meta = gemm.arguments(a, b, c, programs, chosen, room=room, flags=flags)
    assert meta["sharers"] and numbers == programs * chosen.bm * chosen.bn
    machine.launch(gemm.kernel, grid, *args, **meta)
    first = c.copy()
    machine.launch(gemm.kernel, grid, *args, **meta)
    holds(first, want)
    assert (first == c).all() and not flags.any()


@pytest.mark.parametrize("schedule", ["176", "turns"])
def test_epilogues(machine, schedule):
    a, b, c, want = matrices(136, 184, 72)
    random = np.random.default_rng(1)
    bias, residual = random.standard_normal(184).astype(np.float16), random.standard_normal((136, 184)).astype(np.float16)
    scale = random.random(136).astype(np.float32)
    grid, args, meta = gemm.arguments(a, b, c, 2, SCHEDULES[schedule], bias=bias, residual=residual, row_scale=scale, beta=0.5,
                                      activation="relu")
    machine.launch(gemm.kernel, grid, *args, **meta)
    holds(c, np.maximum(want * scale[:, None] + bias.astype(np.float32) + 0.5 * residual.astype(np.float32), 0))


def test_promoted_sums(machine):
    a, b, c, want = matrices(136, 184, 400, FP8, BF16)
    grid, args, meta = gemm.arguments(a, b, c, 2, Configuration(bm=128, bn=144, stages=3, staging=1, together=2), promoted=True)
    machine.launch(gemm.kernel, grid, *args, **meta)
    holds(c, want, 5e-3)


@pytest.mark.parametrize("nk", [True, False], ids=["B (N, K)", "B (K, N)"])
def test_batches(machine, nk):
    (a, b, _, want), c = matrices(136, 184, 72, nk=nk), np.full((3, 136, 184), np.nan, np.float16)
    grid, args, meta = batched_gemm.arguments(np.stack([a, 2 * a, -a]), b[None], c, 3, SCHEDULES["turns"])
    machine.launch(batched_gemm.kernel, grid, *args, **meta)
    holds(c, np.stack([want, 2 * want, -want]))


def test_no_interleaving_is_wrong():
    a, b, c, _ = matrices(136, 232, 136)
    for chosen in (SCHEDULES["176"], Configuration(bm=64, bn=208, stages=2, staging=2, ping_pong=True)):
        grid, args, meta = gemm.arguments(a, b, c, 1, chosen, residual=c)
        assert mimw.check(gemm.kernel, grid, *args, seeds=2, **meta).ok


# ---- pieces ----------------------------------------------------------------------------------------------------------------


def test_columns_are_powers_of_two():
    assert widths(176, 64) == (64, 64, 32, 16) and widths(208, 64) == (64, 64, 64, 16) and widths(192, 64) == (64, ) * 3
    assert widths(176, 32) == (32, ) * 5 + (16, ) and widths(96, 128) == (64, 32)
    for columns in COLUMNS:
        cut = widths(columns, 64)
        assert sum(cut) == columns
        assert all(begin(cut, piece, columns) % width(cut, piece, columns) == 0 for piece in range(len(cut)))


@pytest.mark.parametrize("cut, staging", [((64, 64, 32, 16), 1), ((64, 64, 32, 16), 2), ((64, 64, 64, 16), 2), ((64, ) * 3, 2),
                                          (4, 2), (1, 1)])
def test_a_staging_tile_is_written_when_its_last_store_has_read_it(cut, staging):
    """Stores end in order: of those that may be under way, none is from the tile that is written next."""
    count = len(cut) if isinstance(cut, tuple) else cut
    tiles = [(kind(cut, piece), slot(cut, piece, staging)) for piece in range(count)] * 2
    for piece in range(count):
        waited = pending(cut, piece, staging)
        since = tiles[count + piece - waited:count + piece]
        assert tiles[piece] not in since and tiles[count + piece - waited - 1] == tiles[piece]


# ---- what is compiled --------------------------------------------------------------------------------------------------------


def compiled(chosen, nk=True, inputs=BF16, **more):
    a, b, c, _ = matrices(256, 512, 512, inputs, BF16, nk)
    grid, args, meta = gemm.arguments(a, b, c, 132, chosen, **more)
    return mimw.compile(gemm.kernel, grid, *args, target="sm_90a", **meta), args


@pytest.mark.long(but=["chosen0-*"], everywhere=True)
@pytest.mark.parametrize("chosen, nk", [
    (Configuration(bm=128, bn=176, stages=5, staging=1), True), (Configuration(bm=128, bn=208, stages=4, staging=1), False),
    (Configuration(bm=128, bn=176, stages=4, staging=1, ping_pong=True), True)])
def test_a_map_for_each_width_and_no_element_changes_its_thread(chosen, nk):
    found, args = compiled(chosen, nk)
    cut = widths(chosen.bn, 64)
    assert isinstance(args[2], Maps) and [one.block_shape[1] for one in args[2]] == sorted(set(cut), reverse=True)
    told = [(one["block_size"][-1], one["swizzle"]) for one in found.metadata.tensordesc_meta[2:]]
    assert told == [(columns, {64: 3, 32: 2, 16: 1}[columns]) for columns in sorted(set(cut), reverse=True)]
    assert len(re.findall(r"cp\.async\.bulk\.tensor\S*global\.shared", found.ptx)) == len(cut) * 2, "a store a piece and consumer"
    assert found.ptx.count("stmatrix") == chosen.rows() // 64 * 2 * chosen.bn // 16, "each 64 x 16 of a consumer at once"
    assert not re.search(r"ldmatrix|shfl\.sync\.(bfly|up|down)|prmt", found.ptx) and found.stack_bytes == 0
    sizes = chosen.shared_bytes(2, 2, nk)
    assert sizes <= found.shared_bytes <= sizes + BESIDES, "no scratch"


def fitting(columns, turns, in_bytes=2):
    return Configuration(bm=128, bn=columns, stages=2 * MOST_STAGES, staging=1, ping_pong=turns).fitted(in_bytes, 2, in_bytes == 1)


def test_what_the_rule_may_choose_fits():
    for columns, turns in [*((columns, False) for columns in COLUMNS), *((columns, True) for columns in IN_TURN)]:
        chosen = fitting(columns, turns)
        assert chosen.shared_bytes(2, 2, False) <= SHARED_BYTES - BESIDES and chosen.stages >= 3, (columns, turns)


@pytest.mark.long(but=[f"{max(IN_TURN)}-True"], everywhere=True)
@pytest.mark.parametrize("columns, turns", [(COLUMNS[0], False), (max(COLUMNS), False), (MOST_SHARED, True), (max(IN_TURN), True)])
def test_what_the_rule_may_choose_spills_nothing(columns, turns):
    """In registers, with sums of other programs where it may have them: the fewest columns, the most, the most with such sums in
    turns, the most in turns. Other widths, and all forms of inputs: the tests above and below."""
    chosen = fitting(columns, turns)
    rooms = dict(room=np.zeros(132 * 128 * columns, np.float32), flags=np.zeros(264, np.int32))
    rooms = {} if turns and columns > MOST_SHARED else rooms
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(gemm.configs, "CHUNK", 1000.0)
        found, _ = compiled(chosen, False, **rooms)
    assert found.stack_bytes == 0


@pytest.mark.long(shown_by="test_what_the_rule_may_choose_spills_nothing")
@pytest.mark.parametrize("inputs, chosen, more", [
    (FP8, Configuration(bm=256, bn=160, stages=3, staging=1), {}), (FP8, Configuration(bm=256, bn=192, stages=3, staging=1), {}),
    (FP8, Configuration(bm=128, bn=176, stages=5, staging=1), {"promoted": True}),
    (FP8, Configuration(bm=128, bn=144, stages=5, staging=1, together=2), {"promoted": True}),
    (BF16, Configuration(bm=128, bn=192, stages=4, staging=1, ping_pong=True), {}),
    (BF16, Configuration(bm=256, bn=192, stages=3, staging=1), {}), (BF16, Configuration(bm=128, bn=240, stages=4, staging=1), {})])
def test_larger_tiles_spill_nothing(inputs, chosen, more):
    scales = dict(row_scale=np.ones(256, np.float32), column_scale=np.ones(512, np.float32)) if inputs is FP8 else {}
    found, _ = compiled(chosen, True, inputs, **scales, **more)
    assert found.stack_bytes == 0 and f"m64n{chosen.bn}k" in found.ptx


@pytest.mark.long(shown_by="test_what_the_rule_may_choose_spills_nothing")
def test_a_residual_takes_a_stage_where_it_must():
    wide = Configuration(bm=128, bn=240, stages=8, staging=1)
    assert wide.fitted(2, 2, False).stages == 4 and wide.fitted(2, 2, False, residual=True).stages == 3
    found, _ = compiled(wide.fitted(2, 2, False, residual=True), False, residual=np.zeros((256, 512), BF16))
    assert found.stack_bytes == 0


@pytest.mark.long(shown_by="test_what_the_rule_may_choose_spills_nothing")
@pytest.mark.parametrize("more", [{"activation": "gelu"}, {"residual": np.zeros((256, 512), BF16)}], ids=["gelu", "residual"])
def test_an_activation_ends_the_turns_of_wide_sums(more):
    turns = Configuration(bm=128, bn=176, stages=8, staging=1, ping_pong=True)
    assert turns.fitted(2, 2, True).ping_pong and not turns.fitted(2, 2, True, activated=True).ping_pong
    assert Configuration(bm=128, bn=128, ping_pong=True).fitted(2, 2, True, activated=True).ping_pong
    found, _ = compiled(turns.fitted(2, 2, True, "residual" in more, "activation" in more), True, **more)
    assert found.stack_bytes == 0


@pytest.mark.parametrize("kernel, said", odd_parts.REFUSED.items())
def test_a_part_is_for_products(kernel, said):
    with pytest.raises(KernelError, match=said) as refused:
        mimw.compile(kernel, (1, ), np.zeros(1 << 14, np.float16), target="sm_90a", N=48)
    assert "odd_parts.py" in str(refused.value) and "Mend:" in str(refused.value)


# ---- which tile is chosen -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, columns, in_turn", [
    ((4096, 2112, 7168), 176, True), ((4096, 5808, 4096), 176, True), ((4096, 7168, 2048), 176, True),
    ((512, 5760, 2880), 176, False), ((512, 2880, 2880), 96, False)])
def test_the_rule_by_rounds(shape, columns, in_turn):
    """Consumers take turns where a program has tiles for both."""
    chosen = configuration(*shape, programs=132)
    assert (chosen.bm, chosen.bn, chosen.ping_pong) == (128, columns, in_turn)
    assert microseconds(chosen, *shape, 2, 132) < microseconds(configuration(*shape), *shape, 2, 132)


@pytest.mark.parametrize("shape, in_bytes", [((4096, 4096, 14336), 2), ((4096, 4096, 7168), 2), ((4096, 10240, 8192), 1),
                                             ((4096, 5120, 8192), 1), ((4096, 32768, 512), 2)])
def test_where_nothing_is_quicker_the_nearest_row_stands(shape, in_bytes):
    assert configuration(*shape, in_bytes, 132) == configuration(*shape, in_bytes)


@pytest.mark.parametrize("shape", [(8192, 8192, 1024), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024),
                                   (2285568, 256, 256)])
def test_what_was_measured_stands(shape):
    assert configuration(*shape, programs=132) == configuration(*shape)


def test_measured_rows_of_any_columns_are_for_their_very_shapes():
    """Other shapes have the nearest row of powers of two, and so have kernels that know no other tiles."""
    assert configuration(8192, 8192, 4096, programs=132).bn == 192 and configuration(8192, 8192, 4096).bn == 128
    assert configuration(8192, 8192, 4104).bn == 128
    assert as_row((8, 8, 8), 2, SCHEDULES["176"])["columns"] == "any" and "columns" not in as_row((8, 8, 8), 2, Configuration())


def test_a_rounds_sum_is_what_it_says():
    """384 tiles of 176 columns on 132 programs are three rounds of 112 chunks, 544 of 128 are five."""
    wide = Configuration(bm=128, bn=176)
    assert microseconds(wide, 4096, 2112, 7168, 2, 132) == pytest.approx(3 * (112 * 0.34 * 182 / 128 + 1.0))
    turns = Configuration(bm=128, bn=128, ping_pong=True)
    assert microseconds(turns, 4096, 2112, 7168, 2, 132) == pytest.approx(
        (4 * 112 * 0.34 + turns.last_round(4096, 2112, 7168, 2, 132)[0]) * 134 / 128)


def test_the_search_knows_such_tiles():
    found = cuts(2, 2, False)
    assert {one.bn for one in found} >= set(COLUMNS) and any(one.bm == 256 and one.bn == 160 for one in found)
    assert all(one.shared_bytes(2, 2, False) <= SHARED_BYTES - BESIDES and one.stages > 1 for one in found)


@pytest.mark.long(but=["B (K, N)"], everywhere=True)
@pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
@pytest.mark.parametrize("nk", [True, False], ids=["B (N, K)", "B (K, N)"])
def test_operators_give_one_tensor_for_all_maps(nk):
    a, b, d = torch.randn(136, 1024).bfloat16(), torch.randn(400, 1024).bfloat16().T, torch.randn(136, 400).bfloat16()
    b = b if nk else b.contiguous()
    assert configuration(136, 400, 1024, 2, 4).bn not in (64, 128, 256), "this is about other tiles"
    want = a.float() @ b.float()
    for _ in range(2):
        torch.testing.assert_close(ops.matmul(a, b).float(), want, atol=0.15, rtol=0.01)
        torch.testing.assert_close(ops.addmm(d, a, b).float(), want + d.float(), atol=0.15, rtol=0.01)
