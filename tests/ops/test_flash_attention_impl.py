"""Our attention as torch's flash attention: activated, called by torch's own names, and given back."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn import attention as registry  # noqa: E402

from mimw import ops  # noqa: E402

for name in ("activate_flash_attention_impl", "restore_flash_attention_impl"):      # since torch 2.10, since 2.11
    if not hasattr(registry, name):
        pytest.skip(f"torch {torch.__version__} has no torch.nn.attention.{name}", allow_module_level=True)

flash = torch.ops.aten._scaled_dot_product_flash_attention


@pytest.fixture
def active():
    registry.activate_flash_attention_impl("mimw")
    yield
    registry.restore_flash_attention_impl()


def normal(*shape, seed=0, device="cpu"):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, torch.bfloat16).requires_grad_()


def test_it_is_in_the_list_and_off():
    assert "mimw" in registry.list_flash_attention_impls() and registry.current_flash_attention_impl() is None


def test_activated_and_given_back():
    q = normal(1, 2, 5, 16).detach()
    registry.activate_flash_attention_impl("mimw")
    assert registry.current_flash_attention_impl() == "mimw"
    assert torch.equal(flash(q, q, q)[0], ops.attention(q, q, q))
    registry.restore_flash_attention_impl()
    with pytest.raises(NotImplementedError):        # the CPU has no flash attention by this name
        flash(q, q, q)


@pytest.mark.parametrize("causal", [False, True])
def test_results_and_gradients(active, causal):
    """What torch's autograd makes of our two kernels, against our own operator."""
    of = normal(1, 4, 9, 16), normal(1, 2, 9, 16, seed=1), normal(1, 2, 9, 16, seed=2)
    o, lse, *_ = flash(*of, 0.0, causal, scale=0.3)
    wanted, wanted_lse = ops.attention(*of, causal=causal, scale=0.3, return_lse=True)
    assert torch.equal(o, wanted) and torch.equal(lse, wanted_lse)
    do = normal(*o.shape, seed=3).detach()
    for one, other in zip(torch.autograd.grad(o, of, do), torch.autograd.grad(wanted, of, do)):
        assert torch.equal(one, other)


def test_the_result_lies_as_the_queries(active):
    """Torch's graphs hold the strides of empty_like(query) against it."""
    whole = normal(1, 2, 9, 48).detach()
    for q in (normal(1, 9, 2, 16).detach().transpose(1, 2), normal(1, 2, 16, 9).detach().mT, whole[..., :16]):
        o = flash(q, q, q)[0]
        assert o.stride() == torch.empty_like(q).stride()
        torch.testing.assert_close(o, ops.attention(q, q, q))


def test_dropout_is_refused_with_the_way_back(active):
    q = normal(1, 2, 5, 16).detach()
    with pytest.raises(RuntimeError, match="no dropout .*restore_flash_attention_impl"):
        flash(q, q, q, 0.1)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_torchs_own_function_calls_it(active, causal):
    of = [normal(2, 4, 300, 64, seed=seed, device="cuda").detach().requires_grad_() for seed in range(3)]
    with registry.sdpa_kernel(registry.SDPBackend.FLASH_ATTENTION):
        o = torch.nn.functional.scaled_dot_product_attention(*of, is_causal=causal)
    wanted = ops.attention(*of, causal=causal)
    assert torch.equal(o, wanted)
    for one, other in zip(torch.autograd.grad(o.sum(), of), torch.autograd.grad(wanted.sum(), of)):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
