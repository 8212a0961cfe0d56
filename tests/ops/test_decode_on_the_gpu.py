"""`mimw.ops.attention_decode` on a GPU: many lengths, graphs whose lengths and pages change, the same bits each time."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from mimw import ops  # noqa: E402
from mimw.kernels import attention_decode as hopper  # noqa: E402
from tests.ops.test_attention_decode import CASES, normal, problem, reference  # noqa: E402

pytestmark = pytest.mark.gpu
bf16, fp16, fp32 = torch.bfloat16, torch.float16, torch.float32


def near(found, expected, allowed=2e-2):
    """o and lse against fp64."""
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.cpu().double(), other, rtol=0, atol=allowed)


def called(q, k, v, lengths, table=None, left=None, **options):
    """On the GPU, twice: the same bits."""
    given = [x.cuda() if isinstance(x, torch.Tensor) else x for x in (q, k, v, lengths, table)]
    options = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    options |= dict(page_table=given[4], window=(left, None), return_lse=True)
    both = [ops.attention_decode(*given[:4], **options) for _ in range(2)]
    assert all(torch.equal(*pair) for pair in zip(*both))
    return both[0]


MORE = {
    "wide heads": (dict(lengths=[70, 1], queries=2, heads=2, kv_heads=1, dim=256, page=32), {}),
    "at most two": (dict(lengths=[333, 90, 0], queries=1, heads=2, kv_heads=1, dim=128, page=64), dict(splits=2)),
    "narrow": (dict(lengths=[333, 90, 0], queries=1, heads=2, kv_heads=1, dim=96, page=64), {}),
    "fp16": (dict(lengths=[150, 260], queries=1, heads=2, kv_heads=1, dim=128, page=256, dtype=fp16), {}),
}


@pytest.mark.long(but=["pages of 16", "plain, all changes", "wide heads", "fp16"])
@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_cases(case):
    given, changes = (CASES | MORE)[case]
    made = problem(**given)
    near(called(*made, **changes), reference(*made, **{name: x for name, x in changes.items() if name != "splits"}))


@pytest.mark.long(but=["16-128-*", "256-256-*", "48-128-*"])
@pytest.mark.parametrize("page, dim, heads, queries, dtype, options", [
    (None, 64, (16, 2), 1, bf16, {}), (16, 128, (16, 2), 2, bf16, dict(splits=7)), (256, 256, (8, 1), 1, fp16, {}),
    (32, 128, (4, 4), 1, fp16, dict(left=100)), (64, 128, (16, 1), 8, bf16, {}), (128, 256, (32, 1), 16, bf16, dict(splits=1)),
    (48, 128, (16, 2), 1, bf16, dict(left=100))])
def test_many_lengths(page, dim, heads, queries, dtype, options):
    lengths = torch.randint(0, 3000, (23, ), generator=torch.Generator().manual_seed(dim)).tolist()
    lengths[3], lengths[7], lengths[11] = 0, 1, 2048
    made = problem(lengths, queries, *heads, dim, page=page, dtype=dtype)
    near(called(*made, **options), reference(*made, **{name: x for name, x in options.items() if name != "splits"}))


@pytest.mark.long(but=["16-128-*", "256-128-*", "32-96-*"])
@pytest.mark.parametrize("page, dim, heads, queries, dtype, options, form", [
    (None, 64, (16, 2), 1, bf16, {}, (64, 4, 1, 1, 0, 2)), (16, 128, (16, 2), 2, bf16, dict(splits=7), (64, 2, 1, 1, 0, 1)),
    (256, 128, (8, 1), 1, fp16, dict(left=100, softcap=3.0, sinks=normal(8)), (64, 3, 1, 1, 1, 2)),
    (32, 96, (5, 1), 3, fp16, {}, (64, 2, 1, 2, 1, 2)), (128, 128, (32, 16), 1, bf16, dict(splits=1), (128, 2, 1, 1, 0, 1))])
def test_few_rows_in_one_launch(page, dim, heads, queries, dtype, options, form):
    """Configurations that are not the chosen ones, too; many launches one behind the other."""
    lengths = torch.randint(0, 3000, (23, ), generator=torch.Generator().manual_seed(dim)).tolist()
    lengths[3], lengths[7], lengths[11] = 0, 1, 2048
    made = problem(lengths, queries, *heads, dim, page=page, dtype=dtype)
    q, k, v, given, table = (x.cuda() if isinstance(x, torch.Tensor) else x for x in made)
    sinks = options["sinks"].cuda().float() if "sinks" in options else None
    others = {name: x for name, x in options.items() if name != "sinks"}
    chosen, programs = hopper.Configuration(*form), torch.cuda.get_device_properties(q.device).multi_processor_count

    def decoded() -> tuple:
        o, lse = torch.empty_like(q), q.new_empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32)
        room = q.new_empty(hopper.room_for(q, k.shape[2], programs, chosen), dtype=torch.float32)
        flags = q.new_zeros(hopper.flags_for(programs, chosen), dtype=torch.int32)
        for launched, grid, args, meta in hopper.arguments(q, k, v, given, o, lse, room, programs, table, sinks=sinks,
                                                           chosen=chosen,
                                                           flags=flags, **others):
            launched[grid](*args, **meta)
        return o, lse

    found = [decoded() for _ in range(20)]
    assert all(torch.equal(one, other) for pair in found for one, other in zip(pair, found[0]))
    near(found[0], reference(*made, **{name: x for name, x in options.items() if name != "splits"}))


@pytest.mark.parametrize("page, dim, queries, dtype", [(64, 128, 1, bf16), (None, 64, 2, fp16), (16, 256, 1, bf16)])
def test_caches_of_e4m3(page, dim, queries, dtype):
    """Heads of up to 128 in one launch, others by plain Triton."""
    q, k, v, lengths, table = problem([1500, 3, 0, 2900], queries, 16, 2, dim, page=page, dtype=dtype)
    k, v = (x.nan_to_num().to(torch.float8_e4m3fn) for x in (k, v))
    scale = torch.tensor([0.5, 2.0])
    found = called(q, k, v, lengths, table, k_scale=scale, v_scale=scale)
    near(found, reference(q, *(x.float() * scale[:, None] for x in (k, v)), lengths, table), 4e-2)


@pytest.mark.parametrize("batch", [1, 200])
def test_few_and_many_sequences(batch):
    made = problem([700] * batch if batch > 1 else [9000], 1, 8, 2, 128, page=64)
    near(called(*made), reference(*made))


@pytest.mark.parametrize("queries", [1, 16])
def test_keys_that_are_drawn(queries):
    """So many that the last ones go to who comes first; twice the same bits."""
    made = problem([30000, 100, 12000], queries, 64, 8, 64, page=64)
    near(called(*made), reference(*made))


def test_whole_sequences_do_not_depend_on_the_batch():
    q, k, v, lengths, table = (x.cuda() for x in problem([1500, 3000, 70], 1, 8, 2, 128, page=32))
    both = ops.attention_decode(q, k, v, lengths, page_table=table, splits=1)
    alone = ops.attention_decode(q[1:2], k, v, lengths[1:2], page_table=table[1:2], splits=1)
    assert torch.equal(both[1:2], alone)


@pytest.mark.long(but=["None"])
@pytest.mark.parametrize("splits", [None, 1, 3])
def test_lengths_change_between_replays(splits):
    """Lengths, pages and queries of a captured call are read when the graph is replayed."""
    q, k, v, lengths, table = (x.cuda() for x in problem([1000, 3, 500, 64], 2, 8, 2, 128, page=32))
    k, v = k.nan_to_num(), v.nan_to_num()
    table = torch.randperm(table.numel(), device="cuda").int().view_as(table)
    ops.attention_decode(q, k, v, lengths, page_table=table, splits=splits)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = ops.attention_decode(q, k, v, lengths, page_table=table, splits=splits, return_lse=True)
    for turn, now in enumerate(([1000, 3, 500, 64], [0, 900, 1, 1000], [1, 1, 1, 1], [999, 1000, 998, 0])):
        lengths.copy_(torch.tensor(now))
        q.copy_(normal(*q.shape, seed=turn))
        table.copy_(table.flip(0))
        graph.replay()
        torch.cuda.synchronize()
        near(found, reference(*(x.cpu() for x in (q, k, v, lengths, table))))


def test_compiled_by_inductor():
    q, k, v, lengths, table = (x.cuda() for x in problem([300, 20], 1, 8, 2, 128, page=32))
    compiled = torch.compile(lambda q: ops.attention_decode(q, k, v, lengths, page_table=table) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(q), ops.attention_decode(q, k, v, lengths, page_table=table) * 2)
