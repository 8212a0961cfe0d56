"""Small modules of TTGIR, written by hand, and what the simulator makes of them.

    ran(kernel("%x: !tt.ptr<f32>, ..", body), x, o)         the launch of one program, all accesses checked; arrays as it left them
    elementwise("%r = arith.addf %a, %b : T", "f32", "f32", a, b)           the result of an op on tiles of 128 numbers; T is a tile

Input: the parameters and the ops of a kernel. Output: a module's text; arrays.
"""

import numpy as np

from mimw.compiler.ttgir import read_ttgir
from mimw.runtime.ttgir import launch_of
from mimw.simulator import run
from mimw.target import asking, wanted

TILE = 128
LAYOUTS = """#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#tile = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#square = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #tile}>
#columns = #ttg.slice<{dim = 0, parent = #tile}>
#high = #ttg.slice<{dim = 1, parent = #square}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#barrier = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#tma = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#turned = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#wgmma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#right = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
#smem = #ttg.shared_memory
"""
# What stands for long types in the bodies of kernels.
SHORT = {"BARRIER": "!ttg.memdesc<1xi64, #barrier, #smem, mutable>", "BARRIERS": "!ttg.memdesc<2x1xi64, #barrier, #smem, mutable>",
         "SLOT": "!ttg.memdesc<64x64xf16, #tma, #smem, mutable>", "SLOTS": "!ttg.memdesc<2x64x64xf16, #tma, #smem, mutable>",
         "DESC": "!tt.tensordesc<64x64xf16, #tma>", "BLOCK": "tensor<64x64xf16, #tile>"}


def kernel(params: str, body: str, target: str = "cuda:90", ctas: int = 1, more: str = "", layouts: str = "") -> str:
    """The text of a module with one kernel `k`; `more` are functions beside it. In the body the names of SHORT stand for types."""
    for name in sorted(SHORT, key=len, reverse=True):
        params, body = params.replace(f": {name}", f": {SHORT[name]}"), _spelled(body, name)
    lines = "\n".join("    " + line.strip() for line in body.strip().splitlines())
    return (f'{LAYOUTS}{layouts}module attributes {{"ttg.num-ctas" = {ctas} : i32, "ttg.num-warps" = 4 : i32, '
            f'ttg.target = "{target}", "ttg.threads-per-warp" = {64 if "hip" in target else 32} : i32}} {{\n'
            f'  tt.func public @k({params}) {{\n{lines}\n'
            f'    tt.return\n  }}\n{more}}}\n')


def _spelled(body: str, name: str) -> str:
    words = [f"{before}{name}{after}" for before in (": ", "-> ", ", ", "* ", "(") for after in (" ", ",", "\n", ")")]
    body += "\n"
    for word in words:
        body = body.replace(word, word.replace(name, SHORT[name]))
    return body


def ran(text: str, *args, grid=(1, ), target: str = "sm_90a"):
    """Run a launch of a module, all races looked for. Arrays among the arguments are as the kernel leaves them."""
    launch = launch_of(read_ttgir(text, "k.ttgir"), grid, args)
    with asking(wanted(target)):
        run(launch.program, launch.grid, launch.values, seed=0, races=True)


def loaded(name: str, pointer: str, type_: str) -> str:
    """The ops that load a line of 128 numbers."""
    return (f"%p{name} = tt.splat {pointer} : !tt.ptr<{type_}> -> tensor<{TILE}x!tt.ptr<{type_}>, #line>\n"
            f"%q{name} = tt.addptr %p{name}, %at : tensor<{TILE}x!tt.ptr<{type_}>, #line>, tensor<{TILE}xi32, #line>\n"
            f"%{name} = tt.load %q{name} : tensor<{TILE}x!tt.ptr<{type_}>, #line>\n")


def stored(value: str, pointer: str, type_: str) -> str:
    """The ops that store a line of 128 numbers."""
    return (f"%po = tt.splat {pointer} : !tt.ptr<{type_}> -> tensor<{TILE}x!tt.ptr<{type_}>, #line>\n"
            f"%qo = tt.addptr %po, %at : tensor<{TILE}x!tt.ptr<{type_}>, #line>, tensor<{TILE}xi32, #line>\n"
            f"tt.store %qo, {value} : tensor<{TILE}x!tt.ptr<{type_}>, #line>\n")


AT = f"%at = tt.make_range {{start = 0 : i32, end = {TILE} : i32}} : tensor<{TILE}xi32, #line>\n"
_DTYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i32": np.int32, "i64": np.int64, "i8": np.int8}


def elementwise(op: str, given: str, gives: str, *inputs: np.ndarray, target: str = "cuda:90") -> np.ndarray:
    """What ops on lines `%a`, `%b`, `%c` of type `given` make, the line `%r` of type `gives`: `T` and `R` stand for these types."""
    body = AT + "".join(loaded(name, f"%x{name}", given) for name, _ in zip("abc", inputs))
    line, result = f"tensor<{TILE}x{given}, #line>", f"tensor<{TILE}x{gives}, #line>"
    spelled = " ".join({"T": line, "T,": line + ",", "R": result, "R,": result + ","}.get(word, word)
                       for word in op.replace("\n", " \n ").split(" "))
    params = ", ".join([*(f"%x{name}: !tt.ptr<{given}>" for name, _ in zip("abc", inputs)), f"%o: !tt.ptr<{gives}>"])
    out = np.zeros(TILE, _DTYPES[gives])
    ran(kernel(params, body + spelled + "\n" + stored("%r", "%o", gives), target), *inputs, out)
    return out
