"""What people look at: tables, maps, graphs and timelines, as text or as self-contained SVG and HTML."""

from .barriers import barrier_graph, barrier_graph_svg
from .perfetto import chrome_trace
from .resources import resource_table
from .timeline import timeline_html, timeline_svg

__all__ = [
    "barrier_graph", "barrier_graph_svg", "chrome_trace", "resource_table", "timeline_html",
    "timeline_svg",
]
