"""The settings of Sphinx for the site: `make site` builds it from the pages of docs/ into site/, without a network.

Input: Markdown pages, which read as well on a code host, and the code of the package. Output: HTML in site/. For example:

    python -m sphinx -W --keep-going -n -b html docs site        what `make site` runs

What Sphinx has not is in docs/support/sphinx_mimw/: the reference of words, operators and commands from the code, and links of
names.
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "support"), str(HERE.parent / "src")]

project = "mimw"
author = "the mimw authors"
copyright = author
version = release = re.search(r'^__version__ = "(.+)"', (HERE.parent / "src" / "mimw" / "__init__.py").read_text(), re.M)[1]

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_mimw"]
exclude_patterns = ["support"]
templates_path = ["_templates"]

myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 4

smartquotes = False     # two dashes are an option's

html_theme = "furo"
html_title = f"mimw {release}"
html_static_path = ["_static"]
html_extra_path = ["race.html", "debugged.html"]        # made by docs/support/report_page.py and debugger_page.py
html_css_files, html_js_files = ["mimw.css"], ["mimw.js"]
html_show_sphinx = html_show_copyright = html_copy_source = False
pygments_style, pygments_dark_style = "a11y-light", "github-dark"       # whose letters have a contrast of 4.5 and more
copybutton_prompt_text = "$ "
