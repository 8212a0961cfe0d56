"""A builder that records: the calls of Triton's code generator and semantics become draft ops, and at the end a `Program`.

    recorder = Recorder()
    three = recorder.create_add(recorder.get_int32(1), recorder.get_int32(2))      notes two ops `constant` and one `add`
    program = recorder.finish("kernel", [], 4, site)                               the frozen program of the three ops

Input: calls by the method names of Triton's `ir.builder`, so that Triton's generator and semantics drive the recorder unchanged,
and calls of `record` by the words of ours (`ir.recording` is what words see of it). Output: a `Program`.

Nothing here knows Triton: the contract is the names that `triton.language.semantic` and `triton.compiler.code_generator`
call (pinned by a test of `triton_port`).
"""

from __future__ import annotations

import re
from typing import Any

from ...errors import KernelError
from ...ir import OPS, UNKNOWN, Descriptor, LaunchFacts, Pointer, Program, Scalar, Site, Task, Tensor, Type
from ...ir.mlir_text import MlirFunction, MlirText
from ...ir.ops import result_types
from ...ir.recording import Recording
from ..triton_port.codegen import triton_tuple
from ..triton_port.differences import joined_policies
from .drafts import DraftBlock, DraftOp, DraftRegion, Handle, Location
from .freeze import Freezer
from .mlir import read_mlir

_SCALARS = {name: Scalar(scalar) for name, scalar in {
    "void": "i1", "int1": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "int128": "i128", "half": "fp16",
    "bf16": "bf16", "float": "fp32", "double": "fp64", "fp8e5": "fp8e5", "fp8e5b16": "fp8e5b16", "fp8e4nv": "fp8e4nv",
    "fp8e4b8": "fp8e4b8", "fp8e4b15": "fp8e4b15"}.items()}
_CONSTANTS = {name: Scalar(scalar) for name, scalar in {
    "int1": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "i8", "uint16": "i16", "uint32": "i32",
    "uint64": "i64", "fp16": "fp16", "bf16": "bf16", "fp32": "fp32", "fp64": "fp64"}.items()}
_TYPE_GETTER, _CONSTANT_GETTER = re.compile(r"get_(\w+)_ty"), re.compile(r"get_(\w+)")


class Recorder(Recording):
    """Records one kernel. `options` and `codegen_fns` are read by Triton's semantics, as on its own builder."""

    def __init__(self):
        self.options = None
        self.codegen_fns: dict = {}
        self.module_map: dict = {}
        self.entry = DraftBlock()
        self._block, self._next = self.entry, None
        self._location = Location(UNKNOWN)
        self._callers: list[Site | None] = []
        self._caller: Site | None = None  # where the helper that is being recorded is called
        self._function = ""
        self.bound: list[tuple[tuple[str, Site | None], str, Any]] = []     # what names mean, each in its function's call
        self.uses_words = False
        self.launch_facts = LaunchFacts()
        self.task: Task | None = None  # the task whose body is being recorded
        self.loop_kinds: list[str | None] = []  # of the loops that are being recorded: what words of ours ask of each
        self.warned: set = set()  # the warnings given so far, each with its place
        self.carried: dict[tuple, set[str]] = {}  # (loop, calls that led there) -> what it carries, where that was guessed wrong

    # ---- where we are -----------------------------------------------------------------------------------------------

    def create_loc(self, file: str, line: int, column: int) -> Location:
        return Location(None, None, (file or "<unknown>", line, column - 1 if column > 0 else 0, self._function, self._caller))

    def create_name_loc(self, name: str, location: Location | None = None) -> Location:
        return Location(location.site if location else UNKNOWN, name, bind=self.bind)

    def set_loc(self, location, line: int | None = None, column: int = 0) -> None:
        self._location = location if location.__class__ is Location else self.create_loc(location, line or 0, column)

    def get_loc(self) -> Location:
        return self._location

    @property
    def site(self) -> Site:
        """The source position that the next op will carry."""
        return self._location.site

    def enter_function(self, name: str) -> tuple:
        """Start recording inside a helper called from here; give the result to `leave_function`."""
        saved = (self._function, self._location)
        self._callers.append(self._caller)
        if self._function:
            self._caller = self._location.site
        self._function = name
        return saved

    def leave_function(self, saved: tuple) -> None:
        self._function, self._location = saved
        self._caller = self._callers.pop()

    def bind(self, name: str, value: Any) -> None:
        """An assignment, or the call of a helper, gives a name to a value or to a constant: the first one, or another one."""
        self.bound.append(((self._function, self._caller), name, value))

    # ---- where ops go -----------------------------------------------------------------------------------------------

    def create_block(self) -> DraftBlock:
        return DraftBlock(site=self.site)

    new_block = create_block

    def create_block_with_parent(self, region: DraftRegion, types: list[Type]) -> DraftBlock:
        """A new block at the end of `region`; building goes on inside it."""
        block = DraftBlock(types, self.site)
        region.push_back(block)
        self.set_insertion_point_to_end(block)
        return block

    def get_insertion_block(self) -> DraftBlock:
        return self._block

    def get_insertion_point(self) -> tuple:
        """(block, the op to insert before; None = the block's end, wherever that will be)."""
        return self._block, self._next

    def restore_insertion_point(self, point: tuple) -> None:
        self._block, self._next = point

    def set_insertion_point_to_start(self, block: DraftBlock) -> None:
        self._block, self._next = block, block.ops[0] if block.ops else None

    def set_insertion_point_to_end(self, block: DraftBlock) -> None:
        self._block, self._next = block, None

    def set_insertion_point_after(self, op: DraftOp) -> None:
        following = op.block.ops[op.block.ops.index(op) + 1:]
        self._block, self._next = op.block, following[0] if following else None

    def insert(self, op: DraftOp) -> DraftOp:
        """Put `op` where building goes on."""
        op.block = self._block
        if self._next is None:
            self._block.ops.append(op)
        else:
            self._block.ops.insert(self._block.ops.index(self._next), op)
        for result in op.results:
            result.block = self._block
        return op

    def record(self, name: str, *args, regions: int = 0, **attrs) -> DraftOp:
        """Record one op of the table, with None for the operands that are left out; the type rule gives its results."""
        args = tuple(_row(arg) if isinstance(arg, _ROWS) else arg for arg in args)
        args += (None, ) * (len(OPS[name].operands) - len(args))
        return self.insert(DraftOp(name, args, result_types(name, args, attrs), self.site, attrs, regions))

    def maker(self, handle) -> DraftOp:
        """The op that gives the value of a handle, which is one of the last of its block."""
        return next(op for op in reversed(handle.block.ops) if any(result is handle for result in op.results))

    def read_mlir(self, text: MlirText, function: MlirFunction) -> tuple[tuple[frozenset[str], ...], bool]:
        """The effects of a function in MLIR text on memory, for the warps of the task that is recorded."""
        warps = self.options.num_warps if self.task is None or self.task.is_default else self.task.num_warps
        return read_mlir(text, function, warps, getattr(self.options, "warp_size", 32))

    def __getattr__(self, attribute: str):
        """`create_add(a, b)` records op `add`, `get_int32_ty()` is a type, `get_int32(7)` a constant: tables decide which names
        there are. Python asks here once a name: then the method stands among the recorder's attributes."""
        method = self._getter(attribute) or self._creator(attribute)
        if method is None:
            raise AttributeError(f"Recorder has no method {attribute!r}: Triton's builder call has no row in ir.ops.OPS")
        setattr(self, attribute, method)
        return method

    def _getter(self, attribute: str):
        if (found := _TYPE_GETTER.fullmatch(attribute)) and (type_ := _SCALARS.get(found[1])):
            return lambda: type_
        if (found := _CONSTANT_GETTER.fullmatch(attribute)) and (type_ := _CONSTANTS.get(found[1])):
            return lambda value: self.constant(value, type_)
        return None

    def _creator(self, attribute: str):
        name = attribute.removeprefix("create_")
        if name == attribute or name not in OPS or OPS[name].ours:
            return None

        def create(*args, **kwargs):
            params = OPS[name].params
            if kwargs:
                args = (*args, *(kwargs[key] for key in params[len(args):]))
            results = self.record(name, *joined_policies(args)).results
            return results[0] if len(results) == 1 else tuple(results) if results else None

        return create

    # ---- types ------------------------------------------------------------------------------------------------------

    def get_block_ty(self, element: Type, shape: list[int]) -> Tensor:
        return Tensor(element, tuple(shape))

    def get_ptr_ty(self, element: Type, space: str = "global") -> Pointer:
        return Pointer(element, space if isinstance(space, str) else "global")

    def create_tensor_descriptor_type(self, block: Tensor, signed: bool) -> Descriptor:
        return Descriptor(block.element, block.shape, signed)

    def get_cache_policy(self, *args):
        """Cache hints stay as the caller gave them: (modifier, eviction policy)."""
        return ("cache", *args)

    # ---- constants and attributes -----------------------------------------------------------------------------------

    def constant(self, value, type_: Type) -> Handle:
        return self.record("constant", _plain(value), type_).results[0]

    def get_null_value(self, type_: Type) -> Handle:
        return self.constant(0.0 if _element(type_).is_float else 0, type_)

    def get_all_ones_value(self, type_: Type) -> Handle:
        return self.constant(-1, type_)

    def get_int32_attr(self, value):
        return _plain(value)

    get_bool_attr = get_string_attr = get_int32_attr

    def get_unit_attr(self):
        return True

    def get_disable_loop_licm_attr(self):
        return True

    # ---- tiles ------------------------------------------------------------------------------------------------------

    def create_reshape(self, value: Handle, shape: list[int], can_reorder: bool = False) -> Handle:
        """Elements stay in row-major order, also where the author lets Triton reorder them (`tl.view`, `can_reorder=True`): Triton
        would take the order from the layouts of one target, and the simulator knows none. In its own shape a tile is itself."""
        if tuple(shape) == getattr(value.type, "shape", None):
            return value
        return self.record("reshape", value, shape, False).results[0]

    # ---- control flow -----------------------------------------------------------------------------------------------

    def create_if_op(self, types: list[Type], condition: Handle, with_else: bool) -> DraftOp:
        _check_condition(condition)
        op = self.record("if", condition, tuple(types), regions=2)
        for region in op.regions:
            region.push_back(DraftBlock(site=self.site))
        return op

    def create_for_op(self, start: Handle, end: Handle, step: Handle, inits: list[Handle]) -> DraftOp:
        asked = self.loop_kinds[-1] if self.loop_kinds else None
        op = self.record("for", start, end, step, tuple(inits), regions=1, **({} if asked is None else {"dsa": asked}))
        op.regions[0].push_back(DraftBlock([start.type, *(init.type for init in inits)], self.site))
        return op

    def create_while_op(self, types: list[Type], inits: list[Handle]) -> DraftOp:
        return self.record("while", tuple(inits), regions=2)

    def create_yield_op(self, values: list[Handle]) -> DraftOp:
        return self.record("yield", tuple(values))

    def create_condition_op(self, condition: Handle, values: list[Handle]) -> DraftOp:
        _check_condition(condition)
        return self.record("condition", condition, tuple(values))

    def create_reduce(self, values: list[Handle], axis: int) -> DraftOp:
        return self.record("reduce", tuple(values), axis, regions=1)

    def create_scan(self, values: list[Handle], axis: int, reverse: bool) -> DraftOp:
        return self.record("scan", tuple(values), axis, reverse, regions=1)

    def create_reduce_ret(self, *values: Handle) -> DraftOp:
        return self.record("yield", tuple(values))

    create_scan_ret = create_reduce_ret

    def create_map_elementwise(self, values: list[Handle], types: list[Type], pack: int) -> DraftOp:
        return self.record("map_elementwise", tuple(values), tuple(_element(type_) for type_ in types), pack, regions=1)

    def create_map_elementwise_ret(self, values: list[Handle]) -> DraftOp:
        return self.record("yield", tuple(values))

    def create_fma(self, x, y, z) -> Handle:
        element = getattr(x.get_type(), "element", x.get_type())
        if not element.is_float:
            raise KernelError(f"tl.fma is a multiplication and addition of floats; these are {element}.", self.site,
                              hint="write a * b + c, or convert by .to(tl.float32).")
        return self.record("fma", x, y, z).results[0]

    def create_inline_asm(self, *args) -> DraftOp:
        return self.record("inline_asm", *args)

    def record_tasks(self, tasks: list[Task], blocks: list[DraftBlock], types: tuple[Type, ...] = ()) -> DraftOp:
        """A `warp_specialize` op over blocks that are already recorded, the default task's first, whose yield is of `types`."""
        given = {"types": tuple(types)} if types else {}
        op = self.record("warp_specialize", regions=len(blocks), tasks=tuple(tasks), **given)
        for region, block in zip(op.regions, blocks, strict=True):
            region.push_back(block)
        return op

    # ---- the end ----------------------------------------------------------------------------------------------------

    def finish(self, name: str, params: list[tuple[Handle, str, tuple[int, ...], tuple]], num_warps: int,
               site: Site) -> Program:
        """Freeze what was recorded into a program. `params` are (handle, name, path, attributes) of the arguments."""
        return Freezer().program(self.entry, name, params, num_warps, site, self.uses_words, self.launch_facts, self.bound)


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, Tensor) else type_


_ROWS = (list, triton_tuple)


def _row(values) -> tuple:
    """A list of Triton's semantic, or the tuple that the author wrote (`tl.permute(x, (1, 0))`), whose numbers are constexprs."""
    return tuple(map(_plain, values))


def _plain(value):
    """The number itself: Triton's semantics and generator give one, or a `constexpr` that holds one."""
    return getattr(value, "value", value)


def _check_condition(condition: Handle) -> None:
    """Refuse a tile, as Triton does in an `if`: of `a if tile > 0 else b` and `while tile > 0` it says nothing."""
    if isinstance(condition.get_type(), Tensor):
        raise ValueError("Boolean value of Tensor with more than one value is ambiguous")
