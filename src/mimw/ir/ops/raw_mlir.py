"""A call of an author's function in MLIR, and what it does to memory, each access an op of its own.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example, of a function that reads a buffer:

    mlir_reads %tile                                nothing is emitted for it
    %sum = raw_mlir 'sum' [%tile, %x] [fp32[128]] code='6f..'
"""

from ..type_rules import listed
from .table import define

define("raw_mlir", "function:#str values:value* types:#type*", listed(2), "inferred", "read write", ours=True,
       attrs="code:#str effects:const", traits="collective", time="work", cost="free", word="raw.call",
       doc="The body of a function in MLIR text stands here. attrs: code, the key of the text (ir/raw_code.py); effects, what it "
       "does to the memory of each value: in, out, inout, or nothing.")
define("pure_mlir", "function:#str values:value* types:#type*", listed(2), "inferred", "pure", ours=True,
       attrs="code:#str effects:const", time="work", cost="free", word="raw.call",
       doc="As raw_mlir, of a function that does nothing but compute: it is dropped if nobody uses what it gives.")
define("mlir_reads", "buffer:Buffer", None, "none", "read", ours=True, touches="buffer=read", time="work", cost="shared",
       traits="collective", lies="buffer=free", doc="The `raw_mlir` behind it reads the buffer.")
define("mlir_writes", "buffer:Buffer", None, "none", "write", ours=True, touches="buffer=write", time="work", cost="shared",
       traits="collective", lies="buffer=free", doc="The `raw_mlir` before it has written the buffer, any part of it.")
define("mlir_loads", "pointer:ptr~", None, "none", "read", ours=True, touches="pointer=read", time="work", cost="global",
       traits="declared",
       doc="The `raw_mlir` behind it reads global memory through the pointers.")
define("mlir_stores", "pointer:ptr~", None, "none", "write", ours=True, touches="pointer=write", time="store", cost="global",
       traits="declared",
       doc="The `raw_mlir` before it has written global memory through the pointers.")
