"""Plans that ranks make for themselves: operands that lie otherwise at a rank, shapes that come back after larger ones."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from mimw.ops.distributed import gemm_memory  # noqa: E402

from . import sequences  # noqa: E402
from .threads import MODULES, moved, on_gpu, ranks_in_threads  # noqa: E402


def test_a_shape_comes_back_after_a_larger_one_and_lies_otherwise_at_one_rank():
    """Row after row of a matrix; the first call for a shape pushes, later ones are brought by copy engines."""
    gather, reduce = MODULES["all_gather_matmul"]._run, MODULES["matmul_reduce_scatter"]._run
    with ranks_in_threads(2) as threads:
        for number, (rows, elsewhere) in enumerate(((1, False), (8, False), (1, True), (8, True))):
            call = sequences.Call(threads, 0, number)
            a, b = call.of_ranks(rows, 64), call.of_ranks(64, 8)
            total = sum(torch.cat([one, one]).float() @ other.float() for one, other in zip(a, b)).bfloat16()

            def work(rank):
                y = moved(b[rank]) if elsewhere and rank else b[rank]
                tall = on_gpu(torch.cat([a[rank], a[rank]]))
                return [torch.equal(gather(on_gpu(a[rank]), on_gpu(y), "0"), (torch.cat(a).float() @ b[rank].float()).bfloat16()),
                        torch.equal(reduce("matmul_reduce_scatter", tall, on_gpu(y), "0"), total.chunk(2)[rank]),
                        torch.equal(reduce("matmul_all_reduce", tall, on_gpu(y), "0"), total)]

            assert threads(work) == [[True] * 3] * 2, (rows, elsewhere)
        assert set(threads.launched) == {"all_gather_gemm", "open_gather", "reduce_scatter_gemm"}


def test_a_sequence(capsys, monkeypatch):
    """One that shows what is wrong where memory that products share moves when a rank plans alone."""
    monkeypatch.setattr(sequences, "CALLS", 5)
    assert sequences.main(["--seconds", "0", "--first", "6"]) == 0
    assert "1 sequences of 5 calls, 0 wrong" in capsys.readouterr().out

    def moving(world, key, sizes):
        world.kept.pop("memory of products", None)
        return gemm_memory.memory_of(world, key, sizes)

    for name in ("all_gather_matmul", "matmul_reduce_scatter"):
        monkeypatch.setattr(MODULES[name], "memory_of", moving)
    assert sequences.main(["--seconds", "0", "--first", "6"]) == 1
    told = capsys.readouterr().out
    assert "WRONG seed 6, 2 ranks: " in told and "in the last of " in told


def test_who_does_not_come_is_told():
    """A rank that raises does not leave the others waiting."""
    with ranks_in_threads(2) as threads, pytest.raises(ZeroDivisionError):
        threads(lambda rank: 1 // rank + MODULES["collectives"]._run("all_reduce", on_gpu(torch.ones(4)), "0").sum())
