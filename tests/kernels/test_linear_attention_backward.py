"""The gradients of linear attention: the chunked form against autograd of the recurrence in fp64, and the kernels against both."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the reference of linear attention is torch's")

from .linear_attention_gradients import chunked_gradients  # noqa: E402
from .linear_attention_reference import draw, gradients  # noqa: E402
from .linear_attention_tables import of_reference  # noqa: E402

PACKED = [0, 5, 5, 75, 150]


def asked(given, dtype, seed=0):
    """(inputs as `dtype` rounds them, do, dfinal)."""
    drawn = torch.Generator().manual_seed(seed)
    given = given | {name: given[name].to(dtype).float() for name in "qkv"}
    do = torch.randn(given["v"].shape, generator=drawn).to(dtype).float()
    return given, do, torch.randn(given["initial_state"].shape, generator=drawn)


@pytest.mark.parametrize("gates", ["none", "head", "key"])
@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("ends", [None, [0, 5, 5, 20]])
def test_chunked_gradients_are_those_of_the_recurrence(gates, delta, ends):
    given = draw(1, B=2 if ends is None else 1, T=20, H=2, HV=4, K=8, V=6, gates=gates, delta=delta, decay=(-2, 0), cu_seqlens=ends)
    given, do, dfinal = asked(given, torch.float32)
    found = chunked_gradients(do, dfinal, C=8, **given)
    for name, expected in gradients(do, dfinal, **given).items():
        torch.testing.assert_close(getattr(found, name), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("gates, delta, dtype, more", [
    ("none", False, torch.float32, dict(T=70, H=2, HV=4, V=24)), ("none", True, torch.bfloat16, dict(T=64)),
    ("head", False, torch.float16, dict(T=1)), ("head", True, torch.float32, dict(T=150, HV=2, cu_seqlens=PACKED)),
    ("head", True, torch.bfloat16, dict(B=2, T=65, K=24, decay=(-60, -20))),
    ("key", False, torch.float32, dict(T=70, V=80, decay=(-8, 0))), ("key", True, torch.float32, dict(T=150, HV=2, cu_seqlens=PACKED)),
    ("key", True, torch.bfloat16, dict(T=70, K=24, decay=(-60, -20))), ("key", True, torch.float16, dict(T=65, decay=(-1e-3, 0)))])
def test_gradients(machine, gates, delta, dtype, more):
    """Every gate, rule and type; packed with an empty sequence and a short one, dims and lengths that no tile divides, two heads of v
    for one of k, gates near 0, near 1 and so that a chunk's decay fits no type; some beta are 0."""
    given, do, dfinal = asked(draw(3, gates=gates, delta=delta, **dict(dict(H=1, K=16, V=16), **more)), dtype)
    if delta and dtype is torch.float32:
        given["beta"][0, ::7] = 0
    case = of_reference(given, do, dfinal, dtype)
    for kernel, grid, args, meta in case.launches:
        machine.launch(kernel, grid, *args, **meta)
    allowed = {torch.float32: 5e-5, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}[dtype]
    expected = gradients(do, dfinal, **given)
    expected["D"] = chunked_gradients(do, dfinal, **given).D.flatten(0, 1).transpose(-1, -2)
    for name, one in expected.items():
        error = np.abs(case.results[name].astype(np.float64) - one.numpy()).max()
        assert error <= allowed * one.abs().max(), (name, error, float(one.abs().max()))


@pytest.mark.parametrize("gates", ["head", "key"])
def test_without_states(machine, gates):
    """Neither an initial state nor a gradient of the final one."""
    given, do, _ = asked(draw(4, T=66, H=1, K=16, V=16, gates=gates, delta=True), torch.float32)
    given["initial_state"] = None
    case = of_reference(given, do, None, torch.float32, of_states=False)
    for kernel, grid, args, meta in case.launches:
        machine.launch(kernel, grid, *args, **meta)
    for name, one in gradients(do, None, **given).items():
        assert np.abs(case.results[name] - one.numpy()).max() <= 5e-5 * one.abs().max(), name
