"""The reading of score_mods and mask_mods: random ones against the functions themselves, and near misses that are refused."""

import operator
import random

import pytest

torch = pytest.importorskip("torch", reason="the functions are torch's")

from torch.fx import symbolic_trace  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask  # noqa: E402

from mimw.integrations.inductor.flex.blocks import Blocks, agree  # noqa: E402
from mimw.integrations.inductor.flex.meaning import Near, meaning  # noqa: E402
from mimw.integrations.inductor.flex.reading import INDICES, read  # noqa: E402
from mimw.integrations.inductor.flex.values import Box, Buffer, PerHead, Score, Slopes, Unknown  # noqa: E402

SLOPES = torch.tensor([0.5, 0.125])
INF = float("inf")


def understood(score_mod, mask_mod, box, slopes=SLOPES):
    """What is read of two functions; or Unknown."""
    score = read(symbolic_trace(score_mod).graph, (Score(), *INDICES, Buffer(0, slopes)), box)
    return meaning(score, read(symbolic_trace(mask_mod).graph, INDICES, box), box)


def by_contract(means, s, box):
    """Scores as ops.attention has them, -inf where a key is not seen: the contract's sentences, dense."""
    out = torch.full_like(s, -INF)
    x = s[..., means.first:means.end] * means.scale
    place = torch.arange(box.queries)[:, None] + (means.end - means.first) - box.queries
    away = place - torch.arange(means.end - means.first)[None, :]
    if means.softcap is not None:
        assert means.softcap > 0
        x = means.softcap * torch.tanh(x / means.softcap)
    if means.slopes is not None:
        factor = means.slopes.factor if isinstance(means.slopes, Slopes) else means.slopes
        factor = torch.as_tensor(factor.values if isinstance(factor, PerHead) else factor).expand(box.heads)
        factor = factor * SLOPES if isinstance(means.slopes, Slopes) else factor
        x = x - factor[:, None, None] * away.abs()
    left, right = means.window
    seen = torch.ones_like(away, dtype=torch.bool)
    seen &= True if left is None else away <= left
    seen &= True if right is None else away >= -right
    out[..., means.first:means.end] = torch.where(seen, x, torch.tensor(-INF))
    return out


def directly(score_mod, mask_mod, s, box):
    """The same by the functions themselves."""
    indices = torch.meshgrid(*(torch.arange(n, dtype=torch.int32) for n in (box.batches, box.heads, box.queries, box.keys)),
                             indexing="ij")
    return torch.where(torch.as_tensor(mask_mod(*indices)), score_mod(s, *indices, SLOPES), torch.tensor(-INF))


class Draw:
    """Random functions of the forms that are known, each spelled in one of several ways; with `wild`, others among them."""

    def __init__(self, seed, wild=0.0):
        self.random = random.Random(seed)
        self.wild = wild

    def number(self):
        return self.random.choice([0.25, 0.5, 1.5, 2, 3.0])

    def condition(self, box):
        """A bound of q - k."""
        least = 0 if self.random.random() < 0.8 else -2
        n, m = self.random.randint(least, max(box.queries, box.keys)), self.random.choice([1, 2, 3])
        forms = [lambda q, k: q - k <= n, lambda q, k: k + n >= q, lambda q, k: m * q - k * m < n * m + 1,
                 lambda q, k: n - q > -k - 1, lambda q, k: (q - k).abs() <= n + 2, lambda q, k: n + 3 > abs(k - q),
                 lambda q, k: ~(q > k + n), lambda q, k: torch.logical_not(torch.gt(q - n, k)), lambda q, k: q >= k - n,
                 lambda q, k: -q + k - n <= 0, lambda q, k: torch.le(torch.sub(k, q), n), lambda q, k: 2 * (k - q) < 2 * n + 1,
                 lambda q, k: q + n > k - 1, lambda q, k: ~(k.to(torch.int64) >= q + n + 1)]
        if self.random.random() < self.wild:
            forms = [lambda q, k: q * k >= n, lambda q, k: q + k >= n, lambda q, k: (q - k) % m == 0,
                     lambda q, k: (q >= k) | (k < n), lambda q, k: k <= n, lambda q, k: (q - k).abs() >= n,
                     lambda q, k: ~((q - k <= n) & (k <= q)), lambda q, k: 2 * q > k,
                     lambda q, k: q // m == k // m, lambda q, k: q - k != n, lambda q, k: (q - k).float() * 0.5 <= n,
                     lambda q, k: q - k == n]
        return self.random.choice(forms)

    def mask(self, box):
        conditions = [self.condition(box) for _ in range(self.random.randint(0, 2))]
        conditions += [lambda q, k: q >= k] * self.random.randint(0, 1)
        join = self.random.choice([operator.and_, torch.logical_and, torch.bitwise_and])

        def mask_mod(b, h, q, k):
            seen = b.new_ones((), dtype=torch.bool)
            for one in conditions:
                seen = join(seen, one(q, k))
            return seen

        return mask_mod

    def score(self, box):
        a, c = self.number(), self.random.choice([1.0, 2.5, -2.0])
        steps = []
        if self.random.random() < 0.5:
            steps.append(self.random.choice([lambda s, *_: s * a, lambda s, *_: s / a, lambda s, *_: a * s.float()]))
        if self.random.random() < 0.5:
            steps.append(self.random.choice([lambda s, *_: c * torch.tanh(s / c), lambda s, *_: (s * a).tanh() * c,
                                             lambda s, *_: torch.tanh(-s / a) / -a]))
        if self.random.random() < 0.6:
            steps.append(self.random.choice([
                lambda s, h, q, k, x: s - x[h] * (q - k).abs(), lambda s, h, q, k, x: s + -0.25 * torch.abs(k - q),
                lambda s, h, q, k, x: s + (k - q) * x[h] * a, lambda s, h, q, k, x: s - 2 ** (-4.0 * (h + 1)) * (q - k),
                lambda s, h, q, k, x: s + torch.exp2(-(h + 1) / 2) * (k - q),
                lambda s, h, q, k, x: (k.float() - q.float()) * 0.5 + s,
                lambda s, h, q, k, x: s + (q - k) / -4, lambda s, h, q, k, x: s - (h + 1) * abs(q - k),
                lambda s, h, q, k, x: s - -x[h] * (k - q).to(torch.float32)]))
        if self.random.random() < self.wild:
            steps.append(self.random.choice([
                lambda s, h, q, k, x: s + 1, lambda s, h, q, k, x: s * x[h], lambda s, h, q, k, x: torch.sin(s),
                lambda s, h, q, k, x: s + x[h], lambda s, h, q, k, x: s * (q - k), lambda s, h, q, k, x: s - (q - k) * (q - k),
                lambda s, h, q, k, x: torch.where(q >= k, s, s - 1), lambda s, h, q, k, x: torch.where(q >= k, s, -1e9),
                lambda s, h, q, k, x: s + k, lambda s, h, q, k, x: -s, lambda s, h, q, k, x: torch.tanh(s),
                lambda s, h, q, k, x: s + 0,
                lambda s, h, q, k, x: s * 0, lambda s, h, q, k, x: s.half().float(), lambda s, h, q, k, x: s + (q - k) + (k - q)]))
        if self.random.random() < 0.5:
            seen = self.condition(box)
            steps.append(self.random.choice([
                lambda s, h, q, k, x: torch.where(seen(q, k), s, -INF), lambda s, h, q, k, x: torch.where(~seen(q, k), -INF, s),
                lambda s, h, q, k, x: s.masked_fill(~seen(q, k), -INF),
                lambda s, h, q, k, x: s.masked_fill((k > q + 3) | ~seen(q, k), -INF),
                lambda s, h, q, k, x: s + torch.where(seen(q, k), 0.0, -INF)]))
        self.random.shuffle(steps) if self.wild else None

        def score_mod(s, b, h, q, k, x):
            for step in steps:
                s = step(s, h, q, k, x)
            return s

        return score_mod


KNOWN = ("no query sees a key", "the last queries see no key", "slopes are for distances", "that is no slope times the distance")


@pytest.mark.long(but=["0.0-120-60"], everywhere=True)
@pytest.mark.parametrize("wild, cases, least", [(0.0, 120, 60), (0.3, 150, 25)])
def test_random_functions(wild, cases, least):
    """What is understood is what the function says; of the known forms all are, but for lengths that ours have no option for."""
    taken, generator = 0, torch.Generator().manual_seed(1)
    for seed in range(cases):
        draw = Draw(seed, wild)
        box = Box(2, 2, draw.random.randint(2, 7), draw.random.randint(2, 7))
        box = box if seed % 3 == 0 else Box(2, 2, box.queries, box.queries)
        score_mod, mask_mod = draw.score(box), draw.mask(box)
        try:
            means = understood(score_mod, mask_mod, box)
        except Unknown as reason:
            assert wild or any(one in str(reason) for one in KNOWN), f"seed {seed}: {reason}"
            continue
        taken += 1
        s = torch.randn(2, 2, box.queries, box.keys, generator=generator)
        torch.testing.assert_close(by_contract(means, s, box), directly(score_mod, mask_mod, s, box), rtol=1e-5, atol=1e-5,
                                   msg=lambda text, seed=seed: f"seed {seed}: {text}")
    assert taken >= least


def identity(s, b, h, q, k, x):
    return s


def causal(b, h, q, k):
    return q >= k


BOX = Box(2, 2, 12, 12)
NEAR_MISSES = {
    "joins conditions by or": (identity, lambda b, h, q, k: (q >= k) | (k < 3)),
    "joins conditions by or, so": (identity, lambda b, h, q, k: ~((q >= k) & (q - k < 3))),
    "more than the distance of a query": (identity, lambda b, h, q, k: k < 9),
    "depends on more than the distance": (identity, lambda b, h, q, k: q - h >= k),
    "computes with mod": (identity, lambda b, h, q, k: q % 2 == 0),
    "computes with floordiv": (identity, lambda b, h, q, k: q // 4 == k // 4),
    "no query sees a key": (identity, lambda b, h, q, k: q - k > 11),
    "32 bits": (identity, lambda b, h, q, k: q * (1 << 30) >= k * (1 << 30)),
    "sum of a score and 1": (lambda s, b, h, q, k, x: s + 1, causal),
    "sum of a score and slopes": (lambda s, b, h, q, k, x: s + x[h], causal),
    "product of a score and slopes": (lambda s, b, h, q, k, x: s * x[h], causal),
    "multiplies a score by 0": (lambda s, b, h, q, k, x: s * 0, causal),
    "more than one bias": (lambda s, b, h, q, k, x: s + (k - q) - x[h] * (q - k), causal),
    "other than a slope of each head": (lambda s, b, h, q, k, x: s - x[q] * (q - k), causal),
    "another sign for keys before": (lambda s, b, h, q, k, x: s - x[h] * (q - k), lambda b, h, q, k: q + 1 >= k),
    "no slope times the distance": (lambda s, b, h, q, k, x: s + k * 0.5, causal),
    "chooses between two scores": (lambda s, b, h, q, k, x: torch.where(q >= k, s, s * 2), causal),
    "or -inf": (lambda s, b, h, q, k, x: torch.where(q >= k, s, -1e9), causal),
    "tanh of a score": (lambda s, b, h, q, k, x: torch.tanh(s + (k - q)), causal),
    "converts something to torch.float16": (lambda s, b, h, q, k, x: s.to(torch.float16), causal),
    "computes with rand_like": (lambda s, b, h, q, k, x: torch.where(torch.rand_like(s) < 0.1, -INF, s), causal),
    "not made of the score": (lambda s, b, h, q, k, x: q - k, causal),
    "True or False as numbers": (lambda s, b, h, q, k, x: s * True, causal),
}


def test_near_misses_are_refused_and_say_why():
    for words, (score_mod, mask_mod) in NEAR_MISSES.items():
        with pytest.raises(Unknown, match=words):
            pytest.fail(f"{words}: {understood(score_mod, mask_mod, BOX)}")
    graph = symbolic_trace(lambda q: q + 1).graph
    next(node for node in graph.nodes if node.op == "call_function").target = operator.iadd     # writes into an index
    with pytest.raises(Unknown, match="computes with iadd"):
        read(graph, INDICES[2:], BOX)
    for slopes, words in ((SLOPES.clone().requires_grad_(), "requires a gradient"), (SLOPES.half(), "float16"),
                          (torch.zeros(3), r"\(3,\)")):
        with pytest.raises(Unknown, match=words):
            understood(lambda s, b, h, q, k, x: s - x[h] * (q - k), causal, BOX, slopes)


def test_bounds_are_exact():
    """`>` is another window than `>=`, and each bound is where the function has it."""
    for mask_mod, window in ((causal, (None, 0)), (lambda b, h, q, k: q - 2 < k, (1, None)),
                             (lambda b, h, q, k: ~((q > k) | (k > q)), (0, 0)),
                             (lambda b, h, q, k: q - 2 <= k, (2, None)), (lambda b, h, q, k: abs(k - q) < 4, (3, 3)),
                             (lambda b, h, q, k: k - q < 3, (None, 2)), (lambda b, h, q, k: 3 * (q - k) <= 7, (2, None)),
                             (lambda b, h, q, k: (q + 0 == k), (0, 0))):
        means = understood(identity, mask_mod, BOX)
        assert (means.window, means.first, means.end) == (window, 0, 12)
    later = understood(identity, lambda b, h, q, k: q > k, BOX)         # the first query sees no key, and nobody the last one
    assert (later.window, later.first, later.end) == ((None, 0), 0, 11)


def test_blocks_of_random_windows():
    draw = random.Random(5)
    for _ in range(12):
        box = Box(1, 1, draw.randint(3, 40), draw.randint(3, 40))
        least, most = draw.choice([(0, None), (-3, 5), (None, 2), (None, None), (4, 9)])
        sizes = draw.choice([(4, 4), (8, 4), (16, 16), (128, 128)])

        def mask_mod(b, h, q, k, least=least, most=most):
            return (q - k >= (-100 if least is None else least)) & (q - k <= (100 if most is None else most))

        made = create_block_mask(mask_mod, None, None, box.queries, box.keys, device="cpu", BLOCK_SIZE=sizes,
                                 separate_full_blocks=draw.random() < 0.7)
        blocks = Blocks(*(getattr(made, name) for name in Blocks._fields[:-2]), *sizes)
        assert agree(blocks, Near(least, most), box)
        wrong = []
        if int(blocks.kv_num_blocks.max()) > 1:         # twice the same block
            wrong.append(blocks._replace(kv_indices=blocks.kv_indices[..., :1].expand_as(blocks.kv_indices)))
        if blocks.full_kv_num_blocks is not None and int(blocks.full_kv_num_blocks.sum()):
            wrong.append(blocks._replace(full_kv_num_blocks=0 * blocks.full_kv_num_blocks))
        if int(blocks.kv_num_blocks.sum()):
            wrong += [blocks._replace(kv_num_blocks=0 * blocks.kv_num_blocks),
                      blocks._replace(q_num_blocks=0 * blocks.q_num_blocks),
                      blocks._replace(kv_indices=blocks.kv_indices - 1), blocks._replace(q_indices=blocks.q_indices + 1),
                      blocks._replace(kv_num_blocks=0 * blocks.kv_num_blocks, full_kv_num_blocks=blocks.kv_num_blocks,
                                      full_kv_indices=blocks.kv_indices)]
        for one in wrong:
            assert not agree(one, Near(least, most), box)
