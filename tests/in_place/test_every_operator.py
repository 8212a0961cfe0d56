"""The rule for every operator that writes into its arguments, and for the functions before them: what torch refuses is refused."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from mimw import ops  # noqa: E402
from tests.every import every  # noqa: E402
from tests.in_place.writing import holds, writing  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
AT_RANKS = {"all_reduce_"}      # asked where ranks are: tests/ops/distributed/test_collectives.py


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def classes():
    return torch.tensor([1, 0, 3, 2])


def tables():
    return normal(5, 4), normal(5, 4)


def numbers():
    return torch.arange(6)


# The arguments of a call, new ones each time.
CALLS = {
    "cross_entropy_": lambda: (normal(4, 8), classes(), torch.ones(1), -100, 0.0, 0.0),
    "cross_entropy_backward_": lambda: (normal(4, 8), classes(), normal(4), normal(4), -100, 0.0, 0.0),
    "add_product_": lambda: (normal(4, 8), normal(4, 16), normal(16, 8)),
    "linear_attention_step": lambda: (*[normal(2, 1, 4) for _ in range(3)], normal(2, 1, 4, 4), *[None] * 5, 0.5, False),
    "scale_rows_": lambda: (normal(4, 8), normal(4)),
    "gather_matmul_scatter_": lambda: (normal(6, 4), normal(6, 8), normal(8, 4), numbers(), numbers()),
    "rope_": lambda: (normal(2, 5, 8), *tables(), torch.arange(5), False, False),
    "rope_of_two_": lambda: (normal(2, 5, 8), normal(2, 5, 8), *tables(), torch.arange(5), False, False),
}


def test_every_writing_operator_is_asked():
    assert set(writing()) == {*CALLS, *AT_RANKS}


@every(CALLS)
def test_the_rule_holds(name):
    holds(name, CALLS[name])


def test_cross_entropy_in_place():
    """Refused before a value is lost; what only looks shared is taken."""
    leaf, target = normal(2, 2, 8).requires_grad_(), classes()
    kept = leaf.detach().clone()
    with pytest.raises(RuntimeError, match="logits is a view of a leaf that requires grad"):
        ops.cross_entropy(leaf.view(-1, 8), target, inplace_backward=True)
    assert torch.equal(leaf.detach(), kept)
    row = normal(1, 8).requires_grad_()
    for dtype in (torch.float32, torch.float16):
        with pytest.raises(RuntimeError, match="elements of logits, .4, 8. with strides .0, 1., share memory"):
            ops.cross_entropy((row * 1).expand(4, 8).to(dtype).contiguous()[:1].expand(4, 8), target, inplace_backward=True)
    both = normal(4, 2, 8).requires_grad_()
    turns = (both * 1)[:, 0]
    found, = torch.autograd.grad(ops.cross_entropy(turns, target, inplace_backward=True), both)
    wanted, = torch.autograd.grad(torch.nn.functional.cross_entropy(both[:, 0], target), both)
    torch.testing.assert_close(found, wanted)


def test_rope_in_place():
    """Queries and keys of one packed tensor lie between each other and share nothing; a pair of one tensor shares all."""
    packed, x = normal(2, 5, 3, 4, 8), normal(2, 3, 5, 8)
    q, k, _ = (one.transpose(1, 2) for one in packed.clone().unbind(2))
    expected = ops.rope((q, k), *tables())
    ops.rope((q, k), *tables(), inplace=True)
    assert torch.equal(q, expected[0]) and torch.equal(k, expected[1])
    for given, text in (((x, x), "q and k share memory"), ((x, x[:, 1:]), "q and k share memory"),
                        (x[:1].expand(2, 3, 5, 8), "elements of x"), (x.mT.contiguous().mT[:1].expand(2, 3, 5, 8), "elements of x"),
                        ((x.mT.contiguous().mT, ) * 2, "q and k share memory")):
        with pytest.raises(RuntimeError, match=text):
            ops.rope(given, *tables(), inplace=True)
    leaf = normal(2, 5, 8).requires_grad_()
    for given, text in ((leaf, "x is a leaf"), (leaf[:1], "x is a view of a leaf"),
                        ((leaf * 1).unbind(0)[0], "one of several views")):
        before = given.detach().clone()
        with pytest.raises(RuntimeError, match=text):
            ops.rope(given, *tables(), inplace=True)
        assert torch.equal(given.detach(), before)


def test_picked_products_into_a_result_that_is_an_operand():
    a, b, rows = normal(6, 8), normal(8, 8), numbers()
    for out, text in ((a, "out and a share memory"), (b[:6], "out and b share memory"), (a[:1].expand(6, 8), "elements of out")):
        with pytest.raises(RuntimeError, match=text):
            ops.gather_matmul_scatter(a, b, rows, rows, out=out)
    wide = torch.cat([a, a], 1)
    ops.gather_matmul_scatter(wide[:, :8], b, rows, rows, out=wide[:, 8:])      # side by side in one memory
    torch.testing.assert_close(wide[:, 8:], a @ b)


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_compiled_whole(backend):
    """Right programs stay right; shared memory is refused while torch traces, where it would be copied away."""
    cos, sin = tables()

    def turned(x):
        ops.rope(x, cos, sin, inplace=True)
        return x * 2

    def shared(x):
        return ops.rope((x, x), cos, sin, inplace=True)

    x, kept = normal(2, 5, 8), normal(2, 5, 8)
    found = torch.compile(turned, fullgraph=True, backend=backend)(x)
    assert torch.equal(x, ops.rope(kept, cos, sin)) and torch.equal(found, 2 * x)
    for function, given in ((turned, x[:1].expand(2, 5, 8)), (shared, x), (shared, x.clone().requires_grad_() * 1)):
        with pytest.raises(RuntimeError, match="share memory"):
            torch.compile(function, fullgraph=True, backend=backend)(given)
