"""`mimw.ops` on chips of AMD: the kernels that are chosen run there, on a device that torch calls one of CUDA and in the simulator.

Nothing here has run on a chip of AMD.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from mimw import ops  # noqa: E402
from mimw.ops import chips, launching  # noqa: E402


@pytest.fixture
def device(monkeypatch):
    """A tensor on a GPU with these properties, as torch tells them, and `hip` of torch's build."""

    def made(major, minor, hip):
        chips._chip.cache_clear()
        monkeypatch.setattr(torch.version, "hip", hip)
        monkeypatch.setattr(torch.cuda, "get_device_properties",
                            lambda device: SimpleNamespace(major=major, minor=minor, multi_processor_count=304,
                                                           gcnArchName="gfx950:sramecc+:xnack-"))
        return SimpleNamespace(is_cuda=True, get_device=lambda: 0)

    yield made
    chips._chip.cache_clear()


@pytest.mark.parametrize("major, minor, hip, hopper", [
    (9, 0, None, True), (10, 0, None, False), (9, 0, "6.4", False), (9, 4, "6.4", False), (9, 5, "7.0", False),
    (12, 5, "7.0", False)])
def test_which_gpus_have_the_words_of_hopper(device, major, minor, hip, hopper):
    """Torch says 9.0 of a GPU of AMD as well, of gfx90a."""
    one = device(major, minor, hip)
    assert launching.is_hopper(one) == hopper and launching.is_amd(one) == (hip is not None)
    assert launching.amd_chip(one) == ("gfx950" if hip else None)
    assert launching.has_e4m3(one) and launching.programs(one) == 304


@pytest.fixture
def launched(monkeypatch):
    """The kernels that operators launch, simulated with the rules of gfx942, by name."""
    found = []
    made = launching.Launch.__init__

    def noted(self, on, kernel, grid, args, meta):
        assert "launch_pdl" not in meta, "an option that AMD's chips do not have"
        found.append(kernel.__name__)
        made(self, on, kernel, grid, args, meta)

    monkeypatch.setenv("MIMW_TARGET", "gfx942")
    monkeypatch.setattr(launching.Launch, "__init__", noted)
    return found


def close(found, expected, allowed=2e-2):
    torch.testing.assert_close(found.float(), expected.float(), rtol=allowed, atol=allowed)


def test_products(launched):
    a, b = torch.randn(35, 45).half(), torch.randn(45, 37).half()
    close(ops.matmul(a, b), a.float() @ b.float())
    close(ops.grouped_matmul(a, b.expand(2, 45, 37), torch.tensor([3, 35], dtype=torch.int32)), a.float() @ b.float())
    assert set(launched) == {"plain_matmul"}


@pytest.mark.parametrize("chip, by_rows", [("gfx942", "plain_matmul"), ("gfx950", "mfma_gemm"), ("gfx1250", "mfma_gemm")])
def test_products_on_matrix_cores(launched, monkeypatch, chip, by_rows):
    """Rows and K of 16 bytes; gfx942 reads b by columns alone."""
    monkeypatch.setenv("MIMW_TARGET", chip)
    a, b = torch.randn(5, 7, 48).half(), torch.randn(72, 48).half()
    close(ops.matmul(a, b.T, torch.float32), a.float() @ b.float().T, 1e-3)
    close(ops.matmul(a, b.T.contiguous()), a.float() @ b.float().T)
    assert launched == ["mfma_gemm", by_rows]
    ones = torch.ones(2, 8, dtype=torch.float16)
    close(ops.matmul(ones, ones.T), 8 * torch.ones(2, 2))
    assert launched[2:] == ["mfma_gemm"]
    whole = torch.randn(72, 49).half()
    close(ops.matmul(a, whole[:, 1:].T), a.float() @ whole[:, 1:].float().T)
    assert launched[3:] == ["plain_matmul"]


def test_scaled_products_on_matrix_cores(launched, monkeypatch):
    """In one launch; on gfx942, whose fp8 is of another kind, as products of fp32."""
    a, b = (torch.randn(rows, 64).to(torch.float8_e4m3fn) for rows in (40, 32))
    scale_a, scale_b, bias = torch.rand(40, 1), torch.rand(1, 32), torch.randn(32)
    expected = scale_a * scale_b * (a.float() @ b.float().T)
    close(ops.scaled_mm(a, b.T, scale_a, scale_b, bias, torch.float32), expected + bias, 1e-4)
    monkeypatch.setenv("MIMW_TARGET", "gfx950")
    close(ops.scaled_mm(a, b.T, scale_a, scale_b, bias, torch.float32), expected + bias, 1e-4)
    of_all = scale_a[0] * scale_b[0, 0] * (a.float() @ b.float().T)
    close(ops.scaled_mm(a, b.T, scale_a[0], scale_b[0, 0], None, torch.float32), of_all, 1e-4)
    assert launched == ["plain_matmul", "mfma_gemm", "mfma_gemm"]


@pytest.mark.parametrize("name, chip", [("gfx942:sramecc+:xnack-", "gfx942"), ("gfx950", "gfx950")])
def test_the_chip_of_a_gpu(device, monkeypatch, name, chip):
    chips._architecture.cache_clear()
    on = device(9, 4, "6.4")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(gcnArchName=name))
    assert launching.amd_chip(on) == chip
    assert launching.amd_chip(device(9, 0, None)) is None
    chips._architecture.cache_clear()


@pytest.mark.parametrize("chip, k, kernel", [("gfx950", 256, "mfma_scaled_gemm"), ("gfx950", 144, "plain_matmul"),
                                             ("gfx942", 384, "plain_matmul")])
def test_products_in_microscaling_formats(launched, monkeypatch, chip, k, kernel):
    """In one launch where the chip has the product and K is a multiple of 128."""
    monkeypatch.setenv("MIMW_TARGET", chip)
    a, b = torch.randn(35, k).to(torch.float8_e4m3fn), torch.randn(37, k).to(torch.float8_e5m2)
    scales = [torch.randint(124, 131, (rows, -(-k // 32)), dtype=torch.uint8).view(torch.float8_e8m0fnu) for rows in (35, 37)]
    left, right = (x.double() * scale.double().repeat_interleave(32, 1)[:, :k] for x, scale in zip((a, b), scales))
    found = ops.scaled_mm(a, b.T, scales[0], scales[1].T, out_dtype=torch.float32)
    close(found, left @ right.T, 1e-4)
    assert set(launched) == {kernel}


def test_rows(launched):
    x = torch.randn(3, 173, requires_grad=True)
    w = torch.randn(173, requires_grad=True)
    for ours, theirs in ((lambda: ops.softmax(x, -1), lambda: torch.softmax(x, -1)),
                         (lambda: ops.layer_norm(x, (173, ), w), lambda: torch.nn.functional.layer_norm(x, (173, ), w)),
                         (lambda: ops.rms_norm(x, (173, ), w), lambda: torch.nn.functional.rms_norm(x, (173, ), w)),
                         (lambda: ops.cross_entropy(x, torch.tensor([0, 172, 5])),
                          lambda: torch.nn.functional.cross_entropy(x, torch.tensor([0, 172, 5])))):
        found, expected = ours(), theirs()
        close(found, expected, 1e-4)
        along = torch.randn_like(expected)
        for mine, right in zip(*(torch.autograd.grad(one, (x, w), along, allow_unused=True) for one in (found, expected))):
            if right is not None:
                close(mine, right, 1e-3)
    assert {"softmax_direct", "softmax_gradient", "norm_direct", "cross_entropy_direct"} <= set(launched)


def test_packed_attention_and_its_gradients(launched):
    """The tiles of the gradients are those for AMD."""
    q, k, v = (torch.randn(37, 2, 24, requires_grad=True) for _ in range(3))
    starts = torch.tensor([0, 37], dtype=torch.int32)
    found = ops.attention_varlen(q, k, v, starts, starts, 37, 37, causal=True)
    heads = (x.transpose(0, 1) for x in (q, k, v))
    expected = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(0, 1)
    close(found, expected, 1e-3)
    along = torch.randn_like(expected)
    for mine, right in zip(*(torch.autograd.grad(one, (q, k, v), along) for one in (found, expected))):
        close(mine, right, 1e-3)
    assert set(launched) == {"plain_attention", "query_gradients", "key_gradients"}


def test_routing(launched):
    x = torch.randn(2, 77)
    values, places = ops.topk(x, 5)
    assert torch.equal(values, torch.topk(x, 5)[0]) and torch.equal(x.gather(1, places.long()), values)
    ids = torch.randint(0, 4, (13, ), dtype=torch.int32)
    tokens, experts, length = ops.moe_align(ids, 4, 2)
    assert sorted(tokens[tokens < 13].tolist()) == list(range(13)) and length.item() % 2 == 0
    scores = torch.randn(2, 300)
    chosen = ops.topk_selector(scores, 7)
    assert torch.equal(scores.gather(1, chosen.long()).sort(1)[0], torch.topk(scores, 7)[0].sort(1)[0])
    assert set(launched) == {"plain_topk", "topk_selector"}


def test_attention_of_other_kinds(launched):
    """A cache, listed rows and pairs of keys, each by the kernel for any GPU."""
    q, cache = torch.randn(2, 1, 4, 16), torch.randn(2, 40, 2, 16)
    close(ops.attention_decode(q, cache, cache, 40), torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), *(cache.repeat_interleave(2, 2).transpose(1, 2), ) * 2).transpose(1, 2), 1e-3)
    rows, listed = torch.randn(1, 2, 4, 24), torch.randn(1, 20, 1, 24)
    indices = torch.arange(20, dtype=torch.int32).expand(1, 2, 1, 20).contiguous()
    out, _ = ops.sparse_mla(rows, listed, indices, torch.full((1, 2, 1), 20, dtype=torch.int32), value_dim=16)
    p = torch.softmax(torch.einsum("bshw,bkgw->bshk", rows, listed) * 24**-0.5, -1)
    close(out, torch.einsum("bshk,bkgw->bshw", p, listed[..., :16]), 1e-3)
    out, _ = ops.mla_decode(rows.transpose(0, 1), listed.expand(2, -1, -1, -1), 20, value_dim=16)
    close(out, torch.einsum("sbhk,bkgw->sbhw", p.transpose(0, 1), listed[..., :16]), 1e-3)
    x = torch.randn(1, 2, 5, 16)
    weights = torch.einsum("bhid,bhjd,bhkd->bhijk", x, x, x) * 0.25
    seen = torch.ones(5, 5).tril().bool()
    p = weights.masked_fill(~(seen[:, :, None] & seen[:, None]), float("-inf")).flatten(-2).softmax(-1).view_as(weights)
    close(ops.simplicial_attention(x, x, x, x, x), torch.einsum("bhijk,bhjd,bhkd->bhid", p, x, x), 1e-3)
    assert {"plain_attention_decode", "plain_mla_decode", "plain_sparse_mla", "plain_simplicial_attention"} <= set(launched)
