"""Calls of torch's flex attention become `ops.attention`, where their score_mod and mask_mod say what it does.

Input: a graph, and a call in it. Output: the same graph with ours, or a line in the log that says why the call stays. For example:

    replace_flex(graph, node, settings)

values.py has the numbers in a mod, arithmetic.py and reading.py compute with them, meaning.py has options of ours, blocks.py
compares block masks, constants.py computes those that a graph makes itself, theirs.py is timed, and call.py replaces.
"""

from .call import attend, replace_flex

__all__ = ["attend", "replace_flex"]
