"""Assembly that runs once in each thread and takes tiles and buffers, for Triton 3.8, which has no op for that.

Input: what 3.9's `create_threadwise_inline_asm` takes. Output: a call of a function that is only declared, and at the end of all
passes on TTGIR, by `placed`, LLVM's inline assembly of the registers that a thread holds:

    %1 = tt.call @mimw.assembly0(%0) : (tensor<64x16xf32, #mma>) -> tensor<64x16xf32, #mma>

    %a0 = builtin.unrealized_conversion_cast %0 : tensor<64x16xf32, #mma> to !llvm.struct<(f32, f32, ..)>
    %a1 = llvm.extractvalue %a0[0] : ..
    %a9 = llvm.inline_asm has_side_effects "..", "=f,=f,..,0,1,.." %a1, %a2, .. : (f32, f32, ..) -> !llvm.struct<(f32, f32, ..)>
    %1 = builtin.unrealized_conversion_cast %a9 : !llvm.struct<(f32, f32, ..)> to tensor<64x16xf32, #mma>

Why that is the same: Triton's passes know nothing of a declared function, so none moves the call past an effect, joins two calls,
drops one, or gives an operand another layout, which is part of the function's type. For LLVM a tile is a struct of the registers of
one thread, and its casts and ours cancel. Which struct that is, Triton's own lowering of a function with such
parameters says (`llvm_types`), so nothing here counts elements. A buffer is where it begins in the CTA's own shared memory, as it
is for 3.9's op: of a part that is cut from a buffer Triton's `memdesc_reinterpret` finds that out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from triton._C.libtriton import amd, nvidia
from triton._C.libtriton import ir as mlir

from . import cut
from .release import OLDER
from .text import located, module_of

PREFIX = "mimw.assembly"
_TEXT, _CONSTRAINTS, _LAYOUT = "mimw.text", "mimw.constraints", "mimw.cut{}"
_DECLARED = re.compile(rf"\s*tt\.func private @({PREFIX}\d+)\(.*attributes \{{(.*)\}}")
_CALL = re.compile(rf"(\s*)(?:(%[\w$.-]+)(?::\d+)? = )?tt\.call @({PREFIX}\d+)\((.*?)\)(?: \{{(.*?)\}})? : \((.*)\) -> (.*)")
_ATTRIBUTE = r'%s = ("(?:[^"\\]|\\.)*")'
_ALIAS = re.compile(r"#(?!loc)\w+ = ")
_SIGNATURE = re.compile(r"llvm\.func @types\((.*)\) attributes")
_PARAMETER = re.compile(r"%arg\d+: ")
_NAMED = re.compile(r" (?:loc\(|\{)")
_CUT = re.compile(r"!ttg\.memdesc<(?!.*tensor_memory).*, [\dx]+>")      # a part of a buffer, whose own extents come last
_WINDOW = 0xFFFFFF      # of an address in shared memory what is the CTA's own; above it is the CTA's number in its cluster
_SAME = "// the same"       # of a call that is taken for its operand
SCHEDULED = "// sched.barrier"      # of a call that is taken for AMD's barrier of the scheduler; a mask follows
_MARKER = '"mimw.'      # the text of stand-ins that another table writes the real op for


def called(builder, module, number: int, text: str, constraints: str, operands: Sequence, results: Sequence, pure: bool):
    """The call that stands for assembly: the op, whose results have these types."""
    maker = mlir.builder(module.context)       # one that stands nowhere: a function is made where a builder stands
    maker.set_loc("", 0, 0)
    type_ = maker.get_function_ty([one.get_type() for one in operands], list(results))
    function = maker.get_or_insert_function(module, f"{PREFIX}{number}", type_, "private", False)
    for name, value in ((_TEXT, text), (_CONSTRAINTS, constraints)):
        function.set_attr(name, maker.get_string_attr(value))
    for at, value in enumerate(operands):
        if _CUT.fullmatch(str(value.get_type())):
            function.set_attr(_LAYOUT.format(at), maker.get_string_attr(cut.offsets(builder, value)))
    module.push_back(function)
    call = builder.call(function, list(operands))
    if pure:        # there is a result, or nobody would want it; the name is that of the attribute of Triton's assembly
        call.get_result(0).set_attr("pure", maker.get_bool_attr(True))
    return call


def same(builder, module, number: int, value):
    """The value behind a call that no pass of Triton looks through."""
    return called(builder, module, number, _SAME, "", [value], [value.get_type()], True).get_result(0)


def placed(module):
    """The module with inline assembly in the place of the calls; the same one, if it has none."""
    text = str(module)
    if f"@{PREFIX}" not in text:
        return module
    lines = text.splitlines()
    declared = {found[1]: found[2] for line in lines if (found := _DECLARED.match(line))}
    calls = {place: found for place, line in enumerate(lines) if (found := _CALL.fullmatch(located(line)[0]))}
    types = {type_ for found in calls.values() for type_ in (*_list(found[6]), *_list(_bare(found[7])))}
    known = llvm_types(tuple(sorted(types)), tuple(line for line in lines if _ALIAS.match(line)))
    made = []
    for place, line in enumerate(lines):
        if place in calls:
            made += _inline(calls[place], place, declared[calls[place][3]], known, located(line)[1])
        elif not ((found := _DECLARED.match(line)) and found[1] in declared):
            made.append(line)
    return module_of("\n".join(made) + "\n", module.context)


def as_of_3_9(module) -> str:
    """The text of a module in which stand-ins (`"mimw.slots 256"`) are written as the assembly that they are on 3.9."""
    lines = str(module).splitlines()
    declared = {found[1]: found[2] for line in lines if (found := _DECLARED.match(line))}
    marked = {name for name, attributes in declared.items() if re.search(_ATTRIBUTE % _TEXT, attributes)[1].startswith(_MARKER)}
    made = []
    for line in lines:
        code, location = located(line)
        if (found := _CALL.fullmatch(code)) and found[3] in marked:
            indent, result, name, operands, _, types, results = found.groups()
            text, constraints = (re.search(_ATTRIBUTE % what, declared[name])[1] for what in (_TEXT, _CONSTRAINTS))
            head = f"{indent}{result} = " if result else indent
            place = f" loc({location})" if location else ""
            made.append(f"{head}ttg.inline_asm {text} {{constraints = {constraints}, pure = false}} "
                        f"{operands}{' ' if operands else ''}: ({types}) -> {results}{place}")
        elif not ((found := _DECLARED.match(line)) and found[1] in marked):
            made.append(line)
    return "\n".join(made) + "\n"


def elements(type_) -> int:
    """The number of elements of a tile of this type that a thread holds."""
    return len(_parts(llvm_types((str(type_), ), ())[str(type_)]))


@cache
def llvm_types(types: tuple[str, ...], aliases: tuple[str, ...]) -> dict[str, str]:
    """The types, as texts, of which Triton's lowering makes values of these types; `aliases` are the lines that name layouts."""
    context = mlir.context()
    for owner in (mlir, nvidia, amd):
        owner.load_dialects(context)
    parameters = ", ".join(f"%{at}: {type_}" for at, type_ in enumerate(types))
    head = '"ttg.num-warps" = 4 : i32, "ttg.num-ctas" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"'
    module = module_of("\n".join([*aliases, f"module attributes {{{head}, ttg.shared = 0 : i32}} {{",
                                  f"  tt.func public @types({parameters}) {{ tt.return }}", "}"]) + "\n", context)
    manager = mlir.pass_manager(context)
    nvidia.passes.ttgpuir.add_to_llvmir(manager, 90, 86, *([False] if OLDER else []))
    manager.run(module, "mimw")
    signature = next(found[1] for line in str(module).splitlines() if (found := _SIGNATURE.search(line)))
    parts = [_NAMED.split(part, maxsplit=1)[0] for part in _PARAMETER.split(signature)[1:]]
    return dict(zip(types, (part.rstrip(", ") for part in parts), strict=False))     # behind them, scratch


def _inline(call: re.Match, place: int, attributes: str, known: dict[str, str], location: str) -> list[str]:
    """The lines in the place of a call."""
    indent, result, _, operands, own, types, results = call.groups()
    behind = f" loc({location})" if location else ""
    lines, given, kinds, count = [], [], [], 0
    text, constraints = (re.search(_ATTRIBUTE % what, attributes)[1] for what in (_TEXT, _CONSTRAINTS))

    def named(text: str) -> str:
        nonlocal count
        name, count = f"%mimw{place}_{count}", count + 1
        lines.append(f"{indent}{name} = {text}{behind}")
        return name

    for at, (operand, type_) in enumerate(zip(_list(operands), _list(types), strict=True)):
        made = known[type_]
        cast = f"builtin.unrealized_conversion_cast {operand} : {type_} to {made}{_unknown(1)}"
        value = operand if made == type_ else named(cast)
        if made.startswith("!llvm.struct<(ptr<3>") and type_.startswith("!ttg.memdesc"):
            base = named(f"llvm.extractvalue {value}[0] : {made}")
            address = named(f"llvm.ptrtoint {base} : !llvm.ptr<3> to i32")
            if _CUT.fullmatch(type_):
                begins = cut.begins(re.search(_ATTRIBUTE % _LAYOUT.format(at), attributes)[1], value, made, named)
                address = named(f"llvm.add {address}, {begins} : i32")
            window = named(f"llvm.mlir.constant({_WINDOW} : i32) : i32")
            given.append(named(f"llvm.and {address}, {window} : i32"))
            kinds.append("i32")
            continue
        for number, part in enumerate(_parts(made)):
            given.append(named(f"llvm.extractvalue {value}[{number}] : {made}") if made.startswith("!llvm.struct") else value)
            kinds.append(part)
    wanted = _list(_bare(results))
    gives = [_parts(known[type_]) for type_ in wanted]
    flat = [part for parts in gives for part in parts]
    whole = f"!llvm.struct<({', '.join(map(_inside, flat))})>" if len(flat) > 1 else flat[0] if flat else "()"
    if text.startswith(f'"{SCHEDULED} '):
        mask = named(f"llvm.mlir.constant({text[1:-1].split()[-1]} : i32) : i32")
        return [*lines, f'{indent}llvm.call_intrinsic "llvm.amdgcn.sched.barrier"({mask}) : (i32) -> (){behind}']
    if text == f'"{_SAME}"':
        return [f"{indent}{result} = builtin.unrealized_conversion_cast {operands} : {types} to {types}{behind}"]
    effects = "" if own and "pure = true" in own else "has_side_effects "
    assembly = f"llvm.inline_asm {effects}{text}, {constraints} {', '.join(given)} : ({', '.join(kinds)}) -> {whole}"
    if not wanted:
        return [*lines, f"{indent}{assembly}{behind}"]
    asm, values, at_part = named(assembly), [], 0
    for type_, parts in zip(wanted, gives, strict=True):
        part = [asm] if len(flat) == 1 else [named(f"llvm.extractvalue {asm}[{at_part + number}] : {whole}")
                                             for number in range(len(parts))]
        value, at_part = part[0], at_part + len(parts)
        if (struct := known[type_]).startswith("!llvm.struct"):
            value = named(f"llvm.mlir.undef : {struct}")
            for number, one in enumerate(part):
                value = named(f"llvm.insertvalue {one}, {value}[{number}] : {struct}")
        values.append(value)
    from_, to = ", ".join(known[type_] for type_ in wanted), ", ".join(wanted)      # one op, whose name the lines behind have
    name = result if len(wanted) == 1 else f"{result}:{len(wanted)}"
    shape = re.match(r"tensor<((?:\d+x)+)", wanted[0])
    hints = _unknown(shape[1].count("x") if shape else 1) if len(wanted) == 1 else ""
    return [*lines, f"{indent}{name} = builtin.unrealized_conversion_cast {', '.join(values)} : {from_} to {to}{hints}{behind}"]


def _unknown(rank: int) -> str:
    """The hints that nothing is known of the elements of a tile of this rank. Without them Triton's analysis takes for the result
    of a cast what it knows of the operand, which has another rank."""
    ones = f"dense<{[1] * rank if rank > 1 else 1}> : tensor<{rank}xi32>"
    return f" {{{', '.join(f'tt.{name} = {ones}' for name in ('constancy', 'contiguity', 'divisibility'))}}}"


def _parts(type_: str) -> list[str]:
    """The types of a struct's members, or the type itself."""
    if not type_.startswith("!llvm.struct<("):
        return [type_]
    return [f"!llvm.{part}" if part.startswith("ptr") else part for part in _list(type_[len("!llvm.struct<("):-len(")>")])]


def _bare(results: str) -> str:
    """A list of types without the brackets around it."""
    return results[1:-1] if results.startswith("(") else results


def _inside(type_: str) -> str:
    """A type as it stands inside a struct."""
    return type_.removeprefix("!llvm.")


def _list(text: str) -> list[str]:
    """The parts between the commas of a list that are outside of all brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "<([{") - (letter in ">)]}" and text[place - 1] != "-")
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()] if text.strip() else []
