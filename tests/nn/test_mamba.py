"""Mamba-2's chunk scan against its recurrence in fp64: steps, D, z, groups, states, gradients, packed sequences."""

import pytest

torch = pytest.importorskip("torch", reason="modules need torch: make test TORCH=torch==VERSION+cpu")

from mimw.nn.functional import mamba_chunk_scan_combined  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
F = torch.nn.functional


def inputs(dim=16, states=8, length=70, dtype=torch.float32):
    """Of 4 heads in 2 groups."""
    torch.manual_seed(0)
    made = dict(x=torch.randn(2, length, 4, dim), dt=torch.randn(2, length, 4), A=-torch.rand(4) - 0.1,
                B=torch.randn(2, length, 2, states) * states**-0.5, C=torch.randn(2, length, 2, states), D=torch.randn(4),
                z=torch.randn(2, length, 4, dim), dt_bias=torch.randn(4), initial_states=torch.randn(2, 4, dim, states))
    return {name: one.to(dtype) if name in ("x", "B", "C", "z") else one for name, one in made.items()}


def recurrence(x, dt, A, B, C, D=None, z=None, dt_bias=None, initial_states=None, limit=(0.0, float("inf"))):
    """Token by token, as the paper has it."""
    steps = F.softplus(dt + (0 if dt_bias is None else dt_bias)).clamp(*limit)
    B, C = (one.repeat_interleave(2, 2) for one in (B, C))
    S, outs = x.new_zeros(2, 4, x.shape[-1], B.shape[-1]) if initial_states is None else initial_states, []
    for t in range(x.shape[1]):
        S = (steps[:, t] * A).exp()[..., None, None] * S + (steps[:, t, :, None] * x[:, t])[..., None] * B[:, t, :, None]
        outs.append((S * C[:, t, :, None]).sum(-1))
    y = torch.stack(outs, 1) + (0 if D is None else D.view(4, -1) * x)
    return (y if z is None else y * F.silu(z)), S


@pytest.mark.parametrize("names, dim, states, dtype, allowed", [
    ("D z dt_bias initial_states", 16, 8, torch.float32, 1e-5), ("", 64, 64, torch.float16, 1e-2)], ids=["torch", "kernels"])
def test_values_and_gradients(names, dim, states, dtype, allowed):
    given = {name: one for name, one in inputs(dim, states, dtype=dtype).items() if name in {*"x dt A B C".split(), *names.split()}}
    leaves = {name: one.clone().requires_grad_() for name, one in given.items()}
    wide = {name: one.double().requires_grad_() for name, one in given.items()}
    y, final = mamba_chunk_scan_combined(**leaves, chunk_size=256, dt_softplus=True, dt_limit=(0.01, 1.5), return_final_states=True)
    expected, last = recurrence(**wide, limit=(0.01, 1.5))
    dy, dfinal = torch.randn_like(expected).to(dtype), torch.randn_like(last).float()
    found = torch.autograd.grad((y, final), list(leaves.values()), (dy, dfinal))
    wanted = torch.autograd.grad((expected, last), list(wide.values()), (dy.double(), dfinal.double()))
    assert y.dtype == dtype and final.dtype == torch.float32
    for one, other in zip((y, final, *found), (expected, last, *wanted)):
        assert one.shape == other.shape and (one.double() - other).norm() <= allowed * other.norm()


def test_packed_and_refused():
    made = inputs()
    given = {name: made[name] if name == "A" else made[name][:1] for name in ("x", "dt", "A", "B", "C")}
    y = mamba_chunk_scan_combined(**given, chunk_size=64, dt_softplus=True, cu_seqlens=torch.tensor([0, 25, 70]))
    parts = [mamba_chunk_scan_combined(**{name: one if name == "A" else one[:, at] for name, one in given.items()}, chunk_size=64,
                                       dt_softplus=True) for at in (slice(0, 25), slice(25, 70))]
    torch.testing.assert_close(y, torch.cat(parts, 1), rtol=1e-4, atol=1e-4)
    with pytest.raises(NotImplementedError, match="say where sequences begin by cu_seqlens"):
        mamba_chunk_scan_combined(**given, chunk_size=64, seq_idx=torch.zeros(1, 70, dtype=torch.int32))
