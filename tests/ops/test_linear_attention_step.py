"""`mimw.ops.linear_attention_step` against the recurrence in fp64, token by token, in place and in a pool, and what torch asks."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from tests.kernels.linear_attention_reference import draw, gates_of_raw, recurrence  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


@pytest.mark.parametrize("gates, delta, pooled", [("none", False, False), ("head", True, True), ("key", True, False)])
def test_tokens_one_after_the_other(gates, delta, pooled):
    """Two sequences of three tokens; q and k as parts of one tensor."""
    given = draw(1, B=2, T=3, H=1, HV=2, K=20, V=24, gates=gates, delta=delta)
    state, indices = given["initial_state"].clone(), None
    if pooled:
        pool, indices = torch.full((4, 2, 20, 24), 7.0), torch.tensor([3, 1], dtype=torch.int32)
        pool[indices] = state
        state = pool
    both = torch.cat((given["q"], given["k"]), -1)
    outs = []
    for t in range(3):
        q, k = both[:, t].split(20, -1)
        g, beta = (None if given[name] is None else given[name][:, t] for name in ("g", "beta"))
        outs.append(ops.linear_attention_step(q, k, given["v"][:, t], state, g, beta, indices, use_qk_l2norm=delta))
    o, final = recurrence(**given, use_qk_l2norm=delta)
    torch.testing.assert_close(torch.stack(outs, 1).double(), o, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close((state if indices is None else state[indices]).double(), final, rtol=1e-4, atol=1e-4)
    if pooled:
        assert (state[[0, 2]] == 7).all()


def test_a_state_as_value_by_key_and_no_sequences():
    given = draw(2, B=2, T=1, H=2, K=16, V=24, gates="head")
    rows = [given[name][:, 0] for name in "qkv"]
    state = given["initial_state"].transpose(2, 3).contiguous().transpose(2, 3)
    o = ops.linear_attention_step(*rows, state, given["g"][:, 0], scale=2.0)
    expected, final = recurrence(**given, scale=2.0)
    torch.testing.assert_close(o.double(), expected[:, 0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(state.double(), final, rtol=1e-4, atol=1e-4)
    none = ops.linear_attention_step(*(one[:0] for one in rows), state, None, None, torch.empty(0, dtype=torch.int64))
    assert none.shape == (0, 2, 24)


@pytest.mark.parametrize("gates, bound, twice", [("head", None, False), ("key", -5.0, True)])
def test_raw_gates_and_betas(gates, bound, twice):
    """A_log and dt_bias as every other number of a tensor, on one token of three sequences."""
    given = draw(3, B=3, T=1, H=1, HV=2, K=16, V=24, gates=gates, delta=True)
    g, beta, state = 3 * torch.randn_like(given["g"]), torch.randn_like(given["beta"]), given["initial_state"].clone()
    A_log, dt_bias = torch.randn(2, 2)[:, 0], torch.randn(*g.shape[2:], 2)[..., 0]
    weights = torch.sigmoid(beta.double()) * (2 if twice else 1)
    o = ops.linear_attention_step(*(given[name][:, 0] for name in "qkv"), state, g[:, 0], beta[:, 0], A_log=A_log, dt_bias=dt_bias,
                                  lower_bound=bound, use_gate=True, use_beta_sigmoid=True, allow_neg_eigval=twice)
    expected, final = recurrence(**given | dict(g=gates_of_raw(g, A_log, dt_bias, bound), beta=weights))
    torch.testing.assert_close(o.double(), expected[:, 0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(state.double(), final, rtol=1e-4, atol=1e-4)


Q, V = torch.randn(2, 1, 16), torch.randn(2, 2, 8)
STATE = torch.randn(2, 2, 16, 8)


@pytest.mark.parametrize("changes, error, text", [
    (dict(state=STATE[:1].clone()), RuntimeError, "without indices there must be one state for each sequence"),
    (dict(state=STATE[:1].expand(2, -1, -1, -1)), RuntimeError, "state"),
    (dict(state=STATE.clone().requires_grad_()), RuntimeError, "state"),
    (dict(g=torch.zeros(2, 3)), RuntimeError, "g is 2 x 3"),
    (dict(use_gate=True), RuntimeError, "there must be a g to make gates of"),
    (dict(g=torch.zeros(2, 2), A_log=torch.zeros(2)), RuntimeError, "use_gate=True asks for"),
    (dict(g=torch.zeros(2, 2), use_gate=True, dt_bias=torch.zeros(2, 16)), RuntimeError, "take biases .HV., and by key"),
    (dict(q=Q.double()), NotImplementedError, "q is torch.float64")])
def test_refusals(changes, error, text):
    with pytest.raises(error, match=text):
        ops.linear_attention_step(**dict(q=Q, k=Q, v=V, state=STATE.clone()) | changes)


def test_opcheck():
    torch.library.opcheck(torch.ops.mimw.linear_attention_step.default, (Q, Q, V, STATE.clone(), torch.zeros(2, 2), None, None))
    raw = torch.zeros(2, 2), torch.zeros(2, 2), None, torch.zeros(2)
    torch.library.opcheck(torch.ops.mimw.linear_attention_step.default, (Q, Q, V, STATE.clone(), *raw), dict(use_gate=True))
