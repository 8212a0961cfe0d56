"""`tle.raw`: what is declared, what a call records and refuses, what the simulator and `mimw.check` make of declared effects."""

import functools
import re
from typing import Annotated, Any
from typing import Literal as L

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import OutOfBounds, SimulatorMisuse
from mimw.language.tle.raw.annotations import Declaration, parameters_of, parse_type, result_of, type_of
from tests.language.harness import Kernel

Input, InOut, Output = tle.raw.Input, tle.raw.InOut, tle.raw.Output
NOTHING = ".func f() { ret; }"
ptx = functools.partial(tle.raw.dialect, name="ptx", source=NOTHING)


def twice(x, factor):
    x *= factor


@ptx(reference=twice)
def scale(x: InOut[L["memref<?xf32, 3>"]], factor: Input[L["f32"]]): ...


@ptx(reference=lambda x: x.sum())
def total(x: Input[L["memref<?xf32, 3>"]]) -> L["f32"]: ...


@ptx(reference=twice)
def both(x): ...


def moved(source, target, n):
    target[np.arange(n)] = source[:n]


@ptx(reference=moved)
def move(source: Input[L["!llvm.ptr<1>"]], target: Output[L["!llvm.ptr<1>"]], n: Input[L["i32"]]): ...


@pytest.mark.parametrize("text, wanted", [
    ("memref<?x64xf16, 3>", Declaration("memref", "fp16", (-1, 64), 3)), ("memref<8xi32>", Declaration("memref", "i32", (8, ))),
    ("memref<4xbf16, strided<[1]>, 3 : i32>", Declaration("memref", "bf16", (4, ), 3)),
    ("tensor<1024xf32>", Declaration("tensor", "fp32", (1024, ))), ("!llvm.ptr<1>", Declaration("pointer", space=1)),
    ("!llvm.ptr", Declaration("pointer")), ("index", Declaration("value", "i64")), ("barrier", Declaration("barrier", space=3))])
def test_types(text, wanted):
    assert parse_type(text) == Declaration(wanted.kind, wanted.element, wanted.shape, wanted.space, text)


def test_annotations_are_read_in_every_form():
    def f(a: Input[L["i32"]], b: InOut[L["memref<?xf32, 3>"]], c: Annotated[Any, "tensor<8xf32>"], d: L["f32"], e: Output,
          g) -> L["i32"]: ...

    found = parameters_of(f)
    assert [one and one.effect for one in found.values()] == ["in", "inout", "in", "in", "out", None]
    kinds = [one and type_of(one) and type_of(one).kind for one in found.values()]
    assert kinds == ["value", "memref", "tensor", "value", None, None]
    assert result_of(f).element == "i32"
    with pytest.raises(ValueError, match="'f33' is no type"):
        parse_type("f33")


@pytest.mark.parametrize("options, message", [
    (dict(name="fortran"), "the dialect 'fortran' is unknown; there are: cuda, llvm, mlir, ptx"),
    (dict(name="ptx"), "'ptx' is unknown|has no source|give the source"), (dict(name="ptx", source="x", file="y"), "and not both"),
    (dict(name="ptx", source=NOTHING, fence="cta"), "fence must be one of"),
    (dict(name="ptx", source=NOTHING, effects={"y": "in"}), "the parameters are x"),
    (dict(name="ptx", source=NOTHING, effects={"x": "write"}), "an effect is in, out or inout"),
    (dict(name="ptx", source=NOTHING, color=1), "no option is named 'color'"),
    (dict(name="cuda", file="later.cu", deferred=True), "extern_func_name= must name")])
def test_declarations_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        @tle.raw.dialect(**options)
        def f(x): ...


def test_a_source_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="the source of f cannot be read"):
        @tle.raw.dialect(name="cuda", file="nowhere.cu")
        def f(x): ...


def test_native_code_is_for_kernels():
    with pytest.raises(RuntimeError, match="scale is native code .ptx.: it cannot be called on the host"):
        scale(1, 2)
    with pytest.raises(RuntimeError, match="tle.raw.call is called outside a kernel"):
        tle.raw.call(scale, [1, 2])


RECORDED = """
%1 = local_alloc buffer<fp32[64]> : buffer<fp32[64]>
%2 = local_ptr %1, shape=[64], pointee=fp32 : shared *fp32[64]
store %2, %3, ['cache', 'none', 'evict_normal']
%4 = raw_address %1 : i32
raw_reads %1
raw_call function='scale', [%4, %5], [] code=.. forms=['inout memref fp32 64 1', '- value fp32 - -'] names=['x', 'factor']
raw_writes %1
%6 = local_ptr %1, shape=[64], pointee=fp32 : shared *fp32[64]
%7 = load %6, ['cache', 'none', 'evict_normal'], is_volatile=False : fp32[64]
"""


def test_a_call_is_recorded_with_what_it_does():
    kernel = Kernel()
    kernel(tle.raw.call, scale, [kernel.tensor("tile", tl.float32, 64), 2])
    lines = [re.sub(r"code='\w+'", "code=..", line) for line in kernel.text()]
    names = {}
    shown = [re.sub(r"%\d+", lambda found: names.setdefault(found[0], f"%{len(names) + 1}"), line) for line in lines]
    assert shown == RECORDED.strip().splitlines()


@pytest.mark.parametrize("fn, args, options, message", [
    ("scale", [], {}, "`fn` must be native code"), (scale, 3, {}, "`args` must be a list"),
    (scale, [], {}, "takes 2 arguments (x, factor), got 0"),
    (scale, ["half", 2], {}, "`x` is declared memref<?xf32, 3>, and is given a memref of fp16 of the shape [64]"),
    (scale, ["square", 2], {}, "of the shape [8, 8]"),
    (scale, ["tile", "tile"], {}, "`factor` is declared f32, and is given a memref"),
    (scale, ["tile", "n64"], {}, "`factor` is declared f32, and is given a value of i64"),
    (scale, ["pointers", 2], {}, "`x` is a tile of pointer<fp32>"),
    (scale, ["tile", None], {}, "`factor` must be a tile, a buffer"),
    (scale, ["tile", 2], {"output_indices": [1]}, "output_indices names 'factor'"),
    (scale, ["tile", 2], {"output_indices": [2]}, "different positions of the 2 arguments"),
    (scale, ["tile", 2], {"output_indices": [0, 0]}, "different positions"),
    (scale, ["tile", 2], {"hint": 3}, "`hint` must be a string"),
    (scale, ["array", 2], {}, "must be one buffer, and this is an array of 2"), (scale, ["bars", 2], {}, "must be one mbarrier"),
    (move, ["shared", "pointer", 8], {}, "`source` points into shared memory"), (scale, ["turned", 2], {}, "is transposed")])
def test_calls_are_refused(fn, args, options, message):
    kernel = Kernel()
    makes = {
        "tile": lambda: kernel.tensor("tile", tl.float32, 64), "half": lambda: kernel.tensor("half", tl.float16, 64),
        "square": lambda: kernel.tensor("square", tl.float32, 8, 8), "n64": lambda: kernel.tensor("n64", tl.int64),
        "pointer": lambda: kernel.tensor("pointer", tl.pointer_type(tl.float32)),
        "pointers": lambda: kernel.tensor("pointers", tl.pointer_type(tl.float32), 64),
        "array": lambda: kernel(tlx.local_alloc, (64, ), tl.float32, 2), "bars": lambda: kernel(tlx.alloc_barriers, 2),
        "shared": lambda: kernel(tle.gpu.local_ptr, kernel(tle.gpu.alloc, [64], tl.float32), (0, )),
        "turned": lambda: kernel(tlx.local_trans, kernel(tlx.local_alloc, (8, 8), tl.float32, 1).at(0, kernel.semantic)),
    }
    given = [makes[one]() if isinstance(one, str) else one for one in args] if isinstance(args, list) else args
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel(tle.raw.call, fn, given, **options)


def test_a_stub_takes_what_comes():
    """Without parameters of its own nothing is declared: what is not among the outputs is only read."""
    @ptx()
    def stub(*args): ...

    kernel = Kernel()
    tiles = [kernel.tensor(name, tl.float32, 64) for name in "xy"]
    made = kernel(tle.raw.call, stub, [*tiles, 3], output_indices=[1])
    assert made.type.shape == [64]
    (call, ) = (line for line in kernel.text() if line.startswith("raw_call"))
    assert "forms=['in memref fp32 64 1', 'inout memref fp32 64 1', '- value i32 - -']" in call
    assert len(kernel(tle.raw.call, stub, tiles)) == 2


def test_a_tile_is_none_of_the_arguments_of_call_smem():
    kernel = Kernel()
    with pytest.raises(ValueError, match="call_smem takes buffers"):
        kernel(tle.raw.call_smem, scale, [kernel.tensor("tile", tl.float32, 64), 2])
    buffer = kernel(tle.gpu.alloc, [3, 48], tl.float32)
    assert kernel(tle.raw.call_smem, both, [buffer]) is buffer
    assert "forms=['inout memref fp32 3x48 64x1']" in kernel.text()[-2]


@mimw.jit
def scaled(x, y):
    at = tl.arange(0, 64)
    doubled = tle.raw.call(scale, [tl.load(x + at), 2])
    tle.raw.call(move, [x, y + 64, 8], hint="the first eight")
    tl.store(y + at, doubled + tle.raw.call(total, [doubled]))


def test_references_run():
    x, y = np.arange(64, dtype=np.float32), np.zeros(128, np.float32)
    mimw.simulate(scaled, (1, ), x, y)
    assert (y[:64] == 2 * x + 2 * x.sum()).all() and (y[64:72] == x[:8]).all() and not y[72:].any()


def test_the_report_says_what_was_taken_as_declared():
    report = mimw.check(scaled, (1, ), np.ones(64, np.float32), np.zeros(128, np.float32), seeds=1)
    assert report.ok and [line.partition(" (")[0] for line in report.declared] == ["scale", "the first eight", "total"]
    assert "reads source, writes target; its text was not looked at" in str(report) and report.as_json()["declared"]


@ptx()
def unknown(x: InOut[L["memref<?xf32, 3>"]], factor: Input[L["f32"]]): ...


@ptx(reference=lambda source, target, n: target.__setitem__(0, target[1]))
def peeks(source: Input[L["!llvm.ptr<1>"]], target: Output[L["!llvm.ptr<1>"]], n: Input[L["i32"]]): ...


@ptx(reference=lambda source, target, n: source.__setitem__(slice(0, None), 0))
def changes(source: Input[L["!llvm.ptr<1>"]], target: Output[L["!llvm.ptr<1>"]], n: Input[L["i32"]]): ...


@ptx(reference=lambda source, target, n: list(n))
def wrong(source: Input[L["!llvm.ptr<1>"]], target: Output[L["!llvm.ptr<1>"]], n: Input[L["i32"]]): ...


@ptx(reference=twice)
def only_read(x: Input[L["memref<?xf32, 3>"]], factor: Input[L["f32"]]): ...


@mimw.jit
def by_pointers(x, y, n, F: tl.constexpr):
    tle.raw.call(F, [x, y, n])


@pytest.mark.parametrize("fn, n, error, message", [
    (move, 65, OutOfBounds, "element 64 of 'x', which has 64 elements"),
    (peeks, 8, SimulatorMisuse, "reads memory that is declared 'out'"),
    (changes, 8, SimulatorMisuse, "without an end"),
    (wrong, 8, SimulatorMisuse, "reference of wrong raises TypeError: .*not iterable")])
def test_references_are_held_to_declarations(fn, n, error, message):
    with pytest.raises(error, match=message):
        mimw.simulate(by_pointers, (1, ), np.ones(64, np.float32), np.ones(64, np.float32), n, fn)


@mimw.jit
def changed(x, F: tl.constexpr):
    at = tl.arange(0, 64)
    tl.store(x + at, tle.raw.call(F, [tl.load(x + at), 2.0]))


@mimw.jit
def written(F: tl.constexpr):
    tle.raw.call_smem(F, [tle.gpu.alloc([8], tl.float32, init_value=tl.zeros((8, ), tl.float32)), 2])


def test_an_input_is_not_written():
    with pytest.raises(SimulatorMisuse, match="reference of only_read raises ValueError: .*read-only"):
        mimw.simulate(written, (1, ), only_read)


def test_no_reference():
    with pytest.raises(SimulatorMisuse, match="native code .ptx. without a reference") as caught:
        mimw.simulate(changed, (1, ), np.ones(64, np.float32), unknown)
    assert "reference=f" in str(caught.value) and caught.value.sites[0].file == __file__
