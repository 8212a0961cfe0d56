"""Products under mode="max-autotune": inductor times ours among its own choices, and a choice of ours computes what torch does."""

import pytest

torch = pytest.importorskip("torch", reason="the passes are torch's")

from torch._inductor import config  # noqa: E402
from torch._inductor.choices import InductorChoices  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402
from torch._inductor.virtualized import V  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import mimw.integrations.inductor as inductor  # noqa: E402
from mimw.testing import gpu_available  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


@pytest.fixture
def offered(monkeypatch):
    """Names of the choices of each call, which end with ours being chosen wherever they are."""
    found = []

    def best(self, best_choice, timings):
        found.append(sorted(one.name for one in timings))
        assert all(time > 0 for time in timings.values())
        return next((one for one in timings if one.name.startswith("mimw")), best_choice)

    monkeypatch.setattr(InductorChoices, "override_best_choice", best)
    torch._dynamo.reset()
    with config.patch(max_autotune=True, max_autotune_gemm_backends="ATEN", force_disable_caches=True):
        yield found
    inductor.disable()


def products(a, b, bias, stack, exact):
    return a @ b, torch.addmm(bias, a, b, beta=2, alpha=0.5), torch.bmm(stack, b.expand(2, 32, 16)), exact @ exact


def test_ours_is_timed_by_inductor_and_right(offered):
    torch.manual_seed(0)
    given = [torch.randn(shape) for shape in ((16, 32), (32, 16), (16,), (2, 16, 32))] + [torch.randn(16, 16, dtype=torch.float64)]
    with inductor.enable(devices=("cpu",)):
        result, (code, ) = run_and_get_code(torch.compile(products, fullgraph=True), *given)
    assert offered == [["mimw_matmul", "mm"], ["addmm", "mimw_addmm"], ["bmm", "mimw_bmm"]]      # and one of fp64 alone
    assert all(f"extern_kernels.{one}(" in code for one in ("mimw_matmul", "mimw_addmm", "mimw_bmm", "mm"))
    torch.testing.assert_close(result, products(*given), rtol=1e-4, atol=1e-4)


def test_what_is_not_allowed_or_forced_is_no_candidate(offered):
    a, b = torch.randn(16, 32), torch.randn(32, 16)
    with inductor.enable(devices=("cpu",), allow=("addmm",)):
        torch.compile(torch.mm, fullgraph=True)(a, b)
    torch._dynamo.reset()
    with inductor.enable(devices=("cpu",), force=True):
        _, (code, ) = run_and_get_code(torch.compile(torch.mm, fullgraph=True), a, b)
    assert "torch.ops.mimw.matmul.default" in code and "extern_kernels" not in code.split("def call")[1]
    torch._dynamo.reset()
    torch.compile(torch.mm, fullgraph=True)(a, b)
    assert offered == []
    torch._dynamo.reset()
    with inductor.enable(devices=("cpu",)):
        torch.compile(torch.mm, fullgraph=True, dynamic=True)(a, b)       # of symbolic extents
    assert offered == []


def test_choices_of_another_program_stay():
    class Theirs(InductorChoices):
        pass

    settings = inductor.settings.Settings(frozenset({"mm"}), False, frozenset({"cuda"}))
    with config.patch(max_autotune=True):
        assert inductor.candidates.are_left(settings)
        for name in ("autotune_in_subproc", "cpp_wrapper"):         # functions of this process are not there
            with config.patch(name, True):
                assert not inductor.candidates.are_left(settings)
    inductor.disable()
    with V.set_choices_handler(Theirs()), config.patch(max_autotune=True):
        assert not inductor.candidates.are_left(settings)
        assert type(V.choices) is Theirs
    assert not inductor.candidates.are_left(settings)


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available(), reason="timed on a GPU")
@pytest.mark.skipif(not hasattr(InductorChoices, "override_best_choice"), reason="torch before 2.13 asks for choices otherwise")
@pytest.mark.parametrize("chosen", ["ours", "the quickest"])
def test_a_layer_under_max_autotune_on_the_gpu(chosen, monkeypatch):
    torch.manual_seed(0)
    torch._dynamo.reset()
    x, w, bias = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.1 for shape in ((4, 256, 512), (512, 512), (512,)))
    stack = torch.randn(4, 512, 128, device="cuda", dtype=torch.bfloat16) * 0.1
    w.requires_grad_()
    found = []

    def f(x):
        return F.gelu(F.linear(F.linear(x, w, bias), w)) @ stack       # addmm, mm with an epilogue, bmm

    def best(self, best_choice, timings):
        found.append({one.name: time for one, time in timings.items()})
        ours = next((one for one in timings if one.name.startswith("mimw")), best_choice)
        return ours if chosen == "ours" else best_choice

    monkeypatch.setattr(InductorChoices, "override_best_choice", best)
    expected = f(x)
    (wanted, ) = torch.autograd.grad(expected.float().square().sum(), w)
    with inductor.enable(allow=("mm", "addmm", "bmm")), config.patch(force_disable_caches=True):
        y = torch.compile(f, fullgraph=True, mode="max-autotune-no-cudagraphs")(x)
        (ours, ) = torch.autograd.grad(y.float().square().sum(), w)
    names = {name for one in found for name in one}
    print(found)        # pytest -s shows the times
    assert {"mimw_addmm", "mimw_bmm"} <= names and names - {"mimw_addmm", "mimw_matmul", "mimw_bmm"}
    torch.testing.assert_close(y, expected, rtol=2e-2, atol=2e-2)
    assert (ours - wanted).float().norm() < 2e-2 * wanted.float().norm()
