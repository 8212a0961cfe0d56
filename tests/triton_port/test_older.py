"""Triton 3.8's stand-ins for what 3.9 has of its own. On 3.9 they are compared with that; on 3.8 all other tests compile by them.

Atomics, places in buffers and calls are read off the module that the builder makes, which both releases can.
"""

import operator
import re
from fractions import Fraction

import numpy as np
import pytest
import triton.language as tl
from triton._C.libtriton import ir as mlir
from triton._C.libtriton import nvidia, passes
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from mimw.compiler.triton_port import cut, older_interpreter, older_words, thread_assembly
from mimw.compiler.triton_port.mlir_functions import new_context
from mimw.compiler.triton_port.older_builder import NotInTriton, Older
from mimw.compiler.triton_port.release import OLDER
from mimw.compiler.triton_port.text import module_of
from mimw.compiler.triton_port.tile_types import types

TILE, BUFFER = "tensor<64x16xf32, #b>", "!ttg.memdesc<2x64x128xbf16, #s, #smem, mutable>"
ONE, PART = "!ttg.memdesc<64x128xbf16, #s, #smem, mutable>", "!ttg.memdesc<32x64xbf16, #s, #smem, mutable, 64x128>"
CUT = "2 72,144,288,512,1024,2048 1,2,4,8,16,32,4096"      # of 64x128 bf16 with a swizzle of 128 bytes
ARITHMETIC = {"add": operator.add, "and": operator.and_, "xor": operator.xor, "mul": operator.mul, "or": operator.or_,
              "shl": operator.lshift, "lshr": operator.rshift}
EACH = ",".join(map(str, range(8)))
MACHINE = '"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"'
ASSEMBLIES = (      # text, constraints, operand, type, type of the result, what else the stand-in knows
    ("all $0;", "r,~{memory}", "%all", BUFFER, "", ""), ("one $0;", "r", "%one", ONE, "", ""),
    ("part $0;", "r", "%part", PART, "", f', mimw.cut0 = "{CUT}"'),
    ("tile $0 $8 \\09\\22", "=f," * 8 + EACH, "%tile", TILE, TILE, ""), ("pure $0", "=f," * 8 + EACH, "%tile", TILE, TILE, "pure"))


def module(of_3_9: bool):
    """A kernel with each assembly, as 3.9's op or as a call."""
    lines, declared = [], []
    for number, (text, constraints, operand, type_, result, more) in enumerate(ASSEMBLIES):
        name, pure = f"%r{number} = " if result else "", "true" if more == "pure" else "false"
        if of_3_9:
            lines.append(f'{name}ttg.inline_asm "{text}" {{constraints = "{constraints}", pure = {pure}}} {operand} : ({type_}) -> '
                         f"{result or '()'}")
            continue
        attributes = " {pure = true}" if more == "pure" else ""
        lines.append(f"{name}tt.call @mimw.assembly{number}({operand}){attributes} : ({type_}) -> {result or '()'}")
        more = more.removeprefix("pure")
        declared.append(f"tt.func private @mimw.assembly{number}({type_}){f' -> {result}' if result else ''} attributes "
                        f'{{mimw.constraints = "{constraints}", mimw.text = "{text}"{more}, noinline = false}}')
    newline = "\n    "
    return module_of(f"""
#b = #ttg.blocked<{{sizePerThread = [1, 8], threadsPerWarp = [16, 2], warpsPerCTA = [4, 1], order = [1, 0]}}>
#s = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#smem = #ttg.shared_memory
module attributes {{{MACHINE}}} {{
  tt.func public @k(%tile: {TILE}, %to: tensor<64x16x!tt.ptr<f32>, #b>) {{
    %all = ttg.local_alloc : () -> {BUFFER}
    %c = arith.constant 1 : i32
    %one = ttg.memdesc_index %all[%c] : {BUFFER} -> {ONE}
    %part = ttg.memdesc_subslice %one[32, 64] : {ONE} -> {PART}
    {newline.join(lines)}
    tt.store %to, %r3 : tensor<64x16x!tt.ptr<f32>, #b>
    tt.store %to, %r4 : tensor<64x16x!tt.ptr<f32>, #b>
    ttg.local_dealloc %all : {BUFFER}
    tt.return
  }}
  {newline.join(declared)}
}}
""", new_context())


def lowered(made) -> list[tuple[str, ...]]:
    """What a module's assembly is in LLVM: whether it has effects, its text, its constraints, and what its first operand is."""
    manager = mlir.pass_manager(made.context)
    flags = [False] if OLDER else []
    passes.ttgpuir.add_allocate_warp_groups(manager, *flags)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, 90, 86)
    nvidia.passes.ttgpuir.add_to_llvmir(manager, 90, 86, *flags)
    passes.common.add_canonicalizer(manager)
    passes.common.add_sccp(manager)
    passes.common.add_canonicalizer(manager)
    manager.run(made, "test")
    text = str(made)
    assert "unrealized_conversion_cast" not in text and "tt.call" not in text
    values = dict(re.findall(r"(%\w+) = (llvm\..*?)(?: loc\(.*)?$", text, re.MULTILINE))

    def traced(value: str):
        """The number that a value is behind the address of shared memory, or the op that made it."""
        op = values.get(value, value)
        given = re.findall(r"%\w+", op)
        if found := re.match(r"llvm\.mlir\.constant\((\d+)", op):
            return int(found[1])
        if op.startswith(("llvm.mlir.addressof", "llvm.extractvalue")):
            return 0 if "addressof" in op else op.partition("[")[2]
        if op.startswith("llvm.getelementptr"):
            return traced(given[0]) + 2 * (traced(given[1]) if len(given) > 1 else int(re.search(r"\[(\d+)\]", op)[1]))
        one, *two = map(traced, given)
        name = op[len("llvm."):].partition(" ")[0]
        return one if name == "ptrtoint" else ARITHMETIC[name](one, *two)

    return [(effects, *words, traced(operand)) for effects, *words, operand in re.findall(
        r'llvm\.inline_asm (has_side_effects )?(?:asm_dialect = att )?(?:operand_attrs = \[\] )?("[^"]*"), ("[^"]*") (%\w+)', text)
        if "global" not in words[0]]


def test_a_call_becomes_the_assembly_that_3_9_makes():
    made = lowered(thread_assembly.placed(module(False)))
    assert [row[1:] for row in made] == [
        ('"all $0;"', '"r,~{memory}"', 0), ('"one $0;"', '"r"', 16384), ('"part $0;"', '"r"', 16384 + 12288),
        *((f'"{text}"', f'"{constraints}"', "0] : !llvm.struct<(f32, f32, f32, f32, f32, f32, f32, f32)> ")
          for text, constraints, *_ in ASSEMBLIES[3:])]
    assert [bool(row[0]) for row in made] == [True] * 4 + [False]
    if not OLDER:
        assert made == lowered(module(True))


def test_stand_ins_are_written_as_on_3_9():
    text = str(module(False)).replace("all $0;", "mimw.slots 256")
    (line, ) = [line for line in thread_assembly.as_of_3_9(text).splitlines() if "mimw.slots" in line]
    assert line.strip().startswith('ttg.inline_asm "mimw.slots 256" {constraints = "r,~{memory}", pure = false} %')
    assert thread_assembly.as_of_3_9(text).count("tt.call") == 4


def test_a_place_in_a_buffer_is_the_layout_s_inverse():
    bases = [(0, 1), (0, 2), (1, 2), (2, 0), (3, 4)]
    rows, columns = cut.inverse(bases, [4, 8])
    for offset in range(32):
        row, column = 0, 0
        for bit, (one, two) in enumerate(bases):
            row, column = (row ^ one, column ^ two) if offset >> bit & 1 else (row, column)
        found = 0
        for value, moves in ((row, rows), (column, columns)):
            for bit, move in enumerate(moves):
                found ^= move if value >> bit & 1 else 0
        assert found == offset
    with pytest.raises(StopIteration):
        cut.inverse([(1, 0), (1, 0)], [2, 2])


def built(write) -> str:
    """The text of a kernel with one pointer that `write` fills by the older builder."""
    class Options:
        arch = "sm90"

    context = new_context()
    builder = Older(context, "sm90")
    builder.options = Options
    module = builder.create_module()
    module.context = context
    builder.set_loc("", 0, 0)
    type_ = builder.get_function_ty(types(["!tt.ptr<i32>"], context), [])
    function = builder.get_or_insert_function(module, "k", type_, "public", False)
    module.push_back(function)
    builder.set_insertion_point_to_start(function.add_entry_block())
    write(builder, function.args(0))
    builder.ret([])
    return str(module)


def test_atomics_hold_the_task_where_3_9_s_do():
    order, scope = mlir.MEM_SEMANTIC, mlir.MEM_SYNC_SCOPE.GPU

    def write(builder, flag):
        one, mask = builder.get_int32(1), builder.get_int1(True)
        builder.create_atomic_store(flag, one, mask, order.RELEASE, scope)
        builder.create_atomic_store(flag, one, mask, order.RELAXED, scope)
        builder.create_atomic_load(flag, mask, order.ACQUIRE, scope)
        builder.create_atomic_rmw(mlir.ATOMIC_OP.ADD, flag, one, mask, order.ACQUIRE_RELEASE, scope)
        builder.create_atomic_cas(flag, one, one, order.RELAXED, scope)
        assert builder.create_atomic_poll(flag, one, None, order.ACQUIRE, scope) is not None
        builder.create_grid_dependency_wait()
        with pytest.raises(NotInTriton, match="without timeout_ns"):
            builder.create_atomic_poll(flag, one, one, order.ACQUIRE, scope)

    text = built(write)
    found = re.findall(r"ttg\.barrier|tt\.atomic_rmw \w+, \w+|tt\.atomic_cas \w+|tt\.call @mimw\.assembly1|griddepcontrol\.\w+",
                       text)
    assert found == ["ttg.barrier", "tt.atomic_rmw exch, release", "tt.atomic_rmw exch, relaxed", "tt.atomic_rmw or, acquire",
                     "ttg.barrier", "ttg.barrier", "tt.atomic_rmw add, acq_rel", "ttg.barrier", "tt.atomic_cas relaxed",
                     "tt.call @mimw.assembly1", "ttg.barrier", "griddepcontrol.wait"]
    assert "ld.acquire.gpu.global.b32 seen, [$0];" in text


def test_what_has_no_stand_in_is_refused():
    with pytest.raises(NotInTriton, match="several copies of the tensor data mover"):
        Older(new_context(), "sm90").create_async_tdm_fused_copy_global_to_local()


def test_functions_of_3_9_say_so_on_triton_s_own_path():
    for function, given in ((older_words.atomic_load, ()), (older_words.atomic_store, (1, )), (older_words.atomic_poll, (1, ))):
        with pytest.raises(ValueError, match="Triton 3.8 has no tl.atomic_.*mimw.jit"):
            function(None, *given, _semantic=object())


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_multiply_adds_are_rounded_once(kind):
    """Against fractions, and on 3.9 against Triton's own; random numbers of which the sum nearly cancels, and special ones."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(300).astype(kind) for _ in range(2))
    z = (-x * y * (1 + random.integers(-2, 3, 300) * np.finfo(kind).eps)).astype(kind)
    made = older_interpreter.fused(x, y, z)
    assert made.dtype == kind
    for one, two, three, found in zip(x, y, z, made, strict=True):
        exact = Fraction(float(one)) * Fraction(float(two)) + Fraction(float(three))
        near = kind(exact.numerator / exact.denominator)    # correctly rounded to fp64, and exact if the sum cancels
        assert found == near or kind is np.float32 and abs(Fraction(float(found)) - exact) <= min(
            abs(Fraction(float(np.nextafter(found, kind(side)))) - exact) for side in (-np.inf, np.inf))
    special = np.array([np.inf, np.nan, 0, -1, np.finfo(kind).max], kind)
    other = special[::-1].copy()
    np.testing.assert_array_equal(older_interpreter.fused(special, other, special), special * other + special)
    if not OLDER:
        stock = InterpreterBuilder().create_fma(*(TensorHandle(one, tl.float64) for one in (x, y, z)))
        np.testing.assert_array_equal(made, stock.data)


def test_bits_and_histograms_are_3_9_s():
    older, bits = older_interpreter.OlderInterpreter(), np.array([True, True, False])
    pair = TensorHandle(bits, tl.int1), TensorHandle(bits[::-1].copy(), tl.int1)
    assert older.create_add(*pair).data.tolist() == [True, False, True]
    numbers = TensorHandle(np.array([0, 3, 4, 9, 3, -1], np.int32), tl.int32)
    mask = TensorHandle(np.array([1, 1, 1, 1, 0, 1], bool), tl.int1)
    assert older.create_histogram(numbers, 4, mask).data.tolist() == [1, 0, 0, 1]
    assert older.create_histogram(numbers, 4, None).data.tolist() == [1, 0, 0, 2]
