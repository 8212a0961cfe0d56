"""The state of a generator: which names are in sight, which arguments there are, where in the loops we are.

Input: `Draws`. Output: nodes of the tree, arguments, lines for the kernel's head. A word (`words`) is a function of a `Maker`:

    tile = make.operand("i32")                       # a tile in sight, or a new one
    make.let(replace(tile, kernel=f"tl.flip({tile.kernel}, 0)", reading=f"np.flip({tile.reading}, 0)"))
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from .draws import Draws
from .elements import ELEMENTS
from .tree import Argument, Branch, Line, Load, Loop, Step, Value

SHARED_LIMIT = 150_000  # bytes of buffers; below the chip's 232448, since conversions take scratch
SHARED_LIMITS = {"gfx942": 40_000, "gfx950": 100_000}  # of 65536 and 163840
TENSOR_COLUMNS = 512
ARITHMETIC = ("i32", "f32", "f16", "bf16", "i16", "i64", "i8", "u8", "u32")


@dataclass
class Limits:
    """What a family allows. `words`: weights by group of words; `elements`: types of tiles."""

    words: dict[str, float]
    statements: tuple[int, int] = (2, 7)
    depth: int = 2
    elements: tuple[str, ...] = ARITHMETIC
    shapes: tuple[tuple[int, ...], ...] = ((64,), (128,), (32, 32), (16, 64), (64, 16), (256,), (64, 64))
    shape_count: int = 2
    trips: tuple[int, int] = (0, 6)
    flavour: str = "tlx"
    loops: tuple[str, ...] = ("for", "for", "stages", "unroll", "static", "while", "step")
    pointers: bool = True  # pointers into shared memory by `tle.gpu.local_ptr`
    portable: bool = False  # only what every chip has


@dataclass
class Maker:
    """`nodes` is the block that is being filled; `tiles` are the variables in sight; `around` the loops around it."""

    draws: Draws
    limits: Limits
    programs: int = 1
    arguments: dict[str, Argument] = field(default_factory=dict)
    head: list[str | Line] = field(default_factory=list)
    reading_head: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    reading_functions: list[str] = field(default_factory=list)
    nodes: list = field(default_factory=list)
    tiles: list[Value] = field(default_factory=list)
    around: list[Loop] = field(default_factory=list)
    conditions: int = 0
    shared_bytes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    buffers: list = field(default_factory=list)
    carried: list = field(default_factory=list)
    tensors: list = field(default_factory=list)  # arrays in tensor memory
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    meta: dict = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)
    cluster: int = 1
    chip: str = "sm_90a"
    columns: int = 0  # of tensor memory, taken
    claims: str = ""  # the context by which CTAs take over the work of others; every block is then a round of a loop over these
    meshed: bool = False
    whole_grid: bool = False
    serial: bool = False  # the segment is run by one task, or by none
    made: set[str] = field(default_factory=set)
    captured: list[str] = field(default_factory=list)  # names of the head that partitions take as parameters

    def __post_init__(self):
        count = self.draws.integer(1, self.limits.shape_count)
        self.shapes = [self.draws.pick(self.limits.shapes) for _ in range(count)]

    @property
    def amd(self) -> bool:
        """True for a chip of AMD's."""
        return self.chip.startswith("gfx")

    # ---- names and arguments ---------------------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """A new name: x0, x1, .."""
        self.counts[stem] = self.counts.get(stem, -1) + 1
        return f"{stem}{self.counts[stem]}"

    def trips(self) -> int:
        """How often the block being filled runs in one CTA."""
        total = 1
        for loop in self.around:
            total *= loop.trips
        return total

    def instance(self) -> str:
        """The number of this run of the block, counted over all CTAs: the same text in both languages."""
        text = "pid"
        for loop in self.around:
            text = f"({text} * {self.extent(loop)} + {loop.variable})"
        return text

    @staticmethod
    def extent(loop: Loop) -> str:
        """How often it goes round, as text in both languages."""
        return loop.count

    def instances(self) -> int:
        total = self.programs
        for loop in self.around:
            total *= max(1, loop.trips)
        return total

    def array(
        self, element: str, shape: tuple[int, ...], fill: tuple, output: bool = False, tolerance: float = 0.0
    ) -> str:
        name = self.name("y" if output else "x")
        if fill[0] == "ints" and len(fill) == 3:
            fill = (*fill, len(self.arguments))
        self.arguments[name] = Argument(name, "array", element, shape, fill, output=output, tolerance=tolerance)
        return name

    def number(self, value: int, stem: str = "n") -> str:
        name = self.name(stem)
        self.arguments[name] = Argument(name, "number", value=value)
        return name

    def constant(self, value: int) -> str:
        name = self.name("C")
        self.arguments[name] = Argument(name, "constant", value=value)
        return name

    def descriptor(self, array: str, block: tuple[int, ...]) -> str:
        for one in self.arguments.values():
            if one.kind == "descriptor" and one.of == array and one.block == block:
                return one.name
        name = self.name("d")
        self.arguments[name] = Argument(name, "descriptor", of=array, block=block)
        return name

    def function(self, name: str, text: str) -> None:
        """A function of the module, once."""
        if name not in self.made:
            self.made.add(name)
            self.functions.append(text)

    def reading_function(self, name: str, text: str) -> None:
        """A function of the numpy side, once."""
        if "numpy " + name not in self.made:
            self.made.add("numpy " + name)
            self.reading_functions.append(text)

    # ---- nodes -----------------------------------------------------------------------------------------------------------

    def step(self, kernel: list, reading: list[str], uses=(), states=(), **more) -> Step:
        """Add a step to the block. `kernel` may hold texts and `Line`s; a text of several lines is split."""
        lines = []
        for one in kernel:
            lines += [one] if isinstance(one, Line) else [Line(text) for text in one.split("\n")]
        flat = [text for one in reading for text in one.split("\n")]
        self.counts["#"] = self.counts.get("#", -1) + 1
        made = Step(self.counts["#"], tuple(lines), tuple(flat), uses=frozenset(uses), states=frozenset(states), **more)
        self.nodes.append(made)
        return made

    def let(
        self,
        value: Value,
        load: Load | None = None,
        before: list | None = None,
        private: bool = False,
        warps: tuple[int, ...] = (1, 2, 4, 8),
    ) -> Value:
        """Name the value, so that later steps and other tasks may use it."""
        name = self.name("v")
        made = replace(value, kernel=name, reading=name, uses=frozenset({name}), states=frozenset())
        self.step(
            [*(before or []), f"{name} = {value.kernel}"],
            [f"{name} = {value.reading}"],
            value.uses,
            value.states,
            makes=made,
            load=load,
            private=private,
            warps=warps,
        )
        self.tiles.append(made)
        return made

    @contextmanager
    def block(self):
        """Fill a block of its own; what it names goes out of sight. Gives the list that becomes the block."""
        held, seen, self.nodes = self.nodes, len(self.tiles), []
        buffers, carried, tensors = len(self.buffers), len(self.carried), len(self.tensors)
        try:
            yield self.nodes
        finally:
            self.nodes = held
            del self.tiles[seen:]
            del self.buffers[buffers:]
            del self.carried[carried:]
            del self.tensors[tensors:]

    def loop(self, kind: str, trips: int):
        """A loop head around a block: `with make.loop("for", 3) as body`; the node is added at the end."""
        return _loop(self, kind, trips)

    def scalar_condition(self) -> tuple[str, str]:
        """A condition on scalars, in both languages."""
        loops = [loop for loop in self.around if loop.trips > 1]
        draws = self.draws
        kind = draws.pick(
            ["even", "first", "flag", "later", "program", "always", "or", "never", "constant"],
            [4, 2, 3, 2, 1, 1, 2, 0.5, 1],
        )
        if kind == "constant":
            text = f"{self.constant(draws.integer(0, 2))} > 0"
            return text, text
        if kind == "program":
            text = f"pid // {self.cluster} % 2 == {draws.integer(0, 1)}"  # the same in all of a cluster
            return text, text
        if kind == "always":
            return "flag < 100", "flag < 100"
        if kind == "never":
            return "flag > 100", "flag > 100"
        if kind == "flag" or not loops:
            text = f"flag == {draws.integer(0, 1)}"
            return text, text
        variable = draws.pick(loops).variable
        text = {
            "even": f"{variable} % 2 == {draws.integer(0, 1)}",
            "first": f"{variable} == 0",
            "later": f"{variable} > 0",
            "or": f"({variable} % 3 == 0) | (flag == 1)",
        }[kind]
        return text, text.replace(" | ", " or ")

    # ---- operands --------------------------------------------------------------------------------------------------------

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        fitting = [shape for shape in self.shapes if rank in (None, len(shape))]
        return self.draws.pick(fitting) if fitting else {1: (64,), 2: (32, 32)}[rank]

    def operand(
        self,
        element: str | None = None,
        shape: tuple[int, ...] | None = None,
        rank: int | None = None,
        bound: float | None = None,
        kinds: tuple[str, ...] = ("float", "int", "uint"),
    ) -> Value:
        """A tile in sight of that type, or a new one: loaded, or made of numbers."""
        fitting = [
            tile
            for tile in self.tiles
            if element in (None, tile.element)
            and shape in (None, tile.shape)
            and rank in (None, len(tile.shape))
            and ELEMENTS[tile.element].kind in kinds
            and tile.element in ARITHMETIC
            and (bound is None or tile.bound <= bound)
        ]
        if fitting and not self.draws.chance(25):
            return fitting[-1 - self.draws.integer(0, min(len(fitting) - 1, 4))]
        shape = shape or self.shape(rank)
        if element is None:
            allowed = [name for name in self.limits.elements if ELEMENTS[name].kind in kinds and name in ARITHMETIC]
            element = self.draws.pick(allowed or ["i32" if "int" in kinds else "f32"])
        from .words.tiles import fresh

        return fresh(self, element, shape, bound)

    def tensor(self, columns: int) -> bool:
        """Take so many columns of tensor memory, if they are there."""
        if self.columns + columns > TENSOR_COLUMNS:
            return False
        self.columns += columns
        return True

    def shared(self, size: int) -> bool:
        """Take so many bytes of shared memory, if they are there."""
        if self.shared_bytes + size > SHARED_LIMITS.get(self.chip, SHARED_LIMIT):
            return False
        self.shared_bytes += -(-size // 128) * 128
        return True


@contextmanager
def _loop(make: Maker, kind: str, trips: int):
    draws, variable, before, step = make.draws, make.name("i"), "", ""
    plain, count = kind in ("for", "stages", "unroll"), str(max(1, trips))
    reading = f"for {variable} in range({trips}):"
    if kind == "static":
        kernel = f"for {variable} in tl.static_range({trips}):"
    elif kind == "while":
        count = make.number(trips)
        kernel, before, step = f"while {variable} < {count}:", f"{variable} = 0", f"{variable} += 1"
        reading = kernel
    elif kind == "step":
        pace = draws.integer(2, 3)
        start = draws.integer(1, 2)
        inner, stop = f"{variable}s", make.number(trips * pace)
        count = f"(({stop} + {pace - 1}) // {pace})"
        kernel = f"for {inner} in range({start}, {start} + {stop}, {pace}):"
        step = f"@{variable} = ({inner} - {start}) // {pace}"
    else:
        stop = str(trips) if draws.chance(30) else make.number(trips)
        count = stop if trips else "1"
        more = {
            "for": "",
            "stages": f", num_stages={draws.integer(1, 4)}",
            "unroll": f", loop_unroll_factor={draws.integer(1, 3)}",
        }[kind]
        if kind == "stages" and draws.chance(20):
            more += draws.pick(
                [", disallow_acc_multi_buffer=True", ", flatten=True", ", warp_specialize=False", ", disable_licm=True"]
            )
        kernel = f"for {variable} in tl.range(0, {stop}{more}):" if more else f"for {variable} in range({stop}):"
    loop = Loop(variable, kernel, reading, trips, (), plain, before, step, count)
    make.around.append(loop)
    try:
        with make.block() as body:
            yield body
    finally:
        make.around.pop()
    make.nodes.append(replace(loop, body=tuple(body)))


def branch(make: Maker, fill_then, fill_else=None) -> None:
    """An `if` on scalars, with blocks filled by the functions."""
    kernel, reading = make.scalar_condition()
    make.conditions += 1
    with make.block() as then:
        fill_then()
    other: list = []
    if fill_else:
        with make.block() as other:
            fill_else()
    make.conditions -= 1
    if then:
        make.nodes.append(Branch(kernel, reading, tuple(then), tuple(other)))
