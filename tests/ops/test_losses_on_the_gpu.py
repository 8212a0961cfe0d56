"""Rotary embedding and cross entropy on a GPU: vocabularies of models, rows that bulk copies do not take, graphs, inductor."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from benchmarks.linear_cross_entropy_memory import peak  # noqa: E402
from mimw import ops  # noqa: E402
from tests.ops import test_rope  # noqa: E402
from tests.ops.test_cross_entropy import expected_of  # noqa: E402

pytestmark = pytest.mark.gpu


def logits_of(rows, classes, dtype=torch.bfloat16):
    random = torch.Generator("cuda").manual_seed(rows)
    target = torch.randint(0, classes, (rows, ), device="cuda", generator=random)
    target[::7] = -100
    return torch.randn(rows, classes, device="cuda", generator=random).mul(3).to(dtype).requires_grad_(), target


@pytest.mark.long(but=[
    "300-32000-*-True", "300-128256-*-False", "50-50257-*-False", "3-151936-*-True", "300-33000-*-True", "1000-100-*"])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("rows, classes, dtype", [
    (300, 32000, torch.bfloat16), (300, 128256, torch.bfloat16), (50, 50257, torch.bfloat16), (3, 151936, torch.float16),
    (200, 262144, torch.bfloat16), (300, 33000, torch.float32), (1000, 100, torch.float32)])
def test_vocabularies(rows, classes, dtype, inplace):
    leaf, target = logits_of(rows, classes, dtype)
    options = {"label_smoothing": 0.1, "z_loss": 1e-3} if rows == 300 else {}
    wanted = leaf.detach().double().requires_grad_()
    loss = ops.cross_entropy(leaf * 1, target, inplace_backward=inplace, **options)
    expected = expected_of(wanted, target, **options)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    (found, ), (exact, ) = torch.autograd.grad(loss * 3, leaf), torch.autograd.grad(expected * 3, wanted)
    assert float((found.double() - exact).norm() / exact.norm()) < 5e-3


def test_cross_entropy_in_a_graph():
    leaf, target = logits_of(256, 32000)
    ops.cross_entropy(leaf * 1, target, inplace_backward=True)
    graph, x = torch.cuda.CUDAGraph(), leaf.detach().clone()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        losses, _ = torch.ops.mimw.cross_entropy_(x, target, None, -100, 0.0, 0.0)
    for seed in range(3):
        new = torch.randn(x.shape, device="cuda", generator=torch.Generator("cuda").manual_seed(seed)).bfloat16()
        x.copy_(new)
        graph.replay()
        torch.testing.assert_close(losses.double(), expected_of(new.double(), target, reduction="none"), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sums", [torch.float32, torch.bfloat16])
def test_memory_of_a_loss_and_its_gradients(sums):
    """What is counted on the CPU, in a second call, as the first makes plans."""
    tokens, hidden, classes = shape = 8192, 2048, 64128
    x, weight = (torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16).requires_grad_() for rows in (tokens, classes))
    target = torch.randint(classes, (tokens, ), device="cuda")
    for _ in range(2):
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        found = torch.autograd.grad(ops.linear_cross_entropy(x, weight, target, accum_dtype=sums), (x, weight))
        most = torch.cuda.max_memory_allocated() - before
        del found
    inputs = x.nbytes + weight.nbytes
    assert (most + inputs) / (2 * inputs) <= peak(*shape, sums).ratio + 0.02


@pytest.mark.parametrize("case", test_rope.CASES)
def test_rope_of_all_shapes(case):
    xs, tables, options = test_rope.CASES[case]
    given = {name: one.cuda() if isinstance(one, torch.Tensor) else one for name, one in options.items()}
    tables = [one.cuda() for one in tables]
    for inplace in (False, True):
        found = ops.rope([x.cuda() for x in xs] if len(xs) == 2 else xs[0].cuda(), *tables, inplace=inplace, **given)
        for one, x in zip(found if isinstance(found, tuple) else (found, ), xs):
            expected = test_rope.turned(x, *test_rope.CASES[case][1], **options)
            torch.testing.assert_close(one.cpu().double(), expected, rtol=8e-3, atol=2e-2)


@pytest.mark.long(but=["True"])
@pytest.mark.parametrize("inplace", [False, True])
def test_compiled_by_inductor(inplace):
    def step(x, cos, sin):
        q, k = ops.rope((x[:, :4] * 2, x[:, 4:] * 3), cos, sin, inplace=inplace)
        scores = (q * k).flatten(0, 2)
        return ops.cross_entropy(scores, target, inplace_backward=inplace)

    x = torch.randn(2, 8, 64, 128, device="cuda", requires_grad=True)
    tables, target = torch.randn(2, 64, 64, device="cuda"), torch.arange(512, device="cuda") % 128
    found, expected = (torch.autograd.grad(one(x, *tables), x)[0] for one in (torch.compile(step, fullgraph=True), step))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)     # inductor rounds the products of the scores otherwise
