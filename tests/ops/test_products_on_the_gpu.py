"""`addmm`, `scaled_mm` and `grouped_matmul` on a GPU: twice the same call, since the second one is a frozen launch."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from tests.ops.test_products import ACTIVATIONS, close, grouped, groups, normal, scaled  # noqa: E402

pytestmark = pytest.mark.gpu
bf16 = torch.bfloat16


@pytest.mark.long(but=["added0-*-gelu", "added1-*-None", "added3-*"])
@pytest.mark.parametrize("activation", [None, "gelu"])
@pytest.mark.parametrize("added, m, n, k", [((520, ), 300, 520, 136), ((300, 520), 300, 520, 136), ((300, 1), 300, 520, 136),
                                            ((7, ), 33, 7, 65)])
def test_addmm(added, m, n, k, activation):
    added, a, b = normal(*added, seed=2, device="cuda"), normal(m, k, device="cuda"), normal(n, k, seed=1, device="cuda").T
    expected = ACTIVATIONS[activation](0.5 * added.double() + 2.0 * (a.double() @ b.double()))
    for _ in range(2):
        close(ops.addmm(added, a, b, 0.5, 2.0, activation), expected)


@pytest.mark.long(but=["False-300-528-400-rows", "True-300-528-400-blocks", "*-5-7-33-*"])
@pytest.mark.parametrize("kind", ["all", "rows", "blocks"])
@pytest.mark.parametrize("m, n, k", [(300, 528, 400), (5, 7, 33)])
@pytest.mark.parametrize("fast", [False, True])
def test_scales(kind, m, n, k, fast):
    *given, expected = (one.cuda() for one in scaled(m, n, k, kind))
    for _ in range(2):
        close(ops.scaled_mm(*given, None, bf16, fast), expected)


@pytest.mark.parametrize("n, k", [(264, 136), (7, 33)])
def test_groups(n, k):
    a, b, ends = normal(400, k, device="cuda"), normal(5, n, k, seed=1, device="cuda").mT, groups(9, 0, 200, 130, 50).cuda()
    for _ in range(2):
        close(ops.grouped_matmul(a, b, ends), grouped(a, b, ends))


def test_gradients():
    a, b, ends = normal(400, 64, device="cuda").requires_grad_(), normal(3, 64, 72, seed=1, device="cuda").requires_grad_(), groups(
        100, 0, 300).cuda()
    ops.grouped_matmul(a, b, ends).float().sum().backward()
    assert a.grad.shape == a.shape and not b.grad[1].any()
    close(b.grad[0], a[:100].detach().double().sum(0)[:, None].expand(64, 72))


def test_a_captured_graph():
    added, a, b = normal(520, seed=2, device="cuda"), normal(300, 136, device="cuda"), normal(136, 520, seed=1, device="cuda")
    ops.addmm(added, a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = ops.addmm(added, a, b)
    a.mul_(2)
    graph.replay()
    close(found, added.double() + a.double() @ b.double())
