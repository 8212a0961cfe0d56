"""The last linear layer and its loss against torch in fp64: options, pieces, types, ranks; `add_product_` and `linear_sums`."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from torch.nn.functional import cross_entropy, linear  # noqa: E402

from mimw import ops  # noqa: E402
from mimw.ops import linear_pieces, linear_shards  # noqa: E402
from mimw.ops.add_product import ADD_PRODUCT  # noqa: E402
from mimw.ops.linear_sums import SUMS  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
ALL = {"label_smoothing": 0.1, "z_loss": 0.01, "softcap": 3.0, "reduction": "sum"}


def problem(dtype=torch.float32, rows=7, hidden=16, classes=11):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(shape).to(dtype).requires_grad_() for shape in ((rows, hidden), (classes, hidden), (classes, )))
    target = torch.randint(classes, (rows, ))
    target[2] = -100
    return x, weight, bias, target


def exact(x, weight, bias, target, softcap=None, z_loss=0.0, reduction="mean", **options):
    """The loss in fp64, and gradients of three times as much."""
    given = [one.detach().double().requires_grad_() for one in (x, weight, bias)]
    logits = linear(*given)
    logits = softcap * torch.tanh(logits / softcap) if softcap else logits
    losses = cross_entropy(logits, target, reduction="none", **options)
    losses = losses + z_loss * torch.where(target < 0, 0.0, torch.logsumexp(logits, 1)**2)
    loss = losses if reduction == "none" else losses.sum() / (1 if reduction == "sum" else (target >= 0).sum())
    return [loss.detach(), *torch.autograd.grad(loss, given, torch.full_like(loss, 3.0))]


def close(found, wanted, tolerance=1e-5):
    for one, other in zip(found, wanted, strict=True):
        assert (one.double() - other).norm() <= tolerance * max(other.norm(), 1e-3)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of three rows: the last of seven is smaller."""
    for module in (linear_pieces, linear_shards):
        monkeypatch.setattr(module, "rows_of", lambda *sizes: 3)


@pytest.mark.parametrize("options", [{}, ALL, {"softcap": 2.0, "reduction": "none", "z_loss": 0.01}], ids=["mean", "all", "none"])
def test_options(options):
    x, weight, bias, target = given = problem()
    loss = ops.linear_cross_entropy(x, weight, target, linear_bias=bias, **options)
    gradients = torch.autograd.grad(loss, (x, weight, bias), torch.full_like(loss, 3.0))
    with torch.no_grad():
        alone = ops.linear_cross_entropy(x, weight, target, linear_bias=bias, **options)
    wanted = exact(*given, **options)
    close([loss.detach(), alone, *gradients], [wanted[0], *wanted])


@pytest.mark.long(but=["None"], everywhere=True)
@pytest.mark.parametrize("sums", [None, torch.bfloat16])
def test_sums_of_pieces_of_16_bits(sums):
    """By the GEMM, in its epilogue; sums of bf16 are rounded once a piece, which is seen."""
    x, weight, bias, target = given = problem(torch.bfloat16, 12, 64, 72)
    loss = ops.linear_cross_entropy(x, weight, target, linear_bias=bias, accum_dtype=sums)
    gradients = torch.autograd.grad(loss, (x, weight, bias), torch.tensor(3.0))
    wanted = exact(*given)
    close([loss.detach(), *gradients], wanted, 1.5e-2)
    options = -100, 0.0, 0.0, 0.0, True, sums or torch.float32, torch.bfloat16, True, True, True
    kept = torch.ops.mimw.linear_cross_entropy(x, weight, bias, target, None, *options)
    assert kept[2].dtype is torch.bfloat16, "rounded before backward comes"
    with torch.no_grad():
        close([ops.linear_cross_entropy(x, weight, target, linear_bias=bias)], wanted[:1])


def test_backward_twice():
    """Gradients lie in one memory for one backward; where the graph is kept they are not scaled in their place."""
    x, weight, _, target = problem(torch.bfloat16, 8, 64, 72)
    loss = ops.linear_cross_entropy(x, weight, target, accum_dtype=torch.bfloat16)
    first = torch.autograd.grad(loss, (x, weight), torch.tensor(2.0), retain_graph=True)
    second = torch.autograd.grad(loss, (x, weight), torch.tensor(4.0))
    for one, other in zip(first, second):
        assert torch.equal(2 * one, other)


def test_rows_of_pieces(monkeypatch):
    monkeypatch.undo()
    wide, narrow = torch.float32, torch.bfloat16
    assert linear_pieces.rows_of(8192, 4096, 128256, wide, narrow) == 4096
    assert linear_pieces.rows_of(8192, 4096, 128256, narrow, narrow) == 1664, "five pieces, a fifth of inputs and gradients each"
    assert linear_pieces.rows_of(5, 4096, 128256, wide, narrow) == 128 and linear_pieces.rows_of(0, 8, 8, wide, wide) == 128
    assert linear_pieces.rows_of(3000, 256, 8192, wide, wide) == 1024


@pytest.mark.long(but=["mean"], everywhere=True)
@pytest.mark.parametrize("options", [{}, ALL], ids=["mean", "all"])
def test_classes_at_ranks(options):
    """Eleven classes at two ranks, as torch.chunk cuts them; the second rank has fewer."""
    x, weight, bias, target = given = problem()

    def work(rank):
        shard, part = (one.detach().chunk(2)[rank].clone().requires_grad_() for one in (weight, bias))
        more = dict(linear_bias=part, group=torch.distributed.group.WORLD, num_classes=11, **options)
        loss = ops.linear_cross_entropy(x, shard, target, **more)
        gradients = torch.autograd.grad(loss, (x, shard, part), torch.tensor(3.0))
        with torch.no_grad():
            alone = ops.linear_cross_entropy(x, shard, target, **more)
            nobody = ops.linear_cross_entropy(x, shard, target + 11, **more)
        assert nobody.isnan(), "a target of no rank"
        with pytest.raises(RuntimeError, match="of 13 it must have [76], from [07] on, as torch.chunk"):
            ops.linear_cross_entropy(x, shard[:5], target, group=torch.distributed.group.WORLD, num_classes=13)
        return [one.detach() for one in (loss, alone, *gradients)]

    whole = exact(*given, **options)
    for rank, found in enumerate(at_ranks(2, work)):
        wanted = [whole[0], *whole[:2], *(one.chunk(2)[rank] for one in whole[2:])]
        close(found, wanted)


def test_parts_are_those_of_chunk():
    for classes, ranks in ((128256, 8), (11, 4), (5, 4), (9, 4)):
        sizes = [len(one) for one in torch.arange(classes).chunk(ranks)]
        found = [linear_shards.part_of(classes, ranks, rank) for rank in range(ranks)]
        assert [count for _, count in found][:len(sizes)] == sizes and sum(count for _, count in found) == classes
        assert all(first == sum(sizes[:rank]) for rank, (first, _) in enumerate(found))


@pytest.mark.parametrize("options, text", [
    ({"softcap": 0.0}, "softcap is 0.0; it must be a number above 0"), ({"reduction": "max"}, "reduction is 'max'"),
    ({"label_smoothing": 1.5}, "label_smoothing is 1.5"), ({"accum_dtype": torch.bfloat16}, "linear_weight is torch.float32"),
    ({"num_classes": 12}, "num_classes is 12, linear_weight has 11"), ({"weight": torch.ones(11), "z_loss": 0.1}, "no z_loss")],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "")
def test_refused(options, text):
    x, weight, _, target = problem()
    with pytest.raises((ValueError, RuntimeError), match=text):
        ops.linear_cross_entropy(x, weight, target, **options)
    with torch.no_grad(), pytest.raises(IndexError, match="target of row 0 is 11"):
        ops.linear_cross_entropy(x, weight, torch.full((7, ), 11))
    with pytest.raises(RuntimeError, match="weight is 11 x 8; for x 7 x 16 it must be"):
        ops.linear_cross_entropy(x, weight[:, :8], target)


@pytest.mark.parametrize("dtype, sums, a_by_columns", [
    (torch.bfloat16, torch.float32, True), (torch.float16, torch.float16, False), (torch.float32, torch.float32, False)])
def test_add_product(dtype, sums, a_by_columns):
    """By the GEMM, and of fp32 that is to be exact by others."""
    torch.manual_seed(0)
    a, b, c = torch.randn(40, 72).to(dtype), torch.randn(40, 64).to(dtype), torch.randn(72, 64).to(sums)
    left = a.T if a_by_columns else a.T.contiguous()
    wanted = c.double() + a.T.double() @ b.double()
    before = c.data_ptr()
    ADD_PRODUCT(c, left, b)
    assert c.data_ptr() == before
    close([c], [wanted], 1e-3 if sums is torch.float16 else 1e-5)
    with pytest.raises(RuntimeError, match="a is 8 x 40; for sums 72 x 64 it must be 72 x k"):
        ADD_PRODUCT(c, left[:8], b)


def test_sums_by_the_kernel_and_from_pieces():
    """The operator by both of its ways, with the targets of other classes."""
    x, weight, bias, target = problem(torch.bfloat16, 20, 64, 72)
    target[4] = 72
    by_kernel = SUMS(x.detach(), weight.detach(), bias.detach(), target, 4.0, True)
    wide = [one.detach().float() for one in (x, weight, bias)]
    from_pieces = SUMS(*wide, target, 4.0, True)
    for one, other in zip(by_kernel, from_pieces):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4, equal_nan=True)
    assert by_kernel[1].isnan().nonzero().flatten().tolist() == [2, 4]


def test_in_one_graph():
    x, weight, bias, target = given = problem()
    compiled = torch.compile(lambda *those: ops.linear_cross_entropy(*those, linear_bias=bias, **ALL), fullgraph=True,
                             backend="aot_eager")
    loss = compiled(x, weight, target)
    close([loss.detach(), *torch.autograd.grad(loss, (x, weight, bias), torch.tensor(3.0))], exact(*given, **ALL))
