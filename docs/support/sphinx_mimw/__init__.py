"""An extension of Sphinx: what the site has that Sphinx has not.

Input: Sphinx's application. Output: its lexers, directives and transforms with ours among them:

    extensions = [..., "sphinx_mimw"]       in docs/conf.py

Pages are read again where one of these files has changed: its sum is the version of what they made. A build makes trees of millions
of nodes, which stay: looking for garbage among them after every 700 took a fifth of its time.
"""

import gc
import zlib
from pathlib import Path

from pygments.lexers.special import TextLexer

from . import links, navigation
from .directives import Commands, Modules, Names, Words


def setup(app):
    gc.set_threshold(50_000, 20, 20)
    app.add_lexer("mlir", TextLexer)        # Pygments has none for MLIR
    app.add_object_type("command", "command", objname="command")
    for name, directive in (("words", Words), ("names", Names), ("commands", Commands), ("modules", Modules)):
        app.add_directive(name, directive)
    links.setup(app)
    navigation.setup(app)
    return {"env_version": zlib.crc32(b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))),
            "parallel_read_safe": True, "parallel_write_safe": True}
