"""The only door to Triton's private modules.

Everything that a new Triton release may move is imported here and nowhere else; `tests/triton_port` pins each borrowed name
and signature, so a release that breaks us says where. Public `triton.language` may be imported anywhere.
"""
