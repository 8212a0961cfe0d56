"""Errors in user code: a `triton.CompilationError` with the user's file, line and caret, and its cause chained."""

import re
from pathlib import Path

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.frontend.record import KernelCompilationError
from mimw.errors import MimwError, TaskError
from mimw.runtime.compile_kernel import compile_kernel

HERE = Path(__file__).resolve()
KERNELS = {}


def refused(text, cause=None, **constexprs):
    """The decorated kernel must be refused at the line marked `# here`, with `text`, caused by an error of type `cause`."""

    def register(function):
        KERNELS[function.__name__] = mimw.jit(function), re.compile(text), cause, constexprs
        return function

    return register


def line_of(function_name: str, mark: str) -> int:
    """The number of the marked line in the source of a function of this file."""
    lines = HERE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"def {function_name}("))
    return next(i for i, line in enumerate(lines[start:], start + 1) if line.endswith(mark))


def chain(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@refused("missing is not defined", NameError)
def undefined_name(x):
    tlx.fence("gpu")
    tl.store(x, missing)  # noqa: F821  # here


@refused("integer division or modulo by zero|division by zero", ZeroDivisionError)
def division_by_zero(x):
    tlx.fence("gpu")
    n: tl.constexpr = 1 // 0  # here
    tl.store(x, n)


@refused("integer division or modulo by zero|division by zero", ZeroDivisionError)
def division_by_zero_in_a_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            n: tl.constexpr = 1 // 0  # here
            tl.store(x, n)


@refused("missing is not defined", NameError)
def undefined_name_in_the_default_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, missing)  # noqa: F821  # here
        with tlx.async_task(num_warps=1):
            pass


@refused("[Ss]hape|broadcast", ValueError)
def bad_shapes_in_a_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            at = tl.arange(0, 32)
            for _ in range(2):
                tl.store(x + at, tl.arange(0, 32) + tl.arange(0, 64))  # here


@triton.jit
def stock_helper(x, n):
    tl.store(x, n.nothing)  # in stock_helper


@mimw.jit
def our_helper(x, n):
    stock_helper(x, n)  # in our_helper


@refused("nothing", AttributeError)
def helpers(x):
    tlx.fence("gpu")
    our_helper(x, tl.program_id(0))  # here


@refused("end argument must be greater", ValueError)
def bad_range(x):
    tlx.fence("gpu")
    tl.store(x + tl.arange(3, 0), 0)  # here


@refused("static_assert|too small", None, N=3)
def static_assertion(x, N: tl.constexpr):
    tlx.fence("gpu")
    tl.static_assert(N > 4, "too small")  # here


@refused("type stays consistent", AssertionError)
def loop_changes_type(x):
    tlx.fence("gpu")
    value = 1
    for _ in range(tl.program_id(0)):  # here
        value = 1.5
    tl.store(x, value)


@refused("type stays consistent", AssertionError)
def loop_rebinds_buffers(x):
    tiles = tlx.local_alloc((32, ), tl.int32, 2)
    for i in range(tl.program_id(0)):  # here
        tiles = tiles[i]
    tl.store(x, 0)


@refused("return", None)
def return_in_a_loop(x):
    tlx.fence("gpu")
    for i in range(tl.program_id(0)):
        if i > 2:  # here
            return


@refused("a task body cannot `return`", None)
def return_in_a_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            if tl.program_id(0) == 0:
                return  # here
        with tlx.async_task(num_warps=1):
            pass


@refused("WarpSpecializeOp should not capture RankedTensorType", MimwError)
def tile_captured(x):
    at = tl.arange(0, 32)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x + at, 0)
        with tlx.async_task(num_warps=1):
            tl.store(x + at, 0)  # here


@refused("WarpSpecializeOp should not capture RankedTensorType", MimwError)
def pointer_tile_captured(x):
    at = x + tl.arange(0, 32)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            for _ in range(3):
                tl.store(at, 0)  # here


@refused("not defined after the task region", TaskError)
def name_of_a_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            fresh = 3
        with tlx.async_task(num_warps=1):
            pass
    tl.store(x, fresh)  # here


@refused("not defined after the task region", TaskError)
def name_of_the_only_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            fresh = 3
    tl.store(x, fresh)  # here


@refused("not defined", NameError)
def name_of_another_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            fresh = 3
        with tlx.async_task(num_warps=1):
            tl.store(x, fresh)  # here


@refused("Default task must be one and only one", AssertionError)
def no_default(x):
    with tlx.async_tasks():  # here
        with tlx.async_task(num_warps=1):
            tl.store(x, 0)


@refused("Default task must be one and only one", AssertionError)
def two_defaults(x):
    with tlx.async_tasks():  # here
        with tlx.async_task("default"):
            tl.store(x, 0)
        with tlx.async_task("default"):
            tl.store(x, 0)


@refused("Default task must be one and only one", AssertionError)
def empty_region(x):
    with tlx.async_tasks():  # here
        pass


@refused("task id", None)
def legacy_task_ids(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, 0)
        with tlx.async_task([1, 2]):  # here
            tl.store(x, 0)


@refused("may only hold", None)
def something_else_in_a_region(x):
    with tlx.async_tasks():
        n = 3  # here
        with tlx.async_task("default"):
            tl.store(x, n)


@refused("may only hold", None)
def a_loop_in_a_region(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        for _ in tl.static_range(2):  # here
            with tlx.async_task(num_warps=1):
                tl.store(x, 0)


@refused("constexpr condition", None)
def a_run_time_if_in_a_region(x):
    with tlx.async_tasks():
        if tl.program_id(0) == 0:  # here
            with tlx.async_task("default"):
                tl.store(x, 0)


@refused("the condition of this `while`, `N`, is a constant", None, N=1)
def a_while_of_a_constant(x, N: tl.constexpr):
    tlx.size_of(tl.float32)
    while N:  # here
        tl.store(x, 0)


@refused("do not nest", MimwError)
def nested_regions(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            with tlx.async_tasks():  # here
                with tlx.async_task("default"):
                    tl.store(x, 0)
        with tlx.async_task(num_warps=1):
            pass


@mimw.jit
def opens_a_region(x):
    with tlx.async_tasks():  # in opens_a_region
        with tlx.async_task("default"):
            tl.store(x, 0)
        with tlx.async_task(num_warps=1):
            pass


@refused("do not nest", MimwError)
def nested_through_a_helper(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            pass
        with tlx.async_task(num_warps=1):
            opens_a_region(x)  # here


@refused("outside `async_tasks`", MimwError)
def task_without_region(x):
    with tlx.async_task("default"):  # here
        tl.store(x, 0)


@refused("async_task_replica_id must be called inside an async region", AssertionError)
def replica_outside(x):
    tl.store(x, tlx.async_task_replica_id())  # here


@refused("break|Break", None)
def break_out_of_a_task(x):
    for _ in range(tl.program_id(0)):
        with tlx.async_tasks():
            with tlx.async_task("default"):
                break  # here
            with tlx.async_task(num_warps=1):
                pass


@refused("recursion", None)
def recursion(x):
    tlx.fence("gpu")
    forever(x)  # here


@mimw.jit
def forever(x):
    forever(x)


@refused("cannot return a value", MimwError)
def returns_a_value(x):
    tlx.fence("gpu")
    return 3


@refused("nested function", None)
def nested_function(x):
    tlx.fence("gpu")

    def inner():  # here
        pass


@refused("requires exactly one warp_specialize op in the module, but found 2", MimwError)
def exclusive_but_two(x):
    with tlx.async_tasks(exclusive=True):
        with tlx.async_task("default"):
            tl.store(x, 0)
        with tlx.async_task(num_warps=1):
            pass
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, 0)
        with tlx.async_task(num_warps=1):
            pass


@pytest.mark.parametrize("name", KERNELS)
def test_refusal(name):
    kernel, text, cause, constexprs = KERNELS[name]
    with pytest.raises(triton.CompilationError) as raised:
        compile_kernel(kernel, dict(x="*i32"), constexprs)
    error, message = raised.value, str(raised.value)
    assert isinstance(error, KernelCompilationError) and error.__cause__ is not None
    assert any(isinstance(one, cause) for one in chain(error)) if cause else True
    assert text.search(message), message
    source = HERE.read_text()
    body = source[source.index(f"def {name}("):].split("\n\n\n")[0]
    if "# here" in body:
        line = line_of(name, "# here")
        assert f"{HERE}:{line}" in message, message
        shown = message.split(f"{HERE}:{line} in ", 1)[1].splitlines()
        assert shown[1].endswith("# here") and shown[2].strip() == "^", message


def test_the_whole_way_through_helpers_is_shown():
    with pytest.raises(triton.CompilationError) as raised:
        compile_kernel(KERNELS["helpers"][0], dict(x="*i32"))
    first, *places = re.findall(r"test_errors\.py:(\d+)", str(raised.value))
    assert first == places[0] and [int(place) for place in places[:3]] == [
        line_of("stock_helper", "# in stock_helper"), line_of("our_helper", "# in our_helper"), line_of("helpers", "# here")]
    assert "called from" in str(raised.value)


def test_the_plain_path_raises_compilation_errors_too():

    @mimw.jit
    def plain(x):
        tl.store(x, missing)  # noqa: F821

    with pytest.raises(triton.CompilationError, match="missing is not defined"):
        compile_kernel(plain, dict(x="*i32"))


def test_a_compilation_error_survives_pickling():
    import pickle
    with pytest.raises(triton.CompilationError) as raised:
        compile_kernel(KERNELS["undefined_name"][0], dict(x="*i32"))
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
