"""A mixture of experts over several ranks: against all experts on one, routings, shapes and types, opcheck, fakes, errors."""

import sys

import pytest

torch = pytest.importorskip("torch", reason="operators of several GPUs need torch")

from mimw import ops  # noqa: E402
from mimw.errors import RanksDisagree  # noqa: E402
from mimw.ops.distributed import moe, moe_combine, moe_dispatch, moe_dispatch_rows, moe_experts  # noqa: E402
from mimw.ops.distributed.launching import name_of  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

from .test_launching import OnAGpu  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
EXPERTS, HIDDEN, INNER, K = 4, 32, 16, 2


def tokens(rank, count):
    random = torch.Generator().manual_seed(rank)
    ids = torch.stack([torch.randperm(EXPERTS, generator=random)[:K] for _ in range(count)]) if count else torch.zeros(0, K).long()
    return torch.randn(count, HIDDEN, generator=random), ids, torch.rand(count, K, generator=random)


def test_as_with_all_experts_on_one_gpu():
    def work(rank):
        random = torch.Generator().manual_seed(9)
        gate_up = torch.randn(EXPERTS, 2 * INNER, HIDDEN, generator=random) / 6
        down = torch.randn(EXPERTS, HIDDEN, INNER, generator=random) / 4
        x, ids, weights = tokens(rank, 3 + rank)
        mine = slice(2 * rank, 2 * rank + 2)
        y = moe(x, gate_up[mine], down[mine], ids, weights, max_tokens=4)
        error = (y - ops.moe(x, gate_up, down, ids, weights)).abs().max()
        with pytest.raises(RuntimeError, match="w_gate_up is 2 x 32 x 32; for w_down 4 x 32 x 16 it must be 4 x"):
            moe(x, gate_up[mine], down, ids, weights, max_tokens=4)
        return tuple(y.shape), float(error) < 1e-5

    assert at_ranks(2, work) == [((3, HIDDEN), True), ((4, HIDDEN), True)]


def test_rows_scales_and_the_way_back():
    """Bytes of fp8 with scales; identity experts give the weighted sums of the rows themselves."""
    def work(rank):
        x, ids, weights = tokens(rank, 3 * rank)
        ids[:1, 1] = -1
        quantised, scale = x.to(torch.float8_e4m3fn), torch.rand(len(x), 4) + rank
        rows, ends, scales, handle = moe_dispatch(quantised, ids, EXPERTS, max_tokens=3, scale=scale)
        y = torch.where(torch.arange(len(rows))[:, None] < ends[-1], rows.float() * scales[:, :1], float("nan"))
        out = moe_combine(y, handle, weights)
        weights = torch.where(ids < 0, 0, weights)
        expected = quantised.float() * scale[:, :1] * weights.sum(1, keepdim=True)
        return tuple(rows.shape), rows.dtype, torch.allclose(out, expected, atol=1e-5), int(ends[-1])

    found = at_ranks(2, work)
    assert [one[:3] for one in found] == [((12, HIDDEN), torch.float8_e4m3fn, True)] * 2 and sum(one[3] for one in found) == 5


def test_weights_that_came_with_the_tokens():
    """The bits of weights that are sent, of ranks with other numbers of tokens; without weights an error."""
    def work(rank):
        x, ids, weights = tokens(rank, 3 * rank)
        rows, ends, _, handle = moe_dispatch(x, ids, EXPERTS, max_tokens=3)
        y = torch.where(torch.arange(len(rows))[:, None] < ends[-1], rows * 2, float("nan"))
        with pytest.raises(ValueError, match="no weights are given, and none came with the tokens"):
            moe_combine(y, handle._replace(weights=None))
        everyones = torch.full((2, 3, K), float("nan"))
        for one in range(2):
            everyones[one, :3 * one] = tokens(one, 3 * one)[2]
        came = handle._replace(weights=everyones)
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        args = y, came.places, ids, everyones, EXPERTS, name_of()
        checked = torch.library.opcheck(torch.ops.mimw.moe_combine, args, test_utils=tests)
        with pytest.raises(RuntimeError, match="weights is 2 x 2 x 2"):
            moe_combine(y, handle, everyones[:, :2])
        return torch.equal(moe_combine(y, came), moe_combine(y, handle, weights)), {*checked.values()}

    assert at_ranks(2, work) == [(True, {"SUCCESS"})] * 2


def test_rows_that_stay_where_they_come():
    """Their lists give what `moe_dispatch` copies; experts that read them by number give what experts on one GPU do."""
    def work(rank):
        random = torch.Generator().manual_seed(9)
        gate_up = torch.randn(EXPERTS, 2 * INNER, HIDDEN, generator=random) / 6
        down = torch.randn(EXPERTS, HIDDEN, INNER, generator=random) / 4
        x, ids, weights = tokens(rank, 3 * rank)
        mine = slice(2 * rank, 2 * rank + 2)
        scale = torch.rand(len(x), 4)
        rows, ends, scales, _ = moe_dispatch(x, ids, EXPERTS, max_tokens=3, scale=scale)
        found = moe_dispatch_rows(x, ids, EXPERTS, max_tokens=3, scale=scale)
        listed = found.sources[:ends[-1]]
        assert torch.equal(found.ends, ends) and torch.equal(found.rows[listed], rows[:ends[-1]])
        assert torch.equal(found.scale[listed], scales[:ends[-1]])
        given = moe_dispatch_rows(x, ids, EXPERTS, max_tokens=3, block=128)
        args = given.rows, given.ends, gate_up[mine], down[mine], 128, given.sources
        y = moe_combine(moe_experts(*args), given.handle, weights)
        error = float((y - ops.moe(x, gate_up, down, ids, weights)).abs().max()) if len(x) else 0.0
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        checked = torch.library.opcheck(torch.ops.mimw.moe_experts, (*args[:4], args[5], 128), test_utils=tests)
        sent = x, ids, None, EXPERTS, 3, 1, name_of()
        checked |= torch.library.opcheck(torch.ops.mimw.moe_dispatch_rows, sent, test_utils=tests)
        with pytest.raises(RuntimeError, match="block is 0; blocks have one row at least"):
            moe_dispatch_rows(x, ids, EXPERTS, block=0)
        with pytest.raises(RuntimeError, match="block is 128, sources is 12 of torch.int32, held is 6 and listed"):
            moe_experts(*args[:-1], found.sources)
        return error < 1e-5, {*checked.values()}

    assert at_ranks(2, work) == [(True, {"SUCCESS"})] * 2


def test_experts_read_rows_by_number():
    """The kernels that a GPU runs: rows from anywhere, lists that are not full."""
    random = torch.Generator().manual_seed(1)
    x, gate_up, down = (torch.randn(*shape, generator=random).bfloat16() / 8 for shape in ((40, 64), (2, 256, 64), (2, 64, 128)))
    sources, ends = torch.full((384, ), 40, dtype=torch.int32), torch.tensor([128, 256], dtype=torch.int32)
    listed = torch.cat([torch.arange(30), torch.arange(128, 150)])
    sources[listed] = torch.randint(0, 40, (52, ), generator=random).int()
    y = moe_experts(x, ends, gate_up, down, 128, sources)[listed]
    expert = (listed >= 128).long()
    gate, up = torch.einsum("rk,rnk->rn", x[sources[listed].long()].float(), gate_up[expert].float()).chunk(2, 1)
    inner = (torch.nn.functional.silu(gate) * up).bfloat16().float()
    torch.testing.assert_close(y.float(), torch.einsum("rk,rnk->rn", inner, down[expert].float()), atol=1e-3, rtol=2e-2)


def test_experts_of_rows_in_blocks():
    """The kernels that a GPU runs, of rows that lie by expert: as many rows come out as go in."""
    random = torch.Generator().manual_seed(1)
    x, gate_up, down = (torch.randn(*shape, generator=random).bfloat16() / 8 for shape in ((48, 64), (2, 256, 64), (2, 64, 128)))
    ends = torch.tensor([16, 32], dtype=torch.int32)
    y = moe_experts(x, ends, gate_up, down, 16)
    expert = (torch.arange(32) >= 16).long()
    gate, up = torch.einsum("rk,rnk->rn", x[:32].float(), gate_up[expert].float()).chunk(2, 1)
    inner = (torch.nn.functional.silu(gate) * up).bfloat16().float()
    assert y.shape == (48, 64)
    torch.testing.assert_close(y[:32].float(), torch.einsum("rk,rnk->rn", inner, down[expert].float()), atol=1e-3, rtol=2e-2)
    torch.library.opcheck(torch.ops.mimw.moe_experts, (x, ends, gate_up, down, None, 16), test_utils=("test_faketensor", ))


def test_what_a_recorded_graph_fills_is_not_kept_for_others(monkeypatch):
    module, rows = sys.modules["mimw.ops.distributed.moe_experts"], torch.zeros(0, 8).as_subclass(OnAGpu)
    monkeypatch.setattr(module, "_PLANS", type(module._PLANS)(module._plan))
    for recorded in True, False:
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda recorded=recorded: recorded)
        module._run(rows, torch.zeros(1, dtype=torch.int32), torch.zeros(1, 16, 8), torch.zeros(1, 8, 8), None, 16)
        assert len(module._PLANS) == 1 - recorded


def test_opcheck_and_fakes():
    def work(rank):
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        x, ids, weights = tokens(rank, 2)
        sent = torch.library.opcheck(torch.ops.mimw.moe_dispatch, (x, ids, None, EXPERTS, 2, 8, 1, name_of()), test_utils=tests)
        rows, _, _, handle = moe_dispatch(x, ids, EXPERTS)
        back = (rows, handle.places, ids, weights, EXPERTS, name_of())
        came = torch.library.opcheck(torch.ops.mimw.moe_combine, back, test_utils=tests)
        with pytest.raises(NotImplementedError, match="no derivative"):
            moe_dispatch(x.requires_grad_(), ids, EXPERTS).rows.sum().backward()
        return {*sent.values(), *came.values()}

    assert at_ranks(2, work) == [{"SUCCESS"}] * 2


def test_what_is_refused():
    def work(rank):
        x, ids, weights = tokens(0, 3)
        for error, match, wrong in (
                (RuntimeError, "num_experts is 3 and ranks is 2; experts must be a multiple of", lambda: moe_dispatch(x, ids, 3)),
                (RuntimeError, "tokens is 3 and max_tokens is 2; there are more tokens than",
                 lambda: moe_dispatch(x, ids, 4, max_tokens=2)),
                (RuntimeError, "expert_ids is 2 x 2; for x 3 x 32 it must be 3 x k, .tokens, k.",
                 lambda: moe_dispatch(x, ids[:2], 4)),
                (RuntimeError, "columns is 3 and x is 3 x 3 of torch.float32; a row must be a",
                 lambda: moe_dispatch(x[:, :3], ids, 4)),
                (RuntimeError, "it must have 2 dimensions", lambda: moe_dispatch(x[0], ids, 4)),
                (NotImplementedError, "expert_ids is torch.float32", lambda: moe_dispatch(x, ids.float(), 4)),
                (RuntimeError, "y has a row for each", lambda: moe_combine(x, moe_dispatch(x, ids, 4).handle, weights)),
                (NotImplementedError, "y is torch.int32",
                 lambda: moe_combine(torch.zeros(12, 4, dtype=torch.int32), moe_dispatch(x, ids, 4).handle, weights))):
            with pytest.raises(error, match=match):
                wrong()
        nothing = moe_dispatch(x[:0], ids[:0], 4)
        with pytest.raises(RanksDisagree, match="the inputs of moe_dispatch"):
            moe_dispatch(x, ids, 4, max_tokens=3 + rank)
        return nothing.rows.shape[0], nothing.ends.tolist(), moe_combine(nothing.rows, nothing.handle, weights[:0]).shape[0]

    assert at_ranks(2, work) == [(0, [0, 0], 0)] * 2
