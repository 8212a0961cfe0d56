"""All that recording a kernel looks at: what a text names, what values hold, and what cannot be followed."""

import ast
import collections
import dataclasses
import enum
import functools
import os
import pkgutil
import types
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import tests.kernels
from mimw.compiler.frontend.seen import content_of, look
from mimw.compiler.frontend.seen.names import named_in_code, named_in_tree
from mimw.compiler.frontend.seen.still import CONTENT
from mimw.compiler.frontend.words import uses_words
from mimw.compiler.triton_port.runtime import JITFunction, driver
from tests.processes import python

MODULE = types.ModuleType("a_module_of_the_users")
MODULE.C, MODULE.other, MODULE.lazy = 3, types.ModuleType("another_module"), types.ModuleType("lazy")
MODULE.lazy.__getattr__ = lambda name: 5
MODULE.other.D = 4


class Colour(enum.IntEnum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Settings:
    rows: int = 4
    names: tuple = ("a", "b")

    @functools.cached_property
    def size(self):
        return self.rows * len(self.names)


Pair = collections.namedtuple("Pair", "one two")
VALUES = [1, 1.0, True, None, "1", b"1", (1, ), [1], {1}, {1: 2}, {2: 1}, frozenset((1, 2)), Colour.RED, Settings(),
          Settings(5), Pair(1, 2), tl.constexpr(1), tl.float16, tl.int32, np.float32, np.float32(1), np.dtype("int8"),
          np.arange(3), np.arange(4), range(3), ..., types.SimpleNamespace(a=1), types.SimpleNamespace(a=2), -0.0, 0.0,
          float("nan"), list[int], int, Settings]


def test_values_are_told_by_their_content():
    told = [content_of(value) for value in VALUES]
    assert len(set(told)) == len(told) and " at 0x" not in "".join(told)
    assert content_of(types.SimpleNamespace(a=[1])) == content_of(types.SimpleNamespace(a=[1]))
    ring = []
    ring.append(ring)
    assert content_of(ring) == "list [@0]"


def test_another_process_tells_them_alike():
    """Texts hash otherwise there, so sets have another order."""
    program = f"""
import sys; sys.path.insert(0, {os.getcwd()!r})
from tests.frontend.test_seen import *
print(look([k_of_everything]).digest, sorted(content_of(value) for value in VALUES) == sorted(map(content_of, VALUES)))
"""
    digests = {python("-c", program, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert digests == {f"{look([k_of_everything]).digest} True\n"}


def of_text(text: str):
    return named_in_tree(ast.parse(text).body[0])


def test_names_of_a_text():
    found = of_text("""def f(a, b: tl.constexpr = D.e, *, c=1):
    x = a + G * m.n.o + getattr(p, "q")
    y = [i * h + j for i in r(b) for j in i if k]
    return x.s + {l: l2 for l in z}""")
    assert list(found.chains) == [("tl", "constexpr"), ("D", "e"), ("G", ), ("m", "n", "o"), ("getattr", ), ("p", ), ("r", ),
                                  ("k", ), ("h", ), ("x", "s"), ("z", ), ("l2", )]
    assert found.attributes >= {"e", "n", "o", "q", "s"} and found.assigned == {"x", "y"} and not found.computed
    assert ("N", ) in of_text("def f():\n    N += 1").chains
    assert ("i", ) in of_text("def f():\n    y = [i for i in r]\n    return i").chains, "a global, outside of the comprehension"
    assert of_text("def f(n):\n    return getattr(m, n)").computed


def test_names_of_code():
    def outer(x):
        import collections.abc as abc
        from math import ceil
        return [G.a.b(x) for _ in range(2)], (lambda: H.c)(), abc, ceil, getattr(x, "d")    # noqa: F821

    found = named_in_code(outer.__code__)
    assert {("G", "a", "b"), ("H", "c"), ("range", )} <= found.chains.keys()
    assert ("math", "ceil") in found.imported and found.computed and "d" in found.attributes


def test_a_frozen_dataclass_is_asked_for_nothing_and_what_it_holds_is():
    """It may be an argument of every launch."""
    assert look([Settings(7)]).still() and CONTENT not in {kind for kind, *_ in look([Settings(7)]).reads.values()}
    held = Settings(7, [1])
    seen = look([held])
    held.names.append(2)
    assert not seen.still()


class Slotted:
    __slots__ = ("held", )


class Listed(list):
    pass


SLOTTED, LISTED, OBJECT, TABLE, ARRAY = Slotted(), Listed(), types.SimpleNamespace(held=1), {1: [2]}, np.arange(3)
SLOTTED.held, LISTED.held = 1, 1


@pytest.mark.parametrize("change, value", [
    (lambda: setattr(SLOTTED, "held", SLOTTED.held + 1), "SLOTTED"), (lambda: setattr(LISTED, "held", LISTED.held + 1), "LISTED"),
    (lambda: LISTED.append(1), "LISTED"), (lambda: setattr(OBJECT, "held", float(OBJECT.held)), "OBJECT"),
    (lambda: TABLE[1].append(3), "TABLE"), (lambda: TABLE.update({1: [2.0]}), "TABLE"), (lambda: TABLE.pop(1), "TABLE"),
    (lambda: ARRAY.__setitem__(0, ARRAY[0] + 1), "ARRAY")])
def test_what_changes_in_place_is_noticed_from_the_walk_on(change, value):
    seen = look([globals()[value]])
    change()
    assert not seen.still() and look([globals()[value]]).digest != seen.digest and look([globals()[value]]).still()


@triton.constexpr_function
def of_settings(n):
    return n * Settings(3).size + Pair(1, 2).two + Colour.RED + len({"x", "y", "zz"}) + MODULE.other.D


@triton.jit
def handed_on(v, module: tl.constexpr):
    return v * module.C


@mimw.jit
def k_of_everything(x):
    tl.store(x, handed_on(tl.load(x), MODULE) * of_settings(2))


def test_a_module_that_is_handed_on_is_asked_for_what_anybody_takes(monkeypatch):
    seen = look([k_of_everything])
    assert not seen.unknown and "a_module_of_the_users.C" in seen.shown and seen.still()
    monkeypatch.setattr(MODULE, "C", 5)
    assert not seen.still() and "C = 3, which is 5 now" in seen.changed(look([k_of_everything]))
    monkeypatch.setattr(MODULE, "C", 3)
    monkeypatch.setattr(MODULE, "unnamed", 1, raising=False)
    assert look([k_of_everything]).digest == seen.digest


def asking(body):
    scope = {"triton": triton, "tl": tl, "mimw": mimw, "MODULE": MODULE, "os": os, "np": np, "REDUCE": functools.reduce,
             "Path": Path, "driver": driver}
    text = f"def number(n):\n    {body}\ndef kernel(x):\n    tl.store(x, number(1))\n"
    exec(text, scope)
    from mimw.runtime.decorated import kernel_source
    scope["number"] = triton.constexpr_function(kernel_source(scope["number"], {}, text)[0])
    return look([mimw.jit(scope["kernel"], source=text)])


@pytest.mark.parametrize("body, why", [
    ("return open('f').read()", "builtins.open"), ("return os.environ['A']", "os.environ"),
    ("import time; return time.time()", "time"),
    ("return np.random.rand()", "numpy.random.rand"), ("return eval('n')", "builtins.eval"),
    ("return getattr(MODULE, 'C' + n)", "names are put together"), ("import nobody_has_this; return nobody_has_this.x", "imports"),
    ("from random import random; return random()", "random"), ("return np.load('f')[0]", "numpy.load"),
    ("return Path('f').stat().st_size", "pathlib.Path"), ("return MODULE.lazy.value", "works value out"),
    ("return driver.active.get_current_device()", "DriverConfig")])
def test_what_cannot_be_followed(body, why):
    assert why in asking(body).unknown


@pytest.mark.parametrize("body", [
    "import math; return math.ceil(n)", "return np.log2(n)", "return triton.cdiv(n, 3)", "return getattr(n, 'real')",
    "return sorted(range(n))[0]", "from functools import reduce; return reduce(max, [n])", "return REDUCE(max, [n])",
    "return MODULE.C"])
def test_what_can(body):
    assert not asking(body).unknown


def test_whatever_goes_wrong_on_the_way_is_unknown():
    deep = []
    for _ in range(5000):
        deep = [deep]
    MODULE.deep = deep
    assert "RecursionError" in asking("return MODULE.deep").unknown
    MODULE.many = [object() for _ in range(6000)]
    assert "more than 1000 things" in asking("return MODULE.many").unknown


def test_nothing_of_the_shelf_is_unknown_and_the_librarys_kernels_are_asked_nothing():
    kernels = [value for name in pkgutil.iter_modules(tests.kernels.__path__) for value in
               vars(import_module(f"tests.kernels.{name.name}")).values() if isinstance(value, JITFunction)]
    assert len(kernels) > 200 and not [kernel for kernel in kernels[::5] if look([kernel]).unknown]
    from mimw.kernels.gemm.configs import Configuration
    from mimw.kernels.gemm.kernel import gemm
    assert look([gemm]).still is None and uses_words(gemm)
    wide, narrow = (look([gemm, Configuration(bn=bn).form(2, 2, False)]) for bn in (256, 128))
    assert wide.still is None and not wide.unknown and wide.digest != narrow.digest
    assert look([gemm], own_kernels=True).digest != look([gemm]).digest
