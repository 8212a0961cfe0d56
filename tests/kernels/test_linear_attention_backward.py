"""The gradients of linear attention: the chunked form against autograd of the recurrence in fp64, the kernels against both."""

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the reference is torch's")

import mimw  # noqa: E402
from mimw.kernels import linear_attention as forward  # noqa: E402
from mimw.kernels import linear_attention_backward as backward  # noqa: E402
from mimw.kernels.linear_attention.nouns import Problem  # noqa: E402
from mimw.kernels.linear_attention_backward.few import per_program  # noqa: E402
from mimw.target import target  # noqa: E402
from tests.compiling import stopping  # noqa: E402
from tests.kernels.linear_attention_gradients import chunked_gradients  # noqa: E402
from tests.kernels.linear_attention_reference import chunked, draw, gradients  # noqa: E402

NUMPY = {torch.float32: np.float32, torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16}
PACKED = [0, 5, 5, 75, 150]


class Case:
    """Random arguments and gradients of results, as the type rounds them; arrays for gradients, which hold NaN."""

    def __init__(self, type_, ends=None, state=True, T=150, H=1, seed=3, **drawn):
        self.given, self.type = draw(seed, T=T, H=H, cu_seqlens=ends, state=state, **drawn), type_
        self.given |= {name: self.rounded(self.given[name]) for name in "qkv"}
        drawn, initial = torch.Generator().manual_seed(seed + 1), self.given["initial_state"]
        self.do = self.rounded(torch.randn(self.given["v"].shape, generator=drawn))
        self.dfinal = torch.randn(initial.shape, generator=drawn) if state else None
        self.q, self.k, self.v, self.of_o = (self.array(one) for one in (*(self.given[name] for name in "qkv"), self.do))
        self.g, self.beta, self.initial, self.of_final = (
            None if one is None else one.numpy() for one in (self.given["g"], self.given["beta"], initial, self.dfinal))
        self.ends, self.sequences = ends, self.q.shape[0] if ends is None else len(ends) - 1
        self.results = backward.Results(*(None if one is None else np.full_like(one, np.nan)
                                          for one in (self.q, self.k, self.v, self.g, self.beta)))
        self.dinitial = np.full_like(self.initial, np.nan) if state else None

    def rounded(self, x):
        return x.to(self.type).float()

    def array(self, x):
        return np.ascontiguousarray(x.double().numpy().astype(NUMPY[self.type]))

    def empty(self, shape, kind=None):
        return np.full(shape, np.nan, np.float32 if kind else NUMPY[self.type])

    def of_chunks(self, exact, programs=0):
        """The launches behind the recurrence, with everything before them as the reference has it."""
        parts, of = chunked(**self.given), chunked_gradients(self.do, self.dfinal, **self.given)
        made, heads = forward.tables(self.q.shape[0], self.q.shape[1], self.ends), self.v.shape[2]
        turned = lambda states: self.array(states.flatten(0, 1).transpose(-1, -2))                      # noqa: E731
        given = backward.Given(self.q, self.k, self.v, self.g, self.beta, self.array(parts.N), turned(parts.states), self.of_o)
        last = None if self.g is None else parts.b.flatten(0, 1)[made.chunks.clip(max=made.chunks[:, :1] + 64)[:, 1] - 1]
        of_heads = [self.empty((*self.v.shape[:3], self.q.shape[3]), "fp32") for _ in "qk"]
        work = backward.Work(turned(of.D), *of_heads, None, None, None if last is None else last.float().numpy())
        self.results.dv[...] = self.array(of.v)
        self.dinitial = None
        problem = Problem(self.q.shape[2], heads, self.q.shape[3]**-0.5)
        return backward.of_chunks(given, work, self.results, made.chunks, problem, exact, programs)

    def whole(self, parts=1, programs=0):
        """The launches that compute anew what the forward had, and those of the backward."""
        made = forward.tables(*self.q.shape[:2], self.ends, parts)
        back, work = backward.tables(made), forward.workspace(self.k, self.v, self.g, self.beta, made, self.empty)
        new, states = np.full_like(self.v, np.nan), self.empty((len(made.chunks), *self.v.shape[2:], self.q.shape[3]))
        given = backward.Given(self.q, self.k, self.v, self.g, self.beta, new, states, self.of_o)
        steps = forward.forward(self.q, self.k, self.v, self.g, self.beta, made, work, new=new, states=states, initial=self.initial)
        of_call = backward.workspace(given, back, self.empty, work)
        return steps + backward.launches(given, of_call, self.results, back, work, self.of_final, self.dinitial, programs=programs)

    def right(self, allowed):
        found = dict(zip(("q", "k", "v", "g", "beta"), self.results), initial_state=self.dinitial)
        for name, exact in gradients(self.do, self.dfinal, **self.given).items():
            if found[name] is not None:
                error = np.abs(found[name].astype(np.float64) - exact.numpy()).max()
                assert error <= allowed * exact.abs().max(), (name, error, float(exact.abs().max()))


def every_interleaving_is_right(steps, number, seeds):
    """Of launch `number`, behind those in front of it."""
    for kernel, grid, args, meta in steps[:number]:
        mimw.simulate(kernel, grid, *args, **meta)
    kernel, grid, args, meta = steps[number]
    report = mimw.check(kernel, grid, *args, seeds=seeds, shrink=False, **meta)
    assert report.ok, report


def launched(machine, steps):
    for kernel, grid, args, meta in steps:
        machine.launch(kernel, grid, *args, **meta)


@pytest.mark.parametrize("gates", ["none", "head", "key"])
@pytest.mark.parametrize("delta", [False, True])
def test_chunked_gradients_are_those_of_the_recurrence(gates, delta):
    """By definition; batches or packed sequences, two heads of v for one of k."""
    for ends in (None, [0, 5, 5, 20]):
        given = draw(1, B=2 if ends is None else 1, T=20, H=2, HV=4, K=8, V=6, gates=gates, delta=delta, decay=(-2, 0),
                     cu_seqlens=ends)
        do, dfinal = torch.randn(given["v"].shape), torch.randn(given["initial_state"].shape)
        found = chunked_gradients(do, dfinal, C=8, **given)
        for name, expected in gradients(do, dfinal, **given).items():
            torch.testing.assert_close(getattr(found, name), expected, rtol=0, atol=1e-12)


# ---- gradients of chunks, by themselves -----------------------------------------------------------------------------------------

@pytest.mark.long(but=[
    "none-False-type_0-more0", "head-False-type_2-more2", "head-True-type_3-more3", "head-True-type_4-more4",
    "key-False-type_5-more5", "key-True-type_7-more7", "key-True-type_8-more8"], everywhere=[
    "none-False-type_0-more0", "head-False-type_2-more2", "head-True-type_4-more4", "key-False-type_5-more5",
    "key-True-type_8-more8"])
@pytest.mark.parametrize("gates, delta, type_, more", [
    ("none", False, torch.float32, dict(T=70, H=2, HV=4, V=24)), ("none", True, torch.bfloat16, dict(T=64)),
    ("head", False, torch.float16, dict(T=1)), ("head", True, torch.float32, dict(HV=2, ends=PACKED)),
    ("head", True, torch.bfloat16, dict(B=2, T=65, K=24, decay=(-60, -20))),
    ("key", False, torch.float32, dict(T=70, V=80, decay=(-8, 0))), ("key", True, torch.float32, dict(HV=2, K=80, ends=PACKED)),
    ("key", True, torch.bfloat16, dict(T=66, HV=4, K=24, decay=(-60, -20))),
    ("key", True, torch.float16, dict(T=65, decay=(-1e-3, 0)))])
def test_gradients_of_chunks(machine, gates, delta, type_, more):
    """Every gate, rule and type; packed with an empty sequence and a short one, dims and lengths that no tile divides, heads of v
    for one of k, gates near 0, near 1 and so that a chunk's decay fits no type; some beta are 0. For one program side by side those
    that look for chunks have two each, of which the second may be the one that is wanted, the first or both."""
    case = Case(type_, gates=gates, delta=delta, **dict(dict(K=16, V=16), **more))
    if delta and type_ is torch.float32:
        case.given["beta"][0, ::7] = 0
    simulated = type(machine).__name__ == "Simulator"       # products of fp32 as fp32 has them take minutes to compile
    launched(machine, case.of_chunks(exact=simulated, programs=1))
    case.right({torch.float32: 5e-5 if simulated else 1e-2, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}[type_])


@pytest.mark.long(everywhere=["type_2-0.0002", "type_1-4e-05"])
@pytest.mark.parametrize("type_, beta", [(torch.bfloat16, 1e-6), (torch.bfloat16, 4e-5), (torch.float16, 2e-4)])
def test_dbeta_of_small_betas(machine, type_, beta):
    """Some rows' gradients are N dv / beta^2, of numbers that bf16 holds, or computed anew; dbeta alone is compared there."""
    case = Case(type_, gates="head", delta=True, T=70, K=64, V=64)
    case.given["beta"][0, ::5] = beta
    launched(machine, case.whole())
    small = case.given["beta"][0, :, 0] == beta
    exact = gradients(case.do, case.dfinal, **case.given)["beta"][0, small].numpy()
    allowed = 2e-2 if type_ is torch.bfloat16 else 4e-3
    assert np.abs(case.results.dbeta[0, small.numpy()] - exact).max() <= allowed * np.abs(exact).max()


def test_a_program_looks_at_many_chunks_where_there_are_many():
    assert [per_program(chunks, 16, 132) for chunks in (1, 65, 66, 1024)] == [1, 1, 2, 16]
    case = Case(torch.float32, gates="key", delta=True, K=16, V=16, HV=2, ends=PACKED)
    assert [(kernel.__name__, *grid) for kernel, grid, *_ in case.of_chunks(True, programs=1)][:3] == [
        ("gradients", 5, 2), ("far_gradients", 3, 2), ("small_betas", 3, 2)]


# ---- with the recurrence --------------------------------------------------------------------------------------------------------

@pytest.mark.long(but=[
    "head-True-4-more1", "head-False-3-more2", "key-True-2-more3", "head-True-2-more5", "none-True-1-more7", "none-False-2-more8",
    "key-True-1-more10"], everywhere=[
    "head-True-2-more5", "none-True-1-more7", "head-True-4-more1"])
@pytest.mark.parametrize("gates, delta, parts, more", [
    ("head", True, 1, dict(K=128, V=128, T=70)), ("head", True, 4, dict(T=250)), ("head", False, 3, dict(T=190, V=128)),
    ("key", True, 2, dict(T=250, ends=[0, 5, 5, 250])), ("key", False, 3, dict(T=190)),
    ("head", True, 2, dict(T=450, decay=(-2, -1))), ("key", True, 2, dict(T=260, decay=(-60, -20))),
    ("none", True, 1, dict(ends=PACKED, HV=2)), ("none", False, 2, dict(T=129, state=False)),
    ("head", True, 2, dict(K=256, V=128, T=140)), ("key", True, 1, dict(K=256, HV=2, T=66))])
def test_gradients(machine, gates, delta, parts, more):
    """Behind the forward's kernels, in one part or several side by side; one or two consumers; packed; without states;
    parts that forget."""
    case = Case(torch.bfloat16, gates=gates, delta=delta, **dict(dict(K=64, V=64), **more))
    launched(machine, case.whole(parts))
    case.right(1.2e-2)


@pytest.mark.long(everywhere=["head-True-type_3-more3", "head-True-type_0-more0", "none-True-type_1-more1"])
@pytest.mark.parametrize("gates, delta, type_, more", [
    ("head", True, torch.bfloat16, dict(V=128, T=140)), ("none", True, torch.float16, dict(T=70, HV=2)),
    ("head", False, torch.bfloat16, dict(T=150, ends=PACKED, HV=2)),
    ("head", True, torch.bfloat16, dict(T=130, K=64, decay=(-60, -20)))])
def test_gradients_by_roles(machine, gates, delta, type_, more):
    """Three programs, and some chunks each; values of one block and of two; heads of v for one of k, packed sequences; keys of 64
    columns, and a decay that fits no type."""
    case = Case(type_, gates=gates, delta=delta, **dict(dict(K=128, V=64), **more))
    steps = case.whole(programs=3)
    assert [kernel.__name__ for kernel, *_ in steps if kernel.__name__.startswith("gradients")] == ["gradients_by_roles"]
    launched(machine, steps)
    case.right(1.2e-2 if type_ is torch.bfloat16 else 2e-3)


def test_by_roles_is_for_keys_of_64_and_128_columns_and_gates_a_head():
    for gates, K in (("key", 128), ("head", 256)):
        names = [kernel.__name__ for kernel, *_ in Case(torch.bfloat16, gates=gates, T=5, K=K, V=64).whole(programs=3)]
        assert "gradients" in names and "gradients_by_roles" not in names


@pytest.mark.long(but=["True-False-more1", "False-False-more2", "True-True-more3"], everywhere=["True-False-more1"])
@pytest.mark.parametrize("delta, far, more", [
    (True, False, dict(T=140)), (True, False, dict(T=70, HV=2, ends=[0, 5, 5, 70], decay=(-2, 0))),
    (False, False, dict(T=64, K=256, V=256)), (True, True, dict(T=66, K=64, decay=(-60, -20)))])
def test_gradients_by_key(machine, delta, far, more):
    """Columns of keys of one program, two and four, 128 and 256 columns of values; ragged and packed; heads of v for one of k; a
    chunk that needs cuts beside one that needs none, gates of 16 bits."""
    case = Case(torch.bfloat16, gates="key", delta=delta, **dict(dict(K=128, V=128), **more))
    if far:
        case.given["g"] = case.rounded(case.given["g"])
        case.g = case.array(case.given["g"])
        case.results = case.results._replace(dg=np.full_like(case.g, np.nan))
    steps = case.whole(programs=3)
    assert [kernel.__name__ for kernel, *_ in steps if "gradients" in kernel.__name__] == ["gradients_by_key", "far_gradients"]
    launched(machine, steps)
    case.right(1.2e-2)


def test_by_key_fits_twice_and_is_right_in_every_interleaving():
    case = Case(torch.bfloat16, gates="key", delta=True, T=70, K=64, V=128)
    steps = case.whole(programs=1)
    every_interleaving_is_right(steps, 3, seeds=3)
    kernel, grid, args, meta = steps[3]
    with stopping(("ttgir", )):
        found = mimw.compile(kernel, grid, *args, target="sm_90a", **meta)
    assert found.metadata.shared <= 228 * 1024 // 2 - 1024      # a multiprocessor has 228 KB, of which each CTA takes 1 KB more
    assert found.ttgir.count("ttng.warp_group_dot ") == 16


@pytest.mark.parametrize("type_, decay", [(torch.bfloat16, (-60, -20)), (torch.float16, (-1e-3, 0))])
def test_gates_near_zero_and_near_one(machine, type_, decay):
    case = Case(type_, gates="head", delta=True, T=130, K=64, V=64, decay=decay)
    launched(machine, case.whole())
    case.right(2e-2 if type_ is torch.bfloat16 else 3e-3)


def test_tables_go_from_the_last_part_to_the_first():
    made = forward.tables(1, 300, [0, 5, 5, 300], parts=2)
    back = backward.tables(made)
    assert back.cut and back.lists.tolist() == made.lists.tolist() and back.spans[:, :4].tolist() == made.spans[:, :4].tolist()
    assert back.spans[:, 4:].tolist() == [[0, 0], [1, 1], [2, 2], [3, -1]]      # D comes from behind each part
    assert back.sums.tolist() == [[5 + 3 * 64, 300, 4, 2, 2, 3]]                # the last part's, with the final state's gradient
    assert not backward.tables(forward.tables(2, 100)).cut


@pytest.mark.long(but=["head-64", "key-64"], everywhere=True)
@pytest.mark.parametrize("gates, K", [("head", 64), ("key", 64), ("head", 256)])
def test_every_interleaving_is_right(gates, K):
    case = Case(torch.bfloat16, gates=gates, delta=True, T=260 if K == 64 else 200, K=K, V=64)
    steps = case.whole()
    every_interleaving_is_right(steps, 2, seeds=4)


def test_every_interleaving_by_roles_is_right():
    """One program, three chunks; 200 seeds: benchmarks/notes/linear-attention-forward.md."""
    case = Case(torch.bfloat16, gates="head", delta=True, T=140, K=128, V=64)
    steps = case.whole(programs=1)
    every_interleaving_is_right(steps, 3, seeds=3)


@pytest.mark.long(shown_by="test_wide_heads_fit")
def test_by_roles_fits():
    """Shared memory; and registers, of which addresses that are moved out of the loop would take too many. The eight warps move no
    tile from one to another."""
    case = Case(torch.bfloat16, gates="head", delta=True, T=130, K=128, V=128)
    kernel, grid, args, meta = case.whole(programs=2)[3]
    found = mimw.compile(kernel, grid, *args, target="sm_90a", **meta)
    assert found.shared_bytes <= target("sm_90a").shared_bytes
    assert found.stack_bytes <= 16
    products, _ = found.ttgir.split("partition0", 1)
    assert products.count("ttng.warp_group_dot ") == 2 * 6 + 4 and "ttg.convert_layout" not in products


@pytest.mark.long(but=["256"], everywhere=True)
@pytest.mark.parametrize("K", [128, 256])
def test_wide_heads_fit(K):
    """Operands come from registers and from slots, none by way of other memory; with keys of 256 D from a slot of results."""
    case = Case(torch.bfloat16, gates="head", delta=True, T=64, K=K, V=128)
    kernel, grid, args, meta = case.whole()[2]
    with stopping(("ttgir", )):
        found = mimw.compile(kernel, grid, *args, target="sm_90a", **meta)
    assert found.metadata.shared <= target("sm_90a").shared_bytes
    assert found.ttgir.count("warp_group_dot ") == (2 if K == 128 else 1) * 5 + 1       # of consumers, and of the scores
    assert found.ttgir.count("ttg.local_alloc %") == 0
