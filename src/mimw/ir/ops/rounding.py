"""Stochastic rounding: a conversion that random bits decide.

Input: nothing. Output: a row of the op table (the notation is in `ir.ops`). An example:

    %y = stoch_round %x fp8e4nv[128, 64] %random      four neighbours of a row share the random word of the first one
"""

from ..type_rules import given
from .table import define

SHARING = {8: 4, 16: 2}  # elements that one instruction rounds, by the bits of what it makes: PTX ISA, "cvt", .f8x4type and .f16x2

define("stoch_round", "value:fp32~ type:#type random:i32~", given(1), "same", "pure", ours=True, rule="neighbours",
       needs="stochastic_rounding", cost="convert",
       doc="Rounds up or down by random bits. Neighbours along the last dimension, as many as one instruction takes, share the "
           "random word of the first of them.")
