"""Expressions of score_mods: random ones against numpy and central differences, their texts, bounds of whole numbers, windows."""

import random
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="a score_mod is a function of torch")

from mimw.errors import ScoreModError  # noqa: E402
from mimw.score_mods.computed import computed  # noqa: E402
from mimw.score_mods.derive import derivative  # noqa: E402
from mimw.score_mods.nodes import INDICES, SCORE, in_order, lookup, make, number  # noqa: E402
from mimw.score_mods.ranges import Box, TableType, of_bits, ranges  # noqa: E402
from mimw.score_mods.split import split  # noqa: E402
from mimw.score_mods.text import parsed, shown  # noqa: E402
from mimw.score_mods.written import written  # noqa: E402

BOX = Box(2, 3, 5, 7)
FLOATS, WHOLE = np.linspace(-1, 1, 11), np.array([3, -2, 0, 4, 1, 7, 2])
TYPES = [TableType((11, )), TableType((7, ), of_bits(64))]


def floats(pick: random.Random, depth: int):
    """A random float whose value stays moderate, so that differences tell its derivative."""
    if depth == 0:
        return pick.choice([SCORE, SCORE, number(pick.randrange(-64, 65) / 32), make("float", whole(pick, 0)),
                            lookup("f", 0, (make("mod", whole(pick, 1), number(11)), ))])
    x, y = floats(pick, depth - 1), floats(pick, depth - 1)
    positive = make("add", make("mul", x, x), number(0.5))
    return pick.choice([
        lambda: make(pick.choice(["add", "sub", "mul", "min", "max"]), make("tanh", x), y), lambda: make("div", x, positive),
        lambda: make(pick.choice(["neg", "abs", "tanh", "sigmoid", "sin", "cos"]), x),
        lambda: make(pick.choice(["log", "log2", "sqrt", "rsqrt"]), positive),
        lambda: make(pick.choice(["exp", "exp2"]), make("tanh", x)), lambda: make("where", truth(pick, depth), x, y)])()


def whole(pick: random.Random, depth: int):
    if depth == 0:
        return pick.choice([*INDICES.values(), number(pick.randrange(-3, 9)), lookup("i", 1, (INDICES["k"], ))])
    x, y = whole(pick, depth - 1), whole(pick, depth - 1)
    return pick.choice([
        lambda: make(pick.choice(["add", "sub", "mul", "min", "max", "and", "or", "xor"]), x, y),
        lambda: make(pick.choice(["neg", "abs", "not", "int32", "int8"]), x), lambda: make("int", truth(pick, 1)),
        lambda: make(pick.choice(["floordiv", "mod"]), x, number(pick.choice([-3, 2, 5])))])()


def truth(pick: random.Random, depth: int):
    x, y = whole(pick, depth - 1), whole(pick, depth - 1)
    compared = make(pick.choice(["lt", "le", "eq", "ne"]), x, y)
    if depth > 1 and pick.random() < 0.5:
        return make(pick.choice(["and", "or", "xor"]), compared, make("not", truth(pick, depth - 1)))
    return make("lt", SCORE, number(pick.randrange(-32, 33) / 32)) if pick.random() < 0.2 else compared


class Table:
    def __init__(self, values):
        self.values = values

    def __getitem__(self, index):
        return self.values[index]


def _exact(digits: str) -> str:
    """A float of a text is one of fp32."""
    return repr(float(np.float32(digits))) if "." in digits or "e" in digits else digits


def by_numpy(text: str, score, b, h, q, k):
    """The text as Python, of numpy's functions: none of ours."""
    names = {name: getattr(np, name) for name in ("tanh", "exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "abs", "where")}
    names |= {"s": score, "b": b, "h": h, "q": q, "k": k, "inf": np.inf, "nan": np.nan, "f0": Table(FLOATS), "i1": Table(WHOLE),
              "min": np.minimum, "max": np.maximum, "float": np.float64, "int": np.int64, "rsqrt": lambda x: x**-0.5,
              "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "int32": lambda x: np.asarray(x).astype(np.int32).astype(np.int64),
              "int8": lambda x: np.asarray(x).astype(np.int8).astype(np.int64)}
    text = re.sub(r"(?<![\w.])\d+(\.\d*)?(e[-+]?\d+)?", lambda found: _exact(found[0]), text)
    *lines, last = text.split("; ")
    exec("\n".join(lines), names)
    return eval(last, names)


def points(seed: int):
    values = np.random.default_rng(seed)
    indices = [values.integers(0, extent, 64) for extent in BOX]
    return values.uniform(-2, 2, 64), indices


def by_us(roots, score, indices):
    given = torch.from_numpy(score), [torch.from_numpy(one) for one in indices]
    return [one.expand(64).numpy() for one in computed(roots, *given, [torch.from_numpy(FLOATS), torch.from_numpy(WHOLE)])]


def test_random_expressions_against_numpy_and_central_differences():
    told = 0
    for seed in range(150):
        root = floats(random.Random(seed), 3)
        text = shown(root)
        assert parsed(text) is root and shown(derivative(root)) == shown(derivative(parsed(text)))
        score, indices = points(seed)
        value, slope = by_us([root, derivative(root)], score, indices)
        with np.errstate(all="ignore"):
            found, step = lambda moved: np.broadcast_to(by_numpy(text, score + moved, *indices), 64), 1e-6
            np.testing.assert_allclose(value, found(0.0), rtol=1e-12, atol=1e-12, err_msg=text)
            rough, fine = ((found(far) - found(-far)) / (2 * far) for far in (step, step / 2))
        smooth = np.abs(rough - fine) < 1e-6 * (1 + np.abs(fine))        # elsewhere a kink or a step is near
        told += smooth.sum()
        np.testing.assert_allclose(slope[smooth], fine[smooth], rtol=2e-5, atol=2e-5, err_msg=text)
    assert told > 0.95 * 150 * 64


def test_bounds_of_whole_numbers_hold():
    for seed in range(200):
        root = whole(random.Random(seed), 3)
        found = ranges(root, BOX, TYPES)
        score, indices = points(seed)
        for node in in_order(root):
            if node.kind == "int":
                value, = by_us([node], score, indices)
                assert found[node][0] <= value.min() and value.max() <= found[node][1], shown(node)


def test_texts_are_canonical_and_nothing_else_is_one():
    for text, wanted in {"s+ 1": None, "(s)": "s", "s * .5": "s * 0.5", "x = q - k; float(x * x)": "x0 = q - k; float(x0 * x0)",
                         "where(q >= k, s, s)": None, "where(k <= q, s, -inf)": "where(k <= q, s, -inf)",
                         "where(~(k < q), s, f0[()])": "where(q <= k, s, f0[()])"}.items():
        if wanted is None:
            with pytest.raises(ScoreModError):
                parsed(text)
        else:
            assert shown(parsed(text)) == wanted == shown(parsed(wanted))
    refused = ["", "x = s", "import os", "s.real", "__import__('os')", "s if s else s", "s; s", "q = k; s", "s and s", "f0[s]",
               "t0[q]", "s < q", "where(q, s, s)", "tanh(q)", "s % 2.0", "s // 2.0", "1 < q < 3", f"s + {1 << 70}", "s +", "'s'",
               "tanh(s, s)", "tanh(x=s)", "[s]", "-" * 5000 + "s", "s" + " + s" * 9000]
    for text in refused:
        with pytest.raises(ScoreModError):
            parsed(text)


def test_windows_in_masks():
    for text, wanted in {
            "k <= q": (0, None, "True"), "(k <= q) & ((q - k) < 3)": (0, 2, "True"), "~(q < k) & (h < 2)": (0, None, "h < 2"),
            "abs(q - k) <= 2": (-2, 2, "True"), "~((q < k) | (k < (q - 1)))": (0, 1, "True"),
            "(2 * q) <= ((2 * k) + 3)": (None, 1, "True"),
            "(q * h) <= (k * h)": (None, None, "(q * h) <= (k * h)"), "q <= (k + 9)": (None, None, "True"),
            "(k <= q) | (k < 2)": (None, None, "(k <= q) | (k < 2)")}.items():
        least, most, rest = split(parsed(text), BOX)
        assert (least, most, shown(rest)) == wanted, text
        q, k = np.arange(BOX.queries)[:, None], np.arange(BOX.keys)[None]
        inside = (q - k >= (-99 if least is None else least)) & (q - k <= (99 if most is None else most))
        for head in range(BOX.heads):
            assert (by_numpy(text, 0.0, 0, head, q, k) == (inside & by_numpy(shown(rest), 0.0, 0, head, q, k))).all()


def test_what_is_written():
    """32 bits where they do, a mask where an index goes with a query or a key, NaN where it may be beyond the table."""
    text = written(parsed("s + f0[h, (q - k) + 7]"), BOX, [TableType((3, 20))])
    assert "int64" not in text and "placed" not in text.partition("def score_mod")[2] and "nan" not in text
    text = written(parsed("s + f0[q - k]"), BOX, [TableType((7, ))])
    assert "= placed(" in text and "nan" not in text
    text = written(parsed("s + f0[i1[k]]"), BOX, TYPES)
    assert 'float("nan")' in text and "tl.int64" in text
    assert "int64" in written(parsed("s + float((q * 2000000000) * k)"), BOX, [])
    with pytest.raises(ScoreModError, match="may be 0"):
        written(parsed("s + float(q % k)"), BOX, [])
    with pytest.raises(ScoreModError, match="a float, not int"):
        written(parsed("q % 2"), BOX, [])
