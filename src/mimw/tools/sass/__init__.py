"""What the machine code of a kernel says that no text before it does: registers of products under way that something touches.

Input: the SASS of a kernel for Hopper. Output: `Touch`es, none for a kernel that is right. For example:

    touches(made.sass)      []

`mimw.orchestrate` takes no plan that has one. Tests read every kernel for Hopper that they compile: tests/products_under_way.py.
"""

from .code import Code
from .disassembled import disassembled
from .under_way import Touch, touches

__all__ = ["Code", "Touch", "disassembled", "touches"]
