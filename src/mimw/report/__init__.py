"""The reports that people look at: tables, maps, graphs and timelines, as text or as self-contained SVG and HTML.

Input: a `Program`, or the `Trace` of a run. Output: a text to print, or a picture to write. For example:

    barrier_graph(program)        task 1 --full[1]--> default
"""

from .barriers import barrier_graph, barrier_graph_svg
from .perfetto import chrome_trace
from .resources import resource_table
from .spaces import space_table
from .timeline import timeline_svg

__all__ = [
    "barrier_graph", "barrier_graph_svg", "chrome_trace", "resource_table", "space_table",
    "timeline_svg",
]
