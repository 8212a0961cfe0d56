"""The page around a timeline: zoom and pan in plain JavaScript, nothing fetched from anywhere.

Input: a title and the SVG of `timeline_svg`, in place of two comments. Output: a page of HTML that opens without a
network:

    PAGE.replace("<!--TITLE-->", "GEMM").replace("<!--TIMELINE-->", timeline_svg(trace, "GEMM"))
"""

PAGE = r"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title><!--TITLE--></title>
<style>
  body { margin: 16px; background: #fff; }
  svg { max-width: none; cursor: grab; user-select: none; }
  svg.moving { cursor: grabbing; }
  .event:hover rect { stroke: #1f2430; stroke-width: 1.2; }
  p { font: 12px ui-sans-serif, Helvetica, Arial, sans-serif; color: #6b7280; margin: 8px 16px; }
</style>
<!--TIMELINE-->
<p>Wheel: zoom in time. Drag: move. Double click: everything. Rest the pointer on a bar for its source line.</p>
<script>
"use strict";
const svg = document.querySelector("svg.timeline");
const NS = svg.namespaceURI;
const left = +svg.dataset.left, plot = +svg.dataset.plot, end = +svg.dataset.end || 1;
const axis = svg.querySelector(".axis");
const events = [...svg.querySelectorAll(".event")].map(group => ({
  group, bar: group.querySelector("rect"), words: group.querySelector("text"),
  start: +group.dataset.start, end: +group.dataset.end, label: group.dataset.label }));
let from = 0, to = end;

function fitted(label, width) {
  const room = Math.floor((width - 8) / (10.5 * 0.56));
  return label.length <= room ? label : room >= 4 ? label.slice(0, room - 1) + "\u2026" : "";
}

function ticks() {
  const rough = (to - from) / 10, unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(f => f * unit).find(s => s >= rough);
  const found = [];
  for (let t = Math.ceil(from / step) * step; t <= to + step * 1e-9; t += step) found.push(t);
  return found;
}

function add(tag, attributes, words) {
  const made = axis.appendChild(document.createElementNS(NS, tag));
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  if (words !== undefined) made.textContent = words;
}

function draw() {
  const scale = plot / (to - from);
  for (const event of events) {
    const hidden = event.end <= from || event.start >= to;
    event.group.style.display = hidden ? "none" : "";
    if (hidden) continue;
    const x = left + (Math.max(event.start, from) - from) * scale;
    const width = Math.max(0.6, left + (Math.min(event.end, to) - from) * scale - x);
    event.bar.setAttribute("x", x);
    event.bar.setAttribute("width", width);
    event.words.setAttribute("x", x + 4);
    event.words.textContent = fitted(event.label, width);
  }
  axis.replaceChildren();
  for (const t of ticks()) {
    const x = left + (t - from) * scale;
    add("line", { x1: x, x2: x, y1: axis.dataset.top, y2: axis.dataset.bottom, stroke: "#e5e7eb" });
    add("text", { x, y: +axis.dataset.bottom + 16, "font-size": 11, "text-anchor": "middle", fill: "#6b7280" },
        (+t.toPrecision(10)).toLocaleString("en"));
  }
}

function show(first, last) {
  const span = Math.min(end, Math.max(end * 1e-5, last - first));
  from = Math.min(Math.max(0, first), end - span);
  to = from + span;
  draw();
}

svg.addEventListener("wheel", event => {
  event.preventDefault();
  const at = from + (event.clientX - svg.getBoundingClientRect().left - left) / plot * (to - from);
  const factor = Math.exp(event.deltaY * 0.0015);
  show(at - (at - from) * factor, at + (to - at) * factor);
}, { passive: false });
svg.addEventListener("pointerdown", event => {
  const x = event.clientX, first = from, last = to;
  const move = moved => { const by = (x - moved.clientX) / plot * (last - first); show(first + by, last + by); };
  const stop = () => {
    svg.classList.remove("moving");
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", stop);
  };
  svg.classList.add("moving");
  addEventListener("pointermove", move);
  addEventListener("pointerup", stop);
});
svg.addEventListener("dblclick", () => show(0, end));
</script>
</html>
"""
