"""The library's packages: what their host code launches is what the library launches, argument by argument; on a GPU, the results."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="operators of torch need torch")

from importlib import import_module  # noqa: E402

from mimw.export import hub_package  # noqa: E402
from mimw.integrations import hub  # noqa: E402
from mimw.integrations.hub.plans import TILES  # noqa: E402
from mimw.kernels import attention, gemm, norm, swiglu  # noqa: E402

PROGRAMS = 132
BF16 = torch.bfloat16


class Recorded:
    """Stands for the forms of a package: notes the launch of the first form whose facts are those that are asked for."""

    def __init__(self, plan):
        self.plan = plan

    @staticmethod
    def processors(device):
        return PROGRAMS

    def __call__(self, grid, select, **given):
        form = next(one for one in self.plan.forms if select.items() <= one.select.items())
        self.launch, self.grid, self.given = form.launch, tuple(grid(form.select)), given


def recorded(plan, *arguments):
    """(what was launched, the results) of a call of a package's host code."""
    host = import_module(f"mimw.integrations.hub.hosts.{plan.host.stem}")
    forms, results = Recorded(plan), host.outputs(*arguments)
    host.call(forms, results, *arguments)
    return forms, results


def by_name(kernel, args):
    """Run-time arguments by name, tuples by their items', a descriptor as the tensor that it describes; None is left out."""
    found = {}
    for name, value in zip(kernel.arg_names, args):
        items = {f"{name}_{field}": getattr(value, field) for field in value._fields} if hasattr(value, "_fields") else {name: value}
        found |= {key: getattr(one, "base", one) for key, one in items.items() if one is not None}
    return {name: value.array if hasattr(value, "array") else value for name, value in found.items()}


def same(forms, kernel, grid, args, meta):
    """The host's launch is the library's: kernel, constants, grid, and every argument, arrays by where they lie."""
    expected = by_name(kernel, args)
    assert forms.launch[0] is kernel and forms.launch[3] == meta and forms.grid == tuple(grid)
    assert forms.given.keys() == expected.keys()
    for name, value in expected.items():
        given = forms.given[name]
        if torch.is_tensor(given):
            if name != "counter":
                assert (given.data_ptr(), given.shape, given.stride(), given.dtype) == (
                    value.data_ptr(), value.shape, value.stride(), value.dtype), name
        else:
            assert given == pytest.approx(value, rel=1e-7), name


@pytest.mark.parametrize("shape, by_columns", [((4096, 512, 4096), False), ((4096, 512, 4096), True), ((100, 64, 136), False)])
def test_gemm(shape, by_columns):
    m, k, n = shape
    a, b = torch.empty(m, k, dtype=BF16), torch.empty(n, k, dtype=BF16).T if by_columns else torch.empty(k, n, dtype=BF16)
    forms, c = recorded(hub.gemm(), a, b)
    same(forms, gemm.kernel, *gemm.arguments(a, b, c, PROGRAMS, TILES[128 if m > 100 else 64]))


@pytest.mark.parametrize("shape", [(3, 100, 512), (7, 4096), (5, 1040)])
def test_rms_norm(shape):
    x, weight = torch.empty(shape, dtype=BF16), torch.empty(shape[-1], dtype=BF16)
    forms, y = recorded(hub.rms_norm(), x, weight, 1e-5)
    rows, n = x.numel() // shape[-1], shape[-1]
    chosen = norm.direct_configuration(1 << 20, n)
    same(forms, *norm.arguments(x.view(rows, n), weight, None, y.view(rows, n), centred=False, eps=1e-5, chosen=chosen))


@pytest.mark.parametrize("shape", [(3, 5, 4096), (7, 333), (9, )])
def test_swiglu(shape):
    gate, up = torch.empty(*shape[:-1], 2 * shape[-1]).chunk(2, -1)
    forms, y = recorded(hub.swiglu(), gate, up)
    gate, up, y = (one.reshape(-1, shape[-1]) for one in (gate, up, y))
    kernel, grid, args, meta = swiglu.arguments(gate, up, y)
    assert meta["BLOCK"] <= forms.launch[3]["BLOCK"]    # the package has two, and each takes shorter rows, too
    wanted = -(-shape[-1] // forms.launch[3]["BLOCK"]) * y.shape[0]
    same(forms, kernel, (wanted, ), args, forms.launch[3])


@pytest.mark.parametrize("dim, heads, seq, causal", [
    (64, (4, 4), (384, 384), True), (128, (8, 2), (1, 777), True), (128, (8, 1), (200, 130), False)])
def test_attention(dim, heads, seq, causal):
    q = torch.empty(2, heads[0], seq[0], dim, dtype=BF16)
    k, v = (torch.empty(2, heads[1], seq[1], dim, dtype=BF16) for _ in range(2))
    forms, (o, lse) = recorded(hub.attention(), q, k, v, causal, 0.1)
    chosen = attention.configuration(dim, causal)
    grid, args, meta = attention.arguments(q, k, v, o, lse, torch.zeros(1, dtype=torch.int32), PROGRAMS, causal, 0.1, chosen)
    if not causal and seq[1] % chosen.bn == 0:
        meta = forms.launch[3]      # the package's form masks the last block of keys always
    same(forms, attention.kernel, grid, args, meta)


@pytest.mark.parametrize("plan, arguments, text", [
    (hub.gemm, ((8, 16), (8, 16)), r"gemm: a is \(8, 16\)"), (hub.rms_norm, ((4, 40), (40, )), "rows have 40 elements"),
    (hub.rms_norm, ((4, 64), (32, )), r"weight \(32,\); weight is to be as long"), (hub.swiglu, ((4, 8), (4, 9)), "swiglu: gate is"),
    (hub.attention, ((1, 3, 8, 64), (1, 2, 8, 64), (1, 2, 8, 64)), "2 heads of keys do not divide 3"),
])
def test_what_the_host_refuses(plan, arguments, text):
    with pytest.raises(RuntimeError, match=text):
        recorded(plan(), *(torch.empty(shape, dtype=BF16) for shape in arguments))


CALLS = {
    "gemm": [((1000, 520), (520, 776)), ((64, 64), (64, 64))], "rms-norm": [((33, 4096), (4096, )), ((2, 9, 528), (528, ))],
    "swiglu": [((33, 4096), (33, 4096)), ((5, 333), (5, 333))],
    "attention": [((2, 8, 300, 128), (2, 2, 300, 128), (2, 2, 300, 128), True), ((1, 4, 70, 64), (1, 4, 130, 64), (1, 4, 130, 64))],
}
TRUTH = {
    "gemm": lambda a, b: a @ b, "swiglu": lambda gate, up: torch.nn.functional.silu(gate) * up,
    "rms-norm": lambda x, weight: torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6),
    "attention": lambda q, k, v, causal=False: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=True),
}


@pytest.mark.gpu
@pytest.mark.parametrize("plan", [hub.gemm, hub.rms_norm, hub.swiglu, lambda: hub.attention(groups=(1, 4))], ids=CALLS)
def test_on_a_gpu_a_package_computes_what_torch_does(plan, tmp_path, monkeypatch):
    import importlib.util
    import sys
    made = hub_package(plan(), "sm_90a")
    made.write(tmp_path)
    spec = importlib.util.spec_from_file_location(made.id, tmp_path / made.name / "build/torch-universal/__init__.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, made.id, module)
    spec.loader.exec_module(module)
    function = getattr(module, made.name.replace("-", "_"))
    torch.manual_seed(0)
    for arguments in CALLS[made.name]:
        given = [torch.randn(one, device="cuda", dtype=BF16) if isinstance(one, tuple) else one for one in arguments]
        expected = TRUTH[made.name](*(one.float() if torch.is_tensor(one) else one for one in given))
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found = function(*given)
            torch.cuda.synchronize()
            found = found[0] if isinstance(found, tuple) else found
            error = (found.float() - expected).norm() / expected.norm()
            assert error < 5e-3, (made.name, arguments, float(error))
    with pytest.raises(module.NoForm, match="has no form for this call"):
        function(*(one.double() if torch.is_tensor(one) else one for one in given))
