"""Products over several GPUs as operators, at ranks of the CPU: values, gradients, shapes that the kernels do not take, errors."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from mimw import ops  # noqa: E402
from mimw.ops.distributed import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter, operands  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


def drawn(rank, *shape, dtype=torch.bfloat16):
    """The same at all ranks for a rank's number."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(rank)).to(dtype)


def close(found, expected):
    found, expected = found.float(), expected.float()
    return found.shape == expected.shape and bool((found - expected).abs().max() <= 0.02 * expected.abs().max())


@pytest.mark.parametrize("rows, k, n, dtype", [(72, 64, 40, torch.bfloat16), (3, 20, 7, torch.float16)])
def test_values(rows, k, n, dtype):
    """Of the second shape TMA can read nothing, of the first not what rank 1 has: strides and addresses may differ by rank."""
    def work(rank):
        a, b = [drawn(one, rows, k, dtype=dtype) for one in range(2)], [drawn(9 + one, k, n, dtype=dtype) for one in range(2)]
        every = [drawn(20 + one, 2 * rows, k, dtype=dtype) for one in range(2)]
        total = sum(one.float() @ other.float() for one, other in zip(every, b))
        if rank:
            b[rank] = torch.nn.functional.pad(b[rank], (0, 1))[:, :-1]
            a[rank] = torch.cat([a[rank].flatten()[:1], a[rank].flatten()])[1:].view(rows, k)
        gathered = all_gather_matmul(a[rank], b[rank])
        scattered, reduced = matmul_reduce_scatter(every[rank], b[rank]), matmul_all_reduce(every[rank], b[rank])
        return (close(gathered, torch.cat(a).float() @ b[rank].float()), close(scattered, total.chunk(2)[rank]),
                close(reduced, total), gathered.dtype is dtype)

    assert at_ranks(2, work) == [(True, ) * 4] * 2


def test_what_tma_reads_where_it_lies():
    """Others are copied, so that kernels take all of a shape. A copy is contiguous, at an address that TMA takes."""
    a, b = drawn(1, 24, 16), drawn(2, 16, 24)
    apart, odd = drawn(1, 24, 24)[:, :16], drawn(1, 24, 17)[:, :16]
    moved = torch.cat([a.flatten()[:1], a.flatten()])[1:].view(24, 16)
    for x, y, packed, fits in ((a, b, True, (True, True)), (apart, b, False, (True, True)), (apart, b, True, (False, True)),
                               (odd, moved.T, False, (False, False)), (moved, a.T, True, (False, True)),
                               (a.T, b, False, (False, True))):
        assert operands.fits_tma(x, y, packed) == fits and operands.for_kernels("kernel", x, y)
        for given, found, fit in zip((x, y), operands.readable(x, y, fits), fits):
            assert (found is given) == fit and torch.equal(found, given)
            assert fit or found.is_contiguous() and found.data_ptr() % 16 == 0
    assert not operands.for_kernels("kernel", a[:, :7], b[:7]) and not operands.for_kernels("kernel", a[:0], b)


def test_gradients():
    """Against the derivatives of the sum of all ranks' results, each weighted by numbers of that rank."""
    def work(rank):
        a, b = [drawn(one, 8, 16) for one in range(2)], [drawn(9 + one, 16, 24) for one in range(2)]
        weights = [drawn(30 + one, 16, 24) for one in range(2)]
        mine = a[rank].clone().requires_grad_(), b[rank].clone().requires_grad_()
        (all_gather_matmul(*mine) * weights[rank]).sum().backward()
        of_a = sum(weight.float() @ one.float().T for weight, one in zip(weights, b)).chunk(2)[rank]
        checks = [close(mine[0].grad, of_a), close(mine[1].grad, torch.cat(a).float().T @ weights[rank].float())]
        tall = [drawn(40 + one, 16, 16) for one in range(2)]
        mine = tall[rank].clone().requires_grad_(), b[rank].clone().requires_grad_()
        (matmul_reduce_scatter(*mine) * weights[rank][:8]).sum().backward()
        whole = torch.cat([weight[:8] for weight in weights]).float()
        return [*checks, close(mine[0].grad, whole @ b[rank].float().T), close(mine[1].grad, tall[rank].float().T @ whole)]

    assert at_ranks(2, work) == [[True] * 4] * 2


def test_one_rank_multiplies_and_opcheck_finds_nothing():
    def work(rank):
        a, b = drawn(1, 8, 16), drawn(2, 16, 8)
        for operator in (torch.ops.mimw.all_gather_matmul, torch.ops.mimw.matmul_reduce_scatter, torch.ops.mimw.matmul_all_reduce):
            torch.library.opcheck(operator.default, (a, b, torch.distributed.group.WORLD.group_name))
        compiled = torch.compile(lambda a, b: matmul_reduce_scatter(a + 1, b) * 2, fullgraph=True, backend="eager")
        return close(compiled(a, b), ops.matmul(a + 1, b) * 2)

    assert at_ranks(1, work) == [True]


def test_what_does_not_fit_is_named():
    def work(rank):
        for shapes, said in (((3, 8), (8, 8)), "rows is 3 and ranks is 2; the rows of a cannot be scattered over"), \
                (((4, 8), (16, 8)), "b is 16 x 8; for a 4 x 8 it must be 8 x n, .k, n."), (((8, ), (8, 8)), "1 dimensions"):
            with pytest.raises(RuntimeError, match=said):
                matmul_reduce_scatter(*(torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes))
        with pytest.raises(NotImplementedError, match="a is torch.float32; it may be torch.bfloat16, torch.float16. For"):
            all_gather_matmul(torch.zeros(4, 8), torch.zeros(8, 8))
        one = torch.full((1, 64), rank + 1, dtype=torch.bfloat16)
        return all_gather_matmul(one, torch.ones(64, 8, dtype=torch.bfloat16))[:, 0].tolist()

    assert at_ranks(2, work) == [[64.0, 128.0]] * 2     # a single row at each rank fits
