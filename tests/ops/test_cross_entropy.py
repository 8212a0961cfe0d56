"""`mimw.ops.cross_entropy` against torch's in fp64: shapes, reductions, options, gradients in place and not, what it refuses."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn import functional  # noqa: E402

from mimw import ops  # noqa: E402


def problem(*shape, dtype=torch.float32, classes_at=1):
    """(logits, target), one of them ignored."""
    random = torch.Generator().manual_seed(sum(shape))
    target = torch.randint(0, shape[classes_at], shape[:classes_at] + shape[classes_at + 1:], generator=random)
    if target.dim():
        target.view(-1)[:1] = -100
    return 3 * torch.randn(shape, generator=random).to(dtype), target


def expected_of(logits, target, z_loss=0.0, reduction="mean", **options):
    loss = functional.cross_entropy(logits, target, reduction="none", **options)
    classes = logits if logits.dim() == 1 else logits.movedim(1, -1)
    loss = loss + z_loss * torch.where(target == options.get("ignore_index", -100), 0, classes.logsumexp(-1).square())
    if reduction == "mean":
        return loss.sum() / (target != options.get("ignore_index", -100)).sum()
    return loss if reduction == "none" else loss.sum()


CASES = {
    "mean": ((5, 40), {}),
    "bf16, smoothed": ((5, 40), {"dtype": torch.bfloat16, "label_smoothing": 0.1}),
    "fp16, none": ((5, 40), {"dtype": torch.float16, "reduction": "none"}),
    "sum, z": ((5, 40), {"reduction": "sum", "z_loss": 0.01}),
    "one row": ((33, ), {"reduction": "sum"}),
    "images": ((2, 7, 3, 2), {"reduction": "none"}),
    "another is ignored": ((6, 9), {"ignore_index": 3}),
    "no rows": ((0, 9), {"reduction": "sum"}),
    "long": ((3, 2500), {"dtype": torch.bfloat16}),
}


@pytest.mark.parametrize("case, inplace", [*((case, False) for case in CASES), *((case, True) for case in (
    "mean", "fp16, none", "sum, z", "images", "no rows"))])
def test_values_and_gradients(case, inplace):
    shape, options = CASES[case]
    options = dict(options)
    logits, target = problem(*shape, dtype=options.pop("dtype", torch.float32), classes_at=min(len(shape) - 1, 1))
    target[target < 0] = options.get("ignore_index", -100)
    leaf, wanted = logits.clone().requires_grad_(), logits.double().requires_grad_()
    computed = leaf * 1
    loss = ops.cross_entropy(computed, target, inplace_backward=inplace, **options)
    expected = expected_of(wanted, target, **options)
    assert loss.dtype == torch.float32 and loss.shape == expected.shape
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    dloss = torch.linspace(0.5, 2, loss.numel()).view(loss.shape)
    found, = torch.autograd.grad(loss, leaf, dloss)
    torch.testing.assert_close(found.double(), torch.autograd.grad(expected, wanted, dloss.double())[0], rtol=1e-2, atol=2e-3)
    assert torch.equal(computed, logits) != (inplace and logits.numel() > 0 and computed.dim() < 3)


def test_in_place():
    """The gradient lies where the logits did; others that want them notice, as does a second time."""
    logits, target = problem(5, 40)
    leaf = logits.requires_grad_()
    computed = leaf * 1
    square = computed.square().sum()
    loss = ops.cross_entropy(computed, target.int(), inplace_backward=True)
    before = computed.detach().clone()
    gradient, = torch.autograd.grad(loss, computed, retain_graph=True)
    assert gradient.data_ptr() == computed.data_ptr() and torch.equal(gradient, before)
    for again in (square, loss):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(again, leaf)
    with pytest.raises(RuntimeError, match="a leaf that requires grad"):
        ops.cross_entropy(leaf, target, inplace_backward=True)
    with torch.no_grad():
        kept = logits.clone()
        ops.cross_entropy(kept, target, inplace_backward=True)
    assert torch.equal(kept, logits)


def test_a_small_gradient_of_fp16_takes_the_scale_of_the_loss():
    """In place, too: p / rows alone would be rounded to 0."""
    leaf = torch.zeros(4, 2048, dtype=torch.float16, requires_grad=True)
    loss = ops.cross_entropy(leaf * 1, torch.zeros(4, dtype=torch.int64), inplace_backward=True) * 2**-12
    (loss * 2**12).backward()
    torch.testing.assert_close(leaf.grad[:, 1:].float(), torch.full((4, 2047), 2**-13))


def test_autocast_leaves_the_logits():
    logits, target = problem(3, 16, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.cross_entropy(logits, target).dtype == torch.float32


@pytest.mark.parametrize("logits, target, options, error, text", [
    ((4, 8), torch.zeros(5, dtype=torch.int64), {}, RuntimeError, r"it must be \(4,\)"),
    ((4, 8), torch.zeros(4, 8), {}, NotImplementedError, "probabilities of classes"),
    ((4, 8), torch.zeros(4, dtype=torch.int16), {}, NotImplementedError,
     "target is torch.int16; it may be torch.int32, torch.int64"),
    ((4, 0), torch.zeros(4, dtype=torch.int64), {}, RuntimeError, "classes is 0; there must be one class at least"),
    ((4, 8), torch.zeros(4, dtype=torch.int64), {"reduction": "max"}, ValueError, "it may be mean, sum, none"),
    ((4, 8), torch.zeros(4, dtype=torch.int64), {"label_smoothing": 2.0}, ValueError, "between 0 and 1")])
def test_refusals(logits, target, options, error, text):
    with pytest.raises(error, match=text):
        ops.cross_entropy(torch.zeros(logits), target, **options)


def test_opcheck():
    logits, target = problem(3, 24)
    torch.library.opcheck(torch.ops.mimw.cross_entropy.default, (logits.requires_grad_(), target, -100, 0.1, 0.0))
    torch.library.opcheck(torch.ops.mimw.cross_entropy_.default, (logits.detach(), target, torch.ones(1), -100, 0.0, 0.0),
                          test_utils=("test_schema", "test_faketensor"))


def test_compiled_whole():
    """Also asked for in place, which is of eager mode: then the gradient has memory of its own."""
    def step(x):
        y = x * 2
        return ops.cross_entropy(y, target, label_smoothing=0.1, inplace_backward=True) + y.square().sum()

    x, target = problem(3, 24)
    x = x.requires_grad_()
    found, = torch.autograd.grad(torch.compile(step, fullgraph=True, backend="aot_eager")(x), x)
    expected, = torch.autograd.grad(functional.cross_entropy(x * 2, target, label_smoothing=0.1) + (x * 2).square().sum(), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reduction, smoothing, dtype", [("mean", 0.1, torch.float32), ("none", 0.0, torch.bfloat16)])
def test_weights_of_classes(reduction, smoothing, dtype):
    """As torch's in fp64, which has no derivative of weights: theirs by a difference."""
    logits, target = problem(5, 9, dtype=dtype)
    weight = torch.linspace(0, 2, 9)
    leaf, of_weight, wanted = logits.clone().requires_grad_(), weight.clone().requires_grad_(), logits.double().requires_grad_()
    options = dict(reduction=reduction, label_smoothing=smoothing)
    loss = ops.cross_entropy(leaf, target, weight=of_weight, **options)
    expected = functional.cross_entropy(wanted, target, weight.double(), **options)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    dloss = torch.linspace(0.5, 2, loss.numel()).view(loss.shape)
    dx, dw = torch.autograd.grad(loss, (leaf, of_weight), dloss)
    torch.testing.assert_close(dx.double(), torch.autograd.grad(expected, wanted, dloss.double())[0], rtol=1e-2, atol=2e-3)
    at = int(target[1])
    more, less = (functional.cross_entropy(wanted, target, weight.double() + step * (torch.arange(9) == at), **options)
                  for step in (1e-4, -1e-4))
    torch.testing.assert_close(((more - less) * dloss).sum() / 2e-4, dw[at].double(), rtol=1e-3, atol=1e-4)


def test_weights_that_are_refused():
    logits, target = problem(2, 9)
    with pytest.raises(RuntimeError, match=r"weight is \(8,\); it must have a number for each of 9 classes"):
        ops.cross_entropy(logits, target, weight=torch.ones(8))
    with pytest.raises(NotImplementedError, match="no z_loss, no softcap and no inplace_backward"):
        ops.cross_entropy(logits, target, weight=torch.ones(9), z_loss=0.1)


@pytest.mark.parametrize("wrong", [9, -1])
def test_a_target_that_is_no_class_is_refused_on_the_cpu(wrong):
    logits, target = problem(5, 9)
    target[3] = wrong
    with pytest.raises(IndexError, match=f"target of row 3 is {wrong}; it may be 0 to 8, or -100, which is ignored"):
        ops.cross_entropy(logits, target)
