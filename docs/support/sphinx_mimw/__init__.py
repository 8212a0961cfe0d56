"""An extension of Sphinx: what the site has that Sphinx has not.

Input: Sphinx's application. Output: its lexers, directives and transforms with ours among them:

    extensions = [..., "sphinx_mimw"]       in docs/conf.py
"""

from pygments.lexers.special import TextLexer


def setup(app):
    app.add_lexer("mlir", TextLexer)        # Pygments has none for MLIR
    return {"parallel_read_safe": True, "parallel_write_safe": True}
