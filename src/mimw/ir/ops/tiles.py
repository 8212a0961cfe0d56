"""Arithmetic on numbers and tiles, and ops that change the shape of a tile: all pure, in Triton's own names.

Input: nothing. Output: rows of the op table (the notation is in `ir.ops`). An example:

    %sum = fadd %a %b          lhs, rhs: floats or tiles of floats; the result is of the type of `lhs`
"""

from math import inf, nan

from ..type_rules import (
    as_operand,
    bool_like,
    cut_out,
    expanded,
    gathered,
    given,
    halves,
    joined,
    listed,
    mapped,
    reduced,
    reshaped,
    scanned,
    transposed,
)
from ..types import I32, Tensor, Type
from .integers import FOLDS, RELATIONS
from .table import define

define("constant", "value:const type:#type", given(1), "free", "pure", attrs="layout:const?", traits="number", cost="free",
       doc="A number, or a tile filled with it. attrs: layout (pinned by the author, or None).")
define("poison", "type:#type", given(0), "free", "pure", cost="free", doc="A value nobody may use.")

define("add sub mul sdiv udiv srem urem shl lshr ashr and or xor umulhi minsi minui maxsi maxui", "lhs:int~ rhs:int~",
       as_operand(0), "same", "pure", folds=FOLDS, absorbs={"mul and": 0, "or": -1},
       neutral={"add or xor maxui": 0, "mul": 1, "and": -1, "maxsi": "lowest", "minsi": "highest", "minui": "unsigned highest"},
       traits={"add": "number sum", "sub": "number", "mul": "number", "and": "number", "or": "number", "xor": "number",
               "sdiv": "number quotient", "udiv": "number quotient", "srem": "number remainder", "urem": "number remainder",
               "minsi": "number", "maxsi": "number"},
       cost={"sdiv udiv srem urem": "division", "minsi minui maxsi maxui": "compare"})
define("fadd fsub fmul fdiv frem precise_divf approx_divf minimumf minnumf maximumf maxnumf", "lhs:float~ rhs:float~",
       as_operand(0), "same", "pure", traits={"fadd": "sum fuses", "fsub": "fuses"},
       neutral={"fadd": -0.0, "fmul": 1.0, "maximumf": -inf, "minimumf": inf, "maxnumf minnumf": nan},
       cost={"fadd fsub fmul": "float", "fdiv frem precise_divf": "special",
             "approx_divf": "approximate", "minimumf minnumf maximumf maxnumf": "compare"})
define("addptr", "lhs:ptr~ rhs:int~", as_operand(0), "same", "pure", pointer_of="lhs")
define("icmpSLE icmpSLT icmpSGE icmpSGT icmpULE icmpULT icmpUGE icmpUGT icmpEQ icmpNE", "lhs:int~|ptr~ rhs:int~|ptr~",
       bool_like, "same", "pure", relation=RELATIONS, folds=FOLDS,
       traits=dict.fromkeys(("icmpEQ", "icmpNE", "icmpSLT", "icmpSLE", "icmpSGT", "icmpSGE"), "number"), cost="compare")
define("fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE",
       "lhs:float~ rhs:float~", bool_like, "same", "pure", cost="compare")
define("fneg fabs ceil floor exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf", "value:float~", as_operand(0),
       "same", "pure",
       cost={"fneg fabs floor": "float", "exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf": "special"})
define("iabs", "value:int~", as_operand(0), "same", "pure")
define("fma", "x:float~ y:float~ z:float~", as_operand(0), "same", "pure", cost="float")
define("clampf", "value:float~ low:float~ high:float~ propagate_nan:@PROPAGATE_NAN", as_operand(0), "same", "pure", cost="compare")
define("select", "condition:i1~ if_true:num~ if_false:num~", as_operand(1), "same", "pure", elements_of="if_true if_false",
       traits="number", cost="compare")
define("int_cast", "value:int~ type:#type signed:const", given(1), "same", "pure", traits="number", cost="move")
define("si_to_fp ui_to_fp", "value:int~ type:#type", given(1), "same", "pure", cost="convert")
define("fp_to_si fp_to_ui fp_ext fp_trunc", "value:float~ type:#type", given(1), "same", "pure", cost="convert")
define("bitcast", "value:num~ type:#type", given(1), "same", "pure", pointer_of="value", cost="move")
define("int_to_ptr", "value:int~ type:#type", given(1), "same", "pure")
define("ptr_to_int", "value:ptr~ type:#type", given(1), "same", "pure")
define("fp_to_fp", "value:float~ type:#type rounding:@ROUNDING_MODE?", given(1), "same", "pure", cost="convert")
define("extern_elementwise", "library:#str path:#str symbol:#str values:num~* type:#type is_pure:const", given(4),
       "same", "write", traits="assembly", cost="special")
define("inline_asm", "assembly:#str constraints:#str values:num~* types:#type* is_pure:const pack:const", listed(3),
       "same", "write", needs="native", traits="assembly", attrs="lanes:const?")

define("make_range", "type:#type start:#int end:#int", given(0), "free", "pure", cost="free")
define("splat", "type:#type value:num", given(0), "free", "pure", elements_of="value", cost="free", traits="lanes")
define("unsplat", "value:num[]", lambda args, attrs: (args[0].type.element, ), "none", "pure", elements_of="value",
       cost="move")
define("broadcast", "value:num[] type:#shape|#type",
       lambda args, attrs: (args[1] if isinstance(args[1], Type) else Tensor(args[0].type.element, tuple(args[1])), ),
       "same", "pure", elements_of="value", cost="free", traits="reshape", rule="spread")
define("expand_dims", "value:num[] axis:#int", expanded, "expand", "pure", elements_of="value", cost="free",
       traits="reshape")
define("unpack_fp4", "value:int[] axis:#int type:#type", given(2), "none", "pure", ours=True, traits="ttgir", cost="move",
       doc="The pairs of e2m1 in bytes, the low half first, as floats side by side along an axis. No word records it: the reader "
       "of TTGIR does.")
define("reshape", "value:num~ shape:#shape can_reorder:const", reshaped, "inferred", "pure", elements_of="value",
       cost="move", traits="reshape", rule="moved")
define("trans", "value:num[] order:#shape", transposed, "inferred", "pure", elements_of="value", cost="move", rule="moved")
define("join", "lhs:num~ rhs:num~", joined, "inferred", "pure", elements_of="lhs rhs", cost="move")
define("split", "value:num[]", halves, "inferred", "pure", elements_of="value", cost="move", rule="pairs")
define("cut", "value:num[] start:#shape shape:#shape", cut_out, "inferred", "pure", ours=True, elements_of="value", cost="move",
       rule="cut",
       doc="The part of a tile of these extents, powers of two, from element `start` on, a multiple of them.")
define("gather", "source:num[] indices:int[] axis:#int", gathered, "inferred", "pure", elements_of="source",
       traits="collective")
define("histogram", "value:int[] bins:#int mask:i1[]?", lambda args, attrs: (Tensor(I32, (args[1], )), ), "inferred",
       "pure", traits="collective")
define("reduce", "values:num[]* axis:#int", reduced, "reduce", "pure control", traits="combines collective",
       regions="body")
define("scan", "values:num[]* axis:#int reverse:const", scanned, "scan", "pure control",
       traits="combines collective", regions="body")
define("map_elementwise", "values:num[]* types:#type* pack:const", mapped, "same", "pure control",
       traits="maps", regions="body")
