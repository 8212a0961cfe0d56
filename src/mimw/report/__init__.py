"""What people look at: tables, maps, graphs and timelines, as text or as self-contained SVG and HTML."""

from .barriers import barrier_graph, barrier_graph_svg
from .perfetto import chrome_trace
from .resources import resource_table
from .storage import StorageEntry, storage_map
from .timeline import timeline_html, timeline_svg

__all__ = [
    "StorageEntry", "barrier_graph", "barrier_graph_svg", "chrome_trace", "resource_table", "storage_map", "timeline_html",
    "timeline_svg",
]
