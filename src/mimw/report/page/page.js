// Links the panes of a page (page.py): what is chosen in one lights up in all. An element belongs to the lines in its `data-l`;
// choosing means choosing lines. The timeline is drawn anew from the data for each stretch of time.
"use strict";
(() => {
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const data = JSON.parse(one("#data").textContent);
const status = one("#status");
const linked = all("[data-l]").map(element => ({ element, keys: element.dataset.l.split(" ") }));
const clean = text => text.replace(/[&<>"]/g, sign => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
let chosen = new Set(), timeline = null;

// ---- choosing --------------------------------------------------------------------------------------------------------

function choose(keys, words, from) {
  chosen = new Set(keys.filter(Boolean));
  document.body.classList.toggle("choosing", chosen.size > 0);
  for (const { element, keys } of linked) {
    if (element.tagName === "A") continue;
    const on = keys.some(key => chosen.has(key));
    element.classList.toggle("on", on);
    if (element.hasAttribute("aria-selected")) element.setAttribute("aria-selected", on);
  }
  for (const note of all(".note")) note.classList.toggle("on", from?.dataset.note === note.id.slice(1));
  status.textContent = chosen.size ? `${words}${named(from)}` : "";
  timeline?.draw();
  if (chosen.size) reveal(keys, from);
}

// Which buffers and barriers belong to what is chosen.
function named(from) {
  const names = [...new Set(all(".region.on, .caption.on").filter(one => one !== from).map(one => one.dataset.name.replace(/\[\d+\]$/, "")))];
  return names.length && names.length < 9 ? `  ·  ${names.join(", ")}` : "";
}

function reveal(keys, from) {
  const within = pane => pane && from && pane.contains(from);
  const left = one("#left"), line = document.getElementById(`L${keys[0]}`);
  if (line && !within(left)) scrollTo(left, from?.dataset.note ? one(`#N${from.dataset.note}`) ?? line : line);
  timeline?.reveal(within(one("#timeline")));
}

function scrollTo(pane, element) {
  const box = element.getBoundingClientRect(), room = pane.getBoundingClientRect();
  if (box.top < room.top + 40 || box.bottom > room.bottom) pane.scrollTop += box.top - room.top - room.height / 3;
}

const wordsOf = element => element.getAttribute("aria-label") ??
  (element.classList.contains("ln") ? `line ${element.id.split(".")[1]}: ${one("code", element).textContent.trim()}` :
   element.textContent.trim().replace(/\s+/g, " ").slice(0, 90));

function pick(element) { choose(element.dataset.l.split(" "), wordsOf(element), element); }

document.addEventListener("click", event => {
  const link = event.target.closest("a[href^='#']"), element = event.target.closest("[data-l]");
  if (link) {
    event.preventDefault();
    if (link.dataset.l) return pick(link);
    const note = document.getElementById(link.getAttribute("href").slice(1));
    if (note) pick(one(`.finding[data-note="${note.id.slice(1)}"]`) ?? note.previousElementSibling);
    return;
  }
  if (!element || String(getSelection())) return;
  const again = element.matches(".on:not(.finding)") && wordsOf(element) === status.textContent.split("  ·  ")[0];
  if (again) choose([], "", null);
  else pick(element);
});

// ---- keys ------------------------------------------------------------------------------------------------------------

// In a list one element takes part in the order of Tab; arrows go to the others, and choose them.
for (const list of all("[role=listbox]")) {
  const options = all("[role=option]", list);
  options[0]?.setAttribute("tabindex", "0");
  list.addEventListener("focusin", event => {
    const option = event.target.closest("[role=option]");
    if (option) for (const other of options) other.setAttribute("tabindex", other === option ? "0" : "-1");
  });
  list.addEventListener("keydown", event => {
    const at = options.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? options.length - 1 : at + (step ?? NaN);
    if (at < 0 || !options[next]) return;
    event.preventDefault();
    options[next].focus();
    pick(options[next]);
  });
}

document.addEventListener("keydown", event => {
  if (event.key === "Escape") choose([], "", null);
  const element = document.activeElement;
  if ((event.key === "Enter" || event.key === " ") && element?.matches("[data-l]:not(a)")) {
    event.preventDefault();
    pick(element);
  }
});

// ---- timeline --------------------------------------------------------------------------------------------------------

class Timeline {
  constructor(svg) {
    this.svg = svg;
    this.from = 0;
    this.to = data.end;
    this.here = -1;
    this.events = data.events.map(([lane, kind, start, time, label, set, bytes], number) => ({
      number, lane, kind: data.kinds[kind][0], does: data.kinds[kind][1], start, end: start + time, label: data.labels[label],
      keys: data.sets[set].split(" ").filter(Boolean), bytes, whole: data.wholes.includes(set) }));
    this.rows = data.lanes.map((_, lane) => this.events.filter(event => event.lane === lane));
    this.marked = new Set(data.marked);
    this.pane = svg.closest("section");
    this.pane.classList.add("live");
    one(".buttons", this.pane).hidden = false;
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-roledescription", "timeline");
    svg.setAttribute("tabindex", "0");
    this.height = data.top + data.row * data.lanes.length + 4;
    new ResizeObserver(() => this.draw()).observe(svg.parentElement);
    this.listen();
  }

  get plot() { return this.width - data.left - data.share; }
  x(time) { return data.left + (time - this.from) / (this.to - this.from) * this.plot; }
  amount(time) {
    const shown = time + data.start;
    return `${shown < 1000 ? +shown.toPrecision(4) : Math.round(shown).toLocaleString("en")} ${data.unit}`;
  }

  draw() {
    this.width = Math.max(320, this.svg.parentElement.clientWidth);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.innerHTML = this.axis() + this.rows.map((events, lane) => this.row(lane) + this.bars(events, lane)).join("") + this.error();
  }

  axis() {
    const rough = (this.to - this.from) / Math.max(3, this.plot / 80), unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(factor => factor * unit).find(step => step >= rough);
    let drawn = "";
    for (let time = Math.ceil((this.from + data.start) / step) * step; time <= (this.to + data.start) + step * 1e-9; time += step) {
      const x = this.x(time - data.start).toFixed(1);
      drawn += `<line class="rule" x1="${x}" x2="${x}" y1="${data.top - 4}" y2="${this.height - 4}"/>`;
      drawn += `<text class="tick" x="${x}" y="${data.top - 8}" text-anchor="middle">${(+time.toPrecision(10)).toLocaleString("en")}</text>`;
    }
    return `${drawn}<text class="tick" x="${this.width - 2}" y="${data.top - 8}" text-anchor="end">busy</text>`;
  }

  row(lane) {
    const y = data.top + data.row * lane, about = data.lanes[lane], middle = y + data.row / 2 + 4;
    const rule = lane && data.lanes[lane - 1].cta !== about.cta ? `<line class="rule" x1="0" x2="${this.width}" y1="${y}" y2="${y}"/>` : "";
    return `${rule}<rect class="lane" x="${data.left}" y="${y + (data.row - data.bar) / 2}" width="${this.plot}" height="${data.bar}"/>
      <text class="name" data-lane="${lane}" x="${data.left - 8}" y="${middle}" text-anchor="end">${clean(this.fitted(about.name, data.left - 10, 11.5))}<title>${clean(about.name)}</title></text>
      <text class="share" x="${this.width - 2}" y="${middle}" text-anchor="end">${Math.round(100 * about.busy)} %</text>`;
  }

  bars(events, lane) {
    const least = 1.2, y = data.top + data.row * lane + (data.row - data.bar) / 2;
    let drawn = "", thin = [];
    const flush = () => {
      if (!thin.length) return;
      const times = {};
      for (const event of thin) times[event.kind] = (times[event.kind] ?? 0) + event.end - event.start;
      const kind = Object.keys(times).reduce((most, kind) => times[kind] > times[most] ? kind : most);
      drawn += this.bar(thin, kind, y);
      thin = [];
    };
    for (const event of events) {
      if (event.end < this.from || event.start > this.to) continue;
      const width = (event.end - event.start) / (this.to - this.from) * this.plot;
      if (width < least && event.kind !== "pipe" && !this.marked.has(event.number) && event.number !== this.here) {
        if (thin.length && this.x(event.start) - this.x(thin.at(-1).start) > least) flush();
        thin.push(event);
        continue;
      }
      flush();
      drawn += this.bar([event], event.kind, y);
    }
    flush();
    return drawn;
  }

  // A stretch of work has all lines of its task, and is chosen with all of them.
  isChosen(event) {
    return event.keys.length > 0 && (event.whole ? event.keys.every(key => chosen.has(key)) : event.keys.some(key => chosen.has(key)));
  }

  bar(events, kind, y) {
    const first = events[0], last = events.at(-1);
    const left = Math.max(this.x(first.start), data.left), right = Math.min(this.x(last.end), data.left + this.plot);
    const width = Math.max(1.2, right - left), on = events.some(event => this.isChosen(event));
    const states = (on ? " on" : "") + (events.some(event => this.marked.has(event.number)) ? " hit" : "") + (first.number === this.here ? " here" : "") + (width < 4 ? " thin" : "");
    const words = events.length === 1 && kind !== "pipe" ? this.fitted(first.label, width - 8, 10.5) : "";
    return `<rect class="ev k-${kind}${states}" data-event="${first.number}" x="${left.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${data.bar}"><title>${clean(this.tip(events))}</title></rect>` +
      (words ? `<text class="in i-${kind}${states}" x="${(left + 4).toFixed(1)}" y="${y + data.bar / 2 + 3.6}">${clean(words)}</text>` : "");
  }

  error() {
    const x = data.at === null ? NaN : this.x(data.at);
    return x >= data.left && x <= data.left + this.plot ? `<path class="found" d="M${x.toFixed(1)} ${data.top - 6} V${this.height - 4}"/>` : "";
  }

  fitted(words, width, size) {
    const room = Math.floor(width / (size * 0.56));
    return words.length <= room ? words : room >= 4 ? `${words.slice(0, room - 1)}…` : "";
  }

  tip(events) {
    const first = events[0], last = events.at(-1);
    if (events.length > 1) return `${events.length} events, ${this.amount(first.start)} to ${this.amount(last.end)}`;
    const size = first.bytes ? `, ${first.bytes.toLocaleString("en")} bytes` : "";
    return `${first.label}: ${first.does}, ${this.amount(first.start)} to ${this.amount(first.end)}${size}`;
  }

  show(from, to, later = false) {
    const span = Math.min(data.end, Math.max(data.end * 1e-5, to - from));
    this.from = Math.min(Math.max(0, from), data.end - span);
    this.to = this.from + span;
    if (!later) return this.draw();
    cancelAnimationFrame(this.frame);       // of a wheel or a drag: once for each picture on the screen
    this.frame = requestAnimationFrame(() => this.draw());
  }

  get middle() { const event = this.events[this.here]; return event ? (event.start + event.end) / 2 : (this.from + this.to) / 2; }
  zoom(factor, at = this.middle, later = false) { this.show(at - (at - this.from) * factor, at + (this.to - at) * factor, later); }
  pan(share, later = false) { const by = share * (this.to - this.from); this.show(this.from + by, this.to + by, later); }

  go(number) {
    this.here = number;
    const event = this.events[number], span = this.to - this.from;
    if (event.end < this.from || event.start > this.to) this.show(event.start - span / 2, event.start + span / 2);
    choose(event.keys, `${data.lanes[event.lane].name}: ${this.tip([event])}`, this.svg);
  }

  // What is chosen elsewhere is to be seen: the whole time is shown if none of it lies in the stretch on view.
  reveal(own) {
    if (own) return;
    this.here = -1;
    const mine = this.events.filter(event => this.isChosen(event));
    if (mine.length && !mine.some(event => event.end >= this.from && event.start <= this.to)) this.show(0, data.end);
    else this.draw();
  }

  step(key) {
    if (this.here < 0) return this.go((this.events.find(event => event.end > this.from) ?? this.events[0]).number);
    const event = this.events[this.here], row = this.rows[event.lane], at = row.indexOf(event);
    if (key === "ArrowLeft" || key === "ArrowRight") return this.go((row[at + (key === "ArrowRight" ? 1 : -1)] ?? event).number);
    const next = this.rows[event.lane + (key === "ArrowDown" ? 1 : -1)];
    if (next?.length) this.go(next.reduce((best, other) => Math.abs(other.start - event.start) < Math.abs(best.start - event.start) ? other : best).number);
  }

  listen() {
    const does = { in: () => this.zoom(0.5), out: () => this.zoom(2), all: () => this.show(0, data.end), left: () => this.pan(-0.4), right: () => this.pan(0.4) };
    one(".buttons", this.pane).addEventListener("click", event => does[event.target.dataset.do]?.());
    const moved = event => { const box = this.svg.getBoundingClientRect(); return (event.clientX - box.left) / box.width * this.width; };
    this.svg.addEventListener("click", event => {
      event.stopPropagation();
      if (this.dragged) return;
      const bar = event.target.closest("[data-event]"), name = event.target.closest("[data-lane]");
      if (bar) this.go(+bar.dataset.event);
      else if (name) { const about = data.lanes[name.dataset.lane]; this.here = -1; choose(about.keys.split(" "), about.name, this.svg); }
      else { this.here = -1; choose([], "", null); }
    });
    this.svg.addEventListener("keydown", event => {
      const keys = { "+": does.in, "=": does.in, "-": does.out, "0": does.all };
      if (event.key.startsWith("Arrow") && this.events.length) this.step(event.key);
      else if (keys[event.key] && !event.ctrlKey && !event.metaKey) keys[event.key]();
      else if ((event.key === "Enter" || event.key === " ") && this.here >= 0) this.go(this.here);
      else return;
      event.preventDefault();
    });
    this.svg.addEventListener("wheel", event => {
      const focused = document.activeElement === this.svg;
      if (event.ctrlKey || event.metaKey || focused && !event.deltaX) this.zoom(Math.exp(event.deltaY * 0.0015), this.from + (moved(event) - data.left) / this.plot * (this.to - this.from), true);
      else if (event.deltaX && this.to - this.from < data.end) this.pan(event.deltaX / this.plot, true);
      else return;
      event.preventDefault();
    }, { passive: false });
    this.svg.addEventListener("dblclick", () => this.show(0, data.end));
    this.svg.addEventListener("pointerdown", event => {
      const x = moved(event), from = this.from, to = this.to;
      this.dragged = false;
      const move = other => {
        const by = (x - moved(other)) / this.plot * (to - from);
        if (Math.abs(x - moved(other)) > 4) { this.dragged = true; this.svg.classList.add("moving"); }
        if (this.dragged) this.show(from + by, to + by, true);
      };
      const stop = () => { this.svg.classList.remove("moving"); removeEventListener("pointermove", move); removeEventListener("pointerup", stop); };
      addEventListener("pointermove", move);
      addEventListener("pointerup", stop);
    });
  }
}

const drawing = one("svg.lanes");
if (drawing && data.lanes) { timeline = new Timeline(drawing); timeline.draw(); }
const first = one(".finding"), kernel = document.getElementById(`L${one("#left").dataset.kernel}`);
if (first) pick(first);
else if (kernel) scrollTo(one("#left"), kernel);
})();
