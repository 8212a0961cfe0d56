"""mimw.nn on a GPU: patched models as they are and compiled by Inductor, products of e4m3, losses of a large vocabulary."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="the modules are of torch")

from torch.nn.functional import cross_entropy, linear  # noqa: E402

from mimw import nn  # noqa: E402

pytestmark = pytest.mark.gpu


def wrong(found, exact):
    """The relative error of a tensor, or the largest of several."""
    pairs = [(one.double(), other.double()) for one, other in zip(found, exact, strict=True)]
    return max(((one - other).norm() / other.norm()).item() for one, other in pairs)


def gradients(module, x):
    x = x.detach().requires_grad_()
    y = module(x)
    dy = torch.randn(y.shape, generator=torch.Generator("cuda").manual_seed(1), device="cuda").to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], dy)]


@pytest.mark.parametrize("compiled", [False, True])
def test_patched_models(compiled):
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = torch.nn.Sequential(torch.nn.RMSNorm(512), torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(
            1024, 512, bias=False), torch.nn.LayerNorm(512)).bfloat16()
        x = torch.randn(3, 200, 512, dtype=torch.bfloat16)
    exact = gradients(copy.deepcopy(model).double(), x.double())
    assert len(nn.patch(model).replaced) == 4
    run = torch.compile(model, fullgraph=True) if compiled else model
    assert wrong(gradients(run, x), exact) < 2e-2


def test_products_of_e4m3():
    layer = nn.Linear(512, 768, device="cuda", dtype=torch.bfloat16, fp8=True)
    x = torch.randn(300, 512, device="cuda", dtype=torch.bfloat16)
    (a, of_a), (b, of_b) = nn.fp8.quantised(x), nn.fp8.quantised(layer.weight)
    assert wrong([layer(x)], [(a.double() * of_a) @ (b.double() * of_b).T + layer.bias.double()]) < 5e-3
    exact = linear(x.double(), layer.weight.double(), layer.bias.double())
    assert wrong([layer(x)], [exact]) < 4e-2 and wrong([torch.compile(layer, fullgraph=True)(x)], [exact]) < 4e-2


def test_weights_of_e4m3_are_held_and_captured_graphs_read_them_anew():
    layer = nn.Linear(512, 768, device="cuda", dtype=torch.bfloat16, fp8=True, hold=True).eval()
    x = torch.randn(16, 512, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        assert torch.equal(layer(x), nn.functional.fp8_linear(x, layer.weight, layer.bias)) and layer._held(x) is layer._held(x)
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            layer(x)                                            # on another stream: quantised there once more
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            y = layer(x)
        layer.weight.mul_(2)
        graph.replay()
        assert torch.equal(y, nn.functional.fp8_linear(x, layer.weight, layer.bias)) and torch.equal(y, layer(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_loss_of_a_large_vocabulary_never_has_its_logits(dtype):
    rows, hidden, classes = 16384, 256, 128256
    torch.manual_seed(0)
    x = torch.randn(rows, hidden, device="cuda").to(dtype).requires_grad_()
    weight = (torch.randn(classes, hidden, device="cuda") / hidden**0.5).to(dtype).requires_grad_()
    target = torch.randint(classes, (rows, ), device="cuda")
    target[7] = -100

    def step(run):
        loss = run()
        return [loss.detach(), *torch.autograd.grad(loss, (x, weight), torch.full_like(loss, 64.0))]

    step(lambda: nn.functional.linear_cross_entropy(x, weight, target))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = step(lambda: nn.functional.linear_cross_entropy(x, weight, target))
    whole = 2 * 2 * rows * classes                 # torch's: logits, and their gradient
    assert torch.cuda.max_memory_allocated() - before < whole / 4
    wide = [one.detach().float() for one in (x, weight)]
    for one in wide:
        one.requires_grad_()
    loss = cross_entropy(linear(*wide), target)
    exact = [loss.detach(), *torch.autograd.grad(loss, wide, torch.tensor(64.0, device="cuda"))]
    assert wrong(found, exact) < 2e-2
    compiled = torch.compile(nn.functional.linear_cross_entropy, fullgraph=True)
    assert wrong(step(lambda: compiled(x, weight, target)), exact) < 2e-2


@pytest.mark.parametrize("name", ["RMSNorm", "LayerNorm"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_norms_under_autocast_have_the_type_of_torchs(name, dtype):
    ours, theirs = (getattr(of, name)(64, device="cuda", dtype=dtype) for of in (nn, torch.nn))
    x = torch.randn(5, 64, device="cuda", dtype=dtype)
    with torch.autocast("cuda", torch.bfloat16):
        found, exact = ours(x), theirs(x)
    assert found.dtype is (torch.float64 if dtype is torch.float64 else torch.float32) and wrong([found], [exact]) < 1e-2
    if name == "LayerNorm" or torch.__version__ >= "2.13":      # before, torch's RMS norm had no rule of its own
        assert found.dtype is exact.dtype


def test_a_rotation_that_leaves_meta():
    rotary = nn.RotaryEmbedding(64, 128, device="meta").to_empty(device="cuda")
    q, k = (torch.randn(2, heads, 100, 64, device="cuda") for heads in (4, 1))
    assert wrong(rotary(q, k), rotary(q.double(), k.double())) < 1e-5
