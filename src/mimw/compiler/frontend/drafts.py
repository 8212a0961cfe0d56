"""A kernel under construction: handles for values, drafts of ops, blocks and regions, with the method names of Triton's own.

    op = DraftOp("for", (start, end, step, ()), (), site, regions=1)        what `Recorder.record` makes
    op.regions[0].push_back(DraftBlock([Scalar("i32")], site))              the body, with the loop's counter for an argument
    op.get_induction_var()                                                  Handle of type i32

Input: names, types and sites. Output: objects that Triton's code generator passes around while it records, and that
`frontend.freeze` turns into the immutable ops and values of `mimw.ir`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import OPS, UNKNOWN, Site, Type


class Location:
    """A site with an optional user name: what Triton's generator calls a location. The generator makes one for every node that it
    visits and asks few for their site, so the site is made when it is asked for."""

    __slots__ = ("_site", "_place", "name", "bind")

    def __init__(self, site: Site | None, name: str | None = None, place: tuple = (),
                 bind: Callable[[str, Handle], None] | None = None):
        """`bind(name, handle)` is told of each value that takes the name."""
        self._site, self.name, self._place, self.bind = site, name, place, bind

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
        if location.bind is not None and location.name:
            location.bind(location.name, self)

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
        return bool(self.ops) and "terminator" in OPS[self.ops[-1].name].traits

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
