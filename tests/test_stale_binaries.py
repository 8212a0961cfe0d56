"""What a kernel names was edited between two processes that share a cache on disk: the second compiles what it simulates.

Each case is a program that is run with 3 and with 5 in the place of a number; it prints what was simulated and what the binary
multiplies by.
"""

from textwrap import dedent

import pytest

from tests.processes import python

HEAD = """
import re, struct, sys
import numpy as np, triton, triton.language as tl
import mimw, mimw.tlx as tlx
sys.path.insert(0, {folder!r})
sys.dont_write_bytecode = True
import consts
VALUE = {value}.0
CONSTANT = tl.constexpr({value}.0)
AT = tl.constexpr(128)
class Settings: value = {value}.0
class Fixed:
    def __init__(self): self.value = {value}.0
HELD, LISTED = Fixed(), dict(one=[{value}.0])

def compiled(text):
    return {{struct.unpack(">f", bytes.fromhex(one[2:]))[0] for one in re.findall(r"0[fF][0-9A-Fa-f]{{8}}", text)}} & {{3.0, 5.0}}

def told(kernel, *more, **meta):
    x, y = np.ones(128, np.float32), np.zeros(128, np.float32)
    mimw.simulate(kernel, (1, ), x, y, *more, **meta)
    print(y[0], *compiled(mimw.compile(kernel, (1, ), x, y, *more, target="sm_90a", **meta).ptx))
"""
OF_A_FUNCTION = """
@triton.constexpr_function
def number(n): {body}
@mimw.jit
def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * number(1))
told(kernel)
"""
CASES = {
    "a global": """
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * CONSTANT)
        told(kernel)
    """,
    "a module's constant, in a kernel of ours": """
        @mimw.jit
        def kernel(x, y):
            tile = tlx.local_alloc((AT, ), tl.float32, 1)
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, AT)) * consts.C)
            tl.store(y + tl.arange(0, AT), tlx.local_load(tile[0]))
        told(kernel)
    """,
    "a module's constant, in a plain kernel": """
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * consts.C)
        told(kernel)
    """,
    "a module's constant, in a helper of another module": """
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), consts.scaled(tl.load(x + tl.arange(0, AT))))
        told(kernel)
    """,
    "a helper's default, which a module gave": """
        @triton.jit
        def helper(v, c: tl.constexpr = consts.C): return v * c
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), helper(tl.load(x + tl.arange(0, AT))))
        told(kernel)
    """,
    "a compile-time function's global": OF_A_FUNCTION.format(body="return n * VALUE"),
    "its class": OF_A_FUNCTION.format(body="return n * Settings.value"),
    "an object": OF_A_FUNCTION.format(body="return n * HELD.value"),
    "a container": OF_A_FUNCTION.format(body="return n * LISTED['one'][0]"),
    "its module": OF_A_FUNCTION.format(body="return n * consts.PLAIN"),
    "the module that it imports": OF_A_FUNCTION.format(body="import consts as other; return n * other.PLAIN"),
    "what it calls": OF_A_FUNCTION.format(body="return n * consts.worked_out()"),
    "a name that it puts together": OF_A_FUNCTION.format(body="return n * getattr(consts, 'PLA' + 'IN')"),
    "a file": OF_A_FUNCTION.format(body="return n * float(open({folder!r} + '/number.txt').read())"),
    "the environment": OF_A_FUNCTION.format(body="import os; return n * float(os.environ['A_NUMBER'])"),
    "closures": """
        def maker(c):
            @triton.constexpr_function
            def f(n): return n * c
            return f
        def kernel_of(number):
            @mimw.jit
            def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * number(1))
            return kernel
        told(kernel_of(maker(VALUE)))
        told(kernel_of(maker(8 - VALUE)))
        @mimw.jit
        def kernel(x, y, number: tl.constexpr): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * number(1))
        told(kernel, maker(VALUE))
        told(kernel, maker(8 - VALUE))
    """,
    "closures of helpers": """
        def maker(c):
            c = tl.constexpr(c)
            @triton.jit
            def f(v): return v * c
            return f
        @mimw.jit
        def kernel(x, y, f: tl.constexpr): tl.store(y + tl.arange(0, AT), f(tl.load(x + tl.arange(0, AT))))
        told(kernel, maker(VALUE))
        told(kernel, maker(8 - VALUE))
    """,
}
RAW = """
from typing import Literal as L
import mimw.tle as tle
from mimw.tle.raw import InOut, arith, dialect, gpu, ir, memref
F32 = ir.F32Type.get()
def inner(v): return v * VALUE
def worked_out(): return arith.constant(F32, consts.PLAIN)
def maker(c):
    @dialect(name="mlir")
    def body(x: InOut[L["memref<?xf32, 3>"]]):
        at = gpu.thread_id("x")
        memref.store({expression}, x, [at])
    return body
body = maker(VALUE)
@mimw.jit
def kernel(x, y): tl.store(y + tl.arange(0, AT), tle.raw.call(body, [tl.load(x + tl.arange(0, AT))]))
told(kernel)
@mimw.jit
def kernel(x, y, body: tl.constexpr): tl.store(y + tl.arange(0, AT), tle.raw.call(body, [tl.load(x + tl.arange(0, AT))]))
told(kernel, maker(VALUE))
"""
CASES |= {f"a raw body's {name}": RAW.replace("{expression}", text) for name, text in {
    "global": "memref.load(x, [at]) * VALUE", "closure": "memref.load(x, [at]) * c", "helper": "inner(memref.load(x, [at]))",
    "module": "memref.load(x, [at]) * consts.PLAIN", "helper's module": "memref.load(x, [at]) * worked_out()"}.items()}


def program(name: str, folder, value: int) -> str:
    text = dedent(CASES[name]).replace("{folder!r}", repr(str(folder)))
    return HEAD.format(folder=str(folder), value=value) + text


def run(name: str, folder, value: int) -> list[str]:
    (folder / "consts.py").write_text(dedent(f"""
        import triton, triton.language as tl
        PLAIN = {value}.0
        C = tl.constexpr(PLAIN)
        def worked_out(): return PLAIN
        @triton.jit
        def scaled(v): return v * C
    """))
    (folder / "number.txt").write_text(str(value))
    file = folder / "program.py"
    file.write_text(program(name, folder, value))
    done = python(file, TRITON_CACHE_DIR=str(folder / "cache"), MIMW_NO_GPU="1", A_NUMBER=str(value))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", CASES)
def test_a_new_process_compiles_what_it_simulates(name, tmp_path):
    runs = {value: run(name, tmp_path, value) for value in (3, 5)}
    for value, found in runs.items():
        other = 8 - value
        assert found[:2] == [f"{value}.0"] * 2
        again = {2: [], 4: [f"{value}.0" if "raw" in name else f"{other}.0"] * 2}      # a second kernel: that of another closure
        assert found[2:] == again.get(len(found), [f"{other}.0"] * 2 + [f"{value}.0"] * 2 + [f"{other}.0"] * 2)
    binaries = len(list((tmp_path / "cache").rglob("kernel.cubin")))
    assert run(name, tmp_path, 3) == runs[3] and len(list((tmp_path / "cache").rglob("kernel.cubin"))) == binaries
