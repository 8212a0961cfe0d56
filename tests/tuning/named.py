"""An operator of a user's own, with a kernel of stock words: `mimw tune tests.tuning.named:OWN --shapes 1024`.

Input: a number of elements. Output: candidates by block, which are compiled and predicted, never run here. For example:

    find("tests.tuning.named:OWN").candidates(problem, 132)      [Cut(block=128), Cut(block=256)]
"""

from dataclasses import dataclass

import numpy as np
import triton.language as tl

import mimw
from mimw.tuning import Operator


@dataclass(frozen=True)
class Cut:
    block: int = 128


@mimw.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


class Named(Operator):
    name, names, dtypes = "named", ("N", ), ("fp32", )
    configuration_type = Cut

    def candidates(self, problem, sms):
        return [Cut(128), Cut(256)]

    def launches(self, problem, chosen, sms):
        (n, ) = problem.extents
        return [(double, (-(-n // chosen.block), ), (np.empty(n, np.float32), n), dict(BLOCK=chosen.block))]


OWN = Named()
