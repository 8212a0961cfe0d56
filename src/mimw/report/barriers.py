"""The barrier graph: which task lets which other task go on, through which barriers.

Input: a program. Output: `BarrierEdge`s, or the graph as text, an edge a line, or as SVG:

    barrier_graph(program)        load --full[4]--> mma (expect 32768 B + TMA)

A barrier without arrivals, or without waits, has an edge from or to `nobody`, so that the graph shows
the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..compiler.analysis import BarrierAccess, BarrierArray, barrier_arrays, task_label
from ..ir import Program, Site
from . import svg


@dataclass(frozen=True)
class BarrierEdge:
    """`source` arrives at `label`, `target` waits for it; `note` says how. `nobody` stands for a missing side. `sites` are those of
    the arrivals, of the waits and of the barriers' allocation."""

    source: str
    target: str
    label: str
    note: str = ""
    sites: tuple[Site, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.source} --{self.label}--> {self.target}" + (f" ({self.note})" if self.note else "")


def barrier_edges(program: Program) -> tuple[BarrierEdge, ...]:
    """The edges of the graph, array by array in program order."""
    return tuple(edge for array in barrier_arrays(program) for edge in _edges(array))


def barrier_graph(program: Program) -> str:
    """One line an edge, such as `load --full[4]--> mma (expect 32768 B + TMA)`."""
    return "".join(f"{edge}\n" for edge in barrier_edges(program)) or "no barriers\n"


Linked = Callable[[str, tuple[Site, ...]], dict[str, object]]


def barrier_graph_svg(program: Program, linked: Linked = lambda name, sites: {}) -> str:
    """The graph as a picture: tasks in a row, what goes to the right above them, what comes back below. `linked` gives the
    attributes of a task's box, by its name, and of an edge, by its label and sites."""
    edges = barrier_edges(program)
    names = list(dict.fromkeys(name for edge in edges for name in (edge.source, edge.target)))
    return _Picture(names, edges, linked).draw()


def _edges(array: BarrierArray) -> list[BarrierEdge]:
    array_name = f"{array.pipe.pipe} {array.pipe.brings}" if array.pipe is not None else array.name     # longer than in tables
    label = f"{array_name}[{max(1, array.count)}]"
    sources, targets = _by_task(array.of_kind("arrive", "expect", "complete", "commit")), _by_task(array.of_kind("wait"))
    return [BarrierEdge(source, target, label, _note(array, accesses), tuple(dict.fromkeys(
                [*(one.op.site for one in accesses), *(one.op.site for one in waits), array.op.site])))
            for source, accesses in (sources or {"nobody": []}).items() for target, waits in (targets or {"nobody": []}).items()]


def _by_task(accesses: tuple[BarrierAccess, ...]) -> dict[str, list[BarrierAccess]]:
    found: dict[str, list[BarrierAccess]] = {}
    for access in accesses:
        found.setdefault(task_label(access.task), []).append(access)
    return found


def _note(array: BarrierArray, accesses: list[BarrierAccess]) -> str:
    sizes = sorted({access.bytes or 0 for access in accesses if access.kind == "expect"})
    parts = [f"expect {' or '.join(map(str, sizes))} B"] if sizes else []
    parts += dict.fromkeys(_copy(access) for access in accesses if access.kind == "complete")
    if any(access.peers is not None for access in accesses if access.kind == "arrive"):
        parts.append("to other CTAs, too" if any(access.peers is None for access in accesses) else "to other CTAs")
    note = " + ".join(parts)
    if array.arrive_count > 1:
        note += (", " if note else "") + f"{array.arrive_count} arrivals a phase"
    return note


def _copy(access: BarrierAccess) -> str:
    """The source of the bytes, and the number of CTAs if they do not only go to the own CTA."""
    if access.op.row.copy == "peer":
        return "copies to other CTAs"
    what = "answer" if "steals" in access.op.row.traits else "TMA"
    return what if access.peers is None else f"{what} to {len(access.peers)} CTA{'s' * (len(access.peers) > 1)}"


_BOX, _BETWEEN, _MARGIN, _LEVEL = 34, 150, 30, 34
_FORWARD, _BACK = "#2563a8", "#b45309"


class _Picture:
    """Boxes in a row. An edge is a flat arc; edges that span the same boxes are stacked."""

    def __init__(self, names: list[str], edges: tuple[BarrierEdge, ...], linked: Linked):
        self.names, self.edges, self.linked = names, edges, linked
        self.widths = [max(70.0, svg.text_width(name, 13) + 28) for name in names]
        widest = max((svg.text_width(self.caption_text(edge), 11) for edge in edges), default=0.0)
        gap = max(_BETWEEN, widest - min(self.widths, default=0.0) + 60)
        self.left = [_MARGIN + sum(self.widths[:index]) + gap * index for index in range(len(names))]
        self.levels = self.stack()
        above = max((level for edge, level in self.levels.items() if self.forward(edge)), default=-1) + 1
        below = max((level for edge, level in self.levels.items() if not self.forward(edge)), default=-1) + 1
        self.top = _MARGIN / 2 + above * _LEVEL + 14
        self.height = self.top + _BOX + below * _LEVEL + _MARGIN / 2
        self.width = (self.left[-1] + self.widths[-1] if names else 100.0) + _MARGIN
        captions = [(sum(self.ends(edge)) / 2, svg.text_width(self.caption_text(edge), 11) / 2 + _MARGIN / 2) for edge in edges]
        out = max([0.0, *(half - middle for middle, half in captions)])       # of a caption over the first box
        self.left = [left + out for left in self.left]
        self.width = max([self.width, *(middle + half for middle, half in captions)]) + out

    @staticmethod
    def caption_text(edge: BarrierEdge) -> str:
        """The text on the edge: the barrier, and the note about its arrivals."""
        return edge.label + (f"  {edge.note}" if edge.note else "")

    def span(self, edge: BarrierEdge) -> tuple[int, int]:
        """The numbers of the boxes at its source and at its target."""
        return self.names.index(edge.source), self.names.index(edge.target)

    def forward(self, edge: BarrierEdge) -> bool:
        """True of an edge that goes to the right, or to its own box: it is drawn above the boxes."""
        source, target = self.span(edge)
        return source <= target

    def stack(self) -> dict[BarrierEdge, int]:
        """A level for every edge such that no two on one side share level and boxes; short edges stay near."""
        levels: dict[BarrierEdge, int] = {}
        for edge in sorted(self.edges, key=lambda edge: abs(self.span(edge)[0] - self.span(edge)[1])):
            low, high = sorted(self.span(edge))
            taken = {level for other, level in levels.items() if self.forward(other) == self.forward(edge)
                     and min(self.span(other)) <= high and low <= max(self.span(other))}
            levels[edge] = next(level for level in range(len(self.edges) + 1) if level not in taken)
        return levels

    def draw(self) -> str:
        arrows = "".join(svg.element("marker", svg.element("path", d="M0 0 L8 4 L0 8 z", fill=colour), id=name, viewBox="0 0 8 8",
                                     refX=7, refY=4, markerWidth=5.5, markerHeight=5.5, orient="auto")
                         for name, colour in (("forward", _FORWARD), ("back", _BACK)))
        body = svg.element("defs", arrows) + "".join(self.edge(edge) for edge in self.edges)
        body += "".join(self.caption(edge) for edge in self.edges)
        for name, left, width in zip(self.names, self.left, self.widths, strict=True):
            box = svg.rectangle(left, self.top, width, _BOX, "#f3f4f6", rx=7, stroke="#9ca3af")
            box += svg.text(left + width / 2, self.top + _BOX / 2 + 4.5, name, 13, "middle", font_weight=600)
            body += svg.element("g", box, class_="box", **self.linked(name, ()))
        return svg.document(self.width, self.height, body, class_="graph")

    def ends(self, edge: BarrierEdge) -> tuple[float, float]:
        """The x coordinates at which an edge leaves and enters: on the halves of the boxes that face each other, far edges
        inwards, so that few cross."""
        source, target = self.span(edge)
        start, end = (self.left[index] + self.widths[index] / 2 for index in (source, target))
        if source == target:
            return start - 14, end + 14
        outward = 28 - 24 * self.levels[edge] / max(1, *self.levels.values())
        return (start + outward, end - outward) if self.forward(edge) else (start - outward, end + outward)

    def arc_y(self, edge: BarrierEdge) -> float:
        """The y of the flat part of an edge's arc."""
        distance = 22 + _LEVEL * self.levels[edge]
        return self.top - distance if self.forward(edge) else self.top + _BOX + distance

    def edge(self, edge: BarrierEdge) -> str:
        (start, end), y, forward = self.ends(edge), self.arc_y(edge), self.forward(edge)
        side, bend = (self.top, 6) if forward else (self.top + _BOX, -6)
        turn = 12 if start < end else -12
        path = (f"M{start:.1f} {side} V{y + bend} Q{start:.1f} {y} {start + turn:.1f} {y} "
                f"H{end - turn:.1f} Q{end:.1f} {y} {end:.1f} {y + bend} V{side}")
        way = "forward" if forward else "back"
        return svg.element("path", svg.tooltip(str(edge)), d=path, fill="none", stroke=self.colour(edge), stroke_width=1.5,
                           marker_end=f"url(#{way})", class_=f"edge {way}", **self.keys(edge))

    def keys(self, edge: BarrierEdge) -> dict[str, object]:
        """The attributes that link the line of an edge; the caption, drawn later, is the part that a reader selects."""
        return {name: value for name, value in self.linked(edge.label, edge.sites).items() if name == "data_l"}

    def caption(self, edge: BarrierEdge) -> str:
        middle, y, text = sum(self.ends(edge)) / 2, self.arc_y(edge) - 5, self.caption_text(edge)
        width = svg.text_width(text, 11)
        words = (svg.rectangle(middle - width / 2 - 2, y - 10, width + 4, 13, svg.PAPER)
                 + svg.text(middle, y, text, 11, "middle", self.colour(edge)))
        return svg.element("g", words, class_=f"caption {'forward' if self.forward(edge) else 'back'}",
                           **self.linked(edge.label, edge.sites))

    def colour(self, edge: BarrierEdge) -> str:
        return _FORWARD if self.forward(edge) else _BACK
