"""What the host does for an orchestrated kernel, as the text of two functions: the kernel's arguments from those of the plain one, and
whether a launch is one that the orchestrated kernel is right for.

Input: the plain kernel's parameters, the orchestrated program, and what it needs. Output: text. For example, for two consumers that
store their rows alone:

    def arguments(a_desc, b_desc, c_desc, M, N, K):
        return a_desc, b_desc, mimw.TensorDescriptor(c_desc.base, c_desc.shape, c_desc.strides, [64, 128]), K
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir import Param, Program


def host_text(parameters: Sequence[str], program: Program, blocks: Mapping[str, tuple[int, ...]]) -> str:
    """`arguments`, a function of the plain kernel's run-time parameters, in their order. `blocks` has the blocks of descriptors that
    are made anew, since each consumer stores its rows alone."""
    given = []
    for param in _arguments(program):
        if param.name in blocks:
            name = param.name
            given.append(f"mimw.TensorDescriptor({name}.base, {name}.shape, {name}.strides, {list(blocks[name])}, {name}.padding)")
        else:
            given.append(param.name)
    lines = [f"def arguments({', '.join(parameters)}):",
             '    """The arguments of the kernel above, from those of the plain one."""',
             f"    return ({', '.join(given)}, )"]
    return "\n".join(lines) + "\n"


def _arguments(program: Program) -> list[Param]:
    """One parameter for each argument: the extents and strides of a descriptor are parameters at the same place."""
    return list({param.path: param for param in reversed(program.params)}.values())[::-1]
