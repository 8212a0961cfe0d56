"""The numbers that a walk through a module finds at its ops are those that stand in the module's text, op by op."""

from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.order import Effects, Node
from mimw.compiler.triton_port.text import ModuleText, located, module_of

MODULE = '''
#loc = loc("kernel.py":1:1)
#loc1 = loc("acc.17"(#loc))
#loc2 = loc("other.9"(#loc))
#loc3 = loc(fused[#loc, #loc2, #loc1])
#loc4 = loc("no number"(#loc))
#loc5 = loc(callsite(#loc1 at #loc2))
#loc6 = loc("3"(#loc))
#loc7 = loc("a.b.3"(#loc))
module {
  tt.func public @kernel(%p: !tt.ptr<f32>, %n: i32) {
    %zero = arith.constant 0 : i32 loc(#loc4)
    %one = arith.constant 1 : i32 loc(#loc5)
    %true = arith.constant true loc(#loc6)
    %x = tt.load %p : !tt.ptr<f32> loc(#loc1)
    gpu.barrier loc(#loc2)
    scf.for %i = %zero to %n step %one : i32 {
      scf.if %true {
        tt.store %p, %x : !tt.ptr<f32> loc(#loc7)
      } loc(#loc3)
      gpu.barrier loc(unknown)
    } loc(#loc1)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
'''


def test_a_walk_finds_the_numbers_of_the_text():
    """Those of ops without results too, of which no value tells. An op with regions comes where it ends, in both."""
    module = module_of(MODULE, mlir_context())
    effects, walked = Effects(module, (17, 9, 3), ()), []
    module.walk(lambda op: walked.append((op.get_name(), effects._number(op))) if op.get_block() else None)
    text, written = ModuleText(module), []
    for line in text.lines:
        code, location = located(line)
        if location and not line.startswith("#"):
            written.append(text.number(location))
    shown = [(name, number) for name, number in walked if name != "scf.yield"]     # which the printer leaves out
    assert [*(number for _, number in shown), -1] == written                       # the last is the module's own
    assert shown == [("arith.constant", -1), ("arith.constant", -1), ("arith.constant", -1), ("tt.load", 17), ("gpu.barrier", 9),
                     ("tt.store", 3), ("scf.if", 9), ("gpu.barrier", -1), ("scf.for", 17), ("tt.return", -1), ("tt.func", -1)]
    assert effects.nodes == [Node("op", 17), Node("op", 9), Node("loop", 17, [[Node("if", 9, [[Node("op", 3)]])]])]
