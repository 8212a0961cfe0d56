"""Scripts with the usual host code of Triton's tutorials end well without a GPU; their times are predicted, and say so."""

import csv
import re
from functools import partial
from pathlib import Path

import pytest

from mimw.testing import gpu_available
from tests import processes

pytest.importorskip("torch", reason="tutorials make their tensors with torch")
pytestmark = pytest.mark.skipif(gpu_available(), reason="there is a GPU, which runs and measures them")

SCRIPTS = Path(__file__).with_name("scripts")
mimw = partial(processes.mimw, torch=True)


def _run(name, *words, bench="0", status=0, **environment):
    run = mimw("run", "--bench", bench, str(SCRIPTS / f"{name}.py"), *words, **environment)
    assert run.returncode == status, run.stderr
    return run


def _columns(text, heading):
    """The numbers of the table under a heading, by row."""
    lines = text[text.index(heading):].splitlines()[3:]
    rows = lines[:next(number for number, line in enumerate(lines) if " rows" in line)]
    return [[float(one.replace(",", "")) for one in re.findall(r"[\d.,]+", row)] for row in rows]


def test_vector_add():
    run = _run("vector_add", bench="0.01")
    assert run.stdout.startswith("largest difference: 0.0\nvector-add-performance: predicted for NVIDIA H200, not measured\n")
    assert run.stdout.endswith("1 of 16 rows, within 0.01 s (--bench SECONDS). Not timed: Torch: launches no kernel of mimw. "
                               "No plot is drawn.\n")
    (size, rate), = _columns(run.stdout, "vector-add")
    assert size == 4096 and 5 < rate < 30
    assert run.stderr == ""


def test_fused_softmax_launches_the_compiled_kernel():
    run = _run("fused_softmax", "300", "781", bench="0.01")
    assert run.stdout.startswith("softmax matches torch\nsoftmax-performance: predicted for NVIDIA H200, not measured\n")
    assert "Not timed: Torch: launches no kernel of mimw. Not timed: Naive Softmax: launches no kernel of mimw." in run.stdout
    assert run.stderr == ""


def test_matrix_multiplication_in_fp16_and_fp8():
    run = _run("matrix_multiplication", bench="0.01")
    assert run.stdout.startswith("fp16 matches\nfp8 matches\n")
    for dtype in ("fp16", "fp8"):
        (_, _, _, tflops), = _columns(run.stdout, f"matmul-performance-{dtype}: predicted for NVIDIA H200")
        assert 1 < tflops < 20


def test_low_memory_dropout():
    assert _run("low_memory_dropout").stdout == "kept: True\nthe same seed drops the same elements\n"


def test_layer_norm_with_its_backward_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = _run("layer_norm", "37", "1024", bench="0.01")
    assert run.stdout.startswith("y, dx, dw and db match torch\nlayer-norm-backward: predicted for NVIDIA H200, not measured\n")
    header, row = csv.reader((tmp_path / "layer-norm-backward.csv").read_text().splitlines())
    assert header == ["N", "Triton (GB/s), predicted"] and row[0] == "1024" and 100 < float(row[1]) < 4800


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_fused_attention_with_its_gradients(target, tmp_path, monkeypatch):
    """Through host descriptors, and through pointers where the chip has none."""
    monkeypatch.chdir(tmp_path)
    run = _run("fused_attention", "1", "1", "128", "64", MIMW_TARGET=target)
    assert run.stdout.startswith("attention and its gradients match torch\n")
    assert "-d64-fwd-causal=True: left out, since it has 0 s (--bench SECONDS, MIMW_BENCH)\n" in run.stdout


def test_grouped_gemm():
    assert _run("grouped_gemm", "256", "128", "128").stdout.startswith("all products match torch\ngroup-gemm-performance: left out")


def test_persistent_matmul_under_proton():
    run = _run("persistent_matmul", "--size", "256", "-K", "64", "--reps", "1000")
    assert run.stdout.count("PASSED") == 6 and "FAILED" not in run.stdout
    profile = run.stdout[run.stdout.index("matmul: predicted for NVIDIA H200, not measured"):]
    assert re.findall(r"(\w+) \[M=256, N=256, K=64\] +(\d+)", profile) == [
        (name, "1000") for name in ("matmul_kernel", "matmul_kernel_persistent", "matmul_kernel_tma_persistent")]
    assert "launches are predicted for its profile and not run" in run.stderr


def test_a_session_that_is_disabled_is_none(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_PLUS_ONE + "import triton.profiler as proton\nproton.start('a')\nplus_one[(1, )](x, B=128)\n"
                      "proton.finalize()\nprint(x.sum().item())\n")
    assert mimw("run", str(script), TRITON_PROTON_DISABLE="1").stdout == "128.0\n"
    assert mimw("run", str(script), TRITON_PROTON_DISABLE="0").stdout == "0.0\n"


def test_the_decorator_of_proton_and_its_scopes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(_PLUS_ONE + """
import triton.profiler as proton
import triton.profiler.viewer as viewer
@proton.profile(name="steps", hook="triton")
def steps():
    with proton.scope("a", {"flops": 1.0}):
        for _ in range(3):
            plus_one[(1, )](x, B=128)
    products = [x @ x, x @ x]
    products[0] += 1
    return products[0], products[1], x @ x
print([one.item() for one in steps()])
viewer.print_tree(*viewer.parse(["time/ms"], "steps.hatchet"))
try:
    viewer.parse(["time/ms"], "other.hatchet")
except FileNotFoundError as error:
    print(error)
""")
    run = mimw("run", str(script))
    assert run.returncode == 0, run.stderr
    first, heading, _, _, row, last = run.stdout.splitlines()
    assert heading.startswith("steps: predicted for NVIDIA H200, not measured") and row.split()[:2] == ["plus_one", "3"]
    assert first == "[1.0, 1.0, 0.0]" and last.startswith("no session 'other' of proton was finalized")


_PLUS_ONE = """
import torch, triton, triton.language as tl
@triton.jit
def plus_one(x, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(x + at, tl.load(x + at) + 1)
x = torch.zeros(128)
"""

_BENCHES = _PLUS_ONE + """
from triton.testing import do_bench, do_bench_cudagraph
def launch():
    plus_one[(1, )](x, B=128)
for _ in range(2):
    one = do_bench(launch)
print(one, do_bench(launch, quantiles=[0.5, 0.2, 0.8]) == [one] * 3, do_bench(launch, return_mode="all") == [one],
      do_bench(lambda: (launch(), launch())) == 2 * one, x.sum().item())
print(do_bench_cudagraph(lambda: x + x))
"""


def test_do_bench_predicts_and_says_so(tmp_path):
    (tmp_path / "script.py").write_text(_BENCHES)
    run = mimw("run", str(tmp_path / "script.py"))
    time, *rest = run.stdout.split()
    assert 0.004 < float(time) < 0.006 and rest == ["True", "True", "True", "0.0", "nan"]
    said = run.stderr.splitlines()
    assert said[0] == f"mimw: script.py:13: do_bench: predicted for NVIDIA H200, not measured: plus_one {1000 * float(time):.1f} us"
    assert said[-1] == ("mimw: script.py:16: do_bench_cudagraph: no time, so nan: it launches no kernel of mimw, and work of torch "
                        "is not predicted")
    run = mimw("run", "--target", "sm_120a", str(tmp_path / "script.py"))
    assert "no time, so nan: plus_one cannot be predicted: there is no cost model of sm_120a" in run.stderr and run.returncode == 0


_CUDA = _PLUS_ONE + """
host = torch.zeros(128)
x, y = host.cuda(), torch.zeros(128, device="cuda:0")
assert x.is_cuda and not torch.cuda.is_available()
before = x.cpu()
with torch.cuda.stream(torch.cuda.Stream()):
    plus_one[(1, )](x, B=128)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
plus_one[(1, )](y, B=128)
end.record()
torch.cuda.synchronize()
assert x.device == torch.device("cuda") and x.device == torch.device("cuda", 0) and torch.device("cuda:0").type == "cpu"
with torch.cuda.device(0):
    assert not torch.cuda.is_current_stream_capturing()
print(host.sum().item(), before.sum().item(), x.sum().item(), y.sum().item(), torch.ones(2, device=torch.device("cuda")).device)
print(start.elapsed_time(end))
"""


def test_tensors_on_cuda_are_the_cpus(tmp_path):
    (tmp_path / "script.py").write_text(_CUDA)
    run = mimw("run", str(tmp_path / "script.py"))
    assert run.stdout == "0.0 0.0 128.0 128.0 cpu\nnan\n"
    assert run.stderr.startswith("mimw: torch.cuda.Event.elapsed_time is nan: launches are simulated")
    assert run.stderr.count("\n") == 1


def test_a_limit_that_is_no_number(tmp_path):
    (tmp_path / "script.py").write_text("")
    run = mimw("run", "--bench", "soon", str(tmp_path / "script.py"))
    assert run.returncode == 1 and "MIMW_BENCH is 'soon'" in run.stderr and "0 leaves benchmarks out" in run.stderr
