"""Chunked linear attention, forward, against the recurrence in fp64: gates, the delta rule, packed sequences, parts, what the
backward takes; its interleavings, and what is refused."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the reference is torch's")

import mimw  # noqa: E402
from mimw.kernels.linear_attention import Raw, parts_for, tables  # noqa: E402
from mimw.target import target  # noqa: E402
from tests.compiling import stopping  # noqa: E402
from tests.lowering.assembly import assembled  # noqa: E402
from tests.lowering.launches import ptx_of  # noqa: E402

from .linear_attention_calls import BF16, DELTA, GDN, GLA, KDA, NONE, SIMPLE, Case, close, right  # noqa: E402
from .linear_attention_reference import chunked, gates_of_raw, recurrence  # noqa: E402

# ---- o and the last states ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", [GDN, KDA, GLA, DELTA, SIMPLE, NONE], ids=["gdn", "kda", "gla", "delta", "simple", "none"])
def test_each_member_of_the_family(machine, kind):
    right(machine, Case(**kind))


@pytest.mark.long(but=["kind0-shape0", "kind1-shape1", "kind4-shape4", "kind5-shape5", "kind6-shape6"], everywhere=[
    "kind0-shape0", "kind1-shape1", "kind6-shape6"])
@pytest.mark.parametrize("kind, shape", [(GDN, dict(B=2, H=1, HV=2, K=128, V=128, T=70)), (GDN, dict(K=64, V=256, T=65)),
                                         (KDA, dict(B=2, H=1, HV=2, K=128, V=64, T=64)), (SIMPLE, dict(K=128, V=256, T=1)),
                                         (GDN, dict(HV=2, K=256, V=64, T=150, parts=2)), (KDA, dict(K=256, V=128, T=65)),
                                         (DELTA, dict(K=256, V=256, T=70))])
def test_heads_and_batches(machine, kind, shape):
    right(machine, Case(**kind, **shape))


@pytest.mark.parametrize("kind", [GDN, KDA, SIMPLE])
@pytest.mark.parametrize("decay", [(-1e-3, 0.0), (-60.0, -20.0), (-12.0, 0.0)])
def test_gates_near_one_and_near_zero(machine, kind, decay):
    right(machine, Case(**kind, decay=decay, T=130))


def test_a_scale_and_no_states(machine):
    right(machine, Case(**GDN, state=False), scale=0.3)


@pytest.mark.long(but=["kind1"], everywhere=True)
@pytest.mark.parametrize("kind", [GDN, KDA])
def test_fp16(machine, kind):
    right(machine, Case(np.float16, **kind), error=2e-3 if kind is GDN else 4e-3)


def far_in_some(drawn):
    """Of a chunk's 128 columns the second 64 are far from their middle row, the first ones near."""
    faded = torch.where(torch.arange(128) < 64, drawn["g"] / 100, drawn["g"])
    return {"g": faded}


@pytest.mark.long(but=["bfloat16-kind0-*", "bfloat16-kind2-*"], everywhere=["bfloat16-kind2-*"])
@pytest.mark.parametrize("type_, kind, error", [(BF16, KDA, 6e-3), (np.float16, KDA, 4e-3), (BF16, GLA, 6e-3)])
def test_columns_near_and_far(machine, type_, kind, error):
    """Both ways in one chunk, and gates of 16 bits, whose place operands of fp32 do not fit: rows with gates, P and T."""
    case = Case(type_, **kind, K=128, T=70, decay=(-9.0, 0.0), keys=far_in_some)
    case.g = case.g.astype(BF16)
    case.drawn["g"] = torch.from_numpy(case.g.astype(np.float32))
    right(machine, case, error)
    exact = chunked(**case.drawn)
    assert case.drawn["g"][0, :64, 0, 64:].sum(0).min() < -160 and case.drawn["g"][0, :64, 0, :64].sum(0).min() > -80
    close(case.rows(case.work.P), exact.P, 4e-3)
    if kind["delta"]:
        close(case.rows(case.work.T), exact.T, 4e-3)


def columns_by(ways):
    """Gates of each 64 columns near the middle of a chunk ("n"), near those of its halves ("h"), or far ("f")."""
    def draw(drawn):
        g, heights = drawn["g"].clone(), {"n": 2.0, "h": 4.5, "f": 40.0}
        for at, way in enumerate(ways):
            g[..., 64 * at:64 * at + 64] = -heights[way] * torch.rand(g[..., 64 * at:64 * at + 64].shape)
        return {"g": g}
    return draw


@pytest.mark.long(but=["h-*", "hf-kind0", "nhfh-*"], everywhere=["h-kind0", "nhfh-*"])
@pytest.mark.parametrize("kind", [KDA, GLA])
@pytest.mark.parametrize("ways", ["h", "nh", "hf", "fh", "hh", "nhfh"])
def test_columns_near_the_middles_of_halves(machine, kind, ways):
    """Beside others of each way, in one chunk: rows with gates, P and T."""
    case = Case(**kind, K=64 * len(ways), V=64, T=130, decay=(-1.0, 0.0), keys=columns_by(ways))
    right(machine, case)
    exact, g = chunked(**case.drawn), case.drawn["g"][0, :64, 0]
    for at, way in enumerate(ways):
        sums = g[:, 64 * at:64 * at + 64].reshape(4, 16, 64).sum(1)
        assert (sums[:2].sum(0).min() < -80) == (way != "n") and (sums.min() < -80) == (way == "f")
    close(case.rows(case.work.P), exact.P, 4e-3)
    if kind["delta"]:
        close(case.rows(case.work.T), exact.T, 4e-3)


def test_rows_with_gates_that_one_factor_would_lose(machine):
    """e^(b - m) e^m, where m is below -88 and b is -9: e^m alone is 0."""
    def late(drawn):
        g = torch.zeros_like(drawn["g"])
        g[:, 1], g[:, 47], g[:, 20] = -1.0, -79.5, -8.0
        return {"g": g}

    case = Case(**GLA, T=64, keys=late)
    right(machine, case)
    close(case.work.q[0, 0, 32:47], case.q[0, 32:47, 0].astype(np.float32) * np.exp(-9.0), 4e-3)
    case = Case(**GLA, T=64, keys=lambda drawn: {"g": late(drawn)["g"].flip(1)})
    right(machine, case)
    close(case.work.w[0, 0, 17:31], case.k[0, 17:31, 0].astype(np.float32) * np.exp(-9.0), 4e-3)


@pytest.mark.parametrize("kind, gate", [(KDA, -1e6), (GLA, -np.inf), (GDN, -np.inf), (SIMPLE, -1e6)])
def test_what_is_forgotten_leaves_the_digits_of_other_gates(machine, kind, gate):
    """Of sums with a gate of -1e6 in them nothing smaller than 0.06 is left, of those with an infinity nothing at all."""
    def forgetting(drawn):
        row = torch.arange(70).reshape(70, *[1] * (drawn["g"].ndim - 2))
        return {"g": torch.where(row == 21, gate, drawn["g"] / 10)}

    right(machine, Case(**kind, T=70, keys=forgetting))


def test_what_chunks_prepare_is_right_in_every_order():
    """Of copies by TMA, and what other warps write where operands and the inverse take the place of what they have read."""
    for kind, shape in ((KDA, dict(T=70, K=128, keys=columns_by("hf"), l2norm=True)), (GDN, dict(T=70, parts=2)),
                        (KDA, dict(T=70, K=128, raw=dict(bound=-5.0, betas=1.0))), (GDN, dict(T=70, parts=2, l2norm=True))):
        case = Case(**kind, **shape)
        kernel, grid, args, meta = case.steps(o=case.v.copy())[0]
        report = mimw.check(kernel, grid, *args, seeds=3, shrink=False, **meta)
        assert report.ok, report


# ---- gates and betas of raw numbers ---------------------------------------------------------------------------------------------

@pytest.mark.long(but=["kind0-*", "kind1-*", "kind4-*"], everywhere=True)
@pytest.mark.parametrize("kind, raw, shape", [
    (KDA, dict(bound=-5.0, betas=1.0), dict(T=200, HV=2, K=128, cu_seqlens=[0, 5, 5, 200], parts=2)),
    (GDN, dict(betas=2.0), dict(T=200, HV=2, cu_seqlens=[0, 5, 5, 200], parts=2)),
    (KDA, dict(), dict(T=70, K=128, l2norm=True)), (GLA, dict(bound=-0.1, rate=False), dict(T=130, parts=2)),
    (SIMPLE, dict(bias=False), dict(T=65)), (DELTA, dict(gates=False, betas=1.0), dict(T=65)),
    (GDN, dict(bound=-1.0, bias=False), dict(T=70, type_=np.float16, l2norm=True)), (KDA, dict(bias=False), dict(T=65, K=256))])
def test_gates_and_betas_made_in_the_call(machine, kind, raw, shape):
    """Rows behind the end of a sequence too, whose biases are no gates."""
    case = Case(**kind, raw=raw, **shape)
    right(machine, case)
    if kind["delta"]:
        close(case.rows(case.work.T), chunked(**case.drawn).T, 4e-3)


@pytest.mark.parametrize("bound", [None, -5.0])
def test_raw_gates_of_any_size(machine, bound):
    """From -100 to 100: near 0 and far below it, with as many digits as fp32 has."""
    case = Case(**SIMPLE, T=64, raw=dict(bound=bound, rate=False, bias=False), state=False)
    case.g = np.linspace(-100, 100, 64, dtype=np.float32).reshape(1, 64, 1)
    case.drawn["g"] = gates_of_raw(torch.from_numpy(case.g), bound=bound)
    right(machine, case)
    exact = case.drawn["g"][0, :, 0].numpy().clip(-128).cumsum()
    np.testing.assert_allclose(case.work.b[0, 0], exact, rtol=2e-5, atol=1e-9)


def test_bounds_are_those_of_the_largest_gates(machine):
    """Of each row over all columns, whatever their biases are."""
    case = Case(**KDA, T=200, K=128, parts=3, raw=dict(bound=-5.0))
    right(machine, case)
    largest = case.drawn["g"][0, :, 0].amax(-1).numpy()
    assert (case.work.bounds[:, 0] >= np.add.reduceat(largest, range(0, 200, 64)) - 1e-3).all()
    assert (case.work.bounds[:, 0] <= np.add.reduceat(largest, range(0, 200, 64)) + 64 * np.log(2)).all()


@pytest.mark.parametrize("raw, said", [
    (Raw(np.zeros(1, np.float32)), "make gates, which use_gate=True asks for"),
    (Raw(lower_bound=0.5, use_gate=True), "lower_bound must be below 0, as logarithms of gates are"),
    (Raw(np.zeros(3, np.float32), use_gate=True), "A_log is 3; for v 1 x 150 x 1 x 64 it must be 1, (HV)"),
    (Raw(dt_bias=np.zeros((1, 64), np.float32), use_gate=True), "gates of shape (B, T, HV) take biases (HV), and by key (HV, K)")])
def test_raw_gates_that_do_not_fit(raw, said):
    case = Case(**GDN)
    case.raw = raw
    with pytest.raises(ValueError, match=re.escape(said)):
        case.steps(o=case.v.copy())
    case = Case(**NONE)
    for raw, said in ((Raw(use_gate=True), "there must be a g"), (Raw(use_beta_sigmoid=True), "there must be a beta")):
        case.raw = raw
        with pytest.raises(ValueError, match=said):
            case.steps(o=case.v.copy())


# ---- norms ----------------------------------------------------------------------------------------------------------------------

@pytest.mark.long(but=["kind0-shape0", "kind1-shape1", "kind4-shape4"], everywhere=True)
@pytest.mark.parametrize("kind, shape", [
    (GDN, dict(T=200, HV=2, cu_seqlens=[0, 5, 5, 200], parts=2)), (KDA, dict(T=130, HV=2, K=128)),
    (DELTA, dict(T=70, K=128, V=128)), (SIMPLE, dict(T=65)), (NONE, dict(T=130, parts=2)), (GDN, dict(T=70, K=256)),
    (GLA, dict(T=70, K=128, decay=(-9.0, 0.0), keys=far_in_some)), (KDA, dict(T=65, type_=np.float16)),
    (GDN, dict(T=65, type_=np.float16))])
def test_rows_divided_by_their_norms(machine, kind, shape):
    """Of lengths from 1e-3 to 1e2, and 0."""
    case = Case(**kind, **shape, l2norm=True)
    right(machine, case)
    if kind["delta"]:
        close(case.rows(case.work.T), chunked(**case.drawn).T, 4e-3)


def test_bounds_are_those_of_keys_divided_by_their_norms(machine):
    """Of which none lets a state grow: beta k.k is 1 at most."""
    case = Case(**GDN, T=300, parts=3, decay=(-1.0, 0.0), l2norm=True)
    right(machine, case)
    close(case.work.bounds[:4, 0], np.add.reduceat(case.g[0, :, 0], range(0, 300, 64))[:4], 1e-4)


def alike(drawn):
    """Keys that are nearly the same, of which powers of A are large, and its inverse is not."""
    k = drawn["k"][:, :1] + 0.02 * drawn["k"]
    return {"k": torch.nn.functional.normalize(k, dim=-1), "beta": torch.full_like(drawn["beta"], 0.99)}


def test_keys_that_are_alike(machine):
    case = Case(**DELTA, T=128, keys=alike)
    right(machine, case, error=3e-2)
    close(case.rows(case.work.T), chunked(**case.drawn).T, 4e-3)


# ---- packed sequences and parts -------------------------------------------------------------------------------------------------

PACKED = [0, 5, 64, 64, 300]    # of 5, 59, no and 236 rows


@pytest.mark.long(but=["kind0", "kind1"], everywhere=["kind0"])
@pytest.mark.parametrize("kind", [GDN, KDA, SIMPLE])
def test_packed_sequences_in_parts(machine, kind):
    right(machine, Case(**kind, T=300, cu_seqlens=PACKED, parts=2))


@pytest.mark.long(but=["kda", "gla", "none"], everywhere=["kda", "none"])
@pytest.mark.parametrize("kind", [GDN, KDA, GLA, NONE], ids=["gdn", "kda", "gla", "none"])
def test_parts_of_one_sequence(machine, kind):
    right(machine, Case(**kind, T=300, parts=4, K=64, V=128))


@pytest.mark.parametrize("kind", [GDN, KDA, GLA], ids=["gdn", "kda", "gla"])
def test_parts_that_forget(machine, kind):
    """Two chunks leave nothing of what was before them."""
    case = Case(**kind, T=600, parts=3, decay=(-2.0, -1.0))
    right(machine, case)
    assert (case.work.bounds[:9] < -52).all() and (kind is GLA or (case.work.transitions[1] == 0).all())


def test_keys_longer_than_one_do_not_let_a_part_forget(machine):
    """With |1 - beta k.k| of up to 3, which grows as fast as gates shrink."""
    longer = lambda drawn: {"k": 2 * drawn["k"], "g": torch.full_like(drawn["g"], -1.0)}        # noqa: E731
    case = Case(**GDN, T=300, parts=3, decay=(-1.0, 0.0), keys=longer)
    right(machine, case, error=2e-2)
    squares = case.drawn["k"].double().square().sum(-1)[0, :64, 0] * case.drawn["beta"].double()[0, :64, 0]
    close(case.work.bounds[0, 0], -64 + (1 - squares).abs().clamp(min=1).log().sum(), 1e-4)


def test_no_sequence_reads_of_another(machine):
    case = Case(**GDN, T=200, cu_seqlens=[0, 70, 200])
    exact, final = recurrence(**case.drawn)
    for one in (case.q, case.k, case.v):
        one[:, 70:] = np.nan
    o = case.outputs(machine).astype(np.float32)
    close(o[:, :70], exact[:, :70])
    close(case.final[0], final[0])
    assert np.isnan(o[:, 70:]).all()


def test_rows_behind_the_last_sequence_stay_as_they_are(machine):
    case = Case(**SIMPLE, T=100)
    case.tables = tables(1, 100, [0, 70])
    o = case.outputs(machine).astype(np.float32)
    close(o[:, :70], recurrence(**case.drawn)[0][:, :70])
    assert (o[:, 70:] == 7).all()


def test_tables():
    made = tables(1, 300, PACKED, parts=2)
    assert made.chunks.tolist() == [[0, 5], [5, 64], *([64 + 64 * one, 300] for one in range(4))]
    assert made.spans.tolist() == [[0, 5, 0, 1, 0, 0], [5, 64, 1, 1, 1, 1], [64, 64, 2, 0, 2, 2], [64, 192, 2, 2, 3, -1],
                                   [192, 300, 4, 2, 4, 3]]
    assert made.cut and made.lists.tolist() == [[0, 1], [1, 1], [2, 1], [3, 2]]
    assert not tables(2, 100, parts=1).cut and tables(2, 100).spans.tolist() == [[0, 100, 0, 2, 0, 0], [100, 200, 2, 2, 1, 1]]
    assert [parts_for(1, 65536, 16, 128, 132), parts_for(8, 8192, 16, 128, 132), parts_for(1, 1024, 4, 64, 132)] == [8, 1, 1]
    assert [parts_for(1, rows, heads, 128, 132) for rows, heads in ((2048, 8), (4096, 8), (4096, 16), (8192, 4))] == [4, 8, 4, 8]
    with pytest.raises(ValueError, match="cu_seqlens is .0, 9, 5. for a batch of 1 with 100 rows; it must rise from 0 to 100"):
        tables(1, 100, [0, 9, 5])


# ---- what the backward takes ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, parts, K, l2norm", [(GDN, 2, 64, False), (KDA, 1, 64, False), (SIMPLE, 2, 64, True),
                                                    (GDN, 1, 256, True), (KDA, 1, 256, False)])
def test_new_values_and_states_before_chunks(machine, kind, parts, K, l2norm):
    case = Case(**kind, T=170, parts=parts, K=K, l2norm=l2norm)
    case.outputs(machine)
    new, states = case.filled(case.v.shape), case.filled((len(case.tables.chunks), 1, 64, K))
    for kernel, grid, args, meta in case.steps(q=False, new=new, states=states, again=True):
        machine.launch(kernel, grid, *args, **meta)
    exact = chunked(**case.drawn)
    close(new, exact.N)
    close(states[None].swapaxes(-1, -2), exact.states)
    close(case.final, exact.final)
    if kind["delta"]:
        close(case.rows(case.work.T), exact.T, 4e-3)
    if kind["gates"] == "key":
        close(case.rows(case.work.P), exact.P, 4e-3)
    else:
        close(case.rows(case.work.b[..., None])[..., 0], exact.b, 1e-6)


# ---- interleavings, what is refused, and the machine code ------------------------------------------------------------------------

@pytest.mark.parametrize("kind, options, K, l2norm", [
    (GDN, {}, 64, False), (KDA, {}, 64, False), (GDN, dict(again=True), 64, False), (GDN, {}, 256, False), (GDN, {}, 64, True)])
def test_every_interleaving_is_right(kind, options, K, l2norm):
    case = Case(**kind, T=260 if K == 64 else 200, K=K, l2norm=l2norm)
    results = dict(new=case.v.copy(), states=case.filled((5, 1, 64, K))) if options else dict(o=case.v.copy())
    case.outputs(type("Simulator", (), {"launch": staticmethod(mimw.simulate)}))
    kernel, grid, args, meta = case.steps(**results, **options)[-1]
    report = mimw.check(kernel, grid, *args, seeds=4, shrink=False, **meta)
    assert report.ok, report


def test_refused():
    case = Case(**GDN)
    with pytest.raises(ValueError, match="a call writes either o, of q, or new and states"):
        case.steps()
    with pytest.raises(ValueError, match="keys and values may have 64, 128 or 256 columns"):
        case = Case(**GDN, K=32, V=32)
        case.steps(o=case.v.copy())
    with pytest.raises(ValueError, match="the workspace has no factors of norms, and l2norm is True"):
        case = Case(**DELTA)
        case.l2norm = True
        case.steps(o=case.v.copy())
    with pytest.raises(ValueError, match="the heads of v must be a multiple of those of q and k"):
        case = Case(**GDN, H=2, HV=2)
        case.v = case.filled((1, 150, 3, 64))
        case.g, case.beta, case.initial, case.final = None, None, None, None
        case.steps(o=case.v.copy())


def to_ttgir(kind, K=128, V=128, states=False, parts=1, number=-1, l2norm=False):
    """The TTGIR of one launch."""
    case = Case(**kind, K=K, V=V, parts=parts, l2norm=l2norm)
    results = dict(new=case.v.copy(), states=case.filled((3, 1, V, K))) if states else dict(o=case.v.copy())
    kernel, grid, args, meta = case.steps(**results)[number]
    with stopping(("ttgir", )):
        return mimw.compile(kernel, grid, *args, target="sm_90a", **meta)


@pytest.mark.long(but=["states", "keys of 256"], everywhere=True)
@pytest.mark.parametrize("options", [dict(kind=SIMPLE, V=256), dict(kind=KDA), dict(kind=GDN, states=True),
                                     dict(kind=GDN, parts=3, number=2), dict(kind=GDN, K=256, V=256),
                                     dict(kind=KDA, K=256, parts=3, number=2)],
                         ids=["values of 256", "by key", "states", "transitions", "keys of 256", "transitions of 256 by key"])
def test_forms_fit(options):
    assert to_ttgir(**options).metadata.shared <= target("sm_90a").shared_bytes


@pytest.mark.long(but=["kind1-5"], everywhere=True)
@pytest.mark.parametrize("kind, programs", [(KDA, 3), (GDN, 5)])
def test_programs_that_prepare_have_place_beside_each_other(kind, programs):
    """On an SM with 228 KB of shared memory, 1 KB of which a program takes besides, and 65,536 registers; with norms they need
    more."""
    found = to_ttgir(kind, number=0, l2norm=True)
    assert (found.metadata.shared + 1024) * programs <= 228 * 1024
    assert 128 * found.metadata.maxnreg * programs <= 65536


@pytest.mark.parametrize("l2norm", [False, True])
def test_operands_go_from_registers_into_the_next_product(l2norm):
    """Those of queries with themselves, for their norms, too."""
    found = to_ttgir(GDN, l2norm=l2norm)
    assert found.metadata.shared <= target("sm_90a").shared_bytes
    assert found.ttgir.count("warp_group_dot ") == 2 * 5 + 1 + l2norm
    assert found.ttgir.count("ttg.local_alloc %") == 0      # the state, R and N


@pytest.mark.gpu        # needs none, but 5 seconds of a CPU
@pytest.mark.parametrize("K", [64, 128])
def test_products_with_norms_are_not_serialized(K, tmp_path):
    """By one consumer and by two, and little is spilled."""
    case = Case(**GDN, K=K, V=K, l2norm=True)
    kernel, _, args, meta = case.steps(o=case.v.copy())[-1]
    said = assembled(ptx_of(kernel, args, meta), tmp_path)
    assert "serialized" not in said and int(re.search(r"(\d+) bytes spill stores", said)[1]) <= 48
