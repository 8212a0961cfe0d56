"""How a program is to be orchestrated: a `Plan`, which is plain data, so that it may be kept as JSON.

Input: choices. Output: a frozen `Plan`. For example:

    Plan(consumers=2, stages=3)             two tasks share out the rows of a tile, pipes have three slots
    Plan.parse(plan.text())                 the same plan
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Plan:
    """One way to orchestrate a program.

    boxes               loads and stores by pointers become ones by descriptors, where masks and strides prove it
    assume              also where only masks that cut nothing off and rows that do not wrap around make them boxes, which the host
                        asks of each launch; None: if the launch that is orchestrated is such a one
    gathers             loads by pointers that are no box go to the producer as well, which copies by cp.async (`gathers.py`)
    branches            branches that make descriptors, and whose conditions arguments decide, are taken as in the launch that is
                        orchestrated, which the host asks of each launch; None: if that launch takes them
    lag                 chunks that cp.async may still be copying when the next ones begin; None: up to 2, as pipes allow it
    consumers           tasks that share out the rows of a tile; 1: one task has all of them
    warps               of each consumer; None: the plain kernel's are shared out, four at least
    stages              slots of each pipe; None: as many as fit into shared memory, at most 8
    late_stages         slots of the pipe of a late product; None: `stages`, or one more if neither is given and it fits
    delayed             a product that only adds to what goes round its loop is done a trip later, beside the next trip's first one
    persistent          a few programs, one a multiprocessor, take the tiles of the grid in turn
    across              these tiles are counted with y fastest, where the plain grid's programs are started with x fastest
    band                they are taken so many rows by turns, column after column (`tile_orders.py`); 0: row after row
    last_first          they are taken from the last one on, there and back, where later tiles have longer loops: who has the
                        shortest one of a round has the longest one of the next (`tile_orders.py`)
    ahead               small loads of a loop with products are done a trip ahead, into registers
    together            trips of a loop that are done together, each product beside the arithmetic of the trip before it
                        (`together.py`)
    transform           warps of a task that computes the tiles which products take from what is loaded; 0: the consumers do
    stores              stores by descriptor run on beside the next tile, from a buffer of their own
    sums                places of a sum in tensor memory that are used in turn, where the sums of several tiles follow each other;
                        None: two, if there are columns and the launch shows that it is right
    programs            that a multiprocessor is to hold at once: slots and registers are chosen so; None: those of one
    pingpong            consumers take turns in starting the products of a trip, so that one's products run beside the arithmetic of
                        another one
    tiles_in_turn       each consumer has whole tiles, of those that its program takes in turn: one stores while another one
                        multiplies
    producer_registers, consumer_registers      a thread's registers in each kind of task
    """

    boxes: bool = True
    assume: bool | None = None
    gathers: bool = False
    branches: bool | None = None
    lag: int | None = None
    consumers: int = 1
    warps: int | None = None
    stages: int | None = None
    late_stages: int | None = None
    delayed: bool = True
    persistent: bool = False
    across: bool = False
    band: int = 0
    last_first: bool = False
    stores: bool = False
    sums: int | None = None
    programs: int | None = None
    pingpong: bool = False
    tiles_in_turn: bool = False
    ahead: bool = True
    together: int = 1
    transform: int = 0
    producer_registers: int | None = 24
    consumer_registers: int | None = 240

    @property
    def parts(self) -> int:
        """Parts of the rows of a tile, each of another consumer."""
        return 1 if self.tiles_in_turn else self.consumers

    def warps_of(self, plain: int) -> int:
        """Warps of a consumer, if the plain kernel has so many."""
        return self.warps or max(4, plain // self.consumers)

    def text(self) -> str:
        """The plan as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """The plan of a line that `text` made."""
        return cls(**json.loads(text))
