"""LLVM IR to PTX in a process of its own, by Triton's library alone: LLVM ends the process that hands it a wrong text.

Input: a file of JSON with the library's path, the IR's, the functions to keep, the files to link, and LLVM's options. Output: PTX
on standard output; what LLVM says on standard error:

    python llvm_child.py request.json       LLVM ERROR: failed to parse IR: use of undefined value '%z'lineno: 2
"""

import importlib.util
import json
import sys


def main(path: str) -> None:
    with open(path) as file:
        request = json.load(file)
    spec = importlib.util.spec_from_file_location("triton._C.libtriton", request["library"])
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    print(to_ptx(library, **request["work"]), end="")


def to_ptx(library, source: str, keep: str, links: list[str], triple: str, chip: str, features: str, flags: list[str],
           layout: list) -> str:
    """PTX of the file `source`. `keep` is a file of MLIR in whose globals the functions stand that are to stay; `layout`
    is what a data layout of this release wants to know besides."""
    llvm, ir = library.llvm, library.ir
    with open(source) as file:
        text = file.read()
    llvm.init_targets()
    llvm.translate_to_asm(text, triple, chip, features, flags, True, False, False)    # parses it, and says what is wrong
    context = ir.context()
    ir.load_dialects(context)
    library.nvidia.load_dialects(context)
    world = llvm.context()
    module = llvm.to_module(ir.parse_mlir_module(keep, context), world)
    llvm.attach_datalayout(module, triple, chip, features, *layout)
    llvm.link_extern_libs(module, [source, *links])
    library.nvidia.set_nvvm_reflect_ftz(module)
    llvm.optimize_module(module, llvm.OPTIMIZE_O3, flags=flags)
    return llvm.translate_to_asm(str(module), triple, chip, features, flags, True, False, False)


if __name__ == "__main__":
    main(sys.argv[1])
