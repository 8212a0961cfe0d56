"""torch.compile with the passes of `mimw.integrations.inductor`: which calls become ours, and that the numbers stay."""

from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch", reason="the passes are torch's")

from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._functorch.aot_autograd import make_boxed_func  # noqa: E402
from torch._inductor import config  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import mimw.integrations.inductor as inductor  # noqa: E402
from mimw.integrations.inductor import calls, measured, products, torch_versions  # noqa: E402
from mimw.integrations.inductor.settings import KINDS, Settings  # noqa: E402
from mimw.integrations.inductor.torch_versions import with_real_tensors  # noqa: E402
from mimw.testing import gpu_available  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


@pytest.fixture(autouse=True)
def _afresh():
    torch._dynamo.reset()
    inductor.forget()
    yield
    inductor.disable()


def compiled(function, *given, allow=KINDS, force=True, dynamic=None):
    """The function's result by the passes alone, and the names of ours in the graphs: inductor's C++ would take a minute."""
    settings = Settings(frozenset(allow), force, frozenset({"cpu"}))
    found = []

    def lower(module, _):
        products.Products(settings)(module.graph)
        module.graph.lint()
        module.recompile()
        found.extend(str(node.target).split(".")[1] for node in module.graph.nodes if str(node.target).startswith("mimw."))
        return make_boxed_func(module.forward)

    def backend(module, given):
        calls.Calls(settings)(module.graph)
        module.graph.lint()
        module.recompile()
        return aot_autograd(fw_compiler=lower)(module, given)

    return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*given), found


def leaves(*shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def test_products_and_their_gradients():
    x, w, bias, stack = leaves((16, 16), (16, 16), (16,), (2, 16, 16))

    def f(x, w, bias, stack):
        return torch.bmm(stack, (torch.addmm(bias, x @ w, w, beta=2, alpha=0.5)).expand(2, 16, 16))

    expected = f(x, w, bias, stack)
    y, found = compiled(f, x, w, bias, stack)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    assert found == ["matmul", "addmm", "matmul"]
    wanted = torch.autograd.grad(expected.sum(), (x, w, bias, stack))
    ours = torch.autograd.grad(y.sum(), (x, w, bias, stack))
    assert found[3:] == ["matmul"] * 6                    # two of each product
    torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-3)


def test_what_is_not_allowed_or_not_taken_stays():
    a, b = leaves((8, 16), (16, 8))
    assert compiled(torch.mm, a, b, allow=("addmm", "bmm"))[1] == []
    assert compiled(torch.mm, a.double(), b.double())[1] == []


@pytest.mark.parametrize("causal, seq_k", [(True, 16), (True, 32), (False, 16)])
def test_attention_and_its_gradients(causal, seq_k):
    q, k, v = leaves((1, 2, 16, 16), (1, 2, seq_k, 16), (1, 2, seq_k, 16))

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.3)

    y, found = compiled(f, q, k, v)
    assert found[:1] == ["attention"]
    expected = f(q, k, v)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    ours = torch.autograd.grad(y.square().sum(), (q, k, v))
    assert "attention_backward" in found
    torch.testing.assert_close(ours, torch.autograd.grad(expected.square().sum(), (q, k, v)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("inside", [False, True])
def test_attention_under_autocast_and_of_several_types(inside):
    """What autocast lowers is lowered as torch has it, gradients to the types that were given."""
    q, k, v = leaves((1, 2, 16, 16), (1, 2, 16, 16), (1, 2, 16, 16))
    k = k.detach().bfloat16().requires_grad_()

    def f(q, k, v):
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            return F.scaled_dot_product_attention(q, k, v)

    with nullcontext() if inside else torch.autocast("cpu", torch.bfloat16):
        g = f if inside else F.scaled_dot_product_attention
        y, found = compiled(g, q, k, v, allow=("sdpa",))
        expected = g(q, k, v)
    assert found == ["attention"] and y.dtype is torch.bfloat16
    torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-2)
    ours, wanted = (torch.autograd.grad(one.float().square().sum(), (q, k, v)) for one in (y, expected))
    for one, other in zip(ours, wanted, strict=True):
        assert one.dtype is other.dtype and (one - other).float().norm() < 2e-2 * other.float().norm()


def test_attention_with_a_mask_that_is_added_stays():
    q, mask = leaves((1, 2, 16, 16), (16, 16))
    assert compiled(lambda q, mask: F.scaled_dot_product_attention(q, q, q, mask), q, mask, allow=["sdpa"])[1] == []
    assert compiled(lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), q, allow=["sdpa"])[1] == []


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no grouped product")
def test_grouped_products():
    a, b = torch.randn(32, 16).bfloat16(), torch.randn(2, 16, 16).bfloat16()
    ends = torch.tensor([8, 32], dtype=torch.int32)

    def f(a, b, ends):
        return torch._grouped_mm(a, b, ends)

    y, found = compiled(f, a, b, ends)
    assert found == ["grouped_matmul"]
    torch.testing.assert_close(y[:8].float(), (a[:8] @ b[0]).float(), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(y[8:].float(), (a[8:] @ b[1]).float(), rtol=2e-2, atol=2e-2)


@pytest.mark.long(but=["False-False", "True-True"], everywhere=True)
@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no grouped product")
@pytest.mark.parametrize("autotuned, dynamic", [(True, False), (True, True), (False, False)])
def test_grouped_products_are_timed_under_max_autotune(autotuned, dynamic, monkeypatch):
    """With equal groups, as inductor times its own choices; at symbolic extents at those of the first call."""
    timed = []

    def seconds(function, given, of_gradients):
        (ends, ) = (one for one in given if one.dtype is torch.int32)
        (rows, ) = (one for one in given if one.dim() == 2)
        timed.append((tuple(rows.shape), ends.tolist()))
        results.append(function(*given))
        return float(len(timed))

    results = []
    monkeypatch.setattr(measured, "seconds", seconds)
    a, b = torch.randn(32, 16).bfloat16(), torch.randn(3, 16, 16).bfloat16()
    ends = torch.tensor([8, 9, 32], dtype=torch.int32)
    if dynamic:
        torch._dynamo.mark_dynamic(a, 0)
    with config.patch(max_autotune=autotuned):
        y, found = compiled(torch._grouped_mm, a, b, ends, force=False, allow=("grouped_mm",))
    assert found == (["grouped_matmul"] if autotuned else [])
    assert timed == 2 * autotuned * [((32, 16), [8, 24, 32])]
    for first, end, one in ((0, 8, b[0]), (9, 32, b[2])):
        torch.testing.assert_close(y[first:end].float(), (a[first:end] @ one).float(), rtol=2e-2, atol=2e-2)
    if autotuned:       # inductor has compiled both
        torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)


def test_symbolic_extents_are_right_at_others():
    b = torch.randn(16, 16)
    found = []

    def lower(module, _):
        products.Products(Settings(frozenset({"mm"}), True, frozenset({"cpu"})))(module.graph)
        module.recompile()
        found.append(str(module.graph))
        return make_boxed_func(module.forward)

    f = torch.compile(torch.mm, backend=aot_autograd(fw_compiler=lower), dynamic=True)
    for rows in (8, 24):
        a = torch.randn(rows, 16)
        torch.testing.assert_close(f(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert len(found) == 1 and "mimw.matmul" in found[0]


@pytest.mark.parametrize("ours_is", ["quicker", "slower"])
def test_without_force_the_quicker_one(ours_is, monkeypatch):
    timed = []

    def seconds(function, given, of_gradients):
        assert all(type(one) is torch.Tensor for one in given[:2])       # real ones
        timed.append(function)
        return (1.0, 2.0)[(len(timed) == 1) == (ours_is == "slower")]

    monkeypatch.setattr(measured, "seconds", seconds)
    a, b = torch.randn(8, 16), torch.randn(16, 8)
    for _ in range(2):          # timed once
        torch._dynamo.reset()
        y, found = compiled(torch.mm, a, b, force=False)
        assert found == (["matmul"] if ours_is == "quicker" else [])
        assert len(timed) == 2 and timed[0] is torch.ops.mimw.matmul.default
    torch.testing.assert_close(y, a @ b, rtol=1e-4, atol=1e-4)
    q = torch.randn(1, 1, 16, 16)
    found = compiled(lambda q: F.scaled_dot_product_attention(q, q, q), q, force=False, allow=("sdpa",))[1]
    assert len(timed) == 4 and found == []         # the third time is the longer one, or equal
    assert compiled(torch.mm, a, b, force=False, dynamic=True)[1] == [] and len(timed) == 4


def test_inductor_itself():
    from torch._inductor.utils import run_and_get_code
    a, b = torch.randn(8, 16).bfloat16(), torch.randn(16, 16).bfloat16()
    with inductor.enable(force=True, devices=("cpu",)):
        y, (code, ) = run_and_get_code(torch.compile(lambda a, b: F.relu(F.linear(a @ b, b)), fullgraph=True), a, b)
    assert "torch.ops.mimw.matmul.default" in code and "torch.ops.mimw.product_with_epilogue.default" in code
    torch.testing.assert_close(y, F.relu(F.linear(a @ b, b)), rtol=2e-2, atol=2e-2)
    assert config.pre_grad_custom_pass is config.post_grad_custom_post_pass is None


def test_what_was_there_comes_back(monkeypatch):
    before = products.Products(Settings(frozenset({"mm"}), True, frozenset({"cuda"})))
    with config.patch(post_grad_custom_post_pass=before):
        if torch_versions._TAKES_LISTS:
            with inductor.enable():
                assert config.post_grad_custom_post_pass[0] is before and len(config.post_grad_custom_post_pass) == 2
            assert config.post_grad_custom_post_pass is before
        monkeypatch.setattr(torch_versions, "_TAKES_LISTS", False)
        with pytest.raises(RuntimeError, match="takes one pass there; set it to None"):
            inductor.enable()
        assert config.pre_grad_custom_pass is None and config.post_grad_custom_post_pass is before
    inductor.enable()
    with pytest.raises(RuntimeError, match="call disable"):
        inductor.enable()
    inductor.disable()
    for wrong in ("mm", ("mm", "conv"), ()):
        with pytest.raises(ValueError, match="it takes a collection of mm, addmm"):
            inductor.enable(allow=wrong)


def test_settings_have_keys_of_their_own():
    keys = {products.Products(Settings(frozenset(allow), force, frozenset({"cuda"}))).uuid()
            for allow in (("mm",), ("mm", "bmm"), ("bmm", "mm")) for force in (False, True)}
    assert len(keys) == 4


def test_gradients_are_timed_in_the_thread_that_compiles(monkeypatch):
    """It holds torch's lock of compiling, for which a backward pass that compiles would wait in a thread of its own."""
    class Event:
        def record(self):
            return None

        synchronize = record

        def elapsed_time(self, other):
            return 20.0

    class Noting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, dy):
            seen.append(torch._C._is_multithreading_enabled())
            return dy

    seen = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "Event", lambda **options: Event())
    assert measured.seconds(Noting.apply, (torch.ones(3, requires_grad=True), ), True) == pytest.approx(2e-3)
    assert seen == 13 * [False] and torch._C._is_multithreading_enabled()


def test_what_does_not_run_is_no_rival(monkeypatch, caplog):
    """As torch's template of flex attention that needs more shared memory than there is."""
    def seconds(function, given, of_gradients):
        return function(*given)

    def wrong(*given):
        raise RuntimeError("out of resource: shared memory\nReducing block sizes may help")

    monkeypatch.setattr(measured, "seconds", seconds)
    given = (torch.ones(2), )
    with caplog.at_level("INFO", "mimw"):
        assert measured.is_quicker("rival", lambda x: 1.0, wrong, given)
        assert not measured.is_quicker("ours", wrong, lambda x: 1.0, given)
        assert not measured.is_quicker("neither", wrong, wrong, given)
    assert "RuntimeError: out of resource: shared memory" in caplog.text and "Reducing" not in caplog.text


def test_gradients_that_compile_run_while_another_function_compiles():
    """As on a GPU, where torch's flex attention is compiled, forward and backward, to be timed."""
    seen = []

    def squares(x):
        return (x * x).sum()

    def backend(graph, given):
        with with_real_tensors(), torch.set_grad_enabled(True), measured.while_torch_compiles():
            x = torch.arange(3.0, requires_grad=True)
            torch.compile(squares, backend="aot_eager")(x).backward()
            seen.append(x.grad)
        return graph

    y = torch.ones(3, requires_grad=True)
    torch.compile(squares, backend=backend)(y).backward()
    torch.testing.assert_close(seen, [torch.tensor([0.0, 2.0, 4.0])])
    torch.testing.assert_close(y.grad, torch.full((3, ), 2.0))


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available(), reason="timed on a GPU")
@pytest.mark.parametrize("force", [True, False])
def test_a_layer_on_the_gpu(force):
    torch.manual_seed(0)
    x, w, bias = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.1 for shape in ((4, 256, 512), (512, 512), (512,)))
    w.requires_grad_()

    def f(x):
        y = F.linear(x, w, bias).unflatten(-1, (4, 128)).transpose(1, 2)
        return F.linear(F.scaled_dot_product_attention(y, y, y, is_causal=True).transpose(1, 2).flatten(2), w)

    expected = f(x)
    (wanted, ) = torch.autograd.grad(expected.float().square().sum(), w)
    with inductor.enable(force=force):
        y = torch.compile(f, fullgraph=True, mode="max-autotune-no-cudagraphs")(x)
        (ours, ) = torch.autograd.grad(y.float().square().sum(), w)
    torch.testing.assert_close(y, expected, rtol=2e-2, atol=2e-2)
    assert (ours - wanted).float().norm() < 2e-2 * wanted.float().norm()
