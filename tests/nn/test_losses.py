"""Losses of mimw.nn against torch's: pieces, reductions, ignored rows, smoothing, types, memory."""

import pytest

torch = pytest.importorskip("torch", reason="the modules are of torch")

from torch.nn.functional import cross_entropy, linear  # noqa: E402

from mimw import nn  # noqa: E402
from mimw.nn import functional  # noqa: E402
from mimw.ops import linear_pieces  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")

OF_CLASSES = torch.tensor([0.5, 2.0, 0.0, 1.5, 0.25, 3.0, 1.0, 0.75, 4.0, 0.125, 1.25])


def problem(dtype=torch.float32, rows=7, hidden=16, classes=11):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(shape).to(dtype).requires_grad_() for shape in ((rows, hidden), (classes, hidden), (classes, )))
    target = torch.randint(classes, (rows, ))
    target[2] = -100
    return x, weight, bias, target


def results(run, *given, dloss=None):
    loss = run()
    dloss = torch.full_like(loss, 3.0) if dloss is None else dloss
    return [loss.detach(), *torch.autograd.grad(loss, given, dloss)]


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of three rows: the last of seven is smaller."""
    monkeypatch.setattr(linear_pieces, "rows_of", lambda *sizes: 3)


@pytest.mark.parametrize("options", [
    {}, {"reduction": "sum", "label_smoothing": 0.2}, {"reduction": "none"}, {"ignore_index": 4}, {"weight": OF_CLASSES},
    {"weight": OF_CLASSES, "label_smoothing": 0.2}, {"weight": OF_CLASSES, "label_smoothing": 0.2, "reduction": "sum"},
    {"weight": OF_CLASSES, "reduction": "none"}], ids=lambda options: ", ".join(options))
def test_linear_cross_entropy(options, small_pieces):
    x, weight, bias, target = problem()
    if "ignore_index" in options:
        target = target.clamp(min=0)
    dloss = torch.randn(7) if options.get("reduction") == "none" else None
    ours = results(lambda: functional.linear_cross_entropy(x, weight, target, linear_bias=bias, **options), x, weight, bias,
                   dloss=dloss)
    theirs = results(lambda: cross_entropy(linear(x, weight, bias), target, **options), x, weight, bias, dloss=dloss)
    with torch.no_grad():
        ours.append(functional.linear_cross_entropy(x, weight, target, linear_bias=bias, **options))
    for one, other in zip(ours, theirs + theirs[:1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.long(but=["dtype0-0", "dtype1-2"], everywhere=True)
@pytest.mark.parametrize("options", [{}, {"weight": OF_CLASSES, "label_smoothing": 0.2}], ids=len)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_linear_cross_entropy_of_16_bits(dtype, options, small_pieces):
    """Against fp64 of the same numbers: no further off than torch's own, but for one rounding of the logits more."""
    x, weight, _, target = problem(dtype)
    ours = results(lambda: functional.linear_cross_entropy(x, weight, target, **options), x, weight,
                   dloss=torch.tensor(1.0, dtype=dtype))
    wide = [one.detach().double().requires_grad_() for one in (x, weight)]
    options = options and options | {"weight": OF_CLASSES.double()}
    exact = results(lambda: cross_entropy(linear(*wide), target, **options), *wide, dloss=torch.tensor(1.0).double())
    for one, other in zip(ours, exact, strict=True):
        assert one.dtype is dtype
        assert (one.double() - other).norm() < 2e-2 * other.norm()


def test_small_gradients_of_fp16_survive(small_pieces):
    """Of 2^16 rows' mean, times the scale of a loss: without it they are below fp16's least number."""
    x, weight, _, target = problem(torch.float16)
    scale = torch.tensor(65536.0)
    loss = functional.linear_cross_entropy(x, weight, target, reduction="sum").float() / (1 << 20)
    dx, = torch.autograd.grad(loss, x, scale)
    wide = x.detach().double().requires_grad_()
    exact, = torch.autograd.grad(cross_entropy(linear(wide, weight.double()), target, reduction="sum") / (1 << 20), wide,
                                 scale.double())
    assert (dx.double() - exact).norm() < 2e-2 * exact.norm()


def test_module_frozen_weight_and_compiled(small_pieces):
    x, weight, bias, target = problem()
    head = nn.LinearCrossEntropyLoss(16, 11, bias=True, weight=OF_CLASSES, label_smoothing=0.1)
    head.load_state_dict({"linear.weight": weight.detach(), "linear.bias": bias.detach(), "weight": OF_CLASSES})
    expected = cross_entropy(linear(x, weight, bias), target, OF_CLASSES, label_smoothing=0.1)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    for run in (head, compiled):
        loss = run(x, target)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(torch.autograd.grad(loss, x), torch.autograd.grad(expected, x, retain_graph=True), rtol=1e-5,
                                   atol=1e-5)
    head.requires_grad_(False)
    made = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: made.append(one.shape) or one, lambda one: one):
        head(x, target)
    assert (7, 16) in made and (11, 16) not in made, "the gradient of a frozen weight is not made"


def test_by_torch():
    x, weight, _, target = problem(torch.float64)
    torch.testing.assert_close(functional.linear_cross_entropy(x, weight, target), cross_entropy(linear(x, weight), target))
    x, weight, _, target = problem()
    shares = torch.rand(7, 11)
    assert functional.by_torch(x, weight, shares) == "targets are probabilities"
    torch.testing.assert_close(functional.linear_cross_entropy(x, weight, shares, weight=OF_CLASSES),
                               cross_entropy(linear(x, weight), shares, OF_CLASSES))
    with pytest.raises(RuntimeError, match=r"input is \(7, 16\) and target \(6,\)"):
        functional.linear_cross_entropy(x, weight, target[:6])
    with pytest.raises(RuntimeError, match=r"weight is \(3,\); it must have a number for each of 11 classes"):
        functional.linear_cross_entropy(x, weight, target, weight=OF_CLASSES[:3])
    with pytest.raises(ValueError, match="reduction is 'max'"):
        functional.linear_cross_entropy(x, weight, target, reduction="max")


def test_nothing_but_ignored_rows():
    x, weight, _, target = problem()
    for of_classes in (None, OF_CLASSES):
        assert functional.linear_cross_entropy(x, weight, torch.full_like(target, -100), weight=of_classes).isnan()


def test_weights_of_classes_that_require_a_gradient():
    """torch has none; that of the weighted mean, (w[t] l) / w[t], against torch's operations."""
    x, weight, _, target = problem()
    of_classes = OF_CLASSES.clone().requires_grad_()
    found, = torch.autograd.grad(functional.linear_cross_entropy(x, weight, target, weight=of_classes), of_classes)
    seen = target != -100
    used = of_classes[target[seen]]
    losses = cross_entropy(linear(x, weight)[seen], target[seen], reduction="none")
    wanted, = torch.autograd.grad((used * losses).sum() / used.sum(), of_classes)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy_loss(dtype):
    x, weight, bias, target = problem(dtype)
    logits = linear(x, weight, bias).detach().requires_grad_()
    of_classes = OF_CLASSES.to(dtype)
    for options in ({"label_smoothing": 0.1}, {"reduction": "none"}, {"weight": of_classes, "label_smoothing": 0.1},
                    {"weight": of_classes, "reduction": "sum"}):
        dloss = torch.randn(7).to(dtype) if options.get("reduction") == "none" else None
        ours = results(lambda: nn.CrossEntropyLoss(**options)(logits, target), logits, dloss=dloss)
        theirs = results(lambda: torch.nn.CrossEntropyLoss(**options)(logits, target), logits, dloss=dloss)
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype
            tolerance = 1e-2 if dtype is torch.bfloat16 else 1e-5
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
