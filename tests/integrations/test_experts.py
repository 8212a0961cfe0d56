"""Routed experts as servers hold them against each token's experts one by one; calls that are left to the server."""

import pytest

torch = pytest.importorskip("torch", reason="the operators are torch's")

from mimw.integrations import experts  # noqa: E402

E4M3 = torch.float8_e4m3fn


def routed(x, w1, w2, ids, weights):
    """In fp32; an id below 0 is no expert."""
    out = torch.zeros_like(x, dtype=torch.float32)
    for token, (mine, shares) in enumerate(zip(ids.tolist(), weights.tolist())):
        for one, share in zip(mine, shares):
            if one >= 0:
                gate, up = (w1[one].float() @ x[token].float()).chunk(2)
                out[token] += share * (w2[one].float() @ (torch.nn.functional.silu(gate) * up))
    return out


def test_of_bf16_with_rows_that_fill_up():
    x, w1, w2 = (torch.randn(*shape).bfloat16() / 4 for shape in ((5, 32), (3, 32, 32), (3, 32, 16)))
    ids, weights = torch.tensor([[0, 2], [1, 0], [2, 2], [-1, -1], [1, -1]]), torch.rand(5, 2)
    assert experts.reason(x, w1, w2) is None
    found = experts.routed(x, w1, w2, ids, weights)
    assert found.dtype is torch.bfloat16 and not found[3].any()
    torch.testing.assert_close(found.float(), routed(x, w1, w2, ids, weights), atol=2e-2, rtol=2e-2)


def test_of_fp8_with_scales_of_blocks():
    x = torch.randn(3, 128).bfloat16() / 4
    w1, w2 = (torch.randn(*shape).to(E4M3) for shape in ((2, 256, 128), (2, 128, 128)))
    scales = torch.rand(2, 2, 1) / 8, torch.rand(2, 1, 1) / 8
    ids, weights = torch.tensor([[0], [1], [0]], dtype=torch.int32), torch.rand(3, 1)
    assert experts.reason(x, w1, w2, *scales) is None
    wide = (w.float() * scale.repeat_interleave(128, 1) for w, scale in zip((w1, w2), scales))
    found = experts.routed(x, w1, w2, ids, weights, *scales)
    torch.testing.assert_close(found.float(), routed(x, *wide, ids, weights), atol=3e-2, rtol=6e-2)


def test_what_is_left_to_the_server():
    def reason(tokens=torch.bfloat16, matrices=torch.bfloat16, first=(2, 64, 32), second=(2, 32, 32), hidden=32, scales=()):
        return experts.reason(torch.empty(3, hidden, dtype=tokens), torch.empty(first, dtype=matrices),
                              torch.empty(second, dtype=matrices), *scales)

    assert reason() is None
    assert "tokens are torch.float32" in reason(torch.float32, torch.float32)
    assert "matrices are torch.float16" in reason(matrices=torch.float16)
    assert "no gate, up and down" in reason(first=(2, 32, 32)) and "no gate, up and down" in reason(hidden=16)
    assert "multiples of 16" in reason(first=(2, 8, 32), second=(2, 32, 4))
    assert "2000 experts" in experts.sizes_reason(2000, 32, 32, False)
    blocks = dict(matrices=E4M3, first=(2, 256, 128), second=(2, 128, 128), hidden=128)
    right = torch.ones(2, 2, 1), torch.ones(2, 1, 1)
    assert reason(**blocks, scales=right) is None
    assert "scales are not for each" in reason(**blocks, scales=(torch.ones(2), right[1]))
    assert "scales are not for each" in reason(**blocks, scales=right[:1])
    assert "must be fp32" in reason(**blocks, scales=(right[0].half(), right[1]))
    assert "of 128" in experts.sizes_reason(2, 128, 64, True)
