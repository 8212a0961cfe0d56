"""The library's packages: their host code launches what the library launches, argument by argument; on a GPU the results.

Input: tensors of the CPU, and where a test is marked `gpu` a package in a process without mimw. For example:

    pytest --forked 0 tests/integrations/test_hub.py -k rms_norm
    pytest -m gpu --forked 0 tests/integrations/test_hub.py
"""

import json
import os
import subprocess
import sys

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
        fields = getattr(value, "_fields", None)
        items = {name: value} if fields is None else {f"{name}_{field}": getattr(value, field) for field in fields}
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


def test_rows_that_begin_anywhere_are_copied():
    x = torch.arange(3 * 2 * 333, dtype=torch.float32).to(BF16).view(3, 666)
    forms, _ = recorded(hub.swiglu(), *x.chunk(2, -1))
    gate, up = (forms.given[name] for name in ("gate_ptr", "up_ptr"))
    assert gate.data_ptr() == x.data_ptr() and up.data_ptr() % 16 == 0 and torch.equal(up, x[:, 333:])
    wide, weight = torch.empty(3, 65, dtype=BF16), torch.empty(65, dtype=BF16)
    forms, _ = recorded(hub.rms_norm(), wide[:, :64], weight[1:])
    assert forms.given["shape_x"] == 64 and forms.given["w_ptr"].data_ptr() % 16 == 0


@pytest.mark.parametrize("shape", [(3, 5, 4096), (7, 336), (9, )])
def test_swiglu(shape):
    gate, up = (torch.empty(shape) for _ in range(2)) if len(shape) == 1 else torch.empty(*shape[:-1], 2 * shape[-1]).chunk(2, -1)
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
    (hub.rms_norm, ((4, 64), (32, )), r"weight \(32,\); weight is to be as long"),
    (hub.swiglu, ((4, 8), (4, 9)), "swiglu: gate is"),
    (hub.attention, ((1, 3, 8, 64), (1, 2, 8, 64), (1, 2, 8, 64)), "2 heads of keys do not divide 3"),
])
def test_what_the_host_refuses(plan, arguments, text):
    with pytest.raises(RuntimeError, match=text):
        recorded(plan(), *(torch.empty(shape, dtype=BF16) for shape in arguments))


@pytest.mark.parametrize("plan, shapes", [
    (hub.gemm, ((8, 16), (16, 8))), (hub.rms_norm, ((4, 64), (64, ))), (hub.swiglu, ((4, 8), (4, 8))),
    (hub.attention, ((1, 2, 8, 64), ) * 3)], ids=["gemm", "rms_norm", "swiglu", "attention"])
def test_the_host_refuses_tensors_of_two_types(plan, shapes):
    *first, last = (torch.empty(shape, dtype=BF16) for shape in shapes)
    with pytest.raises(RuntimeError, match="bfloat16.* and .*float16.*one type"):
        recorded(plan(), *first, last.half())


CASES = {
    "gemm": [((1000, 520), (520, 776)), ((64, 64), (64, 64)), ((4096, 1024), (1024, 4096))],
    "rms-norm": [((33, 4096), (4096, )), ((2, 9, 528), (528, ))],
    "swiglu": [((33, 4096), (33, 4096)), ((5, 333), (5, 333))],
    "attention": [((2, 8, 300, 128), (2, 2, 300, 128), (2, 2, 300, 128), True),
                  ((1, 4, 70, 128), (1, 1, 130, 128), (1, 1, 130, 128), True),
                  ((1, 4, 70, 128), (1, 1, 130, 128), (1, 1, 130, 128), False)],
    "attention-of-64": [((1, 8, 70, 64), (1, heads, 130, 64), (1, heads, 130, 64), causal)
                        for heads in (8, 1) for causal in (True, False)],
}
# What runs in a process of its own, on a folder and its cases: prints an error for each, and the refusals of a call.
PROGRAM = """
import importlib.util, json, sys
sys.modules["mimw"] = sys.modules["triton"] = None          # importing either is an error
import torch
from torch.nn.functional import rms_norm, silu

def by_torch(name, *args):
    if name == "attention":
        q, k, v, causal = args
        k, v = (one.repeat_interleave(q.shape[1] // one.shape[1], 1) for one in (k, v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if causal:
            later = torch.ones_like(scores[0, 0]).triu(1 + k.shape[2] - q.shape[2]).bool()
            scores = scores.masked_fill(later, -torch.inf)
        return scores.softmax(-1) @ v, scores.logsumexp(-1)
    return ({"gemm": torch.matmul, "swiglu": lambda gate, up: silu(gate) * up,
             "rms-norm": lambda x, weight: rms_norm(x, weight.shape, weight, 1e-6)}[name](*args), )

folder, name, cases, dtypes = *sys.argv[1:3], json.loads(sys.argv[3]), json.loads(sys.argv[4])
spec = importlib.util.spec_from_file_location("package", folder + "/build/torch-universal/__init__.py")
sys.modules["package"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
function = getattr(module, name.replace("-", "_"))
torch.manual_seed(0)
for dtype in (getattr(torch, one) for one in dtypes):
    for case in cases:
        given = [torch.randn(one, device="cuda", dtype=dtype) if isinstance(one, list) else one for one in case]
        expected = by_torch(name, *(one.double() if torch.is_tensor(one) else one for one in given))
        side = torch.cuda.Stream()
        for way, stream in ((function, torch.cuda.current_stream()), (function, side), (torch.compile(
                lambda *args: function(*args), backend="eager", fullgraph=True), torch.cuda.current_stream())):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                found = way(*given)
            torch.cuda.synchronize()
            for one, truth in zip(found if isinstance(found, tuple) else (found, ), expected):
                print(float((one.double() - truth).norm() / truth.norm()))
for changed in (lambda one: one.to(torch.float64), lambda one: one.cpu()):
    try:
        function(*(changed(one) if torch.is_tensor(one) else one for one in given))
    except RuntimeError as error:
        print(type(error).__name__, str(error).splitlines()[0])
try:
    function(given[0].cpu(), *given[1:])
except RuntimeError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.gpu
@pytest.mark.long(but=["gemm", "rms-norm", "swiglu", "attention"])
@pytest.mark.parametrize("plan, dtypes, case", [
    pytest.param(hub.gemm, ["bfloat16", "float16"], "gemm", id="gemm"),
    pytest.param(hub.rms_norm, ["bfloat16", "float32"], "rms-norm", id="rms-norm"),
    pytest.param(hub.swiglu, ["float16", "float32"], "swiglu", id="swiglu"),
    pytest.param(lambda: hub.attention(dims=(128, ), groups=(4, )), ["bfloat16"], "attention", id="attention"),
    pytest.param(lambda: hub.attention(dims=(64, ), groups=(1, 8)), ["bfloat16"], "attention-of-64", id="attention-of-64"),
])
def test_in_a_process_without_mimw_a_package_computes_what_torch_does(plan, dtypes, case, tmp_path):
    name = plan().name
    hub_package(plan(), "sm_90a").write(tmp_path)
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / name, name, json.dumps(CASES[case]), json.dumps(dtypes)],
                          capture_output=True, text=True, env=plain, cwd=tmp_path)
    assert not done.returncode, done.stderr
    *errors, no_form, on_cpu, mixed = done.stdout.splitlines()
    assert len(errors) == 3 * len(dtypes) * len(CASES[case]) * (2 if name == "attention" else 1)
    assert all(float(one) < 5e-3 for one in errors), errors
    assert no_form == f"NoForm {name} has no form for this call:"
    assert on_cpu == f"RuntimeError {name} runs on NVIDIA GPUs (sm_90a), and its tensors are on the CPU; move them by .cuda()"
    assert mixed == f"RuntimeError {name} runs on one GPU, and its tensors are on cpu and cuda:0; move all to one"
