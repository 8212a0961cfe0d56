"""The contract of an operator: one line for each tensor, and each rule that they obey, from which its checks and results come.

Input: lines. Output: a `Contract`, which checks arguments and names their extents. For example:

    PRODUCT = Contract("a: bf16|fp16|fp8 (M, K) tma", "b: =a|fp8 (K, N)", "c: bf16|fp16|fp32 (M, N) tma", "programs >= 1")
    of = PRODUCT.check(a=a, b=b, c=c, programs=132)         ValueError that names the argument, the numbers and the mend
    of.M, of.N, of.K                                        the extents

A tensor's line is `NAME: TYPES SHAPE MEMORY`; a `?` behind the name says that it may be left out (None).

    TYPES    bf16, fp16, fp32, fp64, e4m3, e5m2, i32, i64; fp8, float and int are those of their kind; any is any;
             =a is a's type, =a|fp8 a's type, or both fp8; =a|e4m3 a's type, or e4m3
    SHAPE    (M, K), or several by `or`: extents with a name, which is the same number wherever it stands, or an expression of
             such, as (2 * inner, cdiv(K, 128)); b|1 is either; (b) in parentheses of its own is one that another tensor gives, 1 if
             none does; *rows are any number of extents, all the same; *n[dims] as many as the option dims says; ... any number,
             which are broadcast
    MEMORY   nothing for any strides; rows: the last dimension is contiguous; contiguous: all are; tma: rows, and all other strides
             of 16 bytes, strides of extents of 1 aside; tma-all: those, too

A line with an arrow is a result, of an operator (`mimw.ops.contract`). Any other line is a rule, an expression of extents and
options, perhaps with what to do behind two dashes: "heads % kv_heads == 0 -- kv_heads must divide heads". A rule that names an
option which is None says nothing, unless it asks for None itself: "programs is not None and programs >= 1". One that begins with
"offered:" is of what may be offered one day.
"""

from .contract import Contract, by
from .extents import Extents
from .lines import Line, Option, Rule, Tensor

__all__ = ["Contract", "Extents", "Line", "Option", "Rule", "Tensor", "by"]
