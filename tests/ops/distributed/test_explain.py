"""`ops.explain` of the operators of several GPUs: by one rank alone, with what it would launch when it is really called."""

import threading

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from mimw import ops  # noqa: E402
from mimw.errors import NotSymmetric  # noqa: E402
from mimw.ops import distributed as several  # noqa: E402
from mimw.ops.launching import Launch  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

from .threads import MODULES, on_gpu, ranks_in_threads  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
bf16 = torch.bfloat16


def zeros(*shape, dtype=bf16):
    return torch.zeros(shape, dtype=dtype, device="meta" if dtype is bf16 else "cpu")


IDS, WEIGHTS = zeros(64, 2, dtype=torch.int64), zeros(64, 2, dtype=torch.float32)
CASES = {
    "all_reduce": ((zeros(64, 64), ), {}, ["collectives"]),
    "all_reduce_": ((zeros(64, 64), ), {}, ["collectives"]),
    "all_gather": ((zeros(64, 64), ), {}, ["collectives"]),
    "reduce_scatter": ((zeros(64, 64), ), {}, ["collectives"]),
    "all_gather_matmul": ((zeros(512, 64), zeros(64, 128)), {}, ["all_gather_gemm"]),
    "matmul_reduce_scatter": ((zeros(512, 64), zeros(64, 128)), {}, ["gemm_reduce_scatter"]),
    "matmul_all_reduce": ((zeros(512, 64), zeros(64, 128)), {}, ["gemm_reduce_scatter"]),
    "ring_attention": ((zeros(1, 2, 256, 64), ) * 3, {}, ["ring_attention"]),
    "all_to_all": ((zeros(64, 64), ), {}, ["moe_dispatch"]),
    "moe_dispatch": ((zeros(64, 128), IDS, 8), {}, ["moe_dispatch"]),
    "moe_dispatch_rows": ((zeros(64, 128), IDS, 8), {"block": 64}, ["moe_dispatch"]),
    "moe": ((zeros(64, 128), zeros(4, 256, 128), zeros(4, 128, 128), IDS, WEIGHTS), {}, ["moe_dispatch", "moe", "moe_combine"]),
}


@pytest.fixture
def threads():
    with ranks_in_threads(2) as found:
        yield found


def alone(threads, function):
    """Of rank 0; the other rank does not come."""
    return threads(lambda rank: function() if rank == 0 else None)[0]


@pytest.mark.parametrize("name", CASES)
def test_one_rank_asks_alone(threads, name):
    given, options, kernels = CASES[name]
    said = alone(threads, lambda: ops.explain(getattr(several, name), *given, group="0", target="sm_90a", **options))
    assert list(said.kernels) == kernels and said.operator == name and said.target == "sm_90a"
    assert all(one.grid and one.configuration and one.why for one in said.launches)
    assert threads.launched == [] and [world.kept for world in threads.worlds] == [{}, {}], "nothing is launched, made or kept"


@pytest.mark.parametrize("name, step", [("all_gather_matmul", "all_gather_into_tensor of bf16 (512, 63)"),
                                        ("matmul_reduce_scatter", "reduce_scatter_tensor of bf16 (512, 128)"),
                                        ("matmul_all_reduce", "all_reduce of bf16 (512, 128)")])
def test_a_product_that_the_kernel_does_not_take(threads, name, step):
    """NCCL is not called: torch's collective is told."""
    run, kernel = getattr(several, name), {"all_gather_matmul": "all_gather_gemm"}.get(name, "gemm_reduce_scatter")
    said = alone(threads, lambda: ops.explain(run, zeros(512, 63), zeros(63, 128), group="0"))
    assert said.kernels == ("plain_matmul", ) and step in said.torch
    assert f"{kernel}: K and N must be multiples of 8: rows of 16 bytes, for TMA" in said.declined
    said = alone(threads, lambda: ops.explain(run, zeros(512, 64), zeros(64, 128), group="0", target="sm_80"))
    assert f"{kernel}: the chip is sm_80, and it is for sm_90" in said.declined and said.kernels == ("plain_matmul", )
    if name == "all_gather_matmul":
        said = alone(threads, lambda: ops.explain(run, zeros(3, 8), zeros(8, 128), group="0"))
        assert any("are no whole number of copies" in line for line in said.declined) and "all_gather_gemm" not in said.kernels


def test_errors_are_those_of_the_call(threads):
    def explained(run, *given, **options):
        try:
            alone(threads, lambda: ops.explain(run, *given, group="0", **options))
        finally:
            threads.failed.clear()
            threads.meet.reset()

    with pytest.raises(RuntimeError, match="rows must be a multiple of the ranks"):
        explained(several.reduce_scatter, zeros(63, 64))
    with pytest.raises(NotSymmetric, match="has no data here"):
        explained(several.all_reduce, zeros(64, 64), symmetric=True)


def _in_a_real_group(rank):
    """Rank 1 asks alone, of a group of processes without GPUs; then both call."""
    x = torch.ones(4, 4)
    if rank == 1:
        said = ops.explain(several.all_reduce, x, target="sm_90a")
        assert said.line == "all_reduce: by collectives" and "measured row ('all_reduce', 2" in said.launches[0].why
    assert torch.equal(several.all_reduce(x), 2 * x)


def test_in_a_group_of_processes():
    at_ranks(2, _in_a_real_group)


def test_what_is_explained_is_what_is_launched(threads, monkeypatch):
    """Each rank's launches, with their constants; the first call brings rows by the kernel, a later one by copy engines."""
    launched, lock, run = [], threading.Lock(), Launch.__call__
    of_gather = MODULES["all_gather_matmul"]._run

    def note(launch, *tensors):
        with lock:
            launched.append((launch.package, launch.grid, {name: str(value) for name, value in launch.options.items()}))
        return run(launch, *tensors)

    monkeypatch.setattr(Launch, "__call__", note)
    a, b = torch.ones(128, 64, dtype=bf16), torch.ones(64, 8, dtype=bf16)

    def explained():
        launched.clear()
        alone(threads, lambda: ops.explain(several.all_gather_matmul, a, b, group="0"))
        return list(launched)

    def called():
        launched.clear()
        threads(lambda rank: of_gather(on_gpu(a), on_gpu(b), "0"))
        return launched[::2]                # two ranks, which launch the same

    first, then = (explained(), called()), (explained(), called())
    assert first[0] == first[1] and then[0] == then[1] and first[0] != then[0]
    assert [package for package, *_ in then[0]] == ["all_gather_gemm"] * 2
