"""Products with what follows them under torch.compile: what is an epilogue, its numbers, and how it is timed."""

import pytest

torch = pytest.importorskip("torch", reason="the passes are torch's")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._functorch.aot_autograd import make_boxed_func  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch._inductor.decomposition import select_decomp_table  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import mimw.integrations.inductor as inductor  # noqa: E402
from mimw.integrations.inductor import measured, products, wholes  # noqa: E402
from mimw.integrations.inductor.epilogue.operator import KEPT, PRODUCT, composed  # noqa: E402
from mimw.integrations.inductor.settings import Settings  # noqa: E402
from mimw.testing import gpu_available  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
OPTIONS = "bias", "residual", "row_scale", "column_scale", "alpha", "beta", "activation", "out_dtype"


@pytest.fixture(autouse=True)
def _afresh():
    torch._dynamo.reset()
    inductor.forget()
    yield
    inductor.disable()


def bf16(*shape):
    return torch.randn(shape).bfloat16()


def given():
    torch.manual_seed(0)
    return bf16(2, 8, 16), bf16(32, 16), bf16(32), bf16(2, 8, 32)


def compiled(function, *given, force=True):
    """The function's result by the pass alone, and the options of our calls that are not left to their defaults."""
    settings = Settings(frozenset(("epilogue", )), force, frozenset({"cpu"}))
    found = []

    def lower(module, _):
        products.Products(settings)(module.graph)
        module.graph.lint()
        module.recompile()
        for node in module.graph.nodes:
            if node.target in (PRODUCT.op, KEPT.op):
                named = (PRODUCT if node.target is PRODUCT.op else KEPT).named(*node.args)
                found.append({"kept": True} if node.target is KEPT.op else {})
                found[-1].update({name: one.name if isinstance(one, torch.fx.Node) else one for name, one in named.items()
                              if name in OPTIONS[:4] and one is not None or name in OPTIONS[4:7] and one not in (None, 1.0)})
        assert all(node.users or node.op in ("placeholder", "output") for node in module.graph.nodes)
        return make_boxed_func(module.forward)

    backend = aot_autograd(fw_compiler=lower, decompositions=select_decomp_table())
    return torch.compile(function, backend=backend, fullgraph=True)(*given), found


def taken(found):
    """Names of what our one call does."""
    assert len(found) <= 1
    return {name for one in found for name in one} | {one[name] for one in found for name in one if name == "activation"}


COLUMNS, ROWS = torch.rand(32) + 0.5, torch.rand(2, 8, 1) + 0.5
CASES = {
    "relu": (lambda x, w, b, r: F.relu(F.linear(x, w, b)), {"bias", "activation", "relu"}),
    "gelu": (lambda x, w, b, r: F.gelu(F.linear(x, w)), {"activation", "gelu"}),
    "gelu_tanh and a type": (lambda x, w, b, r: F.gelu(F.linear(x, w, b), approximate="tanh").float(),
                             {"bias", "activation", "gelu_tanh"}),
    "silu of a sum": (lambda x, w, b, r: F.silu(r - 2 * F.linear(x, w)), {"residual", "alpha", "activation", "silu"}),
    "a residual": (lambda x, w, b, r: r + F.linear(x, w, b), {"bias", "residual"}),
    "a residual is subtracted": (lambda x, w, b, r: F.linear(x, w, b) - r, {"bias", "residual", "beta"}),
    "a sum that was widened": (lambda x, w, b, r: (F.linear(x, w).float() * 0.5 + r.float()).bfloat16(), {"alpha", "residual"}),
    "scales": (lambda x, w, b, r: (F.linear(x, w).float() * COLUMNS * ROWS + b).relu().bfloat16(),
               {"row_scale", "column_scale", "bias", "activation", "relu"}),
}


@pytest.mark.long(but=["silu of a sum", "a residual", "scales", "gelu"], everywhere=True)
@pytest.mark.parametrize("name", CASES)
def test_an_epilogue_is_read_and_right(name):
    function, wanted = CASES[name]
    x, w, b, r = given()
    with torch.no_grad():
        y, found = compiled(function, x, w, b, r)
        expected = function(*(one.double() for one in (x, w, b, r))) if name != "scales" else function(x, w, b, r)
    assert taken(found) == wanted
    torch.testing.assert_close(y.double(), expected.double(), rtol=1e-2, atol=2e-2)      # rounded once


STAY = {
    "a sum with a residual has another use": lambda x, w, b, r: (F.relu(y := F.linear(x, w) + r), y),
    "a narrower type lies between": lambda x, w, b, r: F.relu(F.linear(x, w).half()),
    "an activation that is none of ours": lambda x, w, b, r: F.mish(F.linear(x, w, b)),
    "a bias alone": lambda x, w, b, r: F.linear(x, w, b),
    "a number is added": lambda x, w, b, r: F.linear(x, w) + 1,
    "the columns are turned": lambda x, w, b, r: F.linear(x, w).mT + r.mT,
    "a number for all": lambda x, w, b, r: F.linear(x, w) * b[0],
    "a sum that is scaled": lambda x, w, b, r: F.linear(x, w, b) * 2,
    "fp32 that is exact": lambda x, w, b, r: F.relu(F.linear(x.float(), w.float())),
    "rows that TMA cannot write": lambda x, w, b, r: F.relu(F.linear(x, w[:7])),
}


def test_what_the_kernel_does_not_do_stays():
    def all_of(x, w, b, r):
        return [one(x, w, b, r) for one in STAY.values()]

    with torch.no_grad():
        _, found = compiled(all_of, *given())
        # A residual's sum is none that is kept, and the type between ends an epilogue, which is a product of that type.
        assert [set(one) for one in found] == [{"residual"}, set()]
        with config.patch(emulate_precision_casts=True):
            torch._dynamo.reset()
            assert compiled(CASES["relu"][0], *given())[1] == []


@pytest.mark.parametrize("act, kept", [(F.relu, False), (F.gelu, True)], ids=["relu", "gelu"])
def test_where_gradients_are_wanted(act, kept):
    """relu needs its result's sign alone; other activations need what they were applied to, which the launch writes, too."""
    x, w, b, _ = (one.requires_grad_() for one in given())
    inner = bf16(16, 32).requires_grad_()

    def f(x, w, b, inner):
        return F.linear(act(F.linear(x, w, b)), inner) + x

    y, found = compiled(f, x, w, b, inner)
    assert taken(found[:1]) == {"bias", "activation", "relu"} if not kept else {"bias", "activation", "gelu", "kept"}
    expected = f(x, w, b, inner)
    torch.testing.assert_close(y, expected, rtol=2e-2, atol=1e-1)
    ours, wanted = (torch.autograd.grad(one.float().square().sum(), (x, w, b, inner)) for one in (y, expected))
    for one, other in zip(ours, wanted, strict=True):
        assert (one - other).float().norm() < 1e-2 * other.float().norm()


def test_what_others_read_of_a_product_is_kept():
    """Views of it, too, and readers that stand in front of the activation."""
    def f(x, w, b):
        y = F.linear(x, w, b)
        return torch.sin(y), y.flatten(), F.gelu(y.float()).bfloat16(), y.mT

    x, w, b, _ = given()
    with torch.no_grad():
        y, found = compiled(f, x, w, b)
        assert taken(found) == {"bias", "activation", "gelu", "kept"}
        torch.testing.assert_close(y, f(x, w, b), rtol=1e-2, atol=2e-2)


def test_rows_may_be_a_symbol():
    x, w, b, r = given()
    for one in (x, r):
        torch._dynamo.mark_dynamic(one, 0)
    with torch.no_grad():
        y, found = compiled(CASES["a residual"][0], x, w, b, r)
        assert taken(found) == {"bias", "residual"}
        torch.testing.assert_close(y, CASES["a residual"][0](x, w, b, r), rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("ours_is", ["quicker", "slower"])
def test_both_ways_are_timed_with_what_inductor_fuses_behind_them(ours_is, monkeypatch):
    """The norm behind a residual is in both; parts that do the same are timed once."""
    timed, graphs = [], []

    def seconds(function, given, of_gradients):
        assert all(type(one) is torch.Tensor for one in given) and not of_gradients
        timed.append([tuple(one.shape) for one in given])
        return (1.0, 2.0)[(len(timed) == 1) == (ours_is == "slower")]

    by_inductor = wholes.by_inductor
    monkeypatch.setattr(measured, "seconds", seconds)
    monkeypatch.setattr(wholes, "by_inductor", lambda graph: graphs.append(graph) or by_inductor(graph))
    def f(x, w):
        for _ in range(2):
            x = F.layer_norm(x + F.linear(x, w), (16, ))
        return x, F.linear(x, w)

    with torch.no_grad():
        found = compiled(f, bf16(2, 8, 16), bf16(16, 16), force=False)[1]
    assert [taken([one]) for one in found] == ([{"residual"}] * 2 if ours_is == "quicker" else [])
    assert len(timed) == 2 and len(graphs) == 4 and sorted(timed[0]) == [(2, 8, 16), (16, 16), (16, 16)]
    ours, theirs = ([str(node.target) for node in graph.nodes] for graph in graphs[:2])
    assert "mimw.product_with_epilogue.default" in ours and "aten.mm.default" in theirs
    assert all("aten.var_mean.correction" in one for one in (ours, theirs)) and ours.count("aten.mm.default") == 0


def test_what_made_a_residual_wider_is_timed_with_it(monkeypatch):
    graphs, by_inductor = [], wholes.by_inductor
    monkeypatch.setattr(wholes, "by_inductor", lambda graph: graphs.append(graph) or by_inductor(graph))
    times = iter((1.0, 2.0))
    monkeypatch.setattr(measured, "seconds", lambda *_: next(times))
    with torch.no_grad():
        _, found = compiled(CASES["a sum that was widened"][0], *given(), force=False)
    assert taken(found) == {"alpha", "residual"}
    for graph in graphs:        # both read it as it was given
        assert {node.meta["val"].dtype for node in graph.nodes if node.op == "placeholder"} == {torch.bfloat16}


def test_a_whole_ends_where_something_else_comes_between():
    graph = torch.fx.symbolic_trace(lambda a: a).graph
    ((a, _), aten) = graph.nodes, torch.ops.aten
    with graph.inserting_after(a):
        mm = graph.call_function(aten.mm.default, (a, a))
    relu, far = (graph.call_function(aten.relu.default, (one, )) for one in (mm, a))
    second = graph.call_function(aten.mm.default, (relu, far))
    behind = graph.call_function(aten.add.Tensor, (relu, second))
    added = graph.call_function(aten.add.Tensor, (relu, far))
    assert wholes.whole(mm) == [mm, relu, added] and behind not in wholes.whole(mm)


@pytest.mark.parametrize("wrong, said", [({"residual": torch.zeros(8, 8)}, "residual is torch.float32; it must be of the result's"),
                                         ({"bias": bf16(7)}, "bias"), ({"row_scale": bf16(8)}, "row_scale"),
                                         ({"activation": "mish"}, "activation")])
def test_the_operator_refuses(wrong, said):
    a, b = bf16(8, 16), bf16(16, 8)
    with pytest.raises((RuntimeError, NotImplementedError), match=said):
        torch.ops.mimw.product_with_epilogue(a, b, **wrong)
    with pytest.raises(NotImplementedError, match="no derivative"):
        torch.ops.mimw.product_with_epilogue(a.requires_grad_(), b).sum().backward()


def test_the_operators_by_one_launch_and_by_several():
    torch.manual_seed(0)
    a, b, bias, residual, *scales = bf16(8, 16), bf16(16, 16), bf16(16), bf16(8, 16), torch.rand(8), torch.rand(16)
    ours = PRODUCT(a, b, bias, residual, *scales, 0.5, -2.0, "relu", torch.bfloat16)
    wanted = composed(a, b, bias, residual, *scales, alpha=0.5, beta=-2.0, activation="relu", dtype=torch.bfloat16)
    torch.testing.assert_close(ours, wanted, rtol=1e-2, atol=1e-2)
    ours = KEPT(a, b, bias, *scales, 0.5, "gelu", torch.float16)
    wanted = composed(a, b, bias, None, *scales, alpha=0.5, activation="gelu", dtype=torch.float16, keeps=True)
    torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=1e-3)
    exact = a.float(), b.float(), None, None, None, 1.0, None, None
    assert torch.equal(*KEPT(*exact)) and len({one.data_ptr() for one in KEPT(*exact)}) == 2
    for one in (PRODUCT, KEPT):
        torch.library.opcheck(one.op, (a, b, bias), {"activation": "silu"}, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available(), reason="timed on a GPU")
@pytest.mark.parametrize("mode, force", [(None, True), (None, False), ("max-autotune-no-cudagraphs", False)])
def test_a_block_with_gradients_on_the_gpu(mode, force):
    torch.manual_seed(0)
    x, w, b, inner = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_()
                      for shape in ((4, 256, 512), (2048, 512), (2048, ), (512, 2048)))

    def f(x, w, b, inner):
        return x + F.linear(F.relu(F.linear(x, w * 0.05, b)), inner * 0.02)

    expected = f(x, w, b, inner)
    wanted = torch.autograd.grad(expected.float().square().sum(), (x, w, b, inner))
    with inductor.enable(force=force):
        y = torch.compile(f, fullgraph=True, mode=mode)(x, w, b, inner)
        ours = torch.autograd.grad(y.float().square().sum(), (x, w, b, inner))
    print(measured._FOUND)      # pytest -s shows which was quicker
    torch.testing.assert_close(y, expected, rtol=2e-2, atol=5e-2)
    for one, other in zip(ours, wanted, strict=True):
        assert (one - other).float().norm() < 2e-2 * other.float().norm()
    with torch.no_grad(), inductor.enable(force=force):
        torch._dynamo.reset()
        y = torch.compile(lambda x, w, b: F.gelu(F.linear(x, w, b)), fullgraph=True, mode=mode)(x, w, b)
        torch.testing.assert_close(y, F.gelu(F.linear(x, w, b)), rtol=2e-2, atol=2e-1)
