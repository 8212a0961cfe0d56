"""What a kernel names was edited between two processes that share a cache on disk: the second compiles what it simulates.

Each case is a file that is run with 3 and with 5 in the place of a number, and then with 3 again. It tells what was simulated and
by what the compiled kernel multiplies. All cases run in one process, since what they ask is about two.
"""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.processes import python

HEAD = """
import re
import numpy as np, triton, triton.language as tl
import mimw, mimw.tlx as tlx
import consts
VALUE = {value}.0
CONSTANT = tl.constexpr({value}.0)
AT = tl.constexpr(128)
class Settings: value = {value}.0
class Fixed:
    def __init__(self): self.value = {value}.0
HELD, LISTED = Fixed(), dict(one=[{value}.0])

def multiplied(kernel, *more):
    \"\"\"What a simulation multiplied by, and what stands in the compiled kernel.\"\"\"
    x, y = np.ones(128, np.float32), np.zeros(128, np.float32)
    mimw.simulate(kernel, (1, ), x, y, *more)
    text = mimw.compile(kernel, (1, ), x, y, *more, target="sm_90a").ttgir
    return float(y[0]), *map(float, re.findall(r"arith.constant (?:dense<)?([35][.]0+e[+]00)", text))
"""
MAIN = """
import json, sys
sys.dont_write_bytecode = True
sys.path[:0] = [{folder!r}, {root!r}]
from triton import knobs
from tests.freeze.fake_gpu import _without_llvm
knobs.runtime.add_stages_inspection_hook = _without_llvm
print(json.dumps({{name: __import__(name).TOLD for name in {names!r}}}))
"""
OF_A_FUNCTION = """
@triton.constexpr_function
def number(n): {body}
@mimw.jit
def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * number(1))
TOLD = [multiplied(kernel)]
"""
OF_A_BODY = """
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
@mimw.jit
def taking(x, y, body: tl.constexpr): tl.store(y + tl.arange(0, AT), tle.raw.call(body, [tl.load(x + tl.arange(0, AT))]))
TOLD = [multiplied(kernel), multiplied(taking, maker(VALUE))]
"""
CASES = {
    "a_global": """
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * CONSTANT)
        TOLD = [multiplied(kernel)]
    """,
    "a_module_in_a_kernel_of_ours": """
        @mimw.jit
        def kernel(x, y):
            tile = tlx.local_alloc((AT, ), tl.float32, 1)
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, AT)) * consts.C)
            tl.store(y + tl.arange(0, AT), tlx.local_load(tile[0]))
        TOLD = [multiplied(kernel)]
    """,
    "a_module_in_a_plain_kernel": """
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * consts.C)
        TOLD = [multiplied(kernel)]
    """,
    "a_module_in_its_helper": """
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), consts.scaled(tl.load(x + tl.arange(0, AT))))
        TOLD = [multiplied(kernel)]
    """,
    "a_module_that_gave_a_default": """
        @triton.jit
        def helper(v, c: tl.constexpr = consts.C): return v * c
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), helper(tl.load(x + tl.arange(0, AT))))
        TOLD = [multiplied(kernel)]
    """,
    "a_struct_and_its_default": """
        import mimw.tle as tle
        @tle.struct
        class Scaled:
            v: tl.tensor
            factor: tl.constexpr = VALUE
        @mimw.jit
        def kernel(x, y):
            one = Scaled(tl.load(x + tl.arange(0, AT)))
            tl.store(y + tl.arange(0, AT), one.v * one.factor)
        TOLD = [multiplied(kernel)]
    """,
    "a_struct_and_its_method": """
        import mimw.tle as tle
        @tle.struct
        class Scaled:
            v: tl.tensor
            @triton.jit
            def scaled(self): return self.v * CONSTANT
        @mimw.jit
        def kernel(x, y): tl.store(y + tl.arange(0, AT), Scaled(tl.load(x + tl.arange(0, AT))).scaled())
        TOLD = [multiplied(kernel)]
    """,
    "a_struct_given_to_the_launch": """
        import mimw.tle as tle
        @tle.struct
        class Form:
            factor: tl.constexpr
            left: tl.constexpr = VALUE
            @triton.constexpr_function
            def both(self): return self.factor.value * self.left.value / CONSTANT.value
        @mimw.jit
        def kernel(x, y, FORM: tl.constexpr):
            tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * FORM.both())
        TOLD = [multiplied(kernel, Form(VALUE)), multiplied(kernel, Form(8 - VALUE)), multiplied(kernel, Form(VALUE))]
    """,
    "a_function_and_its_global": OF_A_FUNCTION.format(body="return n * VALUE"),
    "a_function_and_a_class": OF_A_FUNCTION.format(body="return n * Settings.value"),
    "a_function_and_an_object": OF_A_FUNCTION.format(body="return n * HELD.value"),
    "a_function_and_a_container": OF_A_FUNCTION.format(body="return n * LISTED['one'][0]"),
    "a_function_and_a_module": OF_A_FUNCTION.format(body="return n * consts.PLAIN"),
    "a_function_and_an_import": OF_A_FUNCTION.format(body="import consts as other; return n * other.PLAIN"),
    "a_function_and_what_it_calls": OF_A_FUNCTION.format(body="return n * consts.worked_out()"),
    "a_function_and_a_name_put_together": OF_A_FUNCTION.format(body="return n * getattr(consts, 'PLA' + 'IN')"),
    "a_function_and_a_file": OF_A_FUNCTION.format(body="return n * float(open(consts.FILE).read())"),
    "a_function_and_the_environment": OF_A_FUNCTION.format(body="import os; return n * float(os.environ['A_NUMBER'])"),
    "closures": """
        def maker(c):
            @triton.constexpr_function
            def f(n): return n * c
            return f
        def kernel_of(number):
            @mimw.jit
            def kernel(x, y): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * number(1))
            return kernel
        @mimw.jit
        def taking(x, y, number: tl.constexpr): tl.store(y + tl.arange(0, AT), tl.load(x + tl.arange(0, AT)) * number(1))
        TOLD = [multiplied(kernel_of(maker(VALUE))), multiplied(kernel_of(maker(8 - VALUE)))]
        TOLD += [multiplied(taking, maker(VALUE)), multiplied(taking, maker(8 - VALUE))]
    """,
    "closures_of_helpers": """
        def maker(c):
            c = tl.constexpr(c)
            @triton.jit
            def f(v): return v * c
            return f
        @mimw.jit
        def taking(x, y, f: tl.constexpr): tl.store(y + tl.arange(0, AT), f(tl.load(x + tl.arange(0, AT))))
        TOLD = [multiplied(taking, maker(VALUE)), multiplied(taking, maker(8 - VALUE))]
    """,
    **{f"a_body_and_{name}": OF_A_BODY.format(expression=expression) for name, expression in {
        "a_global": "memref.load(x, [at]) * VALUE", "a_closure": "memref.load(x, [at]) * c",
        "a_helper": "inner(memref.load(x, [at]))", "a_module": "memref.load(x, [at]) * consts.PLAIN",
        "the_module_of_a_helper": "memref.load(x, [at]) * worked_out()"}.items()},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What each case told with 3, with 5 and with 3 again, and how many binaries there were after each run."""
    folder = tmp_path_factory.mktemp("edited")
    main = folder / "main.py"
    main.write_text(MAIN.format(folder=str(folder), root=str(Path(__file__).parent.parent), names=list(CASES)))
    found = []
    for value in (3, 5, 3):
        (folder / "consts.py").write_text(dedent(f"""
            import triton, triton.language as tl
            PLAIN, FILE = {value}.0, {str(folder / "number.txt")!r}
            C = tl.constexpr(PLAIN)
            def worked_out(): return PLAIN
            @triton.jit
            def scaled(v): return v * C
        """))
        (folder / "number.txt").write_text(str(value))
        for name, text in CASES.items():
            (folder / f"{name}.py").write_text(HEAD.format(value=value) + dedent(text))
        done = python(main, TRITON_CACHE_DIR=str(folder / "cache"), MIMW_NO_GPU="1", A_NUMBER=str(value))
        assert done.returncode == 0, done.stderr
        found.append((json.loads(done.stdout), len(list((folder / "cache").rglob("*.ttgir")))))
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_new_process_compiles_what_it_simulates(name, runs):
    for value, (told, _) in zip((3.0, 5.0, 3.0), runs):
        of = [value, 8 - value] if name.startswith("closures") or name.endswith("the_launch") else [value, value]
        for index, (simulated, *compiled) in enumerate(told[name]):
            assert simulated == of[index % 2] and set(compiled) == {simulated}


def test_what_was_compiled_for_the_old_value_is_found_again(runs):
    assert runs[0][1] < runs[1][1] == runs[2][1]
