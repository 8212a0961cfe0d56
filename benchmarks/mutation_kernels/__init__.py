"""The kernels that are mutated: every one of tutorials/ and of src/mimw/kernels/, some of tasks on AMD's chips and some for several
GPUs, at a small size, ready to be checked.

    from benchmarks.mutation_kernels import CASES
    kernel, grid, args, meta = CASES[0].make()
    mimw.check(kernel, grid, *args, **meta)

Input: nothing. Output: a `Case` for each, in the order of docs/MUTATIONS.md.
"""

from .amd import CASES as ON_AMD
from .attention import CASES as ATTENTION
from .case import Case, tutorial
from .linear_attention import CASES as LINEAR_ATTENTION
from .products import CASES as PRODUCTS
from .rows import CASES as ROWS
from .several_gpus import CASES as ON_SEVERAL_GPUS
from .several_gpus import NOT_JUDGED
from .tutorials import CASES as OF_TUTORIALS

CASES = (*PRODUCTS, *ATTENTION, *LINEAR_ATTENTION, *ROWS, *OF_TUTORIALS, *ON_AMD)

__all__ = ["CASES", "NOT_JUDGED", "ON_SEVERAL_GPUS", "Case", "tutorial"]
