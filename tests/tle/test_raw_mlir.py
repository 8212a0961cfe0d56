"""Functions in MLIR text: what they compute on the simulator and the GPU, what they become, and what is refused, and where."""

import linecache
import re
from typing import Literal as L

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import RawCodeError, SimulatorMisuse
from tests.compiling import to_assembly, to_ttgir
from tests.every import every
from tests.kernels import mlir_functions
from tests.kernels.mlir_functions import adding, handing, largest, product, softmax

_RANDOM = np.random.default_rng(5)


def _numbers(*shape):
    return _RANDOM.standard_normal(shape).astype(np.float32)


# ---- what they compute ------------------------------------------------------------------------------------------------------


def test_vectors_are_added_through_pointers(machine):
    x, y, out = _numbers(512), _numbers(512), np.zeros(512, np.float32)
    machine.launch(adding, (2, ), x, y, out, 300)
    assert (out[:300] == (x + y)[:300]).all() and not out[300:].any()


def test_softmax_of_a_tile_by_two_functions(machine):
    x, out = _numbers(8, 64), np.zeros((8, 64), np.float32)
    machine.launch(softmax, (2, ), x, out)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_a_product_with_an_operand_in_shared_memory(machine):
    a, b, c = _numbers(64, 64).astype(np.float16), _numbers(64, 64).astype(np.float16), np.zeros((64, 64), np.float32)
    machine.launch(product, (1, ), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


def test_the_largest_with_their_places(machine):
    x, values, places = _numbers(128).round(1), np.zeros(9, np.float32), np.full(9, -1, np.int32)
    machine.launch(largest, (1, ), x, values, places, 8)
    assert (places[:8] == np.argsort(-x, kind="stable")[:8]).all() and places[8] == -1
    assert (values[:8] == x[places[:8]]).all()


def test_a_call_in_a_task(machine):
    x, out = _numbers(256), np.zeros(256, np.float32)
    machine.launch(handing, (1, ), x, out)
    assert (out == 2 * x + 1).all()


@tle.raw.dialect(name="mlir", source="""
tt.func @bump(%b: !ttg.memdesc<128xf32>, %n: i32) -> tensor<128xf32> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %one = arith.constant dense<1.0> : tensor<128xf32>
  %start = ttg.local_load %b : !ttg.memdesc<128xf32> -> tensor<128xf32>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %start) -> (tensor<128xf32>) : i32 {
    %v = ttg.local_load %b : !ttg.memdesc<128xf32> -> tensor<128xf32>
    %w = arith.addf %v, %one : tensor<128xf32>
    ttg.local_store %w, %b : tensor<128xf32> -> !ttg.memdesc<128xf32>
    %again = ttg.local_load %b : !ttg.memdesc<128xf32> -> tensor<128xf32>
    %more = arith.addf %acc, %again : tensor<128xf32>
    scf.yield %more : tensor<128xf32>
  }
  tt.return %sum : tensor<128xf32>
}
""")
def bump(b, n): ...


@mimw.jit
def bumping(x, out):
    """The text reads and writes the buffer by turns, in its loop and in the kernel's, and so does the kernel."""
    at = tl.arange(0, 128)
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + at))
    acc = tl.zeros((128, ), tl.float32)
    for i in range(3):
        acc += tle.raw.call(bump, [tile[0], i])
        tlx.local_store(tile[0], tlx.local_load(tile[0]) * 2)
    tl.store(out + at, acc + tlx.local_load(tile[0]))


def test_accesses_keep_their_order(machine):
    x, out = _numbers(128).round(), np.zeros(128, np.float32)
    machine.launch(bumping, (1, ), x, out)
    tile, acc = x.copy(), np.zeros(128, np.float32)
    for i in range(3):
        acc += tile
        for _ in range(i):
            tile = tile + 1
            acc += tile
        tile = tile * 2
    assert (out == acc + tile).all()


def test_check_sees_the_accesses_of_the_text():
    x, out = _numbers(256), np.zeros(256, np.float32)
    assert mimw.check(handing, (1, ), x, out, seeds=4).ok


@mimw.jit
def unordered(x, out):
    """As `handing`, and nobody waits."""
    tile = tlx.local_alloc((256, ), tl.float32, 1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, 256)))
        with tlx.async_task(num_warps=4):
            twice, one = tle.raw.call(mlir_functions.double, [tile[0]])
            tl.store(out + tl.arange(0, 256), twice + one)


def test_a_race_names_the_line_of_the_text():
    found = mimw.check(unordered, (1, ), _numbers(256), np.zeros(256, np.float32), seeds=8)
    (line, ) = [number for number, text in enumerate(open(mlir_functions.__file__), start=1)
                if "ttg.local_load %b : !ttg.memdesc<256xf32>" in text]
    assert not found.ok and f"mlir_functions.py:{line}" in str(found)


# ---- what they become -------------------------------------------------------------------------------------------------------


def test_the_body_stands_where_the_call_was():
    compiled = to_assembly(softmax, {"x": "*fp32", "out": "*fp32"})
    ttgir = compiled.stage("ttgir")
    assert ttgir.count("tt.func") == 1 and "tt.call" not in ttgir and ttgir.count('"tt.reduce"') == 2
    (line, ) = [number for number, text in enumerate(open(mlir_functions.__file__), start=1) if "math.exp %less" in text]
    assert re.search(rf'mlir_functions\.py":{line}:8', ttgir)
    ptx = compiled.stage("ptx")
    assert "ex2.approx" in ptx and f" {line} " in "".join(re.findall(r"\.loc\s+\d+ \d+ ", ptx))


def test_a_product_is_one_of_tensor_cores_whose_accumulator_stays():
    compiled = to_ttgir(product, {"a": "*fp16", "b": "*fp16", "c": "*fp32"})
    (loop, ) = re.findall(r"scf\.for .*?\n    \} \{", compiled.stage("ttgir"), re.DOTALL)
    assert "ttng.warp_group_dot" in loop and "convert_layout" not in loop


def test_a_call_in_a_task_stands_in_the_task():
    ttgir = to_ttgir(handing, {"x": "*fp32", "out": "*fp32"}).stage("ttgir")
    assert "ttg.local_load" in ttgir[ttgir.index("partition0"):] and "tt.call" not in ttgir


def test_accesses_in_a_loop_are_all_there():
    """No pass joins two reads with a write between them, nor moves one out of its loop."""
    ttgir = to_ttgir(bumping, {"x": "*fp32", "out": "*fp32"}).stage("ttgir")
    inner = re.findall(r"scf\.for .*?\n      \} \{tt\.num_stages = 0 : i32\}", ttgir, re.DOTALL)[0].rpartition("scf.for")[2]
    assert inner.count("ttg.local_load") == 2 and inner.count("ttg.local_store") == 1


@tle.raw.dialect(name="mlir", source="""
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
tt.func @in_place(%a: !ttg.memdesc<64x64xf16>, %b: !ttg.memdesc<64x64xf16>, %acc: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %sum = ttg.convert_layout %acc : tensor<64x64xf32> -> tensor<64x64xf32, #mma>
  %c = ttng.warp_group_dot %a, %b, %sum : !ttg.memdesc<64x64xf16> * !ttg.memdesc<64x64xf16> -> tensor<64x64xf32, #mma>
  %d = ttg.convert_layout %c : tensor<64x64xf32, #mma> -> tensor<64x64xf32>
  tt.return %d : tensor<64x64xf32>
}
""")
def in_place(a, b, acc): ...


@mimw.jit
def squares(a, c, N):
    """The N-th multiple of a squared, by products that read both operands from one buffer."""
    tile, at = tlx.local_alloc((64, 64), tl.float16, 1), tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(tile[0], tl.load(a + at))
    acc = tl.zeros((64, 64), tl.float32)
    for _ in range(N):
        acc = tle.raw.call(in_place, [tile[0], tile[0], acc])
    tl.store(c + at, acc)


def test_a_product_that_reads_its_operands_in_place(machine):
    a, c = _numbers(64, 64).astype(np.float16), np.zeros((64, 64), np.float32)
    machine.launch(squares, (1, ), a, c, 3)
    wide = a.astype(np.float32)
    np.testing.assert_allclose(c, 3 * (wide @ wide), atol=1e-2)


def test_operands_in_place_are_copied_nowhere():
    compiled = to_assembly(squares, {"a": "*fp16", "c": "*fp32", "N": "i32"})
    (loop, ) = re.findall(r"scf\.for .*?\n    \} \{", compiled.stage("ttgir"), re.DOTALL)
    assert "local_load" not in loop and "local_alloc" not in loop and "convert_layout" not in loop
    assert "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16" in compiled.stage("ptx")
    with pytest.raises(RawCodeError, match="is for Hopper"):
        to_ttgir(squares, {"a": "*fp16", "c": "*fp32", "N": "i32"}, target="sm_100a")


def test_on_another_chip():
    assert "v_add_f32" in to_assembly(adding, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"},
                                      target="gfx942").stage("amdgcn")


# ---- what is refused --------------------------------------------------------------------------------------------------------


def _function(text, name="f", **options):
    def f(x): ...
    f.__name__ = name
    return tle.raw.dialect(name="mlir", source=text, **options)(f)


def _calling(function):
    @mimw.jit
    def kernel(x):
        at = tl.arange(0, 128)
        tl.store(x + at, tle.raw.call(function, [tl.load(x + at)]))

    return kernel


_HEAD = "tt.func @f(%x: tensor<128xf32>) -> tensor<128xf32> {\n"
_LAST = "\n  tt.return %x : tensor<128xf32>\n}"


@pytest.mark.parametrize("text, line, says", [
    (f"{_HEAD}  %y = arith.addf %x %x : tensor<128xf32>{_LAST}", 2, "expected ','"),
    (f"{_HEAD}  %y = arith.addff %x, %x : tensor<128xf32>{_LAST}", 2, "unknown"),
    (f"{_HEAD}\n  %y = arith.addf %x, %x : tensor<64xf32>{_LAST}", 3, "different type"),
    (f"{_HEAD}  tt.call @ghost() : () -> (){_LAST}", 2, "valid function"),
    (f"{_HEAD}  %y = gpu.thread_id x{_LAST}", 2, "gpu.thread_id is not offered"),
    (f"{_HEAD}  %y = math.tanh %x : tensor<128xf32>{_LAST}", 2, "math.tanh is not offered"),
    (f"{_HEAD}  cf.br ^next\n^next:{_LAST}", 2, "cf.br is not offered"),
    ("tt.func @f(%x: tensor<128xf32>) -> tensor<128xf32> {\n  %y = tt.call @f(%x) : (tensor<128xf32>) -> tensor<128xf32>\n"
     "  tt.return %y : tensor<128xf32>\n}", 1, "in a ring"),
])
def test_what_mlir_refuses_names_the_line(text, line, says):
    with pytest.raises(RawCodeError, match=says) as caught:
        mimw.simulate(_calling(_function(text)), (1, ), np.zeros(128, np.float32))
    assert caught.value.sites[0].line == line and caught.value.sites[0].caller.file == __file__


@every([
    ("llvm.mlir.global @g(1 : i32) : i32\n" + _HEAD + _LAST, 1, "may not stand here"),
    ("module attributes {\"ttg.num-warps\" = 1 : i32} {\n" + _HEAD + _LAST + "}", 1, "no name and no attributes"),
    (_HEAD + "}}" + _LAST, 2, "may not stand here"),
    (_HEAD + "  // }\n" + _LAST[:-1], 1, "never closed"),
    ("tt.func private @f(%x: tensor<128xf32>)\n", 1, "no body"),
    ("tt.func @f(%x: index) {\n  tt.return\n}", 1, "cannot cross the border"),
    ("tt.func @f(%x: tensor<128xf32>) attributes {noinline = true} {\n  tt.return\n}", 1, "attributes of a function"),
    ("tt.func @g(%x: f32) {\n  tt.return\n}\ntt.func @h(%x: f32) {\n  tt.return\n}", 1, "extern_func_name="),
    ("tt.func @f(%x: f32, %y: f32) {\n  tt.return\n}", 1, "1 parameters"),
    ("tt.func @f(%x: !ttg.memdesc<8xf32>) -> !ttg.memdesc<8xf32> {\n  tt.return %x : !ttg.memdesc<8xf32>\n}", 1, "a result is"),
    ("tt.func @f(%x: !ttg.memdesc<1xi64>) {\n  tt.return\n}", 1, "mbarrier"),
])
def test_what_reaches_outside_is_refused_where_it_is_declared(case):
    text, line, says = case
    with pytest.raises(RawCodeError, match=re.escape(says)) as caught:
        _function(text)
    assert caught.value.sites[0].line == line


@every([
    ("%x: tensor<64xf32>", "tensor<128xf32> for %x: tensor<64xf32>; its function in MLIR is (%x: tensor<64xf32>) -> ()"),
    ("%x: f32", "tensor<128xf32> for %x: f32"),
    ("%x: !tt.ptr<f32>", "for %x: !tt.ptr<f32>"),
])
def test_an_argument_of_another_type_is_refused_with_both(case):
    signature, says = case
    function = _function(f"tt.func @f({signature}) {{\n  tt.return\n}}")
    with pytest.raises(triton.CompilationError, match=re.escape(says)):
        mimw.simulate(_calling(function), (1, ), np.zeros(128, np.float32))


def test_the_names_of_two_texts_do_not_meet():
    """Both have a function `f`, a helper `help` and an alias; one has the name of the kernel."""
    texts = [f"""#l = #ttg.blocked<{{sizePerThread = [{each}], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
    func.func @{name}(%x: tensor<128xf32>) -> tensor<128xf32> {{
      %y = call @help(%x) : (tensor<128xf32>) -> tensor<128xf32>
      return %y : tensor<128xf32>
    }}
    func.func @help(%x: tensor<128xf32>) -> tensor<128xf32> {{
      %l = ttg.convert_layout %x : tensor<128xf32> -> tensor<128xf32, #l>
      %y = arith.{op} %l, %l : tensor<128xf32, #l>
      %z = ttg.convert_layout %y : tensor<128xf32, #l> -> tensor<128xf32>
      return %z : tensor<128xf32>
    }}""" for name, op, each in (("kernel", "addf", 1), ("f", "mulf", 4))]
    first, second = (_function(text, extern_func_name=name) for text, name in zip(texts, ("kernel", "f")))

    @mimw.jit
    def kernel(x):
        at = tl.arange(0, 128)
        tl.store(x + at, tle.raw.call(second, [tle.raw.call(first, [tl.load(x + at)])]))

    x = _numbers(128)
    given = x.copy()
    mimw.simulate(kernel, (1, ), x)
    assert (x == (2 * given)**2).all()
    ttgir = to_ttgir(kernel, {"x": "*fp32"}).stage("ttgir")
    assert "arith.mulf" in ttgir and "arith.addf" in ttgir and ttgir.count("tt.func") == 1


def test_effects_must_hold_what_the_text_does():
    text = "tt.func @f(%x: !tt.ptr<f32>, %v: f32) {\n  tt.store %x, %v : !tt.ptr<f32>\n  tt.return\n}"

    def storing(x, v): ...
    function = tle.raw.dialect(name="mlir", source=text, effects={"x": "in"})(storing)

    @mimw.jit
    def kernel(x):
        tle.raw.call(function, [x, 1])

    with pytest.raises(triton.CompilationError, match="declares x 'in', and its text writes that memory"):
        mimw.simulate(kernel, (1, ), np.zeros(4, np.float32))


# ---- the simulator ----------------------------------------------------------------------------------------------------------

_PLACE = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>, #ttg.shared_memory, mutable"
_UNREADABLE = f"""{_HEAD}
  %three = arith.constant dense<3.0> : tensor<128xf32>
  %y = arith.mulf %x, %three : tensor<128xf32>
  %z = tt.reshape %y allow_reorder : tensor<128xf32> -> tensor<128xf32>
  tt.return %z : tensor<128xf32>
}}"""


def test_an_op_without_a_meaning_asks_for_a_reference():
    with pytest.raises(SimulatorMisuse, match=r"tt.reshape with allow_reorder is that of a layout \(line 5 of (?s:.*)reference="):
        mimw.simulate(_calling(_function(_UNREADABLE)), (1, ), np.zeros(128, np.float32))


def test_a_reference_runs_instead():
    assert "arith.mulf" in to_ttgir(_calling(_function(_UNREADABLE)), {"x": "*fp32"}).stage("ttgir")
    x = _numbers(128)
    given = x.copy()
    mimw.simulate(_calling(_function(_UNREADABLE, reference=lambda tile: tile * 3)), (1, ), x)
    assert (x == given * 3).all()
    with pytest.raises(SimulatorMisuse, match=r"returns an array of \[64\], and the function \[128\]"):
        mimw.simulate(_calling(_function(_UNREADABLE, reference=lambda tile: tile[:64])), (1, ), x)


@tle.raw.dialect(name="mlir", source="""
tt.func @collatz(%n: i32, %x: tensor<128xf32>) -> (i32, tensor<128xf32>) {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %c0 = arith.constant 0 : i32
  %far = arith.constant 0x7F800000 : f32
  %end:2 = scf.while (%m = %n, %steps = %c0) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi ne, %m, %c1 : i32
    scf.condition(%more) %m, %steps : i32, i32
  } do {
  ^bb0(%m: i32, %steps: i32):
    %low = arith.andi %m, %c1 : i32
    %odd = arith.cmpi eq, %low, %c1 : i32
    %next = scf.if %odd -> (i32) {
      %three = arith.muli %m, %c3 : i32
      %up = arith.addi %three, %c1 : i32
      scf.yield %up : i32
    } else {
      %half = arith.divsi %m, %c2 : i32
      scf.yield %half : i32
    }
    %one = arith.addi %steps, %c1 : i32
    scf.yield %next, %one : i32, i32
  }
  %fars = tt.splat %far : f32 -> tensor<128xf32>
  %least = arith.minimumf %x, %fars : tensor<128xf32>
  %tile = tt.reshape %least : tensor<128xf32> -> tensor<2x64xf32>
  %turned = tt.trans %tile {order = array<i32: 1, 0>} : tensor<2x64xf32> -> tensor<64x2xf32>
  %flat = tt.reshape %turned : tensor<64x2xf32> -> tensor<128xf32>
  %sums = "tt.scan"(%flat) <{axis = 0 : i32, reverse = false}> ({
  ^bb0(%a: f32, %b: f32):
    %both = arith.addf %a, %b : f32
    tt.scan.return %both : f32
  }) : (tensor<128xf32>) -> tensor<128xf32>
  tt.return %end#1, %sums : i32, tensor<128xf32>
}
""")
def collatz(n, x): ...


@mimw.jit
def counting(n, x, out):
    steps, sums = tle.raw.call(collatz, [n, tl.load(x + tl.arange(0, 128))])
    tl.store(out + tl.arange(0, 128), sums + steps)


def test_loops_branches_shapes_and_scans(machine):
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    machine.launch(counting, (1, ), 6, x, out)
    assert (out == np.cumsum(x.reshape(2, 64).T.ravel()) + 8).all()
    assert "scf.while" in to_ttgir(counting, {"n": "i32", "x": "*fp32", "out": "*fp32"}).stage("ttgir")


def test_a_function_that_only_computes_leaves_its_loop_to_the_pipeliner():
    """As `product`, with the loads in front of a `tl.dot`: the function that scales an operand does not keep Triton from either."""
    scale = _function("""tt.func @f(%x: tensor<64x32xf16>) -> tensor<64x32xf16> {
      %y = arith.addf %x, %x : tensor<64x32xf16>
      tt.return %y : tensor<64x32xf16>
    }""")

    @mimw.jit
    def kernel(a, b, c, K):
        rows, columns, inner = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :], tl.arange(0, 32)
        acc = tl.zeros((64, 64), tl.float32)
        for k in tl.range(0, K, 32, num_stages=3):
            left = tle.raw.call(scale, [tl.load(a + rows * 1024 + k + inner[None, :])])
            acc = tl.dot(left, tl.load(b + (k + inner)[:, None] * 64 + columns), acc)
        tle.raw.call(scale, [tl.zeros((64, 32), tl.float16)])
        tl.store(c + rows * 64 + columns, acc)

    ttgir = to_ttgir(kernel, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"},
                     attrs={(place, ): [["tt.divisibility", 16]] for place in range(4)}).stage("ttgir")
    assert "ttg.async_copy_global_to_local" in ttgir and ttgir.count("arith.addf") == 1


@tle.raw.dialect(name="mlir", source="""
tt.func @counted(%x: tensor<128xi32>, %counts: !tt.ptr<i32>, %b: !ttg.memdesc<128xf32>) -> (tensor<8xi32>, tensor<128xf32>) {
  %h = tt.histogram %x : tensor<128xi32> -> tensor<8xi32>
  %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %one = arith.constant dense<1> : tensor<128xi32>
  %c0 = arith.constant 0 : i32
  %c127 = arith.constant dense<127> : tensor<128xi32>
  %true = arith.constant dense<true> : tensor<128xi1>
  %ps = tt.splat %counts : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
  %at = tt.addptr %ps, %x : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
  %old = tt.atomic_rmw add, relaxed, gpu, %at, %one, %true
    : (tensor<128x!tt.ptr<i32>>, tensor<128xi32>, tensor<128xi1>) -> tensor<128xi32>
  %before = tt.atomic_cas acq_rel, gpu, %counts, %c0, %c0 : (!tt.ptr<i32>, i32, i32) -> i32
  %turned = arith.subi %c127, %r : tensor<128xi32>
  %f = arith.sitofp %x : tensor<128xi32> to tensor<128xf32>
  ttg.local_scatter %b[%turned], %f {axis = 0 : i32} : !ttg.memdesc<128xf32>, tensor<128xi32>, tensor<128xf32>
  %same = ttg.local_gather %b[%turned] {axis = 0 : i32} : !ttg.memdesc<128xf32>, tensor<128xi32> -> tensor<128xf32>
  %eq = arith.cmpf oeq, %same, %f : tensor<128xf32>
  tt.assert %eq, "the same again" : tensor<128xi1>
  tt.return %h, %same : tensor<8xi32>, tensor<128xf32>
}
""")
def counted(x, counts, b): ...


@mimw.jit
def counts(x, total, bins, out):
    at = tl.arange(0, 128)
    tile = tlx.local_alloc((128, ), tl.float32, 1)
    found, same = tle.raw.call(counted, [tl.load(x + at), total, tile[0]])
    tl.store(bins + tl.arange(0, 8), found)
    tl.store(out + at, same + tlx.local_load(tile[0]))


def test_histograms_atomics_and_picked_elements(machine):
    x = _RANDOM.integers(0, 8, 128).astype(np.int32)
    total, bins, out = np.zeros(8, np.int32), np.zeros(8, np.int32), np.zeros(128, np.float32)
    machine.launch(counts, (1, ), x, total, bins, out)
    assert (total == np.bincount(x, minlength=8)).all() and (bins == total).all() and (out == x + x[::-1]).all()


_SIGNED = {"negative": "cmpi slt, %x, %zero : tensor<128xi32>", "wide": "extsi %negative : tensor<128xi1> to tensor<128xi32>",
           "shown": "sitofp %negative : tensor<128xi1> to tensor<128xf32>", "half": "shrui %x, %one : tensor<128xi32>",
           "odd": "remui %x, %three : tensor<128xi32>", "third": "divui %x, %three : tensor<128xi32>",
           "least": "minui %half, %third : tensor<128xi32>", "low": "trunci %x : tensor<128xi32> to tensor<128xi8>",
           "bare": "extui %low : tensor<128xi8> to tensor<128xi32>", "far": "cmpi ugt, %x, %three : tensor<128xi32>",
           "picked": "select %far, %bare, %odd : tensor<128xi1>, tensor<128xi32>", "sum": "addi %picked, %wide : tensor<128xi32>",
           "more": "xori %sum, %least : tensor<128xi32>", "f": "uitofp %half : tensor<128xi32> to tensor<128xf32>",
           "g": "negf %f : tensor<128xf32>", "h": "addf %g, %shown : tensor<128xf32>",
           "k": "fptosi %h : tensor<128xf32> to tensor<128xi32>",
           "all": "addi %more, %k : tensor<128xi32>"}


@tle.raw.dialect(name="mlir", source="tt.func @signs(%x: tensor<128xi32>) -> tensor<128xi32> {\n" + "".join(
    f"  %{name} = arith.constant dense<{value}> : tensor<128xi32>\n" for name, value in (("zero", 0), ("one", 1), ("three", 3)))
    + "".join(f"  %{name} = arith.{op}\n" for name, op in _SIGNED.items()) + "  tt.return %all : tensor<128xi32>\n}\n")
def signs(x): ...


@mimw.jit
def signed(x, out):
    tl.store(out + tl.arange(0, 128), tle.raw.call(signs, [tl.load(x + tl.arange(0, 128))]))


def test_numbers_with_signs_and_without(machine):
    x, out = np.arange(-64, 64, dtype=np.int32), np.zeros(128, np.int32)
    machine.launch(signed, (1, ), x, out)
    bare = x.view(np.uint32).astype(np.int64)
    picked = np.where(bare > 3, bare & 255, bare % 3)
    more = (picked - (x < 0)) ^ np.minimum(bare // 2, bare // 3)
    k = -((bare // 2).astype(np.float32)) - (x < 0).astype(np.float32)
    assert (out == (more + k.astype(np.int64)).astype(np.int32)).all()


# ---- where the source lies --------------------------------------------------------------------------------------------------


def test_a_file_is_read_anew_and_named(tmp_path):
    path = tmp_path / "f.mlir"
    path.write_text(f"{_HEAD}  %y = arith.addf %x, %x : tensor<128xf32>\n  tt.return %y : tensor<128xf32>\n}}")

    def f(x): ...
    function = tle.raw.dialect(name="mlir", file=str(path))(f)
    before, x = function.cache_key, np.ones(128, np.float32)
    mimw.simulate(_calling(function), (1, ), x)
    assert (x == 2).all()
    path.write_text(path.read_text().replace("arith.addf %x, %x", "arith.addf %x %x"))
    assert function.cache_key != before
    with pytest.raises(RawCodeError, match=r"f\.mlir:2.*expected ','"):
        mimw.simulate(_calling(function), (1, ), x)


@every([({"fence": "gpu"}, "fence= says nothing"), ({"flags": ("-O3", )}, "flags= says nothing"),
                                           ({"effects": {"x": "out"}}, "return the new value")])
def test_options_without_a_meaning_are_refused(case):
    options, says = case
    with pytest.raises((ValueError, RawCodeError), match=says):
        _function(_HEAD + _LAST, **options)


# ---- functions of a thread --------------------------------------------------------------------------------------------------


@tle.raw.dialect(name="mlir", source="""
llvm.func @scale_own(%x: !llvm.ptr<3>, %f: f32) {
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %at = llvm.getelementptr %x[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
  %v = llvm.load %at : !llvm.ptr<3> -> f32
  %w = arith.mulf %v, %f : f32
  llvm.store %w, %at : f32, !llvm.ptr<3>
  llvm.return
}
""", reference=lambda x, f: np.multiply(x, f, out=x))
def scale_own(x: tle.raw.InOut[L["memref<?xf32, 3>"]], f: tle.raw.Input[L["f32"]]): ...


@mimw.jit
def scaling(x, out, factor):
    at = tl.arange(0, 128)
    tl.store(out + at, tle.raw.call(scale_own, [tl.load(x + at), factor]))


def test_a_function_of_one_thread(machine):
    x, out = _numbers(128), np.zeros(128, np.float32)
    machine.launch(scaling, (1, ), x, out, 2.5)
    assert (out == x * np.float32(2.5)).all()


def test_a_function_of_one_thread_is_its_instructions():
    ptx = to_assembly(scaling, {"x": "*fp32", "out": "*fp32", "factor": "fp32"}).stage("ptx")
    (body, ) = re.findall(r"// begin inline asm\n\s*(\{ .*mul\.(?:rn\.)?f32.*)", ptx)
    assert "ld.shared" in body and "st.shared" in body
    wrong = _function("""llvm.func @f(%x: !llvm.ptr<3>) {
      tt.debug_barrier  // of no thread
      llvm.return
    }""")
    with pytest.raises(RawCodeError, match="tt.debug_barrier|unknown") as caught:
        to_assembly(_calling(wrong), {"x": "*fp32"})
    assert "// of no thread" in linecache.getline(caught.value.sites[0].file, caught.value.sites[0].line)
