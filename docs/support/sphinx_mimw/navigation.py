"""The site's navigation, made in a fraction of the time: it shows the titles of pages, so no page's headings need be copied for it.

Input: what Furo asks of Sphinx for each page, the tree of all pages by their titles. Output: the same tree. For example:

    toctree(titles_only=True, ...)      Sphinx copies what every page has of headings and entries, once for each page, then drops it

That is a third of a build. Here the copies are made of tables of contents that have been cut down to titles, once.
"""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def titles(env: BuildEnvironment) -> dict[str, nodes.bullet_list]:
    """The table of contents of each page with its title only, and the pages below it."""
    found = {}
    for name, contents in env.tocs.items():
        found[name] = contents.deepcopy()
        for top in found[name].children:
            if len(top.children) > 1:
                top[1][:] = list(top[1].findall(addnodes.toctree))
    return found


def quick(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    """Give the theme a `toctree` that looks at titles where it is asked for titles."""
    whole = context.get("toctree")
    if whole is None:
        return
    if not hasattr(app.builder, "mimw_titles"):
        app.builder.mimw_titles = titles(app.env)

    def toctree(**options) -> str:
        if not options.get("titles_only"):
            return whole(**options)
        kept, app.env.tocs = app.env.tocs, app.builder.mimw_titles
        try:
            return whole(**options)
        finally:
            app.env.tocs = kept

    context["toctree"] = toctree


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", quick, priority=400)      # before the theme's
