// Links the panes of a page (page.py): what is chosen in one lights up in all. An element belongs to the lines in its `data-l`;
// choosing means choosing lines. The timeline is drawn anew from the data for each stretch of time.
"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);
const data = JSON.parse(one("#data").textContent);
let run = data.runs?.[0];       // the one that is drawn
const status = one("#status");
const linked = all("[data-l]").map(element => ({ element, keys: element.dataset.l.split(" ") }));
const clean = text => text.replace(/[&<>"]/g, sign => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
let chosen = new Set(), timeline = null;

// ---- choosing --------------------------------------------------------------------------------------------------------

function choose(keys, words, from) {
  const own = from?.dataset.note && timeline ? data.runs.findIndex(one => one.note === +from.dataset.note) : -1;
  if (own >= 0) show(own);
  chosen = new Set(keys.filter(Boolean));
  document.body.classList.toggle("choosing", chosen.size > 0);
  for (const { element, keys } of linked) {
    if (element.tagName === "A") continue;
    const on = element.dataset.note && from?.dataset.note ? element === from : keys.some(key => chosen.has(key));
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
  const element = document.activeElement, step = { n: 1, p: -1 }[event.key];
  if (step && run && data.runs.length > 1 && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const other = data.runs.at((data.runs.indexOf(run) + step) % data.runs.length);
    pick(one(`.finding[data-note="${other.note}"]`));
  }
  if ((event.key === "Enter" || event.key === " ") && element?.matches("[data-l]:not(a)")) {
    event.preventDefault();
    pick(element);
  }
});

// ---- runs ------------------------------------------------------------------------------------------------------------

// Each finding has a run of its own: another one is drawn, and what it waits for stands beside its lines.
function show(number) {
  if (data.runs[number] === run) return;
  run = data.runs[number];
  timeline.load();
  for (const [at, button] of all(".of button").entries()) button.setAttribute("aria-pressed", at === number);
  for (const [at, how] of all(".runs .shown span").entries()) how.hidden = at !== number;
  one(".runs b").textContent = run.note;
  one("#timeline h2 span").textContent = run.length;
  const part = one("#timeline .left-out");
  if (part) part.textContent = run.left_out;
  for (const told of all(".told")) told.remove();
  for (const [key, words] of Object.entries(run.told)) document.getElementById(`L${key}`)?.insertAdjacentHTML("beforeend", `<span class="told">${clean(words)}</span>`);
}

// An event as it stands, or, by its number there and how many follow, as in the first run.
const eventsOf = rows => rows.flatMap(row => row.length > 2 ? [row] : data.runs[0].events.slice(row[0], row[0] + row[1]));
