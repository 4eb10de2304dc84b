// Glossary terms: those of this browser, and glossaries stored on the server.

import { ask } from "./api.js";
import { byId, element, iconButton } from "./dom.js";
import { languageName, number, say } from "./strings.js";
import { keep, recall } from "./storage.js";

const MOST_TERMS = 1000;
const MOST_LETTERS = 200;
let terms = recall("terms", {}); // by target language, a list of pairs
let chosen = new Set(recall("glossaries", []));
let saved = [];
let languages = () => ({});
let changed = () => {};
let failed = () => {};

export function connectGlossary(options) {
  ({ languages, changed, failed } = options);
  byId("term-add").onclick = () => addRow(["", ""]).querySelector("input").focus();
  byId("terms-clear").onclick = () => {
    terms[languages().target] = [];
    store();
    showTerms();
  };
  byId("save").addEventListener("submit", save);
}

// Returns the glossary options of a request.
export function glossaryOptions() {
  const found = Object.fromEntries(pairs());
  const ids = saved.filter(({ id }) => chosen.has(id)).map(({ id }) => id);
  const options = {};
  if (Object.keys(found).length) options.glossary = found;
  if (ids.length) options.glossary_ids = ids;
  return options;
}

function pairs() {
  const all = (terms[languages().target] ?? []).map((pair) => pair.map((term) => term.trim()));
  return all.filter(([src, tgt]) => src && tgt).slice(0, MOST_TERMS);
}

export function showTerms() {
  const { target } = languages();
  byId("glossary-note").textContent = say("glossary_note", { language: languageName(target) });
  byId("terms").replaceChildren();
  const known = terms[target] ?? [];
  for (const pair of known.length ? known : [["", ""]]) addRow(pair);
  showNumber();
}

function addRow(pair) {
  const inputs = pair.map((term, side) => {
    const input = element("input", { value: term, maxLength: MOST_LETTERS, dir: "auto", oninput: store, spellcheck: false });
    input.setAttribute("aria-label", say(side ? "term_target" : "term_source"));
    input.onkeydown = (event) => {
      if (event.key === "Enter") byId("term-add").click();
    };
    return element("td", {}, input);
  });
  const row = element("tr", {}, ...inputs);
  const remove = iconButton("clear", say("remove"), () => {
    row.remove();
    store();
    byId("term-add").focus();
  });
  row.append(element("td", {}, remove));
  byId("terms").append(row);
  return row;
}

function store() {
  const rows = [...byId("terms").rows];
  terms[languages().target] = rows.map((row) => Array.from(row.querySelectorAll("input"), (input) => input.value));
  keep("terms", terms);
  showNumber();
  changed();
}

function showNumber() {
  const count = pairs().length + saved.filter(({ id }) => chosen.has(id)).length;
  byId("glossary-number").hidden = !count;
  byId("glossary-number").textContent = number(count);
}

export async function loadSaved() {
  try {
    saved = (await ask("glossaries")).glossaries;
  } catch (error) {
    saved = [];
    if (error.status >= 500 || error.code === "offline") failed(error);
    return;
  }
  byId("saved").hidden = false;
  showSaved();
}

function showSaved() {
  const items = saved.map((glossary) => {
    const directions = glossary.dictionaries.map(
      (one) => `${languageName(one.source_language)} → ${languageName(one.target_language)}, ${number(one.entry_count)}`,
    );
    const tick = element("input", { type: "checkbox", checked: chosen.has(glossary.id) });
    tick.onchange = () => {
      chosen[tick.checked ? "add" : "delete"](glossary.id);
      keep("glossaries", [...chosen]);
      showNumber();
      changed();
    };
    const label = element("label", { className: "tick" }, tick, element("bdi", {}, glossary.name));
    const remove = iconButton("clear", say("remove_named", { name: glossary.name }), () => removeSaved(glossary));
    return element("li", {}, label, element("span", { className: "note" }, directions.join("; ")), remove);
  });
  byId("saved-list").replaceChildren(...items);
  showNumber();
}

async function removeSaved({ id, name }) {
  if (!confirm(say("remove_sure", { name }))) return;
  try {
    await ask(`glossaries/${id}`, { method: "DELETE" });
    await loadSaved();
    changed();
  } catch (error) {
    failed(error);
  }
}

async function save(event) {
  event.preventDefault();
  const { source, target } = languages();
  const entries = Object.fromEntries(pairs());
  if (!source || !Object.keys(entries).length) return failed({ message: say(source ? "save_none" : "save_language") });
  const name = byId("save-name").value.trim();
  const dictionary = { source_language: source, target_language: target, entries };
  try {
    await ask("glossaries", { body: { name, dictionaries: [dictionary] } });
    byId("save-name").value = "";
    await loadSaved();
  } catch (error) {
    failed(error);
  }
}
