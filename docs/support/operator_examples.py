"""An example for the page of each operator: a program that ends without an error where the operator is right.

Input: nothing. Output: the programs by function, those of one GPU and those that each of several ranks runs. For example:

    OF_ONE["matmul"]            "import torch\\nfrom mimw import ops\\n\\na, b = ..."
    OF_SEVERAL["all_reduce"]    "import mimw\\nimport torch\\nfrom mimw.ops import distributed\\n\\nworld = ..."

A test runs them all on the CPU, where kernels are simulated; shapes are the smallest that show what the operator does.
"""

_ONE = "import torch\nfrom mimw import ops\n\n"
_SEVERAL = """import mimw
import torch
from mimw.ops import distributed

world = mimw.distributed.init()                     # in each process that torchrun has started
"""

OF_ONE = {name: _ONE + text.strip() + "\n" for name, text in {
    "addmm": """
a, b, bias = torch.randn(64, 128).half(), torch.randn(128, 64).half(), torch.randn(64).half()
y = ops.addmm(bias, a, b, activation="relu")        # one launch: product, sum and activation
torch.testing.assert_close(y, torch.relu(torch.addmm(bias, a, b)), atol=2e-2, rtol=2e-2)
""",
    "attention": """
q, k, v = (torch.randn(1, 2, 128, 64).half() for _ in range(3))
o = ops.attention(q, k, v, causal=True)
torch.testing.assert_close(o, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), atol=2e-3, rtol=2e-2)
""",
    "attention_decode": """
q, (k, v) = torch.randn(2, 1, 2, 64).half(), torch.randn(2, 2, 32, 2, 64).half()     # one new query for each of two sequences
lengths = torch.tensor([32, 7], dtype=torch.int32)                                   # on the device: the host waits for nothing
o = ops.attention_decode(q, k, v, lengths)
second = (x.transpose(1, 2) for x in (q[1:], k[1:, :7], v[1:, :7]))
torch.testing.assert_close(o[1:].transpose(1, 2), torch.nn.functional.scaled_dot_product_attention(*second), atol=2e-3, rtol=2e-2)
""",
    "attention_varlen": """
q, k, v = (torch.randn(96, 2, 64).half() for _ in range(3))         # sequences of 64 and 32 rows, one behind the other
ends = torch.tensor([0, 64, 96], dtype=torch.int32)
o = ops.attention_varlen(q, k, v, ends, ends, 64, 64, causal=True)
first = torch.nn.functional.scaled_dot_product_attention(*(x[:64].transpose(0, 1) for x in (q, k, v)), is_causal=True)
torch.testing.assert_close(o[:64].transpose(0, 1), first, atol=2e-3, rtol=2e-2)
""",
    "cross_entropy": """
logits, target = torch.randn(4, 100, requires_grad=True), torch.tensor([1, 20, 3, 99])
loss = ops.cross_entropy(logits, target)
loss.backward()
torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, target))
""",
    "linear_cross_entropy": """
hidden, weight = (torch.randn(rows, 64).bfloat16().requires_grad_() for rows in (8, 128))
target = torch.tensor([1, 20, -100, 99, 0, 127, 5, 6])
loss = ops.linear_cross_entropy(hidden, weight, target)             # logits of bf16, some rows at a time
loss.backward()
with torch.no_grad():
    alone = ops.linear_cross_entropy(hidden, weight, target)        # no logits
    expected = torch.nn.functional.cross_entropy(hidden.float() @ weight.float().T, target)
for one in (loss.detach(), alone):
    torch.testing.assert_close(one, expected, atol=1e-2, rtol=1e-2)
""",
    "gather_matmul_scatter": """
a, b = torch.randn(64, 64).half(), torch.randn(64, 64).half()
source, target = torch.arange(0, 32), torch.arange(32, 64).flip(0)
out = ops.gather_matmul_scatter(a, b, source, target)               # rows that target does not name are 0
torch.testing.assert_close(out[target], a[source] @ b, atol=2e-2, rtol=2e-2)
""",
    "grouped_matmul": """
a, b = torch.randn(64, 64).half(), torch.randn(2, 64, 32).half()
ends = torch.tensor([24, 64], dtype=torch.int32)                    # of each group, on the device
c = ops.grouped_matmul(a, b, ends)
torch.testing.assert_close(c, torch.cat([a[:24] @ b[0], a[24:] @ b[1]]), atol=2e-2, rtol=2e-2)
""",
    "layer_norm": """
x, weight, bias = torch.randn(4, 256), torch.rand(256), torch.rand(256)
y, total = ops.layer_norm(x, 256, weight, bias, residual=x)         # one launch: the sum, and its norm
torch.testing.assert_close(y, torch.nn.functional.layer_norm(x + x, (256, ), weight, bias))
""",
    "lightning_indexer": """
q, k = torch.randn(8, 64, 32).to(torch.float8_e4m3fn), torch.randn(96, 32).to(torch.float8_e4m3fn)
weights, scale = torch.randn(8, 64), torch.rand(96)
scores = ops.lightning_indexer(q, k, weights, scale)
exact = torch.einsum("sht,sh->st", torch.einsum("shd,td->sht", q.float(), k.float()).relu(), weights) * scale
torch.testing.assert_close(scores, exact)
places = ops.lightning_indexer(q, k, weights, scale, topk=16)       # the keys that attention then looks at, as sparse_mla does
torch.testing.assert_close(scores.gather(1, places.long()).sort(1).values, scores.topk(16).values.flip(1))
""",
    "lightning_indexer_decode": """
held = torch.zeros(12, 16 * (32 + 4), dtype=torch.uint8)            # pages of 16 keys of 32 columns, then their scales
cache = held[:, :16 * 32].view(torch.float8_e4m3fn).view(12, 16, 32)
cache.copy_(torch.randn(12, 16, 32)), held.view(torch.float32)[:, -16:].fill_(0.5)
q, weights, pages = torch.randn(2, 1, 64, 32).to(cache.dtype), torch.rand(2, 1, 64), torch.randperm(12).view(2, 6)
scores = ops.lightning_indexer_decode(q, cache, weights, torch.tensor([90, 33]), pages, held.view(torch.float32)[:, -16:])
keys = cache[pages[1]].float().view(96, 32)[:33]
torch.testing.assert_close(scores[1, 0, :33], 0.5 * weights[1, 0] @ (q[1, 0].float() @ keys.T).relu())
assert scores[1, 0, 33:].isneginf().all()
""",
    "log_softmax": """
x = torch.randn(4, 256)
torch.testing.assert_close(ops.log_softmax(x, 1), torch.log_softmax(x, 1))
""",
    "matmul": """
a, b = torch.randn(64, 128).half(), torch.randn(128, 64).half()     # .cuda(): on the GPU; the CPU's are simulated
c = ops.matmul(a, b)                                                # torch.ops.mimw.matmul(a, b), with a derivative
torch.testing.assert_close(c, a @ b, atol=2e-2, rtol=2e-2)
""",
    "mla_decode": """
q, cache = torch.randn(2, 1, 16, 192).bfloat16(), torch.randn(4, 16, 1, 192).bfloat16()     # 128 columns of values, 64 key only
pages, lengths = torch.tensor([[3, 0], [1, 2]]), torch.tensor([20, 5])
o, lse = ops.mla_decode(q, cache, lengths, page_table=pages, value_dim=128)
keys = cache[pages[0]].flatten(0, 1)[:20, 0].float()                # of the first sequence: a page and four rows of the next
exact = torch.softmax(q[0, 0].float() @ keys.T / 192**0.5, 1) @ keys[:, :128]
torch.testing.assert_close(o[0, 0].float(), exact, atol=1e-2, rtol=2e-2)
""",
    "moe": """
x, gate_up, down = torch.randn(8, 64).half(), torch.randn(4, 64, 64).half() / 8, torch.randn(4, 64, 32).half() / 6
weights, experts = torch.rand(8, 4).topk(2)                         # two of four experts for each token
y = ops.moe(x, gate_up, down, experts, weights)
gate, up = (gate_up[experts[0]] @ x[0]).float().chunk(2, 1)
hidden = (torch.nn.functional.silu(gate) * up).half()
torch.testing.assert_close(y[0].float(), ((down[experts[0]] @ hidden[:, :, None])[:, :, 0] * weights[0, :, None]).sum(0),
                           atol=2e-2, rtol=2e-2)
""",
    "moe_align": """
ids = torch.tensor([[0, 2], [2, 1], [0, 2]])                        # the experts of three tokens
order, experts, used = ops.moe_align(ids, num_experts=3, block_size=2)
assert ids.flatten()[order[:2].long()].tolist() == [0, 0] and int(used) == 8        # expert 0, 1 and a gap, 2 twice
assert experts[:4].tolist() == [0, 1, 2, 2]
""",
    "rms_norm": """
x, weight = torch.randn(4, 256), torch.rand(256)
y = ops.rms_norm(x, 256, weight)
torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (256, ), weight))
""",
    "rope": """
q, k = torch.randn(1, 4, 16, 32), torch.randn(1, 2, 16, 32)
angles = torch.arange(16)[:, None] / 10000**(torch.arange(16) / 16)
q2, k2 = ops.rope((q, k), angles.cos(), angles.sin())               # one launch for both
first, second = q.chunk(2, -1)
torch.testing.assert_close(q2[..., :16], first * angles.cos() - second * angles.sin())
""",
    "scaled_dot_product_attention": """
q, k, v = (torch.randn(2, 2, 128, 64).half() for _ in range(3))
seen = (torch.arange(128) < torch.tensor([[128], [70]])).view(2, 1, 1, 128)         # the second of the batch is padded
o = ops.scaled_dot_product_attention(q, k, v, seen)
torch.testing.assert_close(o, torch.nn.functional.scaled_dot_product_attention(q, k, v, seen), atol=2e-3, rtol=2e-2)
assert "by torch, as attn_mask is added" in ops.explain(ops.scaled_dot_product_attention, q, k, v, seen.half()).line
""",
    "scaled_mm": """
a, b = torch.randn(32, 128).to(torch.float8_e4m3fn), torch.randn(64, 128).to(torch.float8_e4m3fn)
scales = torch.rand(32, 1), torch.rand(1, 64)                       # of the rows of a, and of the columns of b.T
c = ops.scaled_mm(a, b.T, *scales, out_dtype=torch.float32)
torch.testing.assert_close(c, (a.float() * scales[0]) @ (b.float().T * scales[1]), atol=1e-3, rtol=1e-3)
""",
    "simplicial_attention": """
q, (k, v, k2, v2) = torch.randn(1, 64, 4, 64).half(), torch.randn(4, 1, 1, 4, 64).half()    # 64 heads share one of keys
o = ops.simplicial_attention(q, k, v, k2, v2, windows=(4, 2))
first = (v * v2)[:, :, 0].expand(1, 64, 64)                         # of the first query, which sees one pair
torch.testing.assert_close(o[:, :, 0], first, atol=2e-3, rtol=2e-2)
""",
    "softmax": """
x = torch.randn(4, 256)
torch.testing.assert_close(ops.softmax(x, 1), torch.softmax(x, 1))
""",
    "linear_attention": """
q, v = torch.randn(1, 70, 1, 64).half(), torch.randn(1, 70, 2, 64).half()           # 2 heads of values for one of keys
k = torch.nn.functional.normalize(torch.randn(1, 70, 1, 64), dim=-1).half()
g, beta = -torch.rand(1, 70, 2), torch.rand(1, 70, 2)                               # Gated DeltaNet: log decays, and the delta rule
o, state = ops.linear_attention(q, k, v, g, beta, output_final_state=True)
S = torch.zeros(2, 64, 64)
for t in range(70):
    S = g[0, t, :, None, None].exp() * S
    u = beta[0, t, :, None] * (v[0, t].float() - k[0, t, 0].float() @ S)
    S = S + k[0, t, 0].float()[None, :, None] * u[:, None]
torch.testing.assert_close(state[0], S, atol=1e-2, rtol=1e-2)
""",
    "linear_attention_step": """
state = torch.zeros(2, 4, 32, 48)                                                   # of two sequences, written in place
q, k, v = torch.randn(2, 4, 32), torch.randn(2, 4, 32), torch.randn(2, 4, 48)
o = ops.linear_attention_step(q, k, v, state, g=-torch.rand(2, 4))
torch.testing.assert_close(state, k[..., None] * v[..., None, :])
torch.testing.assert_close(o, (q * k).sum(-1, keepdim=True) * v / 32**0.5)
""",
    "sparse_mla": """
q, kv = torch.randn(1, 2, 64, 48).half(), torch.randn(1, 32, 1, 48).half()  # 32 columns of values, 16 that are key only
rows = torch.stack([torch.randperm(32)[:8] for _ in range(2)])[None, :, None].int()
o, lse = ops.sparse_mla(q, kv, rows, torch.full((1, 2, 1), 8), value_dim=32)
near = kv[0, rows[0, 0, 0].long(), 0]
torch.testing.assert_close(o[0, 0], torch.softmax(q[0, 0] @ near.T / 48**0.5, 1) @ near[:, :32], atol=1e-2, rtol=2e-2)
""",
    "swiglu": """
gate, up = torch.randn(4, 64), torch.randn(4, 64)
torch.testing.assert_close(ops.swiglu(gate, up), torch.nn.functional.silu(gate) * up)
""",
    "topk": """
x = torch.randn(2, 5000)
values, indices = ops.topk(x, 5)
assert torch.equal(values, torch.topk(x, 5).values) and torch.equal(values, x.gather(1, indices))
""",
    "topk_selector": """
x = torch.randn(2, 1000)
columns = ops.topk_selector(x, 64)                                  # in any order
assert torch.equal(x.gather(1, columns.long()).sort(1).values, torch.topk(x, 64).values.flip(1))
""",
}.items()}

_EXPERTS = """
random = torch.Generator().manual_seed(0)           # the same numbers at all ranks
gate_up, down = (torch.randn(*shape, generator=random) / 6 for shape in ((2 * world.size, 32, 32), (2 * world.size, 32, 16)))
mine = slice(2 * world.rank, 2 * world.rank + 2)    # the experts of this rank
x, ids, weights = torch.randn(4, 32), torch.randint(0, 2 * world.size, (4, 2)), torch.rand(4, 2)
"""

OF_SEVERAL = {name: _SEVERAL + text.strip() + "\n" for name, text in {
    "all_gather": """
x = torch.full((2, 4), float(world.rank))
y = distributed.all_gather(x)
assert y[::2, 0].tolist() == list(range(world.size))
""",
    "all_gather_matmul": """
a, b = torch.full((8, 16), world.rank + 1.0).half(), torch.ones(16, 8).half()
c = distributed.all_gather_matmul(a, b)             # the product of the own rows runs while the others' arrive
assert c[::8, 0].tolist() == [16 * (rank + 1) for rank in range(world.size)]
""",
    "all_reduce": """
x = torch.full((4, ), world.rank + 1.0)
y = distributed.all_reduce(x)
assert y.tolist() == [sum(range(1, world.size + 1))] * 4
""",
    "all_reduce_": """
x = torch.full((4, ), world.rank + 1.0)
assert distributed.all_reduce_(x) is x and x[0] == sum(range(1, world.size + 1))
""",
    "all_to_all": """
x = torch.full((world.size, 4), float(world.rank))
y = distributed.all_to_all(x)                       # row r goes to rank r
assert y[:, 0].tolist() == list(range(world.size))
""",
    "matmul_all_reduce": """
a, b = torch.ones(8, 16).half(), torch.full((16, 8), world.rank + 1.0).half()
c = distributed.matmul_all_reduce(a, b)
assert c[0, 0] == 16 * sum(range(1, world.size + 1))
""",
    "matmul_reduce_scatter": """
a, b = torch.ones(8 * world.size, 16).half(), torch.full((16, 8), world.rank + 1.0).half()
c = distributed.matmul_reduce_scatter(a, b)
assert c.shape == (8, 8) and c[0, 0] == 16 * sum(range(1, world.size + 1))
""",
    "moe": _EXPERTS + """
y = distributed.moe(x, gate_up[mine], down[mine], ids, weights)
torch.testing.assert_close(y, mimw.ops.moe(x, gate_up, down, ids, weights), atol=1e-4, rtol=1e-4)
""",
    "moe_combine": """
x, ids, weights = torch.randn(3, 8), torch.randint(0, 4, (3, 2)), torch.rand(3, 2)
rows, ends, _, handle = distributed.moe_dispatch(x, ids, 4 * world.size)
y = distributed.moe_combine(rows, handle, weights)  # of experts that give what they get
torch.testing.assert_close(y, x * weights.sum(1, keepdim=True))
""",
    "moe_dispatch": """
x, ids = torch.full((3, 8), float(world.rank)), torch.full((3, 1), world.size - 1 - world.rank)
rows, ends, _, handle = distributed.moe_dispatch(x, ids, world.size)
assert int(ends[-1]) == 3 and rows[0, 0] == world.size - 1 - world.rank     # those of the rank across
""",
    "moe_dispatch_rows": """
x, ids = torch.full((3, 8), float(world.rank)), torch.full((3, 1), world.size - 1 - world.rank)
found = distributed.moe_dispatch_rows(x, ids, world.size)
assert found.rows[found.sources[0], 0] == world.size - 1 - world.rank       # rows lie once, and are read by number
""",
    "moe_experts": _EXPERTS + """
rows, ends, _, handle = distributed.moe_dispatch(x, ids, 2 * world.size, block=16)
y = distributed.moe_combine(distributed.moe_experts(rows, ends, gate_up[mine], down[mine], 16), handle, weights)
torch.testing.assert_close(y, mimw.ops.moe(x, gate_up, down, ids, weights), atol=1e-4, rtol=1e-4)
""",
    "reduce_scatter": """
x = torch.arange(world.size)[:, None] + torch.zeros(world.size, 4)
y = distributed.reduce_scatter(x)
assert y.tolist() == [[world.size * world.rank] * 4]
""",
    "ring_attention": """
random = torch.Generator().manual_seed(0)           # the same sequence at all ranks
q, k, v = (torch.randn(1, 1, 128 * world.size, 64, generator=random).half() for _ in range(3))
mine = slice(128 * world.rank, 128 * world.rank + 128)
o = distributed.ring_attention(*(x[:, :, mine] for x in (q, k, v)))
torch.testing.assert_close(o, torch.nn.functional.scaled_dot_product_attention(q[:, :, mine], k, v), atol=2e-3, rtol=2e-2)
""",
}.items()}
