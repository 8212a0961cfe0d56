"""Products with what a graph does to them on their way out, by one launch of the library's GEMM.

Input: a graph behind autograd. Output: the same graph, in which calls of `mimw::product_with_epilogue` (operator.py) stand for
products and the nodes behind them (reading.py, activations.py). For example:

    relu(addmm(bias, x, w))             product_with_epilogue(x, w, bias, activation="relu")
    replace_epilogues(graph, settings)
"""

from .replacing import replace_epilogues

__all__ = ["replace_epilogues"]
