"""The operators on a GPU: all shapes and strides, streams, devices, captured graphs, inductor, and what the CPU cannot show."""

import gc

import pytest

torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")

from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from mimw import ops  # noqa: E402
from tests.ops import test_attention, test_matmul, test_moe, test_topk, test_topk_selector  # noqa: E402
from tests.ops import test_mla_decode as test_mla  # noqa: E402
from tests.ops import test_simplicial_attention as simplicial  # noqa: E402
from tests.ops.anew import anew  # noqa: E402

pytestmark = pytest.mark.gpu
bf16, fp16, fp32 = torch.bfloat16, torch.float16, torch.float32


def normal(*shape, dtype=bf16, seed=0, device="cuda"):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def near(found, expected, allowed=2e-2):
    assert found.shape == expected.shape
    if found.numel():
        error = (found.double() - expected.double()).abs().max() / expected.double().abs().max().clamp(min=1e-30)
        assert error <= allowed, float(error)


@pytest.mark.long(but=["64-*", "17-*"])
@pytest.mark.parametrize("m, n, k", [(1, 8192, 8192), (64, 8192, 1024), (17, 1000, 8192), (5, 28672, 4096)])
def test_few_rows_of_many_weights(m, n, k):
    a, b = normal(m, k), normal(n, k, seed=1)
    for _ in range(3):
        near(ops.matmul(a, b.T), a.float() @ b.float().T)
    near(ops.matmul(a[0], b.T), a[0].float() @ b.float().T)
    found, graph = torch.empty(m, n, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        found = ops.matmul(a, b.T)
    for _ in range(2):
        graph.replay()
        near(found, a.float() @ b.float().T)


@pytest.mark.long(but=["*-dtype0", "a19-*-dtype2", "a21-*-dtype1"])
@pytest.mark.parametrize("dtype", [bf16, fp16, fp32])
@pytest.mark.parametrize("a, b", [*test_matmul.SHAPES, ((257, 129), (129, 65)), ((1, 4096), (4096, 1)), ((3, 512, 256), (256, 512)),
                                  ((1000, 1000), (1000, 1000)), ((2047, 1777), (1777, 2049)), ((4, 300, 200), (4, 200, 100))])
def test_matmul_of_all_shapes(a, b, dtype):
    a, b = normal(*a, dtype=dtype), normal(*b, dtype=dtype, seed=1)
    near(ops.matmul(a, b), torch.matmul(a.double(), b.double()), 1e-5 if dtype is fp32 else 1e-2)


@pytest.mark.long(but=["96-*", "1664-shifted", "1664-<lambda>2"])
@pytest.mark.parametrize("change", [test_matmul.odd, test_matmul.shifted, lambda x: x.T.contiguous().T,
                                    lambda x: x[:1].expand(x.shape), lambda x: x.flip(0)])
@pytest.mark.parametrize("extent", [96, 1664])
def test_matmul_of_all_strides(change, extent):
    """By the plain kernel, and where the product is large by copies for TMA."""
    a, b = normal(extent, extent), normal(extent, extent, seed=1)
    near(ops.matmul(change(a), b), change(a).double() @ b.double())
    near(ops.matmul(a, change(b)), a.double() @ change(b).double())


@pytest.mark.parametrize("left, right", [(torch.float8_e4m3fn, torch.float8_e4m3fn), (torch.float8_e5m2, torch.float8_e4m3fn)])
@pytest.mark.parametrize("lies", ["nk", "kn"])
def test_matmul_of_fp8(left, right, lies):
    a, b = normal(512, 640, dtype=left), normal(640, 768, dtype=right, seed=1)
    b = b.T.contiguous().T if lies == "nk" else b
    near(ops.matmul(a, b), a.double() @ b.double())
    near(ops.matmul(a[:33], b[:, :17]), a[:33].double() @ b[:, :17].double())


def test_matmul_obeys_the_precision():
    before, errors = torch.get_float32_matmul_precision(), []
    a, b = normal(512, 512, dtype=fp32), normal(512, 512, dtype=fp32, seed=1).T
    try:
        for which in ("highest", "high"):
            torch.set_float32_matmul_precision(which)
            errors.append(float((ops.matmul(a, b) - a.double() @ b.double()).abs().max()))
    finally:
        torch.set_float32_matmul_precision(before)
    assert errors[0] < 2e-4 < errors[1] < 0.2


@pytest.mark.long(but=[
    "dtype0-causal", "dtype0-odd", "dtype0-first see nothing", "dtype0-negative scale", "dtype0-no *",
    "dtype0-broadcast", "dtype0-one query", "dtype1-tma", "dtype1-heads of two tiles"])
@pytest.mark.parametrize("case", test_attention.CASES)
@pytest.mark.parametrize("dtype", [bf16, fp32])
def test_attention_of_all_shapes(case, dtype):
    q, k, value_dim, options = test_attention.CASES[case]
    given = normal(*q, dtype=dtype), normal(*k, dtype=dtype, seed=1), normal(*k[:-1], value_dim or k[-1], dtype=dtype, seed=2)
    on_cpu = [x.cpu() for x in given]
    found, lse = ops.attention(*given, return_lse=True, **options)
    if dtype is bf16:
        expected = test_attention.compare(*on_cpu, **options)
        torch.testing.assert_close(found.cpu().float(), expected.float(), rtol=0, atol=2e-2)
    assert found.shape[:-1] == lse.shape


@pytest.mark.parametrize("case", test_attention.CHANGES)
def test_attention_of_changed_scores(case):
    *given, options = test_attention.changed(case)
    expected = ops.attention(*given, return_lse=True, **options)
    on_gpu = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    found = ops.attention(*(x.cuda() for x in given), return_lse=True, **on_gpu)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one.cpu().float(), other.float(), rtol=0, atol=2e-2)


@pytest.mark.long(but=["False-dims5", "True-dims3"])
@pytest.mark.parametrize("dims", [(64, 64), (80, 80), (128, 128), (192, 128), (256, 256), (40, 72)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_head_dims(dims, causal):
    q, k, v = normal(2, 6, 300, dims[0]), normal(2, 2, 300, dims[0], seed=1), normal(2, 2, 300, dims[1], seed=2)
    expected = scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal, enable_gqa=True)
    near(ops.attention(q, k, v, causal=causal), expected)
    near(ops.attention(*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)), causal=causal), expected)
    near(ops.attention(q[..., 1:, :], k[..., 1:, :], v[..., 1:, :], causal=causal),
         scaled_dot_product_attention(q[..., 1:, :].float(), k[..., 1:, :].float(), v[..., 1:, :].float(), is_causal=causal,
                                      enable_gqa=True))


@pytest.mark.long(but=["dtype0-True-shape[0247]-*", "dtype1-False-shape[1356]-*"])
@pytest.mark.parametrize("shape, k, dim", [((64, 128), 8, -1), ((4, 1025), 1025, -1), ((4, 8192), 128, -1), ((3, 131072), 5000, -1),
                                           ((2, 600000), 50, -1), ((1, 524288), 2048, -1), ((2000, 3), 7, 0), ((2, 3000, 5), 4, 1)])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [fp32, bf16])
def test_topk_of_all_shapes(shape, k, dim, largest, dtype):
    x = normal(*shape, dtype=dtype)
    x.view(-1)[::97], x.view(-1)[5::101] = float("nan"), float("-inf")
    test_topk.compare(x, k, dim, largest)
    test_topk.compare(x, k, dim, largest, sorted=False)


@pytest.mark.long(but=["5000-2000"])
@pytest.mark.parametrize("n, k", [(5000, 2000), (100000, 64), (100000, 3000)])
def test_topk_by_sorting_block_by_block(monkeypatch, n, k):
    module = test_topk.MODULE
    monkeypatch.setattr(module, "another_chip", lambda x: "the test says so")
    anew(monkeypatch, "topk")
    test_topk.compare(normal(3, n, dtype=fp32), k)


@pytest.mark.parametrize("n, experts", [(1, 1), (777, 64), (40000, 256), (0, 8)])
def test_moe_align(n, experts):
    ids = torch.randint(0, experts, (n, ), generator=torch.Generator().manual_seed(0))
    tokens, owners, length = (x.cpu() for x in ops.moe_align(ids.cuda(), experts, 16))
    wanted, expected, used = test_moe.aligned(ids, experts, 16)
    assert length.tolist() == [used] and owners.tolist() == expected
    for at in range(0, used, 16):
        assert all(token == n or ids[token] == owners[at // 16] for token in tokens[at:at + 16].tolist())
    assert sorted(tokens.tolist()) == sorted(wanted)


@pytest.mark.parametrize("m, k, n", [(300, 128, 256), (300, 33, 7), (2000, 1000, 999)])
def test_picked_products(m, k, n):
    a, b = normal(m, k).requires_grad_(), normal(k, n, seed=1).requires_grad_()
    random = torch.Generator().manual_seed(0)
    source = torch.randint(-3, m + 3, (m, ), generator=random).cuda()
    target = torch.randperm(m + 9, generator=random)[:m].cuda() - 3
    found = ops.gather_matmul_scatter(a, b, source, target)
    expected = test_moe.picked(a.detach().cpu(), b.detach().cpu(), source.cpu(), target.cpu(), torch.zeros(m, n).double())
    near(found.cpu(), expected)
    found.sum().backward()
    assert a.grad.shape == a.shape and b.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["own", "packed"])
def test_mla_decode(kind):
    """DeepSeek's sizes against torch, on pages: by the kernels for Hopper, and, with one query, the same bits twice."""
    q, cache, table = (x.cuda() for x in test_mla.tensors(3, 2, 128, 512, 64, 64, 20))
    lengths, given, stands_for = torch.tensor([1280, 0, 333]).cuda(), cache, cache
    if kind == "packed":
        given, stands_for = test_mla.packed(cache, 512)
        given = given.view(torch.float8_e4m3fn)
    found = ops.mla_decode(q, given, lengths, page_table=table)
    exact = test_mla.expected(*(x.cpu() for x in (q, stands_for, lengths, table)), 512)
    near(found[0].cpu(), exact[0])
    torch.testing.assert_close(found[1].cpu(), exact[1], rtol=0, atol=2e-2)
    one, two = (ops.mla_decode(q[:, 1:], given, lengths, page_table=table)[0] for _ in range(2))
    assert torch.equal(one, two)
    near(one.cpu(), exact[0][:, 1:])


def test_sparse_mla():
    q, kv = normal(1, 4, 128, 576), normal(1, 300, 1, 576, seed=1)
    indices = torch.stack([torch.randperm(300, generator=torch.Generator().manual_seed(seed))[:256] for seed in range(4)])
    indices, lengths = indices.view(1, 4, 1, 256).cuda(), torch.tensor([256, 100, 0, 1]).view(1, 4, 1).cuda()
    out, lse = ops.sparse_mla(q, kv, indices, lengths)
    expected, exact = test_moe.sparse(*(x.cpu() for x in (q, kv, indices, lengths)), 512, 576**-0.5)
    near(out.cpu(), expected)
    torch.testing.assert_close(lse.cpu(), exact, rtol=0, atol=2e-2)
    few, exact = ops.sparse_mla(q[:, :, :24], kv, indices, lengths)     # by the plain kernel
    near(few.cpu(), expected[:, :, :24])
    torch.testing.assert_close(exact, lse[:, :, :24], rtol=0, atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16])
def test_lightning_indexer(dtype):
    """DeepSeek's heads: causal, with the largest, and keys in pages; against fp64."""
    q, k = (normal(*shape).to(dtype) for shape in ((300, 64, 128), (1000, 128)))
    weights, scale = normal(300, 64, dtype=torch.float32), normal(1000, dtype=torch.float32).abs()
    scores = ops.lightning_indexer(q, k, weights, scale, causal=True)
    exact = torch.einsum("sht,sh->st", torch.einsum("shd,td->sht", q.double(), k.double()).relu(), weights.double()) * scale
    exact = exact.masked_fill(torch.ones_like(exact).triu(701).bool(), float("-inf"))
    torch.testing.assert_close(scores.double(), exact, rtol=0, atol=2e-3 * exact[exact.isfinite()].abs().max().item())
    places = ops.lightning_indexer(q, k, weights, scale, causal=True, topk=512)
    assert torch.equal(scores.gather(1, places.long()).sort(1).values, scores.topk(512).values.flip(1))
    cache, scales = k[:960].view(15, 64, 128), scale[:960].view(15, 64)
    table, lengths = torch.randperm(15, device="cuda").view(1, 15), torch.tensor([901], device="cuda")
    paged = ops.lightning_indexer_decode(q[None, :2], cache, weights[None, :2], lengths, table, scales)[0]
    order = (table[0, :, None] * 64 + torch.arange(64, device="cuda")).flatten()
    whole = ops.lightning_indexer(q[:2], k[:960][order], weights[:2], scale[:960][order], ends=lengths - 1 + torch.arange(2).cuda())
    torch.testing.assert_close(paged, whole)


@pytest.mark.parametrize("dim, past", [(128, 0), (64, 30)])
def test_simplicial_attention(dim, past):
    """Several chunks of keys, and the gradients, against fp64: by the kernels for Hopper, where the windows cut and where not."""
    given = simplicial.tensors(1, 64, 1, 170, dim, bf16, "cuda", past)
    simplicial.compare(given, (150, 5), 2e-2)
    ours, theirs = ([x.clone().requires_grad_() for x in given] for _ in range(2))
    do = normal(*given[0].shape)
    ops.simplicial_attention(*ours, (150, 5)).backward(do)
    simplicial.reference(*theirs, (150, 5))[0].backward(do.double())
    for mine, its in zip(ours, theirs):
        near(mine.grad, its.grad)


@pytest.mark.long(but=["40-20000-2048"])
@pytest.mark.parametrize("m, n, k", [(3, 200000, 500), (40, 20000, 2048), (2, 40000, 300), (1, 600000, 20000)])
def test_topk_of_equal_ones(m, n, k):
    x = torch.randint(0, 50, (m, n), device="cuda").float()
    x[0, 5] = float("nan")
    for largest in (True, False):
        expected = torch.sort(x, dim=-1, descending=largest, stable=True).indices[:, :k]
        assert torch.equal(ops.topk(x, k, -1, largest, True, True)[1], expected)
        test_topk.compare(x, k, -1, largest)


def test_topk_in_windows():
    windows = torch.tensor([0, 100, 7], device="cuda"), torch.tensor([200000, 90000, 300], device="cuda")
    test_topk_selector.compare(normal(3, 200000), 512, *windows)


def calls():
    """Name -> (inputs, the call)."""
    a, b, q, x = normal(512, 512), normal(512, 512, seed=1), normal(1, 4, 512, 64), normal(16, 5000, dtype=fp32)
    ids = torch.randint(0, 8, (300, ), dtype=torch.int32, device="cuda")
    rows = torch.randperm(512, device="cuda", dtype=torch.int32)
    return {"matmul": ((a, b), ops.matmul), "odd matmul": ((a[1:, 1:], b[1:, 1:]), ops.matmul),
            "attention": ((q, q, q), lambda *qkv: ops.attention(*qkv, causal=True)), "topk": ((x, ), lambda x: ops.topk(x, 20)[0]),
            "moe_align": ((ids, ), lambda ids: ops.moe_align(ids, 8, 16)[2]),
            "picked": ((a, b, rows, rows), ops.gather_matmul_scatter)}


@pytest.mark.long(but=["False-matmul", "False-odd matmul", "True-attention", "False-topk", "True-moe_align", "False-picked"])
@pytest.mark.parametrize("name", ["matmul", "odd matmul", "attention", "topk", "moe_align", "picked"])
@pytest.mark.parametrize("warm", [False, True])
def test_captured_in_a_graph(name, warm):
    """Replayed three times on new values, captured with and without a call before the capture on that stream."""
    inputs, call = calls()[name]
    call(*inputs)   # compiles
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        if warm:
            call(*inputs)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            found = call(*inputs)
    for seed in range(3):
        if inputs[0].dtype.is_floating_point:
            inputs[0].copy_(normal(*inputs[0].shape, dtype=inputs[0].dtype, seed=10 + seed))
        graph.replay()
        expected = call(*inputs)
        torch.cuda.synchronize()
        torch.testing.assert_close(found, expected)


def test_graphs_and_calls_side_by_side():
    """A counter belongs to one stream, or to one graph: attention on three streams at once, one of them a replayed graph."""
    q = normal(2, 8, 2048, 128)
    expected = ops.attention(q, q, q, causal=True)
    streams, graph = [torch.cuda.Stream() for _ in range(3)], torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=streams[0]):
        captured = ops.attention(q, q, q, causal=True)
    found = []
    for _ in range(20):
        for stream in streams[1:]:
            with torch.cuda.stream(stream):
                found.append(ops.attention(q, q, q, causal=True))
        with torch.cuda.stream(streams[2]):
            graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, expected) for one in (captured, *found))


@pytest.mark.long(but=["attention", "topk"])
@pytest.mark.parametrize("name", ["matmul", "attention", "topk", "picked"])
def test_on_another_stream(name):
    """What the stream did before is there, and what it does after waits."""
    inputs, call = calls()[name]
    expected = call(*(x * 2 if x.dtype.is_floating_point else x for x in inputs))
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        found = call(*(x * 2 if x.dtype.is_floating_point else x for x in inputs)).clone()
    stream.synchronize()
    torch.testing.assert_close(found, expected)


@pytest.mark.skipif(not torch.cuda.is_available() or torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("name", ["matmul", "attention", "topk", "moe_align", "picked"])
def test_on_another_device(name):
    inputs, call = calls()[name]
    expected, current = call(*inputs), torch.cuda.current_device()
    found = call(*(x.to("cuda:1") for x in inputs))
    assert found.device.index == 1 and torch.cuda.current_device() == current
    torch.testing.assert_close(found.to(expected.device), expected)


@pytest.mark.long(but=["attention", "picked"])
@pytest.mark.parametrize("name", ["matmul", "odd matmul", "attention", "topk", "picked"])
def test_compiled_by_inductor(name):
    inputs, call = calls()[name]
    compiled = torch.compile(lambda *given: call(*given) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), call(*inputs) * 2)


def test_compiled_with_graphs_of_inductor():
    a, b = normal(256, 256), normal(256, 256, seed=1)
    compiled = torch.compile(lambda a, b: ops.attention(*[ops.matmul(a, b).view(1, 4, 256, 64)] * 3), mode="reduce-overhead",
                             fullgraph=True)
    expected = ops.attention(*[ops.matmul(a, b).view(1, 4, 256, 64)] * 3)
    for _ in range(4):
        torch.testing.assert_close(compiled(a, b).clone(), expected)


def test_gradients_under_autocast():
    a, b = normal(128, 256, dtype=fp32).requires_grad_(), normal(256, 64, dtype=fp32, seed=1).requires_grad_()
    with torch.autocast("cuda", bf16):
        found = ops.matmul(a, b)
    assert found.dtype is bf16
    found.float().sum().backward()
    near(a.grad, b.detach().sum(1).expand(128, 256))
    assert a.grad.dtype is fp32


def test_no_memory_is_held():
    """A plan keeps shapes; the tensors of its first call go."""
    before = torch.cuda.memory_allocated()
    a = normal(4096, 4096)
    ops.matmul(a, a)
    del a
    gc.collect()
    assert torch.cuda.memory_allocated() - before < 1 << 20


@pytest.mark.parametrize("name", ["matmul", "attention", "topk"])
def test_opcheck(name):
    inputs, _ = calls()[name]
    more = (20, ) if name == "topk" else ()
    torch.library.opcheck(getattr(torch.ops.mimw, name).default, (*inputs, *more))
