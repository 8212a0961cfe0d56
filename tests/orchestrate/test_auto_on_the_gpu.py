"""`mimw.auto` on a GPU: the same bits as stock Triton and as torch, a decision by measuring that is kept, and what a launch costs
the host."""

from importlib import import_module
from time import perf_counter

import pytest
import triton
import triton.language as tl

import mimw

torch = pytest.importorskip("torch", reason="its arrays lie on a GPU")
pytestmark = pytest.mark.gpu
MODULE, ORCHESTRATING = (import_module(f"mimw.tools.orchestrate.{name}") for name in ("auto", "orchestrating"))
META = dict(BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
HOST_MICROSECONDS = 500     # what a launch may take longer than Triton's; with fifteen other tests beside it


def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, ks = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (k + ks)[None, :], mask=(rows[:, None] < M) & ((k + ks)[None, :] < K), other=0.0)
        y = tl.load(b + (k + ks)[:, None] * N + cols[None, :], mask=((k + ks)[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


PLAIN = triton.jit(gemm)


def arrays(m=1000, n=1024, k=512):
    """Whole numbers, whose sums fp32 holds in any order."""
    torch.manual_seed(0)
    a, b = (torch.randint(-4, 5, shape, device="cuda").half() for shape in ((m, k), (k, n)))
    c = torch.full((m, n), float("nan"), device="cuda")
    return (triton.cdiv(m, 128), triton.cdiv(n, 128)), (a, b, c, m, n, k), a.float() @ b.float()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.fixture
def always(monkeypatch):
    """A proved plan is taken however quick it is."""
    monkeypatch.setattr(ORCHESTRATING, "verdict", lambda best, search: (True, f"measured {best.measured:.1f} us, and asked for"))


def test_the_decision_is_by_measuring_and_the_result_is_plain_s():
    kernel = mimw.auto(gemm)
    grid, args, expected = arrays()
    kernel[grid](*args, **META)
    assert torch.equal(args[2], expected)
    assert "measured" in kernel.why(grid, *args, **META)


def test_an_orchestrated_launch_and_its_decision_in_another_process(always, monkeypatch):
    kernel = mimw.auto(gemm)
    grid, args, expected = arrays()
    kernel[grid](*args, **META)
    assert torch.equal(args[2], expected) and kernel.why(grid, *args, **META).startswith("orchestrated: measured")
    plain = torch.full_like(args[2], float("nan"))
    PLAIN[grid](*args[:2], plain, *args[3:], **META)
    assert torch.equal(args[2], plain)
    monkeypatch.setattr(MODULE, "orchestrate", lambda *given, **meta: pytest.fail("it was decided already"))
    again = mimw.auto(gemm)         # as another process would have it: nothing but the cache on disk
    args[2].fill_(float("nan"))
    again[grid](*args, **META)
    assert torch.equal(args[2], expected) and again.why(grid, *args, **META).startswith("orchestrated: measured")
    overlapping = (args[0], args[1], args[0].view(torch.float32), *args[3:])
    assert again.why(grid, *overlapping, **META).startswith("plain: ")


def test_a_captured_launch_and_what_the_others_cost_the_host(always):
    kernel = mimw.auto(gemm)
    grid, args, expected = arrays()
    kernel[grid](*args, **META)
    PLAIN[grid](*args, **META)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel[grid](*args, **META)
    args[2].fill_(float("nan"))
    graph.replay()
    assert torch.equal(args[2], expected)
    ours, plain = (_host_microseconds(lambda: one[grid](*args, **META)) for one in (kernel, PLAIN))
    print(f"host: {ours:.0f} us a launch, Triton's {plain:.0f}")
    assert ours < plain + HOST_MICROSECONDS


def _host_microseconds(launch, rounds=10, each=20):
    """The host's time for a launch: the least of some rounds, in which the GPU has little to do."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(each):
            launch()
        times.append(1e6 * (perf_counter() - start) / each)
    return min(times)
