"""A module of TTGIR as a program of ours.

Input: the text of a module with one kernel. Output: a `Reading`: the program, and what the module says of its launch. For example:

    reading = read_ttgir(text, "tile.ttgir")
    reading.program.params, reading.target, reading.arguments           (%a, %K), "sm_90a", 2

Errors: `NotYet` with the op and its line for what has no meaning among ours; `TtgirError` with the line for what MLIR cannot read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ...errors import NotYet, TtgirError
from ...ir import I32, I64, Block, Descriptor, LaunchFacts, Op, Param, Program, Site, Value
from ..triton_port.late_barriers import with_late_barriers
from ..triton_port.late_fences import with_late_fences
from ..triton_port.mlir_complaints import MlirProblem
from ..triton_port.mlir_tree import Node, module_tree
from .control import partition_warps
from .data_memory import numbers_of_data
from .descriptors import looks
from .halves import check_halves, unmet
from .launch_control import DECODED_BY
from .locations import site_in
from .reading import Reader, Unreadable
from .shared_accesses import SharedAccess

_TARGET = re.compile(r'ttg\.target = "(cuda|hip):(\w+)"')
_NAME = re.compile(r"@(?:\"([^\"]*)\"|([\w$.-]+))")
_PARAMETER = re.compile(r"%([\w$.-]+): ([^%]*)")
_SAID = re.compile(r'loc\("([^"]+)"\(')
_RANKS = 3, 4, 5        # of tensors of pixels
_DIVISIBLE = re.compile(r"tt\.divisibility = (\d+)")


@dataclass(frozen=True)
class Reading:
    """A kernel as it was read. `target` is the chip's name as ours, "" if the module says none; `arguments` how many arguments a
    launch has: a tensor descriptor is one, with its extents and strides; `divisible` the parameters that the compiler takes for
    multiples of a number, by their place among the arguments; `accesses` those to shared memory by threads; `written` the type of
    each value as the module has it, with its layout; `numbers` the op of the recorded program that each op comes from, of a
    kernel that mimw compiled; `is_clusters` if each program of a grid is a cluster (`num_ctas`): the program of ours is one CTA."""

    program: Program
    target: str
    num_warps: int
    warp_size: int
    arguments: int
    divisible: dict[int, int]
    text: str
    file: str
    accesses: tuple[SharedAccess, ...] = ()
    written: Mapping[Value, str] = field(default_factory=dict, repr=False)
    numbers: Mapping[Op, int] = field(default_factory=dict, repr=False)
    is_clusters: bool = False


def with_late_passes(text: str, file: str = "") -> str:
    """The text with the fences, and barriers where halves are apart, that Triton adds behind TTGIR. `MlirProblem` as these have
    it."""
    found = _TARGET.search(text)
    if found is None:
        return text
    return with_late_fences(text, int(found[2]), file) if found[1] == "cuda" else with_late_barriers(text, file)


def fenced(text: str, file: str) -> str:
    """`with_late_passes`; a text that MLIR cannot read stays as it is: its reader says why."""
    try:
        return with_late_passes(text, file)
    except MlirProblem:
        return text


def read_ttgir(text: str, file: str = "<ttgir>", facts: LaunchFacts | None = None) -> Reading:
    """Read the kernel of a module. `file` is what lines without a location of the author's are in; `facts` are what the launch asks
    for and no module says: the shape of the clusters of a kernel whose programs are one CTA each."""
    try:
        top = module_tree(text, file)
    except MlirProblem as problem:
        place, _, what = problem.what.partition(": error: ") if problem.what.startswith("loc(") else ("", "", problem.what)
        raise TtgirError(f"MLIR cannot read this: {what}", site_in(place, Site(file, problem.line, problem.column - 1))) from None
    function = _kernel(top, file)
    reader = Reader(Site(file, 1, 0, ""), _number(top.text, "ttg.threads-per-warp", 32))
    reader.notes["num_warps"] = _number(top.text, "ttg.num-warps", 4)
    reader.notes["partitions"] = _partitions(top, text)
    reader.notes["unmet"] = unmet(top.regions[0])
    reader.notes["looks"] = looks(_walked(top))
    reader.notes["data"] = numbers_of_data(_walked(top))
    reader.notes["decodes"] = any(node.name in DECODED_BY for node in _walked(top))
    reader.notes["amd"] = 'ttg.target = "hip:' in top.text
    reader.notes["two_ctas"] = '"ttng.two-ctas" = true' in top.text
    reader.notes["uses"] = Counter(operand for node in _walked(top) for operand in node.operands)
    reader.notes["functions"] = {_name(node): node for node in top.regions[0].nodes if node.name == "tt.func"}
    ctas = _number(top.text, "ttg.num-ctas", 1)
    if ctas != 1:
        reader.rank_bits, facts = ctas.bit_length() - 1, LaunchFacts(cluster=(ctas, 1, 1), grid_of_clusters=True)
    try:
        return _reading(reader, top, function, text, file, facts or LaunchFacts())
    except Unreadable as problem:
        node = problem.node
        raise NotYet(f"{problem.what}\n    {node.text}", site_in(node.location, Site(file, node.line))) from None


def _reading(reader: Reader, top: Node, function: Node, text: str, file: str, facts: LaunchFacts) -> Reading:
    (region, ) = function.regions
    header = _header(text, function)
    values = []
    for place, (number, type_) in enumerate(region.arguments):
        values.append(reader.new(number, type_, function, header[place][0] if place < len(header) else f"arg{place}"))
    reader.notes["parameters"], reader.notes["cluster"] = values, facts.cluster_size
    places = _places(values)
    params = tuple(Param(value, value.name, (place, )) for value, place in zip(values, places, strict=True))
    ranked, inside = _ranked(reader), tuple(reader.ops(region))
    ops = (*ranked, *reader.ahead, *inside)
    told = ((place, _DIVISIBLE.search(said)) for place, (_, said) in zip(places, header, strict=False))
    divisible = {place: int(found[1]) for place, found in told if found}
    check_halves(ops)
    program = Program(_name(function), params, Block((), ops), reader.notes["num_warps"], reader.base, True, facts)
    if program.named("grid_barrier"):
        program = replace(program, launch_facts=facts.with_grid_barrier())
    return Reading(program, _target(top.text), reader.notes["num_warps"], _number(top.text, "ttg.threads-per-warp", 32),
                   len(set(places)), divisible, text, file, tuple(reader.accesses), reader.written, reader.numbers,
                   bool(reader.rank_bits))


def _ranked(reader: Reader) -> tuple[Op, ...]:
    """The op that gives a CTA its rank among those of its program; none where a program is one CTA."""
    if not reader.rank_bits:
        return ()
    reader.rank = Value(I32, "rank")
    return (Op("cluster_cta_rank", (), (reader.rank, ), (), MappingProxyType({}), reader.base), )


def _kernel(top: Node, file: str) -> Node:
    """The function of the module that is launched."""
    functions = [node for node in top.regions[0].nodes if node.name == "tt.func" and node.regions[0].nodes]
    public = [node for node in functions if " private " not in node.text]
    if len(public) != 1:
        names = ", ".join(map(_name, public)) or "none"
        raise TtgirError(f"a module of one kernel is read, and this one has {len(public)} public functions: {names}", Site(file, 1))
    return public[0]


def _name(function: Node) -> str:
    found = _NAME.search(function.text)
    return found[1] or found[2]


def _header(text: str, function: Node) -> list[tuple[str, str]]:
    """The parameters of a function as the text has them: their names, and what it says of each."""
    begun = re.search(rf"tt\.func\b[^@\n]*@\"?{re.escape(_name(function))}\"?\(", text)
    line = text[begun.end():text.find("\n", begun.end())] if begun else ""
    named = []
    for found in _PARAMETER.finditer(line):
        said = _SAID.search(found[2])
        named.append((said[1] if said else found[1], found[2]))
    return named


def _places(values: list) -> list[int]:
    """The place of each parameter among the arguments of a launch: extents and strides belong to the descriptor in front."""
    places, held = [], 0
    for value in values:
        if held:
            held -= 1
            places.append(places[-1])
            continue
        places.append(places[-1] + 1 if places else 0)
        if isinstance(value.type, Descriptor):
            held = _with_it(values[len(places):], value.type)
    return places


def _with_it(values: list, type_: Descriptor) -> int:
    """The number of parameters behind a descriptor that are its extents and strides: all of them, or none. Of what rank a tensor of
    pixels is, its type does not say."""
    for rank in _RANKS if type_.pixels else (len(type_.shape), ):
        if [value.type for value in values[:2 * rank]] == [I32] * rank + [I64] * rank:
            return 2 * rank
    return 0


def _number(text: str, attribute: str, default: int) -> int:
    found = re.search(rf'"?{re.escape(attribute)}"? = (\d+)', text)
    return int(found[1]) if found else default


def _target(text: str) -> str:
    """The name of the module's chip as ours, "" for none."""
    found = _TARGET.search(text)
    if found is None:
        return ""
    return found[2] if found[1] == "hip" else f"sm_{found[2]}{'a' * (int(found[2]) >= 90)}"


def _partitions(top: Node, text: str) -> dict[int, list[int]]:
    """The warps of the partitions of each `ttg.warp_specialize`, by the identity of its node."""
    warps = iter(partition_warps(text))
    return {id(node): [next(warps) for _ in node.regions[1].nodes[0].regions] for node in _walked(top)
            if node.name == "ttg.warp_specialize"}


def _walked(node: Node) -> Iterator[Node]:
    """A node, then those inside it, in the order of the text."""
    yield node
    for block in node.regions:
        for inner in block.nodes:
            yield from _walked(inner)
