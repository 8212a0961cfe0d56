// The page of a debugged run: what it shows at one event. `cells` are kept as the events at which they changed (recording.py).
const data = JSON.parse(document.getElementById("data").textContent);
const { events, actors, texts, cells } = data;
const byId = (id) => document.getElementById(id);
const slider = byId("slider"), strip = byId("strip"), says = byId("says"), whose = byId("whose");
const [NUMBER, CLOCK, SAYS, LINE, ACTOR, KIND] = [0, 1, 2, 3, 4, 5];
let at = 0, chosen = null;

const make = (tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const colour = (actor) => `var(--t${actor % 8})`;

// [the text of a cell at an event, the event from which it stands]; null before there is one
const cell = ([since, numbers], event) => {
  let low = 0, high = since.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (since[middle] <= event) low = middle + 1; else high = middle;
  }
  return low ? [texts[numbers[low - 1]], since[low - 1]] : null;
};

// ---- the source -------------------------------------------------------------------------------------------------------

const chips = () => {
  for (const old of document.querySelectorAll(".chip")) old.remove();
  for (const old of document.querySelectorAll("#left .ln.on")) old.classList.remove("on");
  actors.forEach((actor, number) => {
    const found = cells.tasks && cells.tasks[actor] && cell(cells.tasks[actor], at);
    const [key, state] = found ? found[0].split("\t") : ["", ""];
    const line = key && document.getElementById(`L${key}`);
    if (!line) return;
    const chip = make("span", actor, `chip${state.startsWith("waits") ? " waits" : ""}${actor.length > 11 ? " long" : ""}`);
    chip.style.setProperty("--c", colour(number));
    chip.title = `${actor}: ${state}`;
    chip.onclick = (event) => { event.stopPropagation(); choose(actor); };
    line.querySelector("i").append(chip);
  });
  const line = events[at][LINE] && document.getElementById(`L${events[at][LINE]}`);
  if (line) {
    line.classList.add("on");
    const pane = byId("left"), box = line.getBoundingClientRect(), around = pane.getBoundingClientRect();
    if (box.top < around.top + 40 || box.bottom > around.bottom - 20) pane.scrollTop += box.top - around.top - around.height / 3;
  }
};

// ---- the tables -------------------------------------------------------------------------------------------------------

const fresh = (since) => since === at && at > 0;

const table = (place, heads, rows) => {
  const found = make("table"), head = make("tr");
  heads.forEach((text) => head.append(make("th", text)));
  found.append(head);
  for (const { cells: parts, isNew, paint } of rows) {
    const row = make("tr", undefined, isNew ? "new" : "");
    parts.forEach((text) => row.append(make("td", text)));
    if (paint) row.firstChild.style.color = paint;
    found.append(row);
  }
  place.replaceChildren(rows.length ? found : make("p", "none now", "none"));
};

const place = (key) => {
  const line = key && document.getElementById(`L${key}`);
  return line ? `line ${key.split(".")[1]}` : "";
};

const tasks = () => table(byId("tasks").lastElementChild, ["task", "at", "state"], actors.map((actor, number) => {
  const found = cells.tasks && cells.tasks[actor] && cell(cells.tasks[actor], at);
  if (!found) return { cells: [actor, "", "has not begun"], paint: colour(number) };
  const [key, state] = found[0].split("\t");
  return { cells: [actor, place(key), state], isNew: fresh(found[1]), paint: colour(number) };
}));

const barriers = () => table(byId("barriers").lastElementChild, ["barrier", "in phase", "arrivals", "bytes pending", ""],
  Object.entries(cells.barriers || {}).flatMap(([name, one]) => {
    const found = cell(one, at);
    return found ? [{ cells: [name, ...found[0].split("\t")], isNew: fresh(found[1]) }] : [];
  }));

const items = (holder, rows) => {
  const open = new Set([...holder.querySelectorAll("details[open]")].map((one) => one.dataset.name));
  holder.replaceChildren(...rows.map(({ name, told, body, isNew }) => {
    const item = make(body ? "details" : "div", undefined, isNew ? "item new" : "item");
    const head = body ? make("summary") : item;
    head.append(make("b", name), make("span", told));
    if (body) {
      item.dataset.name = name;
      item.open = open.has(name);
      item.append(head, make("pre", body));
    }
    return item;
  }));
  if (!rows.length) holder.append(make("p", "none now", "none"));
};

const values = () => {
  const last = events[at][ACTOR] < 0 && at ? events[at - 1] : events[at];
  const actor = chosen ?? actors[Math.max(0, last[ACTOR])];
  if (whose.value !== actor) whose.value = actor;
  items(byId("values").lastElementChild, Object.entries(cells.values || {}).flatMap(([key, one]) => {
    const [owner, name] = key.split("\t"), found = owner === actor && cell(one, at);
    if (!found) return [];
    const [told, ...body] = found[0].split("\n");
    return [{ name, told, body: body.join("\n"), isNew: fresh(found[1]) }];
  }));
};

const buffers = () => items(byId("buffers").lastElementChild, Object.entries(cells.buffers || {}).flatMap(([name, one]) => {
  const found = cell(one, at);
  if (!found) return [];
  const [state, who, content] = found[0].split("\t");
  return [{ name, told: [state, who].filter(Boolean).join(", "), body: content, isNew: fresh(found[1]) }];
}));

// ---- the strip: a lane for each task, grey where it waits ---------------------------------------------------------------

const LANE = 12;
const draw = () => {
  const width = strip.clientWidth, height = LANE * actors.length, ratio = window.devicePixelRatio || 1;
  strip.style.height = `${height}px`;
  strip.width = width * ratio;
  strip.height = height * ratio;
  const style = getComputedStyle(document.documentElement), paint = (name) => style.getPropertyValue(name).trim();
  const pen = strip.getContext("2d"), step = width / Math.max(1, events.length);
  pen.scale(ratio, ratio);
  actors.forEach((actor, lane) => {
    pen.fillStyle = paint("--soft");
    pen.fillRect(0, lane * LANE + 1, width, LANE - 3);
    const one = cells.tasks && cells.tasks[actor];
    if (!one) return;
    const [since, numbers] = one;
    pen.fillStyle = paint("--wait");
    since.forEach((from, index) => {
      if (texts[numbers[index]].split("\t")[1].startsWith("waits")) {
        const until = since[index + 1] ?? events.length;
        pen.fillRect(from * step, lane * LANE + 1, (until - from) * step, LANE - 3);
      }
    });
  });
  events.forEach((event, number) => {
    if (event[ACTOR] < 0 || event[KIND] === "wait") return;
    pen.fillStyle = paint(event[KIND] === "phase" ? "--ink" : `--t${event[ACTOR] % 8}`);
    pen.fillRect(number * step, event[ACTOR] * LANE + 1, Math.max(1, step - (step > 3 ? 1 : 0)), LANE - 3);
  });
  pen.fillStyle = paint("--bad");
  pen.fillRect(Math.min(width - 2, (at + 0.5) * step - 1), 0, 2, height);
};

// ---- moves --------------------------------------------------------------------------------------------------------------

const show = (event) => {
  at = Math.max(0, Math.min(events.length - 1, event));
  slider.value = at;
  byId("at").textContent = `event ${events[at][NUMBER].toLocaleString("en")} of ${events[events.length - 1][NUMBER].toLocaleString("en")},`
    + ` cycle ${events[at][CLOCK].toLocaleString("en")}`;
  says.textContent = texts[events[at][SAYS]];
  says.classList.toggle("bad", events[at][KIND] === "end" && says.textContent.includes("in an error"));
  const flights = cells.flights && cell(cells.flights[""], at);
  byId("flights").lastElementChild.textContent = (flights && flights[0]) || "nothing";
  chips(); tasks(); barriers(); values(); buffers(); draw();
};

const choose = (actor) => { chosen = actor; values(); };

// The next event, or the one before, that is meant; the end of the run that way if there is none.
const seek = (way, meant) => {
  for (let event = at + way; event >= 0 && event < events.length; event += way) if (meant(events[event], event)) return show(event);
  show(way > 0 ? events.length - 1 : 0);
};

const moves = {
  event: () => () => true,
  line: () => { const here = events[at]; return (event) => event[KIND] === "op" && event[ACTOR] === here[ACTOR] && event[LINE] !== here[LINE]; },
  task: () => { const here = events[at]; return (event) => event[KIND] === "op" && event[ACTOR] !== here[ACTOR]; },
  phase: () => (event) => event[KIND] === "phase",
  stop: () => (event) => texts[event[SAYS]].includes(" is about to do breakpoint at "),
};
const move = (what) => { chosen = null; seek(what[0] === "-" ? -1 : 1, moves[what.slice(1)]()); };

for (const button of document.querySelectorAll("[data-do]")) button.onclick = () => move(button.dataset.do);
slider.max = events.length - 1;
slider.oninput = () => { chosen = null; show(Number(slider.value)); };
strip.onclick = (event) => show(Math.floor((event.offsetX / strip.clientWidth) * events.length));
actors.forEach((actor) => whose.append(make("option", actor)));
whose.onchange = () => choose(whose.value);
const keys = { ArrowLeft: "-event", ArrowRight: "+event", ArrowUp: "-line", ArrowDown: "+line", "[": "-task", "]": "+task", "(": "-phase",
  ")": "+phase", "{": "-stop", "}": "+stop" };
document.addEventListener("keydown", (event) => {
  if (event.target === whose || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Home" || event.key === "End") show(event.key === "Home" ? 0 : events.length - 1);
  else if (keys[event.key]) move(keys[event.key]);
  else return;
  event.preventDefault();
});
new ResizeObserver(draw).observe(strip.parentElement);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
show(data.start);
