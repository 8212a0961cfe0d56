"""A builder that records.

It has the method names of Triton's `ir.builder`, so Triton's own code generator and semantics drive it unchanged; each
`create_*` call becomes a draft op, and `finish` freezes the draft into a `Program`. Handles are what the generator passes
around while recording; they turn into `Value`s when the program is frozen.

Nothing here knows Triton: the contract is the names that `triton.language.semantic` and `triton.compiler.code_generator`
call (pinned by a test of `triton_port`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from .core import Block, Op, Param, Program, Task, Value
from .ops import OPS, result_types
from .site import UNKNOWN, Site
from .types import Descriptor, Pointer, Scalar, Tensor, Type


class Location:
    """A site with an optional user name: what Triton's generator calls a location. The generator makes one for every node that it
    visits and asks few for their site, so the site is made when it is asked for."""

    __slots__ = ("_site", "_place", "name")

    def __init__(self, site: Site | None, name: str | None = None, place: tuple = ()):
        self._site, self.name, self._place = site, name, place

    @property
    def site(self) -> Site:
        if self._site is None:
            self._site = Site(*self._place)
        return self._site

    def get_name(self):
        return self.name

    def set_name(self, name: str) -> None:
        self.name = name


class Handle:
    """A value while it is being recorded."""

    __slots__ = ("type", "name", "site", "replacement", "block")

    def __init__(self, type_: Type, site: Site, block: DraftBlock | None = None):
        self.type, self.site, self.name, self.replacement, self.block = type_, site, "", None, block

    def get_type(self) -> Type:
        return self.type

    def get_loc(self) -> Location:
        return Location(self.site, self.name)

    def set_loc(self, location: Location) -> None:
        """Take the name of a location; the first name stays, so a buffer keeps its own inside helpers and behind aliases."""
        self.name = self.name or location.name or ""

    def id(self) -> int:
        return id(self)

    def replace_all_uses_with(self, other: Handle) -> None:
        self.replacement = other

    def final(self) -> Handle:
        handle = self
        while handle.replacement is not None:
            handle = handle.replacement
        return handle


class DraftRegion:
    """Holds the blocks of one region of a draft op; structured control flow has exactly one."""

    def __init__(self, parent: DraftOp):
        self.parent, self.blocks = parent, []

    def push_back(self, block: DraftBlock) -> None:
        block.region = self
        self.blocks.append(block)

    def size(self) -> int:
        return len(self.blocks)


class DraftBlock:
    """A block under construction."""

    def __init__(self, types: list[Type] = (), site: Site = UNKNOWN):
        self.args: list[Handle] = [Handle(type_, site, self) for type_ in types]
        self.ops: list[DraftOp] = []
        self.region: DraftRegion | None = None
        self.site = site

    def arg(self, index: int) -> Handle:
        return self.args[index]

    get_argument = arg

    def get_num_arguments(self) -> int:
        return len(self.args)

    def add_argument(self, type_: Type) -> Handle:
        self.args.append(Handle(type_, self.site, self))
        return self.args[-1]

    def add_argument_at(self, type_: Type, location: Location) -> Handle:
        return self.add_argument(type_)

    def get_parent(self) -> DraftRegion | None:
        return self.region

    def has_terminator(self) -> bool:
        return bool(self.ops) and self.ops[-1].name in ("yield", "condition")

    def has_return(self) -> bool:
        return False

    def merge_block_before(self, other: DraftBlock) -> None:
        """Move this block's ops to the front of `other`."""
        for op in self.ops:
            op.block = other
        other.ops[:0] = self.ops
        self.ops = []

    def erase(self) -> None:
        self.ops = []


class DraftOp:
    """An op under construction; also what the generator holds as an `OpState`."""

    def __init__(self, name: str, args: tuple, types: tuple[Type, ...], site: Site, attrs: dict | None = None, regions=0):
        self.name, self.args, self.site = name, args, site
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.block: DraftBlock | None = None
        self.regions = [DraftRegion(self) for _ in range(regions)]
        self.results = [Handle(type_, site) for type_ in types]

    def get_result(self, index: int) -> Handle:
        return self.results[index]

    def get_num_results(self) -> int:
        return len(self.results)

    def get_region(self, index: int) -> DraftRegion:
        return self.regions[index]

    def get_body(self, index: int) -> DraftBlock:
        return self.regions[index].blocks[0]

    def get_then_block(self) -> DraftBlock:
        return self.get_body(0)

    def get_else_block(self) -> DraftBlock:
        return self.get_body(1)

    def get_before(self) -> DraftRegion:
        return self.regions[0]

    def get_after(self) -> DraftRegion:
        return self.regions[1]

    def get_induction_var(self) -> Handle:
        return self.get_body(0).arg(0)

    def get_operation(self) -> DraftOp:
        return self

    def set_attr(self, name: str, value: Any) -> None:
        self.attrs[name] = value

    def verify(self) -> bool:
        return True


class Recorder:
    """Records one kernel. `options` and `codegen_fns` are read by Triton's semantics, as on its own builder."""

    def __init__(self):
        self.options = None
        self.codegen_fns: dict = {}
        self.module_map: dict = {}
        self.entry = DraftBlock()
        self._block, self._next = self.entry, None
        self._location = Location(UNKNOWN)
        self._callers: list[Site] = []
        self._function = ""
        self.uses_words = False
        self.regions = 0  # task regions begun
        self.pipes = 0
        self.finishers: list = []  # called before the draft is frozen
        self.log: list[DraftOp] = []  # in the order of recording, whatever block they went to
        self.launch_cluster = (1, 1, 1)         # what the launch asks for, before any mesh is seen
        self.mesh_size: int | None = None       # CTAs of a cluster by the meshes of the kernel
        self.grid_meets = False                 # a barrier of the whole grid was recorded
        self.pipe_windows: list = []  # open between a pipe's acquire and its commit; language/tle fills and reads it
        self.warned: set = set()  # what the author has been told of, and where
        self.suspend_hints: list[int] = []  # of the task regions that give one

    # ---- where we are -----------------------------------------------------------------------------------------------

    def create_loc(self, file: str, line: int, column: int) -> Location:
        caller = self._callers[-1] if self._callers else None
        return Location(None, None, (file or "<unknown>", line, column - 1 if column > 0 else 0, self._function, caller))

    def create_name_loc(self, name: str, location: Location | None = None) -> Location:
        return Location(location.site if location else UNKNOWN, name)

    def set_loc(self, location, line: int | None = None, column: int = 0) -> None:
        self._location = location if isinstance(location, Location) else self.create_loc(location, line or 0, column)

    def get_loc(self) -> Location:
        return self._location

    @property
    def site(self) -> Site:
        """The source position that the next op will carry."""
        return self._location.site

    def enter_function(self, name: str) -> tuple:
        """Start recording inside a helper called from here; give the result to `leave_function`."""
        saved = (self._function, self._location)
        if self._function:
            self._callers.append(self._location.site)
        self._function = name
        return saved

    def leave_function(self, saved: tuple) -> None:
        self._function, self._location = saved
        if self._function:
            self._callers.pop()

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
        self.log.append(op)
        if self._next is None:
            self._block.ops.append(op)
        else:
            self._block.ops.insert(self._block.ops.index(self._next), op)
        for result in op.results:
            result.block = self._block
        return op

    def record(self, name: str, *args, regions: int = 0, **attrs) -> DraftOp:
        """Record one op of the table; the type rule gives its results."""
        args = tuple(tuple(arg) if isinstance(arg, list) else arg for arg in args)
        return self.insert(DraftOp(name, args, result_types(name, args, attrs), self.site, attrs, regions))

    def __getattr__(self, attribute: str):
        """`create_add(a, b)` records op `add`: the table decides which names exist."""
        name = attribute.removeprefix("create_")
        if name == attribute or name not in OPS or OPS[name].ours:
            raise AttributeError(f"Recorder has no method {attribute!r}: Triton's builder call has no row in ir.ops.OPS")

        def create(*args, **kwargs):
            params = OPS[name].params
            if kwargs:
                args = (*args, *(kwargs[key] for key in params[len(args):]))
            results = self.record(name, *args).results
            return results[0] if len(results) == 1 else tuple(results) if results else None

        setattr(self, attribute, create)
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
        return self.record("constant", value, type_).results[0]

    def get_null_value(self, type_: Type) -> Handle:
        return self.constant(0.0 if _element(type_).is_float else 0, type_)

    def get_all_ones_value(self, type_: Type) -> Handle:
        return self.constant(-1, type_)

    def get_int32_attr(self, value):
        return value

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
        op = self.record("if", condition, tuple(types), regions=2)
        for region in op.regions:
            region.push_back(DraftBlock(site=self.site))
        return op

    def create_for_op(self, start: Handle, end: Handle, step: Handle, inits: list[Handle]) -> DraftOp:
        op = self.record("for", start, end, step, tuple(inits), regions=1)
        op.regions[0].push_back(DraftBlock([start.type, *(init.type for init in inits)], self.site))
        return op

    def create_while_op(self, types: list[Type], inits: list[Handle]) -> DraftOp:
        return self.record("while", tuple(inits), regions=2)

    def create_yield_op(self, values: list[Handle]) -> DraftOp:
        return self.record("yield", tuple(values))

    def create_condition_op(self, condition: Handle, values: list[Handle]) -> DraftOp:
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
        for finisher in self.finishers:
            finisher()
        cluster, meshed = self.launch_cluster, self.mesh_size not in (None, 1) and self.launch_cluster == (1, 1, 1)
        if meshed:
            cluster = self.mesh_size, 1, 1
        suspend_ns = min(self.suspend_hints, default=0)
        return _Freezer().program(self.entry, name, params, num_warps, site, self.uses_words, cluster, meshed, suspend_ns)


def _scalar_getters() -> None:
    """`get_int32_ty()` and friends give types, `get_int32(v)` and friends record constants."""
    type_names = {"void": "i1", "int1": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
                  "int128": "i128", "half": "fp16", "bf16": "bf16", "float": "fp32", "double": "fp64", "fp8e5": "fp8e5",
                  "fp8e5b16": "fp8e5b16", "fp8e4nv": "fp8e4nv", "fp8e4b8": "fp8e4b8", "fp8e4b15": "fp8e4b15"}
    for method, name in type_names.items():
        setattr(Recorder, f"get_{method}_ty", lambda self, type_=Scalar(name): type_)
    constants = {"int1": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "i8", "uint16": "i16",
                 "uint32": "i32", "uint64": "i64", "fp16": "fp16", "bf16": "bf16", "fp32": "fp32", "fp64": "fp64"}
    for method, name in constants.items():
        setattr(Recorder, f"get_{method}", lambda self, value, type_=Scalar(name): self.constant(value, type_))


_scalar_getters()


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, Tensor) else type_


class _Freezer:
    """Turns drafts into frozen ops, following replaced handles and numbering values in program order."""

    def __init__(self):
        self.values: dict[Handle, Value] = {}

    def define(self, handle: Handle) -> Value:
        value = Value(handle.type, handle.name, len(self.values))
        self.values[handle] = value
        return value

    def argument(self, arg):
        if isinstance(arg, Handle):
            return self.values[arg.final()]
        if isinstance(arg, tuple):
            return tuple(self.argument(item) for item in arg)
        return arg

    def block(self, draft: DraftBlock) -> Block:
        args = tuple(self.define(arg) for arg in draft.args)
        return Block(args, tuple(self.op(op) for op in draft.ops))

    def op(self, draft: DraftOp) -> Op:
        args = self.argument(draft.args)
        blocks = tuple(self.block(region.blocks[0]) for region in draft.regions if region.blocks)
        results = tuple(self.define(result) for result in draft.results)
        return Op(draft.name, args, results, blocks, MappingProxyType(draft.attrs), draft.site)

    def program(self, entry: DraftBlock, name: str, params, num_warps: int, site: Site, uses_words: bool,
                cluster: tuple[int, int, int], grid_of_clusters: bool, suspend_ns: int) -> Program:
        frozen = tuple(Param(self.define(handle), param, path, tuple(attrs)) for handle, param, path, attrs in params)
        return Program(name, frozen, self.block(entry), num_warps, site, uses_words, cluster, grid_of_clusters, suspend_ns)
