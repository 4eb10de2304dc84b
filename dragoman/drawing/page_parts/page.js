"use strict";
// Draws one layer of one kind of attention, for the chosen heads. Texts are never parsed as HTML.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 900, ROW = 24, TOP = 8, LEFT = 330, RIGHT = 570, CELL = 12;
const data = JSON.parse(document.getElementById("attention").textContent);
const drawing = document.getElementById("drawing");
const told = document.getElementById("told");
const layers = document.getElementById("layer");
const heads = document.getElementById("heads");
const state = { kind: data.chosen.kind, layer: data.chosen.layer, query: data.chosen.token };

function element(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

function option(parent, type, name, value, checked, label, colour) {
  const outer = document.createElement("label");
  const input = document.createElement("input");
  Object.assign(input, { type, name, value, checked, id: `${name}-${value}` });
  outer.append(input);
  if (colour) {
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = colour;
    outer.append(swatch);
  }
  outer.append(label);
  parent.append(outer);
  return input;
}

function fillLayers() {
  const number = data[state.kind].length;
  state.layer = Math.min(state.layer, number - 1);
  layers.replaceChildren();
  for (let layer = 0; layer < number; layer++) {
    layers.append(new Option(`${layer} (0-${number - 1})`, layer, false, layer === state.layer));
  }
}

function chosenHeads() {
  return [...heads.querySelectorAll("input")].filter((one) => one.checked).map((one) => +one.value);
}

function column(tokens, x, anchor, looking) {
  tokens.forEach((token, place) => {
    const attributes = { class: looking ? "token query" : "token key", "data-place": place };
    if (looking) {
      Object.assign(attributes, { tabindex: place ? -1 : 0, role: "button", "aria-label": token });
    }
    const group = element("g", attributes, drawing);
    const y = TOP + ROW * (place + 0.5);
    const left = looking ? 0 : x - 4;
    const width = looking ? x + 4 : WIDTH - x + 4;
    element("rect", { x: left, y: y - ROW / 2, width, height: ROW }, group);
    element("text", { x, y, "text-anchor": anchor }, group, token);
    if (looking) {
      group.addEventListener("focus", () => leaving || look(place));
      group.addEventListener("mouseenter", () => look(place));
    }
  });
}

function lines(chosen) {
  const weights = data[state.kind][state.layer];
  // Beside each other, so that lines of several heads between two tokens do not cover each other.
  const gap = Math.min(4, (ROW - 8) / Math.max(1, chosen.length - 1));
  chosen.forEach((head, place) => {
    const shift = gap * (place - (chosen.length - 1) / 2);
    weights[head].forEach((row, query) => {
      if (state.query !== null && query !== state.query) return;
      row.forEach((weight, key) => {
        if (weight < data.least) return;
        element("line", {
          x1: LEFT + 6, y1: TOP + ROW * (query + 0.5) + shift,
          x2: RIGHT - 6, y2: TOP + ROW * (key + 0.5) + shift,
          stroke: data.colours[head], "stroke-width": (0.5 + 6 * weight).toFixed(2),
          "stroke-opacity": Math.min(1, 0.15 + weight).toFixed(3),
          "data-head": head, "data-query": query, "data-key": key, "data-weight": weight,
        }, drawing);
      });
    });
  });
}

function cells(chosen) {
  if (state.query === null) return;
  chosen.forEach((head, place) => {
    data[state.kind][state.layer][head][state.query].forEach((weight, key) => {
      element("rect", {
        class: "cell", x: WIDTH - CELL * (chosen.length - place), y: TOP + ROW * key + 3,
        width: CELL - 1, height: ROW - 6, fill: data.colours[head], "fill-opacity": weight,
      }, drawing);
    });
  });
}

function say(chosen, queries, keys) {
  const where = `${data.names[state.kind]}, layer ${state.layer}, ` +
    (chosen.length ? `heads ${chosen.join(", ")}` : "no head");
  if (state.query === null) {
    told.textContent = `${where}.`;
    return;
  }
  const most = chosen.map((head) => {
    const row = data[state.kind][state.layer][head][state.query];
    const best = row.indexOf(Math.max(...row));
    return `head ${head} most to ${keys[best]} (${row[best].toFixed(2)})`;
  });
  told.textContent = `${where}: ${queries[state.query]} attends with ${most.join("; ")}.`;
}

function draw() {
  const [queries, keys] = data.sides[state.kind];
  const chosen = chosenHeads();
  drawing.replaceChildren();
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${2 * TOP + ROW * Math.max(queries.length, keys.length)}`);
  lines(chosen);
  column(queries, LEFT, "end", true);
  column(keys, RIGHT, "start", false);
  cells(chosen);
  mark();
  say(chosen, queries, keys);
}

function mark() {
  drawing.querySelectorAll(".query").forEach((one, place) => {
    one.classList.toggle("chosen", place === state.query);
  });
}

// True while the focus stays on a token, although its lines must no longer be shown alone.
let leaving = false;

function look(query) {
  if (state.query === query) return;
  const focused = document.activeElement;
  const place = focused.classList.contains("query") ? query ?? +focused.dataset.place : null;
  state.query = query;
  draw();
  if (place === null) return;
  leaving = query === null;
  drawing.querySelectorAll(".query")[place].focus();
  leaving = false;
}

drawing.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const queries = drawing.querySelectorAll(".query");
  if (event.key === "Escape") {
    look(null);
  } else if (step && document.activeElement.classList.contains("query")) {
    event.preventDefault();
    const place = +document.activeElement.dataset.place;
    queries[(place + step + queries.length) % queries.length].focus();
  }
});
drawing.addEventListener("mouseleave", () => look(null));
document.getElementById("choice").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("choice").addEventListener("change", (event) => {
  if (event.target.name === "kind") {
    state.kind = event.target.value;
    fillLayers();
  }
  state.layer = +layers.value;
  state.query = null;
  draw();
});
function tick(wanted) {
  heads.querySelectorAll("input").forEach((one, head) => { one.checked = wanted(head); });
  draw();
}
document.getElementById("all").addEventListener("click", () => tick(() => true));
document.getElementById("one").addEventListener("click", () => {
  const first = chosenHeads()[0] || 0;
  tick((head) => head === first);
});
const aligning = document.getElementById("aligning");
aligning.hidden = data.aligning === null;
aligning.addEventListener("click", () => {
  document.getElementById("kind-cross").checked = true;
  Object.assign(state, { kind: "cross", layer: data.aligning.layer, query: null });
  fillLayers();
  tick((head) => data.aligning.heads.includes(head));
});

document.getElementById("text").textContent = data.text;
document.getElementById("translation").textContent = data.translation;
for (const kind in data.sides) {
  option(document.getElementById("kinds"), "radio", "kind", kind, kind === state.kind, data.names[kind]);
}
data.colours.forEach((colour, head) => {
  option(heads, "checkbox", "head", head, data.chosen.heads.includes(head), `${head}`, colour);
});
fillLayers();
draw();
