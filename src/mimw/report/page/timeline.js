// The timeline of the run that is drawn (`run`, page.js), anew for each stretch of time; and the start of the page. Stands behind page.js in
// one function.

class Timeline {
  constructor(svg) {
    this.svg = svg;
    this.pane = svg.closest("section");
    this.pane.classList.add("live");
    one(".buttons", this.pane).hidden = false;
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-roledescription", "timeline");
    svg.setAttribute("tabindex", "0");
    this.load();
    const choice = one(".of", this.pane);
    if (choice) choice.hidden = false;
    new ResizeObserver(() => this.draw()).observe(svg.parentElement);
    this.listen();
  }

  // The run to draw, all of it.
  load() {
    this.from = 0;
    this.to = run.end;
    this.here = -1;
    this.events = eventsOf(run.events).map(([lane, kind, start, time, label, set, bytes], number) => ({
      number, lane, kind: data.kinds[kind][0], does: data.kinds[kind][1], start, end: start + time, label: data.labels[label],
      keys: data.sets[set].split(" ").filter(Boolean), bytes, whole: run.wholes.includes(set) }));
    this.rows = run.lanes.map((_, lane) => this.events.filter(event => event.lane === lane));
    this.marked = new Set(run.marked);
    this.height = data.top + data.row * run.lanes.length + 4;
  }

  get plot() { return this.width - run.left - data.share; }
  x(time) { return run.left + (time - this.from) / (this.to - this.from) * this.plot; }
  amount(time) {
    const shown = time + run.start;
    return `${shown < 1000 ? +shown.toPrecision(4) : Math.round(shown).toLocaleString("en")} ${run.unit}`;
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
    for (let time = Math.ceil((this.from + run.start) / step) * step; time <= (this.to + run.start) + step * 1e-9; time += step) {
      const x = this.x(time - run.start).toFixed(1);
      drawn += `<line class="rule" x1="${x}" x2="${x}" y1="${data.top - 4}" y2="${this.height - 4}"/>`;
      drawn += `<text class="tick" x="${x}" y="${data.top - 8}" text-anchor="middle">${(+time.toPrecision(10)).toLocaleString("en")}</text>`;
    }
    return `${drawn}<text class="tick" x="${this.width - 2}" y="${data.top - 8}" text-anchor="end">busy</text>`;
  }

  row(lane) {
    const y = data.top + data.row * lane, about = run.lanes[lane], middle = y + data.row / 2 + 4;
    const rule = lane && run.lanes[lane - 1].cta !== about.cta ? `<line class="rule" x1="0" x2="${this.width}" y1="${y}" y2="${y}"/>` : "";
    return `${rule}<rect class="lane" x="${run.left}" y="${y + (data.row - data.bar) / 2}" width="${this.plot}" height="${data.bar}"/>
      <text class="name" data-lane="${lane}" x="${run.left - 8}" y="${middle}" text-anchor="end">${clean(this.fitted(about.name, run.left - 10, 11.5))}<title>${clean(about.name)}</title></text>
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
    const left = Math.max(this.x(first.start), run.left), right = Math.min(this.x(last.end), run.left + this.plot);
    const width = Math.max(1.2, right - left), on = events.some(event => this.isChosen(event));
    const states = (on ? " on" : "") + (events.some(event => this.marked.has(event.number)) ? " hit" : "") + (first.number === this.here ? " here" : "") + (width < 4 ? " thin" : "");
    const words = events.length === 1 && kind !== "pipe" ? this.fitted(first.label, width - 8, 10.5) : "";
    return `<rect class="ev k-${kind}${states}" data-event="${first.number}" x="${left.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${data.bar}"><title>${clean(this.tip(events))}</title></rect>` +
      (words ? `<text class="in i-${kind}${states}" x="${(left + 4).toFixed(1)}" y="${y + data.bar / 2 + 3.6}">${clean(words)}</text>` : "");
  }

  error() {
    const x = run.at === null ? NaN : this.x(run.at);
    return x >= run.left && x <= run.left + this.plot ? `<path class="found" d="M${x.toFixed(1)} ${data.top - 6} V${this.height - 4}"/>` : "";
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
    const span = Math.min(run.end, Math.max(run.end * 1e-5, to - from));
    this.from = Math.min(Math.max(0, from), run.end - span);
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
    choose(event.keys, `${run.lanes[event.lane].name}: ${this.tip([event])}`, this.svg);
  }

  // What is chosen elsewhere is to be seen: the whole time is shown if none of it lies in the stretch on view.
  reveal(own) {
    if (own) return;
    this.here = -1;
    const mine = this.events.filter(event => this.isChosen(event));
    if (mine.length && !mine.some(event => event.end >= this.from && event.start <= this.to)) this.show(0, run.end);
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
    one(".of", this.pane)?.addEventListener("click", event => {
      const other = data.runs[event.target.dataset.run];
      if (other) pick(one(`.finding[data-note="${other.note}"]`));
    });
    const does = { in: () => this.zoom(0.5), out: () => this.zoom(2), all: () => this.show(0, run.end), left: () => this.pan(-0.4), right: () => this.pan(0.4) };
    one(".buttons", this.pane).addEventListener("click", event => does[event.target.dataset.do]?.());
    const moved = event => { const box = this.svg.getBoundingClientRect(); return (event.clientX - box.left) / box.width * this.width; };
    this.svg.addEventListener("click", event => {
      event.stopPropagation();
      if (this.dragged) return;
      const bar = event.target.closest("[data-event]"), name = event.target.closest("[data-lane]");
      if (bar) this.go(+bar.dataset.event);
      else if (name) { const about = run.lanes[name.dataset.lane]; this.here = -1; choose(about.keys.split(" "), about.name, this.svg); }
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
      if (event.ctrlKey || event.metaKey || focused && !event.deltaX) this.zoom(Math.exp(event.deltaY * 0.0015), this.from + (moved(event) - run.left) / this.plot * (this.to - this.from), true);
      else if (event.deltaX && this.to - this.from < run.end) this.pan(event.deltaX / this.plot, true);
      else return;
      event.preventDefault();
    }, { passive: false });
    this.svg.addEventListener("dblclick", () => this.show(0, run.end));
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
if (drawing && run) { timeline = new Timeline(drawing); timeline.draw(); }
const first = one(".finding"), kernel = document.getElementById(`L${one("#left").dataset.kernel}`);
if (first) pick(first);
else if (kernel) scrollTo(one("#left"), kernel);
