"""What a last linear layer's loss and its gradients take of torch's memory, counted on the CPU at the sizes of a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from benchmarks.linear_cross_entropy_memory import peak  # noqa: E402
from mimw import ops  # noqa: E402
from mimw.ops import linear_pieces, weight_gradient  # noqa: E402
from mimw.ops.weight_gradient import WeightGradient  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


def test_sums_of_bf16_take_a_fifth_of_inputs_and_gradients():
    """Weight and gradient 1.05 GB each, logits 0.43: none of these pages is touched."""
    found = peak(8192, 4096, 128256, torch.bfloat16)
    assert found.forward <= found.ratio <= 1.2, found
    assert found.ratio > 1.19, "the count has all of it: inputs and gradients, and a piece of logits"


def test_sums_of_fp32_take_the_gradient_twice():
    """Inputs and gradients, the gradient once more for its sum, and a piece of logits as large: nothing stands beside the sum when
    it is rounded, and backward adds nothing. With a graph that is kept there are two of each gradient, and no third one."""
    shape = 2048, 1024, 32064
    found, inputs = peak(*shape, torch.float32), 2 * (2048 + 32064) * 1024
    weight = 2 * 32064 * 1024
    assert found.ratio <= found.forward + 1e-3 and found.forward <= 1 + 2 * weight / (2 * inputs) + 0.12, found
    assert peak(*shape, torch.bfloat16, kept=True).ratio <= 1.5 + 1e-3


@pytest.mark.parametrize("classes, halves", [(72, 1), (300, 2), (600, 2)])
def test_sums_become_their_rounding_in_their_place(monkeypatch, classes, halves):
    """In steps that double, from 8 rows on; to the bit what rounding all of them gives."""
    monkeypatch.setattr(weight_gradient, "BY_COPY", 8)
    torch.manual_seed(0)
    dw = WeightGradient(classes, torch.float32, torch.bfloat16)
    for rows in (24, 8):
        dw.add(torch.randn(rows, classes, dtype=torch.bfloat16), torch.randn(rows, 16, dtype=torch.bfloat16))
    assert len(dw.parts) == halves
    wanted, place = torch.cat(dw.parts).bfloat16(), dw.parts[0].data_ptr()
    found = dw.total()
    assert torch.equal(found, wanted) and found.is_contiguous() and found.data_ptr() == place
    assert found.untyped_storage().nbytes() <= 2 * 16 * (classes + 2 * weight_gradient.STEP)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_of_two_halves(monkeypatch, weighted):
    """With weights of classes and smoothing, what is added to both halves by vectors, too."""
    monkeypatch.setattr(linear_pieces, "rows_of", lambda *sizes: 8)
    torch.manual_seed(0)
    x, weight = (torch.randn(shape).bfloat16().requires_grad_() for shape in ((12, 32), (272, 32)))
    target, of_classes = torch.randint(272, (12, )), torch.rand(272) if weighted else None
    target[:3] = torch.tensor([5, 255, 271])
    options = dict(weight=of_classes, label_smoothing=0.2 if weighted else 0.0)
    found = torch.autograd.grad(ops.linear_cross_entropy(x, weight, target, **options), (x, weight))
    given = [one.detach().double().requires_grad_() for one in (x, weight)]
    options["weight"] = None if of_classes is None else of_classes.double()
    wanted = torch.autograd.grad(torch.nn.functional.cross_entropy(given[0] @ given[1].T, target, **options), given)
    for one, other in zip(found, wanted):
        for part, exact in ((one, other), (one[-16:], other[-16:])):        # of the second half, too
            assert (part.double() - exact).norm() <= 1.5e-2 * exact.norm()


def test_rows_of_pieces_leave_room():
    """The fifth has what programs hand each other, and is not exceeded by rounding up."""
    for shape in ((8192, 4096, 128256), (4096, 5120, 151936), (16384, 8192, 128256)):
        tokens, hidden, classes = shape
        rows = linear_pieces.rows_of(*shape, torch.bfloat16, torch.bfloat16)
        assert rows % 128 == 0 and rows * classes * 2 + (18 << 20) <= 0.2 * 4 * hidden * (tokens + classes)
