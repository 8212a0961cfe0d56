"""An author's MLIR functions, parsed by MLIR, and the one that is called as TTGIR.

Input: an `MlirSource`. Output: the function with a layout on every tile, helpers inlined; or `MlirProblem` with a line and a column
of the source. An example:

    source = MlirSource("", "tt.func @f(%x: tensor<128xf32>) { tt.return }", "f", (), Machine(4))
    body(source, new_context()).text        a module with tt.func public @f(%arg0: tensor<128xf32, #blocked>) { .. }

Layouts that the author leaves open are those of Triton's own `convert-triton-to-tritongpu`. That pass knows ops on tiles and none
on shared memory: around these a cast stands for the tile without a layout, and falls away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import nvidia, passes

from .mlir_complaints import NOWHERE, MlirProblem, complaints, ops_of, places_of
from .text import module_of

# Arithmetic that Triton takes to LLVM, on tiles and on numbers.
_ARITHMETIC = ("addf addi andi bitcast cmpf cmpi constant divf divsi divui extf extsi extui fptosi fptoui maximumf maxnumf "
               "maxsi maxui minimumf minnumf minsi minui mulf muli negf ori remf remsi remui select shli shrsi shrui sitofp subf "
               "subi truncf trunci uitofp xori")
_FUNCTIONS = "absf absi ceil cos erf exp exp2 floor fma log log2 rsqrt sin sqrt"
_WORDS = frozenset((
    *(f"arith.{name}" for name in _ARITHMETIC.split()), *(f"math.{name}" for name in _FUNCTIONS.split()), "ub.poison",
    "builtin.module", "scf.condition", "scf.for", "scf.if", "scf.while", "scf.yield",
    "tt.addptr", "tt.assert", "tt.atomic_cas", "tt.atomic_rmw", "tt.bitcast", "tt.broadcast", "tt.call", "tt.clampf",
    "tt.dot", "tt.elementwise_inline_asm", "tt.expand_dims", "tt.fp_to_fp", "tt.func", "tt.gather", "tt.get_num_programs",
    "tt.get_program_id", "tt.histogram", "tt.int_to_ptr", "tt.join", "tt.load", "tt.make_range", "tt.map_elementwise",
    "tt.map_elementwise.return", "tt.mulhiui", "tt.precise_divf", "tt.precise_sqrt", "tt.print", "tt.ptr_to_int", "tt.reduce",
    "tt.reduce.return", "tt.reshape", "tt.return", "tt.scan", "tt.scan.return", "tt.splat", "tt.split", "tt.store", "tt.trans",
    "tt.unsplat", "ttg.convert_layout", "ttg.local_alloc", "ttg.local_dealloc", "ttg.local_gather", "ttg.local_load",
    "ttg.local_scatter", "ttg.local_store", "ttg.memdesc_index", "ttg.memdesc_reinterpret", "ttg.memdesc_reshape",
    "ttg.memdesc_subslice", "ttg.memdesc_trans", "ttng.warp_group_dot"))
_OPEN_TILE = re.compile(r"tensor<((?:\d+x)+(?:!tt\.ptr<[^<>]*>|\w+))>")
_ON_BUFFERS = re.compile(r"(?:%\S+(?:, %\S+)* = )?(ttg\.\w+)\b")
_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_FUNC = re.compile(r"^  tt\.func (?:public |private )?@", re.MULTILINE)
_LOOP, _LOOP_END = re.compile(r"(\s*)(?:%\S+ = )?scf\.for "), re.compile(r"(\s*)\}(?: \{(.*)\})?( loc\(.*\))?")
_AS_WRITTEN = {"ttg.local_scatter": (0, 2, 1)}     # in what order an op's operands stand in its text, if in another than its own
_CAST = "builtin.unrealized_conversion_cast"
_STAGES = "tt.num_stages"


@dataclass(frozen=True)
class Machine:
    """The machine for which the functions are compiled: the warps of the task that calls, and the chip as Triton names it."""

    num_warps: int
    warp_size: int = 32
    target: str = "cuda:90"
    num_ctas: int = 1

    @property
    def attributes(self) -> str:
        return (f'"ttg.num-warps" = {self.num_warps} : i32, "ttg.num-ctas" = {self.num_ctas} : i32, '
                f'"ttg.threads-per-warp" = {self.warp_size} : i32, ttg.target = "{self.target}"')


@dataclass(frozen=True)
class MlirSource:
    """A text of functions, its aliases apart: both have as many lines as the author's. `entry` is the function that is called;
    `types` are aliases of types to define besides, (name, type)."""

    aliases: str
    bodies: str
    entry: str
    types: tuple[tuple[str, str], ...]
    machine: Machine

    @property
    def text(self) -> str:
        """The module. Line 1 of `bodies` is line `before + 1`."""
        named = " ".join(f"{name} = {type_}" for name, type_ in self.types)
        return f"{self.aliases}\n{named}\nmodule attributes {{{self.machine.attributes}}} {{\n{self.bodies}\n}}\n"

    @property
    def before(self) -> int:
        """Lines of the module in front of the bodies."""
        return self.aliases.count("\n") + 3

    def position(self, line: int, column: int) -> tuple[int, int]:
        """The position in the author's lines of a position in the module."""
        lines = self.bodies.count("\n") + 1
        return (line, column) if line <= self.before - 2 else (min(max(line - self.before, 1), lines), column)


@dataclass(frozen=True)
class Body:
    """The function that is called, alone in a module, and the module's text."""

    module: Any
    function: Any
    text: str

    @property
    def parameters(self) -> list:
        """The MLIR types of the parameters."""
        return [self.function.args(index).get_type() for index in range(self.function.get_num_args())]

    @property
    def results(self) -> list:
        """The MLIR types of the function's results."""
        (last, ) = _named(self.module, "tt.return")
        return [last.get_operand(index).get_type() for index in range(last.get_num_operands())]


def body(source: MlirSource, context) -> Body:
    """The function that is called as TTGIR, with a layout on every tile."""
    machine, module = source.machine, _parsed(source, context)
    module = module_of(_with_casts(module, machine), context)
    _run(source, module, lambda manager: passes.ttir.add_convert_to_ttgpuir(
        manager, machine.target, machine.num_warps, machine.warp_size, machine.num_ctas),
        passes.convert.add_reconcile_unrealized_casts)
    module = module_of(_alone(_without_casts(str(module)), source.entry), context)
    if len(_named(module, "tt.func")) > 1 or _named(module, "tt.call"):
        _run(source, module, passes.common.add_inliner, passes.common.add_symbol_dce)
        if _named(module, "tt.call"):
            raise MlirProblem("functions of the text call themselves, in a ring")
    module = module_of(_without_stages(str(module)), context)
    return Body(module, module.get_function(source.entry), str(module))


def declared_function(module, name: str, like: Body):
    """A function of that signature in `module`, without a body."""
    builder = mlir.builder(module.context)     # one that stands nowhere: a function is made where a builder stands
    builder.set_loc("", 0, 0)
    type_ = builder.get_function_ty(like.parameters, like.results)
    function = builder.get_or_insert_function(module, name, type_, "private", False)
    module.push_back(function)
    return function


def new_context():
    """A context with the dialects of Triton for NVIDIA."""
    context = mlir.context()
    mlir.load_dialects(context)
    nvidia.load_dialects(context)
    return context


def _parsed(source: MlirSource, context):
    """The module as it is written, of ops that are offered."""
    machine = source.machine
    with complaints(source.position):
        module = module_of(source.text, context)
    for op, place in positions(source, module):
        name = op.get_name()
        if name == "ttng.warp_group_dot" and (op.get_bool_attr("isAsync") or not machine.target.startswith("cuda:90")):
            raise MlirProblem(f"{name} is for Hopper, and is over when the next op begins", *place)
        if name not in _WORDS:
            raise MlirProblem(f"{name} is not offered in MLIR text", *place)
        for index in range(op.get_num_regions()):
            if name in ("tt.func", "scf.for", "scf.if", "scf.while") and op.get_region(index).size() > 1:
                raise MlirProblem(f"{name} has branches between blocks: write scf.if, scf.for and scf.while", *place)
    return module


def _alone(text: str, entry: str) -> str:
    """The module's text with all functions but the one that is called private."""
    text = _FUNC.sub("  tt.func private @", text)
    return re.sub(rf"^(  tt\.func )private (@{re.escape(entry)}\()", r"\1public \2", text, flags=re.MULTILINE)


def _named(module, name: str) -> list:
    return [op for op in ops_of(module) if op.get_name() == name]


def _with_casts(module, machine: Machine) -> str:
    """The module's text with tiles in their default layouts at every op on buffers."""
    lines = str(module).splitlines()
    ops = [op for op in ops_of(module) if op.get_name().startswith("ttg.") and not op.get_num_regions()]
    places = [place for place, line in enumerate(lines) if _ON_BUFFERS.match(line.strip())]
    made: dict[int, list[str]] = {}
    for op, place in zip(ops, places, strict=True):
        made[place] = _cast_around(op, place, lines[place], machine)
    return "\n".join(one for place, line in enumerate(lines) for one in made.get(place, [line])) + "\n"


def _cast_around(op, place: int, line: str, machine: Machine) -> list[str]:
    given, _, location = line.partition(" loc(")
    location = f" loc({location}" if location else ""
    indent = re.match(r"\s*", line)[0]
    head, equals, rest = given.partition(" = ") if op.get_num_results() else ("", "", given)
    code, colon, types = rest.rpartition(" : ")
    order = _AS_WRITTEN.get(op.get_name(), range(op.get_num_operands()))
    before, after, operands = [], [], iter(order)

    def operand(found: re.Match[str]) -> str:
        type_ = str(op.get_operand(next(operands)).get_type())
        if not _OPEN_TILE.fullmatch(type_):
            return found[0]
        name = f"%mimw_{place}_{len(before)}"
        before.append(f"{indent}{name} = {_CAST} {found[0]} : {type_} to {_closed(type_, machine)}{location}")
        return name

    code = _NAME.sub(operand, code)
    types = _OPEN_TILE.sub(lambda found: _closed(found[0], machine), types)
    if op.get_num_results() and _OPEN_TILE.fullmatch(type_ := str(op.get_result(0).get_type())):
        result, head = head.strip(), f"{indent}%mimw_of_{head.strip()[1:]}"
        after.append(f"{indent}{result} = {_CAST} {head.strip()} : {_closed(type_, machine)} to {type_}{location}")
    return [*before, f"{head}{equals}{code}{colon}{types}{location}", *after]


@lru_cache(maxsize=1024)
def _closed(type_: str, machine: Machine) -> str:
    """A tile's type with the layout that Triton's own pass gives it."""
    module = module_of(f"module {{ tt.func public @f(%x: {type_}) {{ tt.return }} }}", new_context())
    manager = mlir.pass_manager(module.context)
    passes.ttir.add_convert_to_ttgpuir(manager, machine.target, machine.num_warps, machine.warp_size, machine.num_ctas)
    manager.run(module, "mimw")
    return str(module.get_function("f").args(0).get_type())


def _without_casts(text: str) -> str:
    """The text without casts that nothing uses any more."""
    return "\n".join(line for line in text.splitlines() if f" = {_CAST} " not in line) + "\n"


def _without_stages(text: str) -> str:
    """Keep Triton from pipelining loops, unless the author asks for stages: it would move effects without a check."""
    lines, open_loops = text.splitlines(), []
    for place, line in enumerate(lines):
        if found := _LOOP.match(line):
            open_loops.append(found[1])
        elif open_loops and (found := _LOOP_END.fullmatch(line)) and found[1] == open_loops[-1]:
            open_loops.pop()
            given = found[2] or ""
            if _STAGES not in given:
                given = ", ".join(part for part in (given, f"{_STAGES} = 0 : i32") if part)
            lines[place] = f"{found[1]}}} {{{given}}}{found[3] or ''}"
    return "\n".join(lines) + "\n"


def positions(source: MlirSource, module) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Each op of a module that was made of a source, in the order of a walk, with its line and column in the source's bodies."""
    for op, place in zip(ops_of(module), places_of(module), strict=True):
        yield op, source.position(*place) if place != NOWHERE else place


def _run(source: MlirSource, module, *adds) -> None:
    manager = mlir.pass_manager(module.context)
    for add in adds:
        add(manager)
    with complaints(source.position):
        manager.run(module, "mimw")
