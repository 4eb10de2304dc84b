// The texts of the interface in the reader's language. Missing texts are shown in English.

import { recall, keep } from "./storage.js";
import { ENGLISH } from "./strings/en.js";

const NAMES = { en: "English", de: "Deutsch", fr: "Français" };
let strings = ENGLISH;
let language = "en";
let names;

export async function loadStrings() {
  language = choose();
  if (language !== "en") strings = { ...ENGLISH, ...(await load(language)) };
  names = new Intl.DisplayNames([language], { type: "language" });
  document.documentElement.lang = language;
  for (const one of document.querySelectorAll("[data-string]")) one.textContent = say(one.dataset.string);
  for (const one of document.querySelectorAll("[data-label]")) {
    one.setAttribute("aria-label", say(one.dataset.label));
    if (one.matches("button, a")) one.title = say(one.dataset.label);
  }
  for (const one of document.querySelectorAll("[data-hint]")) {
    const hint = say(one.dataset.hint);
    if ("placeholder" in one) one.placeholder = hint;
    else one.dataset.hint = hint;
  }
}

function choose() {
  const known = Object.keys(NAMES);
  const wanted = [recall("interface"), ...(navigator.languages ?? [navigator.language])];
  return wanted.map((tag) => String(tag).slice(0, 2).toLowerCase()).find((tag) => known.includes(tag)) ?? "en";
}

// If the texts cannot be loaded, the page is in English.
async function load(code) {
  try {
    const answer = await fetch(new URL(`strings/${code}.json`, import.meta.url));
    return answer.ok ? await answer.json() : {};
  } catch {
    return {};
  }
}

// Returns a text, with {name} replaced by a value.
export function say(key, values = {}) {
  return (strings[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

export function languageName(code, given) {
  try {
    const name = names.of(code);
    if (name && name !== code) return name[0].toLocaleUpperCase(language) + name.slice(1);
  } catch {
    // Not a BCP 47 code.
  }
  return given ?? code;
}

export const number = (value) => new Intl.NumberFormat(language).format(value);
export const percent = (value) => new Intl.NumberFormat(language, { style: "percent" }).format(value);
export const when = (value) =>
  new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(value);
export const bytes = (value) =>
  new Intl.NumberFormat(language, { style: "unit", unit: "megabyte", maximumFractionDigits: 1 }).format(value / 2 ** 20);

export function fillInterfaceLanguages(select) {
  for (const [code, name] of Object.entries(NAMES)) {
    select.append(new Option(name, code, code === language, code === language));
  }
  select.onchange = () => {
    keep("interface", select.value);
    location.reload();
  };
}
