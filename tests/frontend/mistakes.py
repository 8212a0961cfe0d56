"""Mistakes that a beginner makes in a kernel: of each the kernel, with the line marked, and what is said of it.

Input: nothing. Output: `MISTAKES`, name -> Mistake. For example, of `total` that another task made:

    MISTAKES["name_of_another_task"].text       "total is not defined here: it is made in task 'load'"
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

import mimw
from mimw import tle, tlx

BLOCK, LIST = 32, [1, 2]
MISTAKES: dict[str, Mistake] = {}


@dataclass(frozen=True)
class Mistake:
    """A kernel, the words of the message, the words of the mend, and the launch's arguments."""

    kernel: Any
    text: str
    mend: str
    args: tuple
    meta: dict[str, Any] = field(default_factory=dict)


def floats():
    return np.ones(64, np.float32)


def described():
    return mimw.TensorDescriptor.from_tensor(np.ones((64, 64), np.float32), [32, 32])


def mistake(text, mend="", *args, **meta):
    def register(function):
        MISTAKES[function.__name__] = Mistake(mimw.jit(function), text, mend, args or (floats(), ), meta)
        return function

    return register


def undecorated(value):
    return value * 2


@mimw.jit
def helper(x, n):
    tl.store(x, n)


class Sizes:
    B = 3


# ---- names --------------------------------------------------------------------------------------------------------------------


@mistake("`np.zeros` makes an array of the host (ndarray)", "write `tl.zeros(...)`")
def an_array_of_numpy(x):
    tile = np.zeros((32, ), np.float32)  # here
    tl.store(x + tl.arange(0, 32), tile)


@mistake("`torch.zeros` makes an array of the host (Tensor)", "write `tl.zeros(...)`")
def an_array_of_torch(x):
    tile = torch.zeros(32)  # here
    tl.store(x + tl.arange(0, 32), tile)


@mistake("`undecorated` is a Python function, which a kernel cannot call", "is `@mimw.jit` missing above `def undecorated`?")
def a_helper_without_a_decorator(x):
    tl.store(x, undecorated(3.0))  # here


@mistake("`BLOCK` is a variable of the file, and may change", "write `BLOCK = tl.constexpr(32)`")
def a_number_of_the_file(x):
    tl.store(x + tl.arange(0, BLOCK), 1)  # here


@mistake("`LIST` is a variable of the file (list)", "pass it as an argument")
def a_list_of_the_file(x):
    tl.store(x, LIST[0])  # here


@mistake("`Sizes` is a class of the file", "`tle.struct`")
def a_class_of_the_file(x):
    tl.store(x, Sizes.B)  # here


@mistake("total is not defined here: it is made in task 'load' (line ", "make `total` before the region of tasks")
def name_of_another_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):  # load
            total = 3.0
        with tlx.async_task(num_warps=1):  # sum
            tl.store(x, total)  # here


@mistake("b is not defined on every way to this line: it is assigned at line ", "assign `b` before")
def assigned_in_a_branch(x):
    if tl.load(x) > 1:
        b = 1.0
    tl.store(x, b)  # here


@mistake("vlaue is not defined: neither", "did you mean `value`?")
def misspelt(x):
    value = tl.load(x)
    tl.store(x, vlaue + value)  # noqa: F821  # here


@mistake("`sum` is a function of Python", "write `tl.sum(tile, axis)`")
def a_builtin_of_python(x):
    tl.store(x, sum(tl.load(x + tl.arange(0, 32))))  # here


@mistake("tlx has no 'load_local'. Did you mean tlx.local_load?")
def a_word_turned_round(x):
    ring = tlx.local_alloc((32, ), tl.float32, 2)
    tl.store(x + tl.arange(0, 32), tlx.load_local(ring[0]))  # here


@mistake("tl has no 'ceil_div'. Did you mean tl.ceil or tl.cdiv?")
def a_word_of_tl(x):
    tl.store(x, tl.ceil_div(3, 2))  # here


@mistake("`triton.cdiv` is a function of the host", "write `tl.cdiv(...)`")
def a_function_of_the_host(x):
    tl.store(x, triton.cdiv(tl.program_id(0), 2))  # here


@mistake("`math.sqrt` is a function of the host", "write `tl.sqrt(...)`")
def a_function_of_math(x):
    tl.store(x, math.sqrt(tl.load(x)))  # here


# ---- statements ---------------------------------------------------------------------------------------------------------------


@mistake("a loop of a kernel has no `break`", "put what follows under an `if`")
def leaves_a_loop(x):
    for i in range(4):
        if i > 2:
            break  # here
        tl.store(x, i)


@mistake("a loop of a kernel has no `continue`", "under an `if` with the opposite condition")
def skips_a_trip(x):
    for i in range(4):
        if i > 2:
            continue  # here
        tl.store(x, i)


@mistake("a kernel has no `try`", "check the condition by an `if`")
def tries(x):
    try:  # here
        tl.store(x, 1)
    except ValueError:
        pass


@mistake("a kernel has no `raise`", "tl.static_assert")
def raises(x):
    if tl.load(x) > 3:
        raise ValueError("bad")  # here


@mistake("a kernel has no `lambda`", "write a function outside the kernel")
def a_lambda(x):
    f = lambda a: a + 1  # noqa: E731  # here
    tl.store(x, f(1))


@mistake("nested function definitions are not allowed", "write `inner` outside the kernel")
def a_nested_function(x):
    def inner(a):  # here
        return a
    tl.store(x, inner(1))


@mistake("a kernel has no `import`", "import at the top of the file")
def imports(x):
    import os  # noqa: F401  # here
    tl.store(x, 1)


@mistake("a kernel has no `del`", "leave it out")
def deletes(x):
    a = 1
    del a  # here
    tl.store(x, 1)


@mistake("a kernel has no `global`", "through a pointer argument")
def assigns_a_global(x):
    global BLOCK  # here
    BLOCK = 3
    tl.store(x, 1)


@mistake("a kernel has no `match`", "write `if` and `elif`")
def matches(x):
    match 3:  # here
        case 3:
            tl.store(x, 1)


@mistake("a loop of a kernel has no `else`", "behind the loop")
def a_loop_with_else(x):
    for i in range(4):  # here
        tl.store(x, i)
    else:
        tl.store(x, 1)


@mistake("a loop of a kernel runs over whole numbers, and this one over `(1, 2, 3)`", "`values = (1, 2, 3)`")
def loops_over_a_tuple(x):
    for i in (1, 2, 3):  # here
        tl.store(x, i)


@mistake("a loop of a kernel has one name for its number, and this one has `(i, b)`", "take the other values by their index")
def enumerates(x):
    for i, b in enumerate((1, 2)):  # here
        tl.store(x, i + b)


@mistake("and this one over `np.arange(4)`")
def loops_over_an_array(x):
    for i in np.arange(4):  # here
        tl.store(x, i)


@mistake("the bound `n` of the loop is a pointer to fp32", "pass the number itself, or read it: `tl.load(n)`", floats(), floats())
def an_array_for_a_bound(x, n):
    for i in range(n):  # here
        tl.store(x, i)


@mistake("the bound `0.5` of the loop is 0.5, and should be a whole number", "divide by `//`")
def a_step_with_a_fraction(x):
    for i in range(0, 4, 0.5):  # here
        tl.store(x, i)


@mistake("is unrolled when the kernel is compiled", "write `range(...)`")
def unrolls_what_is_not_known(x):
    for i in tl.static_range(tl.program_id(0)):  # here
        tl.store(x, i)


@mistake("the condition `t > 0` is a tile, with an answer in each element", "write `tl.where(t > 0, a, b)`")
def if_of_a_tile(x):
    t = tl.load(x + tl.arange(0, 32))
    if t > 0:  # here
        tl.store(x, 1)


@mistake("the condition `t > 0` is a tile", "write `tl.where(t > 0, t, -t)`")
def choice_of_a_tile(x):
    t = tl.load(x + tl.arange(0, 32))
    tl.store(x + tl.arange(0, 32), t if t > 0 else -t)  # here


@mistake("the condition `t > 3` is a tile", "asks for any of them")
def while_of_a_tile(x):
    t = tl.arange(0, 32)
    while t > 3:  # here
        t -= 1
    tl.store(x + tl.arange(0, 32), t)


@mistake("the type of a name that a loop carries must stay", "begin with the type that the loop gives", floats())
def a_loop_changes_a_type(x):
    a = 0
    for _ in range(3):  # here
        a += tl.load(x + tl.arange(0, 32))
    tl.store(x + tl.arange(0, 32), a)


@mistake("an f-string is made when compiling, and `v` may be known at run time only", 'write `print("v", v)`')
def prints_an_f_string(x):
    v = tl.load(x)
    print(f"value {v}")  # here


@mistake("take a text before what is printed", "write `print('value', value)`")
def prints_a_value(x):
    print(tl.load(x))  # here


# ---- values and operators -----------------------------------------------------------------------------------------------------


@mistake("`ring[0]` is a buffer fp32[32] in memory, and `+` works on tiles", "read it first: `tlx.local_load(ring[0])`")
def arithmetic_on_a_buffer(x):
    ring = tlx.local_alloc((32, ), tl.float32, 2)
    tl.store(x + tl.arange(0, 32), ring[0] + 1)  # here


@mistake("a buffer in memory stands where a tile belongs", "tlx.local_load(buffer)")
def stores_a_buffer(x):
    ring = tlx.local_alloc((32, ), tl.float32, 2)
    tl.store(x + tl.arange(0, 32), ring[0])  # here


@mistake("tl.dot cannot take these arguments: input = a buffer fp16[64, 64], other = a buffer fp16[64, 64]", "`tlx.async_dot`")
def a_product_of_buffers(x):
    ring = tlx.local_alloc((64, 64), tl.float16, 2)
    tl.store(x, tl.sum(tl.dot(ring[0], ring[1])))  # here


@mistake("`bars` is 2 barriers, which `len` does not count", "write `bars.num`")
def length_of_barriers(x):
    bars = tlx.alloc_barriers(2)
    for i in range(len(bars)):  # here
        tlx.barrier_arrive(bars[i])


@mistake("kernels assign to no elements: `ring` is 2 buffers fp32[32]", "write `tlx.local_store(ring[0], tile)`")
def assigns_to_a_buffer(x):
    ring = tlx.local_alloc((32, ), tl.float32, 2)
    ring[0] = tl.zeros((32, ), tl.float32)  # here


@mistake("kernels assign to no elements: `x` is a pointer to fp32", "write `tl.store(x + 0, value)`")
def assigns_to_a_pointer(x):
    x[0] = 1.0  # here


@mistake("`x` is a pointer to fp32, which has no index", "write `tl.load(x + 0)`")
def reads_an_element(x):
    tl.store(x, x[0])  # here


@mistake("`t` is a tile fp32[32], which cannot be sliced", "tlx.local_slice")
def slices_a_tile(x):
    t = tl.load(x + tl.arange(0, 32))
    tl.store(x, tl.sum(t[0:16]))  # here


@mistake("`x` is a pointer to fp32, which knows no shape", "pass the extents as arguments")
def shape_of_a_pointer(x):
    for i in range(x.shape[0]):  # here
        tl.store(x, i)


@mistake("`t` is a tile fp32[32], which has no 'sums'", "did you mean `.sum`?")
def a_misspelt_method(x):
    t = tl.load(x + tl.arange(0, 32))
    tl.store(x, t.sums())  # here


@mistake("`a` is a tuple in kernels, whatever its brackets", "write `a = a + (value, )`")
def appends(x):
    a = []
    a.append(1)  # here
    tl.store(x, 1)


@mistake("a tuple stands where a tile or a number belongs", "tl.full")
def a_list_for_a_tile(x):
    tl.store(x + tl.arange(0, 2), [1.0, 2.0])  # here


@mistake("kernels have no `@`", "tl.dot(a, b)")
def a_product_by_an_operator(x):
    a = tl.zeros((32, 32), tl.float16)
    tl.store(x, tl.sum(a @ a))  # here


@mistake("kernels have no `**`", "write `x * x`")
def a_power(x):
    tl.store(x, tl.load(x)**2)  # here


@mistake("kernels have no `in`", "(x == 1) | (x == 2)")
def is_in(x):
    if tl.load(x) in (1, 2):  # here
        tl.store(x, 1)


@mistake("`//` works on whole numbers, and here on fp32", "tl.floor(a / b)")
def a_floor_of_fractions(x):
    tl.store(x, tl.load(x) // 2)  # here


@mistake("the shapes do not go together: 32 and 64 elements along axis 0", "`[:, None]`")
def tiles_of_two_shapes(x):
    tl.store(x + tl.arange(0, 32), tl.zeros((32, ), tl.float32) + tl.zeros((64, ), tl.float32))  # here


@mistake("a value of Python (BoundJITMethod) stands where", "write the brackets of the call")
def a_method_without_brackets(x):
    t = tl.load(x + tl.arange(0, 32))
    tl.store(x, t.sum)  # here


@mistake("`v` is None")
def the_value_of_nothing(x):
    v = helper(x, 1)
    tl.store(x, v + 1)  # here


@mistake("`a` is a number of run time (int32), which cannot be called")
def calls_a_number(x):
    a = 3
    tl.store(x, a(2))  # here


# ---- arguments of words -------------------------------------------------------------------------------------------------------


@mistake("`shape` of tlx.local_alloc must be a constexpr, a constant that is known when the kernel is compiled, and `N` is a param",
         "write `N: tl.constexpr` among the parameters of 'a_shape_that_is_not_known'", floats(), 32)
def a_shape_that_is_not_known(x, N):
    ring = tlx.local_alloc((N, ), tl.float32, 1)  # here
    tl.store(x + tl.arange(0, 32), tlx.local_load(ring[0]))


@mistake("what tl.zeros is given here must be a constexpr", "write `N: tl.constexpr`", floats(), 32)
def a_tile_that_is_not_known(x, N):
    z = tl.zeros((N, ), tl.float32)  # here
    tl.store(x + tl.arange(0, 32), z)


@mistake("tl.arange needs whole numbers, and `N` is the text '32'", "pass a whole number as `N`", floats(), N="32")
def a_text_for_a_number(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), 1)  # here


@mistake("got float32", "write tl.float32")
def a_type_as_a_text(x):
    ring = tlx.local_alloc((32, ), "float32", 2)  # here
    tl.store(x + tl.arange(0, 32), tlx.local_load(ring[0]))


@mistake("`np.float16` = the class numpy.float16", "write tl.float16")
def a_type_of_numpy(x):
    tl.store(x, tl.load(x).to(np.float16))  # here


@mistake("shape = 32", "a shape is a tuple: `(32, )`")
def a_number_for_a_shape(x):
    tl.store(x + tl.arange(0, 32), tl.zeros(32, tl.float32))  # here


@mistake("tlx.alloc_barriers(num_barriers, arrive_count=1): got an unexpected keyword argument 'arrive_counts'",
         "did you mean `arrive_count=`?")
def a_misspelt_keyword(x):
    tlx.alloc_barriers(1, arrive_counts=2)  # here
    tl.store(x, 1)


@mistake("got an unexpected keyword argument 'masks'", "did you mean `mask=`?")
def a_misspelt_keyword_of_tl(x):
    tl.store(x, tl.load(x, masks=None))  # here


@mistake("helper(x, n): missing a required argument: 'n'")
def too_few_for_a_helper(x):
    helper(x)  # here


@mistake("pointer = a tuple of 2", "pass an array, of numpy or torch, as `x`", [1.0, 2.0])
def a_list_of_python(x):
    tl.store(x, 1.0)  # here


@mistake("pointer = None", "as `x`", None)
def nothing_for_an_array(x):
    tl.store(x, 1.0)  # here


@mistake("pointer = a number of run time (fp32)", "as `x`", 3.0)
def a_number_for_an_array(x):
    tl.store(x, 1.0)  # here


@mistake("`x` is a tensor descriptor of fp32[32, 32]", "pass the array itself for pointers", described())
def a_descriptor_for_pointers(x):
    tl.store(x + tl.arange(0, 32), 1)  # here


@mistake("`x` is a tensor descriptor of fp32[32, 32], which has no index", "write `x.load([0, 0])`", described())
def an_index_of_a_descriptor(x):
    tl.store(x, x[0, 0])  # here


@mistake("expected 2 offsets, but got 1; here desc = a tensor descriptor of fp32[32, 32]", "an offset for each axis", described())
def too_few_offsets(x):
    ring, full = tlx.local_alloc((32, 32), tl.float32, 2), tlx.alloc_barriers(1)
    tlx.async_descriptor_load(x, ring[0], [0], full[0])  # here


@mistake("`offsets` must be a list of 2, one for each axis, got 0", "write them in brackets", described())
def a_number_for_offsets(x):
    ring, full = tlx.local_alloc((32, 32), tl.float32, 2), tlx.alloc_barriers(1)
    tlx.async_descriptor_load(x, ring[0], 0, full[0])  # here


@mistake("local_store: `dst` must be a buffered_tensor, got fp32[32]", "what tlx.local_alloc returned")
def arguments_swapped(x):
    ring = tlx.local_alloc((32, ), tl.float32, 2)
    tlx.local_store(tl.zeros((32, ), tl.float32), ring[0])  # here


# ---- tasks and pipes ----------------------------------------------------------------------------------------------------------


@mistake("`tlx.async_tasks` stands without brackets", "`with tlx.async_tasks():`")
def tasks_without_brackets(x):
    with tlx.async_tasks:  # here
        with tlx.async_task("default"):
            tl.store(x, 1)


@mistake("stand in one `with`", "write one `with` inside the other")
def tasks_in_one_with(x):
    with tlx.async_tasks(), tlx.async_task("default"):  # here
        tl.store(x, 1)


@mistake("""async_task takes "default" or num_warps=..., got 'load'""", "its name is the comment on its line")
def a_task_by_its_name(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, 1)
        with tlx.async_task("load"):  # here
            tl.store(x, 1)


@mistake("`slot`, the slot of pipe 'kv', has no 'kk'; it has `.k`, `.v`", "did you mean `.k`?")
def a_field_that_is_missing(x):
    kv = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 32], tl.float32), v=tle.gpu.alloc([2, 32], tl.float32))
    slot = kv.writer().acquire(0)
    tle.gpu.copy(x, slot.kk, [32])  # here


@mistake("`s`, the result of a `wait`, has `.slot` and `.is_closed`; the slot has `.k`", "write `s.slot.k`")
def the_slot_is_forgotten(x):
    kv = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 32], tl.float32))
    s = kv.reader().wait(0)
    tl.store(x + tl.arange(0, 32), tlx.local_load(s.k))  # here


@mistake("`kv.writer` is a method, and is not called here", "`kv.writer().acquire`")
def an_end_without_brackets(x):
    kv = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 32], tl.float32))
    kv.writer.acquire(0)  # here


@mistake("kv.writer().acquire(iter): missing a required argument: 'iter'")
def a_chunk_without_a_number(x):
    kv = tle.pipe(capacity=2, k=tle.gpu.alloc([2, 32], tl.float32))
    kv.writer().acquire()  # here


# ---- found later --------------------------------------------------------------------------------------------------------------


@mistake("async_load_commit_group: `tokens` must hold async_tokens, got mbarrier<x 1 in smem>")
def barriers_for_tokens(x):
    tlx.async_load_commit_group(tlx.alloc_barriers(1))  # here


@mistake("mimw.simulate is a function of the host, and a kernel cannot call it")
def simulates(x):
    mimw.simulate(helper, (1, ), x)  # here


@mistake("`torch.relu` is a function of the host", "write `tl.relu(...)`")
def a_function_of_torch(x):
    tl.store(x, torch.relu(tl.load(x)))  # here


@mistake("a number of numpy (float32) stands", "write the number itself")
def a_number_of_numpy(x):
    tl.store(x, tl.load(x) + np.float32(3))  # here


@mistake("tlx.async_task: got an unexpected keyword argument 'name'", "its name is the comment on its line")
def a_name_as_a_keyword(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, 1)
        with tlx.async_task(num_warps=1, name="load"):  # here
            tl.store(x, 1)


@mistake("a text cannot be joined", 'print("text", value)')
def joins_a_text(x):
    print("x = %f" % tl.load(x))  # here


@mistake("barrier_wait: `phase` must be an int or an integer scalar, got fp32", "divide by `//`")
def a_parity_with_a_fraction(x):
    bars = tlx.alloc_barriers(2)
    for i in range(4):
        tlx.barrier_wait(bars[i % 2], i / 2)  # here


@mistake("`not` is for a condition, and `p` is a number of run time (int32)", "write `p == 0`")
def not_of_a_number(x):
    p = tl.program_id(0) & 1
    tl.store(x, not p)  # here


@mistake("a pointer is no type of a tile's elements", "write `x.dtype.element_ty`")
def the_type_of_a_pointer(x):
    tl.store(x + tl.arange(0, 32), tl.zeros((32, ), x.dtype))  # here


@mistake("uses 'acc' while the asynchronous dot", "async_dot_wait(0, ...)")
def a_product_that_is_read_at_once(x):
    ring = tlx.local_alloc((64, 64), tl.float16, 2)
    acc = tlx.async_dot(ring[0], ring[1])
    tl.store(x, tl.sum(acc))  # here
