"""`mimw.ops.linear_attention` against the recurrence in fp64: families, heads, packed sequences, states, gradients, refusals.

Input: small tensors. Output: values and gradients. For example:

    pytest --forked 0 tests/ops/test_linear_attention.py -k gradients
"""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from mimw.ops import linear_attention_chunks, linear_attention_layout, packed  # noqa: E402
from mimw.ops.linear_attention import CONTRACT  # noqa: E402
from tests.kernels.linear_attention_reference import chunked, draw, gates_of_raw, gradients, recurrence  # noqa: E402
from tests.ops import linear_attention_fuzz  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
TENSORS = "q", "k", "v", "g", "beta", "initial_state"
SMALL = dict(H=1, HV=2, K=32, V=16)
FAMILIES = {
    "none": dict(T=66), "deltanet": dict(T=40, delta=True, B=2), "by head": dict(T=40, gates="head", cu_seqlens=[0, 1, 1, 35, 40]),
    "gla": dict(T=130, gates="key"), "gdn": dict(T=90, gates="head", delta=True, cu_seqlens=[0, 66, 90]),
    "kda": dict(T=40, gates="key", delta=True), "kda, gates near 0": dict(T=70, gates="key", delta=True, decay=(-60, 0)),
    "gdn, near 1": dict(T=40, gates="head", delta=True, decay=(-1e-4, 0))}


def near(found, expected, tolerance):
    assert found.shape == expected.shape
    assert (found.double() - expected).norm() <= tolerance * expected.norm() + 1e-9, (found, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_gradients(family):
    given = draw(3, **SMALL, **FAMILIES[family])
    l2norm = family == "kda"
    leaves = {name: one.requires_grad_() if name in TENSORS and one is not None else one for name, one in given.items()}
    o, final = ops.linear_attention(**leaves, output_final_state=True, use_qk_l2norm=l2norm)
    expected, last = recurrence(**given, use_qk_l2norm=l2norm)
    near(o, expected, 1e-5)
    near(final, last, 1e-5)
    do, dfinal = torch.randn_like(o), torch.randn_like(final)
    torch.autograd.backward((o, final), (do, dfinal))
    for name, gradient in gradients(do, dfinal, **{name: one if one is None else one.detach() for name, one in given.items()},
                                    use_qk_l2norm=l2norm).items():
        near(leaves[name].grad, gradient, 1e-4)


@pytest.mark.parametrize("gates, delta, K, cu_seqlens, l2norm", [
    ("key", True, 64, [0, 70, 70, 78], True), ("head", False, 128, None, False)])
def test_by_kernels(gates, delta, K, cu_seqlens, l2norm):
    """Heads that the kernels of sm_90 take, simulated, forward and backward; twice with one plan; rows behind the last sequence;
    gradients of chunks by the plain kernel and by roles; norms, which launch nothing of their own forward."""
    given = draw(7, T=78 if cu_seqlens is None else 80, H=1, HV=2, K=K, gates=gates, delta=delta, cu_seqlens=cu_seqlens)
    given |= {name: given[name].bfloat16() for name in "qkv"}
    used = dict(given) | {name: given[name][:, :78] for name in ("q", "k", "v", "g", "beta") if given[name] is not None}
    used |= dict(use_qk_l2norm=l2norm)
    for again in range(2):
        leaves = {name: one.detach().clone().requires_grad_() if name in TENSORS and one is not None else one
                  for name, one in given.items()}
        o, final = ops.linear_attention(**leaves, output_final_state=True, use_qk_l2norm=l2norm)
        do, dfinal = torch.randn_like(o), torch.randn_like(final)
        torch.autograd.backward((o, final), (do, dfinal))
        if again:
            expected, last = recurrence(**used)
            near(o[:, :78], expected, 8e-3)
            near(final, last, 8e-3)
            for name, gradient in gradients(do[:, :78], dfinal, **used).items():
                found = leaves[name].grad
                near(found if name == "initial_state" else found[:, :78], gradient, 1.2e-2)
                assert name == "initial_state" or (found[:, 78:] == 0).all()
    told = str(ops.explain(ops.linear_attention, *(given[name] for name in ("q", "k", "v", "g", "beta")), use_qk_l2norm=l2norm))
    assert "by linear_attention" in told and "rms_norm" not in told


RAW = {     # gates, whether there are A_log and dt_bias, the lower bound, whether betas are raw, and doubled
    "softplus": ("key", True, True, None, True, False), "bounded": ("key", True, True, -5.0, True, True),
    "a head's": ("head", True, False, None, True, False), "a head's, bounded": ("head", False, True, -0.5, False, False)}


def raw_call(name, by_kernels=False, **shape):
    """(arguments of a call with raw gates and betas, what they are for the recurrence, leaves by name)."""
    gates, rate, bias, bound, betas, twice = RAW[name]
    drawn = draw(11, gates=gates, delta=True, **shape)
    given = drawn | {one: torch.randn_like(drawn[one]) for one in ("g", "beta")}
    if by_kernels:
        given |= {one: given[one].bfloat16() for one in "qkv"}
    heads = given["g"].shape[2:]
    given |= dict(A_log=torch.randn(heads[0]) if rate else None, dt_bias=torch.randn(heads) if bias else None)
    if not betas:
        given["beta"] = drawn["beta"]
    leaves = {one: x.requires_grad_() for one, x in given.items() if x is not None and one != "cu_seqlens"}
    options = dict(lower_bound=bound, use_gate=True, use_beta_sigmoid=betas, allow_neg_eigval=twice)

    def exact(of):
        made = {one: of.get(one) for one in ("q", "k", "v", "initial_state")} | {"cu_seqlens": given["cu_seqlens"]}
        weights = torch.sigmoid(of["beta"]) * (2.0 if twice else 1.0) if betas else of["beta"]
        return recurrence(**made, g=gates_of_raw(of["g"], of.get("A_log"), of.get("dt_bias"), bound), beta=weights)

    return given | options, leaves, exact


@pytest.mark.parametrize("name", RAW)
def test_raw_gates_and_betas(name):
    """Values, and gradients of all that they are made of."""
    given, leaves, exact = raw_call(name, T=40, cu_seqlens=[0, 1, 1, 35, 40], **SMALL)
    doubles = {one: x.detach().double().requires_grad_() for one, x in leaves.items()}
    found, wanted = ops.linear_attention(**given, output_final_state=True), exact(doubles)
    sums = torch.randn_like(found[0]), torch.randn_like(found[1])
    for one, other in zip((*found, *torch.autograd.grad(found, list(leaves.values()), sums)),
                          (*wanted, *torch.autograd.grad(wanted, list(doubles.values()), [x.double() for x in sums]))):
        near(one, other, 1e-4)


@pytest.mark.parametrize("name, shape", [("bounded", dict(T=70, cu_seqlens=[0, 66, 70])), ("a head's", dict(T=66))])
def test_raw_gates_and_betas_by_kernels(name, shape):
    """Simulated; another call of the plan has other numbers; no launch of their own."""
    for again in range(2):
        given, leaves, exact = raw_call(name, by_kernels=True, H=1, HV=2, K=64, V=64, **shape)
        if again:
            given |= dict(A_log=given["A_log"].detach() + 0.5)
            leaves["A_log"] = given["A_log"]
        o, final = ops.linear_attention(**given, output_final_state=True)
    with torch.no_grad():
        expected, last = exact(leaves)
    near(o, expected, 8e-3)
    near(final, last, 8e-3)
    names = "q", "k", "v", "g", "beta"
    options = {name: one for name, one in given.items() if name not in (*names, "initial_state", "cu_seqlens")}
    told = str(ops.explain(ops.linear_attention, *(given[name] for name in names), **options))
    assert "by linear_attention" in told and told.count("grid (") == 2 and "torch" not in told


@pytest.mark.parametrize("options, said", [
    (dict(use_gate=True), "there must be a g to make gates of"), (dict(A_log=torch.zeros(1)), "use_gate=True asks for"),
    (dict(use_beta_sigmoid=True), "there must be a beta"), (dict(allow_neg_eigval=True), "use_beta_sigmoid=True asks for"),
    (dict(g=torch.zeros(1, 4, 1), use_gate=True, lower_bound=0.0), "lower_bound must be below 0"),
    (dict(g=torch.zeros(1, 4, 1), use_gate=True, dt_bias=torch.zeros(1, 8)), "take biases .HV., and by key"),
    (dict(g=torch.zeros(1, 4, 1), use_gate=True, A_log=torch.zeros(3)), "A_log")])
def test_what_makes_gates_must_fit_them(options, said):
    with pytest.raises(RuntimeError, match=said):
        ops.linear_attention(*[torch.zeros(1, 4, 1, 8)] * 3, **options)


@pytest.mark.parametrize("gates, K, dtype", [
    ("head", 64, torch.bfloat16), ("key", 64, torch.bfloat16), ("head", 32, torch.float32)])
def test_rows_whose_squares_overflow_count_as_zero(gates, K, dtype):
    """As x rsqrt(inf) has it: also where products of two such rows are no numbers."""
    given = draw(6, T=70, H=1, K=K, gates=gates, delta=True)
    given |= {name: given[name].to(dtype) for name in "qkv"}
    found = []
    for factor in (1e20, 0.0):
        for name, rows in (("q", [2, 5, 9]), ("k", [2, 5, 7])):
            given[name] = given[name].index_copy(1, torch.tensor(rows), given[name][:, rows] * factor)
        found.append(ops.linear_attention(**given, output_final_state=True, use_qk_l2norm=True))
    assert found[0][0].isfinite().all()
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_which_heads_kernels_take():
    q, v = (torch.empty(1, 70, 2, columns, dtype=torch.float16) for columns in (256, 64))
    assert "by linear_attention" in str(ops.explain(ops.linear_attention, q, q, v, torch.empty(1, 70, 2)))
    assert "values have 32 columns, and it takes 64 or 128 or 256" in str(ops.explain(ops.linear_attention, q, q, v[..., :32]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_types_strides_and_a_state_alone(dtype):
    """Numbers of 16 bits as the recurrence of the rounded ones; gradients of the final states alone; no state, no final state."""
    given = draw(5, B=2, T=12, gates="key", delta=True, **SMALL)
    given |= {name: given[name].to(dtype).transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for name in "qkv"}
    o, final = ops.linear_attention(**given, scale=0.3, output_final_state=True)
    expected, last = recurrence(**{name: one if one is None else one.detach() for name, one in given.items()}, scale=0.3)
    assert o.dtype == dtype and o.is_contiguous() and final.dtype == torch.float32
    near(o, expected, 1e-2)
    near(final, last, 1e-5)
    found = torch.autograd.grad(final.sum(), [given["k"], given["v"]])
    wanted = gradients(torch.zeros_like(o), torch.ones_like(final), **{name: one if one is None else one.detach()
                                                                       for name, one in given.items()})
    for one, name in zip(found, "kv"):
        near(one, wanted[name], 1e-2)
    given["initial_state"] = None
    o, none = ops.linear_attention(**given)
    assert none is None
    near(o, recurrence(**given)[0].detach(), 1e-2)


def test_the_chunked_reference_is_the_recurrence():
    given = draw(1, T=100, gates="key", delta=True, cu_seqlens=[0, 66, 66, 100], **SMALL)
    parts, (o, final) = chunked(**given), recurrence(**given)
    near(parts.o, o, 1e-12)
    near(parts.final, final, 1e-12)
    assert parts.states.shape == (1, 3, 2, 32, 16) and parts.P.shape == (1, 100, 2, 64)


def test_slabs_and_nothing(monkeypatch):
    """The same bits in slabs of one chunk; no rows, no sequences, no heads."""
    given = draw(2, T=70, gates="key", delta=True, **SMALL)
    leaf = given["v"].requires_grad_()
    results = []
    for slab in (1 << 26, 1):
        monkeypatch.setattr(linear_attention_chunks, "SLAB", slab)
        o, final = ops.linear_attention(**given, output_final_state=True)
        results.append((o, final, *torch.autograd.grad(o.sum() + final.sum(), leaf)))
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    empty = draw(2, T=0, gates="head", **SMALL)
    o, final = ops.linear_attention(**empty, output_final_state=True)
    assert o.shape == (1, 0, 2, 16) and torch.equal(final, empty["initial_state"])
    packed = draw(2, T=4, cu_seqlens=[0, 0])
    o, final = ops.linear_attention(**packed | {name: packed[name].half() for name in "qkv"}, output_final_state=True)
    assert (o == 0).all() and torch.equal(final, packed["initial_state"])       # by kernels, if there were a row
    packed = draw(2, T=4, cu_seqlens=[0], **SMALL)
    o, final = ops.linear_attention(**packed, output_final_state=True)
    assert o.shape == (1, 4, 2, 16) and final.shape == (0, 2, 32, 16)


def test_layout():
    at = linear_attention_layout.layout(1, 200, [0, 70, 70, 199], torch.device("cpu"))
    assert at.steps == (2, 2, 1) and at.order.tolist() == [2, 0, 1] and at.rows.shape == (5, 64)
    assert at.rows[0, 0] == 70 and at.rows[3].tolist() == [*range(64, 70), *[-1] * 58] and at.rows[4, 0] == 198


X = draw(0, T=6, gates="key", delta=True, **SMALL)


@pytest.mark.parametrize("changes, error, text", [
    (dict(v=X["v"][:, :5]), RuntimeError, "v is 1 x 5 x 2 x 16"),
    (dict(q=X["q"].double()), NotImplementedError, "q is torch.float64"),
    (dict(k=X["k"].half()), RuntimeError, "k torch.float16; both must be of one type"),
    (dict(initial_state=torch.zeros(2, 2, 32, 16)), RuntimeError, "2 states, and there are 1 sequences"),
    (dict(beta=X["beta"][..., :1]), RuntimeError, "beta is 1 x 6 x 1; "),
    (dict(cu_seqlens=torch.tensor([1, 6])), RuntimeError, r"cu_seqlens is \[1, 6\]; it must ascend from 0"),
    (dict(cu_seqlens=torch.tensor([0, 7])), RuntimeError, "end at 6 rows or before"),
    (dict(cu_seqlens=torch.tensor([0, 4, 3]), initial_state=None), RuntimeError, "must ascend"),
    (dict(v=X["v"][:, :, :1].expand(-1, -1, 3, -1), q=X["q"].expand(-1, -1, 2, -1), k=X["k"].expand(-1, -1, 2, -1), g=None,
          beta=None, initial_state=None), RuntimeError, "heads of q and k must divide those of v")])
def test_refusals(changes, error, text):
    with pytest.raises(error, match=text):
        ops.linear_attention(**X | changes)


def test_opcheck():
    leaves = [X[name].detach().clone().requires_grad_() for name in TENSORS]
    torch.library.opcheck(torch.ops.mimw.linear_attention.default, (*leaves, None, None, None, None, True, True))
    heads = X["g"].shape[2:]
    making = *(torch.zeros(shape, requires_grad=True) for shape in (heads[:1], heads)),
    torch.library.opcheck(torch.ops.mimw.linear_attention.default, (*leaves, None, *making, None, True, True, True, -5.0, True))


def test_compiled_whole():
    def step(q, k, v, g, beta, A_log):
        o, final = ops.linear_attention(q, k, v, g, beta, output_final_state=True, use_qk_l2norm=True, A_log=A_log, use_gate=True,
                                        use_beta_sigmoid=True)
        return (o * o).sum() + final.sum()

    inputs = [X[name].detach().clone().requires_grad_() for name in ("q", "k", "v", "g", "beta")]
    inputs.append(torch.zeros(X["g"].shape[2], requires_grad=True))
    found, expected = (torch.autograd.grad(one(*inputs), inputs) for one in
                       (torch.compile(step, fullgraph=True, backend="aot_eager"), step))
    torch.testing.assert_close(found, expected)


def test_random_calls_find_what_is_wrong(monkeypatch, capsys):
    """A few calls are right; with a scale that is forgotten one is wrong, and its line repeats it."""
    for number in range(3):
        assert linear_attention_fuzz.wrong(1, number, "cpu")[1] is None
    whole = ops.linear_attention
    monkeypatch.setattr(ops, "linear_attention", lambda *args, scale=None, **named: whole(*args, **named))
    wrong = next(number for number in range(20) if linear_attention_fuzz.wrong(1, number, "cpu")[1] is not None)
    assert linear_attention_fuzz.main(["--seed", "1", "--only", str(wrong)]) == 1 and "o differs by" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "name"), [(7007, "beta"), (46646, "q")])
def test_where_terms_cancel_errors_are_those_of_rounding_and_no_larger(monkeypatch, number, name):
    """Calls of one row, whose gradient is a few hundredths of the sums that it is the difference of; with its sign turned it is
    wrong."""
    assert linear_attention_fuzz.wrong(31, number, "cpu")[1] is None
    with monkeypatch.context() as patch:
        patch.setattr(linear_attention_fuzz, "TIMES", 0.0)
        assert f"d{name} differs by" in linear_attention_fuzz.wrong(31, number, "cpu")[1]
    whole = ops.linear_attention

    def turned(**given):
        one = given[name]
        return whole(**{**given, name: 2 * one.detach() - one})

    monkeypatch.setattr(ops, "linear_attention", turned)
    assert f"d{name} differs by" in linear_attention_fuzz.wrong(31, number, "cpu")[1]


class OnTheDevice:
    """A tensor of integers whose numbers the host waits for."""

    is_cuda, asked = True, 0

    def __init__(self, *numbers):
        self.tensor = torch.tensor(numbers)

    def is_inference(self):
        return False

    def tolist(self):
        self.asked += 1
        return self.tensor.tolist()

    _version = property(lambda self: self.tensor._version)


def test_the_host_waits_once_for_a_tensor():
    """And again for what torch has written."""
    ends = OnTheDevice(0, 3, 7)
    assert [packed.ends_of(CONTRACT, ends, 7) for _ in range(2)] == [(0, 3, 7)] * 2 and ends.asked == 1
    ends.tensor[1] = 4
    assert packed.ends_of(CONTRACT, ends, 7) == (0, 4, 7) and ends.asked == 2
    assert packed.ends_of(CONTRACT, OnTheDevice(0, 1, 7), 7) == (0, 1, 7)
