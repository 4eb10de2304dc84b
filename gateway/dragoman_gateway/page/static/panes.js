// The two panes: the text, with highlights in a shadow element behind it, and the translation as words.

import { announce, byId, element } from "./dom.js";
import { say } from "./strings.js";
import { splitWords } from "./words.js";

const MOST_WORDS = 3000; // longer translations are shown as plain text
const DOUBT = Math.log(0.3); // a word with a token below this log-probability is marked as uncertain
const MIDDLE = 140;
const LONG = 700;

const source = byId("source");
const shadow = byId("shadow");
const target = byId("translation");
let words = []; // words of the translation, each with its element, `place`
let sourcePlaces = [];
let here = null; // index of the word at the keyboard cursor or pointer
let opened = null; // index of the word whose alternatives are open
let text = "";
let openWord = () => {};

export const sourceText = () => source.value;
export const translation = () => ({ text, words });

export function setSource(value) {
  source.value = value;
  showSource();
}

// The shadow determines the height of the text area, so that panes grow with their texts.
export function showSource() {
  sourcePlaces = [];
  shadow.textContent = `${source.value}\u200b`;
  fit();
}

function fit() {
  const length = Math.max(source.value.length, text.length);
  document.documentElement.dataset.length = length > LONG ? "long" : length > MIDDLE ? "middle" : "short";
}

export function clearTranslation() {
  showPlain("");
  showWarnings([]);
}

// Names what the translation may lack, and marks its numbers if these may be wrong.
export function showWarnings(found) {
  const note = byId("warnings");
  note.hidden = !found.length;
  note.textContent = found.length ? say("check", { what: found.map((one) => say(`warning_${one}`)).join(", ") }) : "";
  const marksNumbers = found.includes("numbers");
  for (const { place } of words) place.classList.toggle("warned", marksNumbers && /\d/.test(place.textContent));
}

// Marks the shown translation as outdated.
export function markOld() {
  target.classList.add("old");
  showWarnings([]);
  setDetails([]);
}

// Shows a growing translation. The rest of the previous one stays visible in grey while it may match.
export function showPart(part) {
  const before = target.textContent;
  target.classList.remove("old");
  target.replaceChildren(part);
  if (part && before.length > part.length && before.startsWith(part)) {
    target.append(element("span", { className: "old" }, before.slice(part.length)));
  }
  text = part;
  setDetails([]);
  fit();
}

export function showPlain(whole) {
  text = whole;
  target.classList.remove("old");
  target.replaceChildren(whole);
  setDetails([]);
  fit();
}

// Shows the translation with its words, which can be selected and are linked to their source words.
export function showWords(whole, detailed) {
  text = whole;
  target.classList.remove("old");
  if (detailed.length > MOST_WORDS) return showPlain(whole);
  sourcePlaces = mark(shadow, source.value, splitWords(source.value), "source");
  shadow.append("\u200b");
  const places = mark(target, whole, detailed, "word");
  setDetails(detailed);
  for (const [index, word] of words.entries()) {
    word.place = places[index];
    word.isDoubtful = word.logProb !== null && word.logProb < DOUBT;
    word.place.classList.toggle("doubt", word.isDoubtful);
  }
  byId("legend").hidden = !words.some((word) => word.isDoubtful);
  fit();
}

function setDetails(found) {
  words = found;
  here = opened = null;
  light(shadow, []);
  if (!found.length) byId("legend").hidden = true;
}

function mark(parent, whole, spans, name) {
  const parts = [];
  let end = 0;
  const places = spans.map((span, index) => {
    const place = element("span", { className: name, "data-index": index }, whole.slice(span.start, span.end));
    parts.push(whole.slice(end, span.start), place);
    end = span.end;
    return place;
  });
  parent.replaceChildren(...parts, whole.slice(end));
  return places;
}

function light(parent, places) {
  for (const one of parent.querySelectorAll(".lit")) one.classList.remove("lit");
  for (const one of places) one?.classList.add("lit");
}

function goTo(index) {
  words[here]?.place.classList.remove("here");
  here = words[index] ? index : null;
  words[here]?.place.classList.add("here");
  light(target, []);
  light(shadow, (words[here ?? opened]?.sources ?? []).map((src) => sourcePlaces[src]));
}

function lightTranslationOf(src) {
  goTo(null);
  light(shadow, sourcePlaces[src] ? [sourcePlaces[src]] : []);
  light(target, words.filter((word) => word.sources.includes(src)).map((word) => word.place));
}

const indexOf = (place) => (place ? Number(place.dataset.index) : null);

export function markOpen(index) {
  for (const one of target.querySelectorAll(".open")) one.classList.remove("open");
  opened = words[index] ? index : null;
  words[opened]?.place.classList.add("open");
  goTo(here);
  return words[opened]?.place;
}

// The word at the keyboard cursor or pointer; else the first one.
export const wordHere = () => here ?? 0;

export function connectPanes({ onInput, onWord }) {
  openWord = onWord;
  source.addEventListener("input", () => {
    showSource();
    onInput();
  });
  target.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch") goTo(indexOf(event.target.closest(".word")));
  });
  target.addEventListener("pointerleave", () => goTo(null));
  target.addEventListener("blur", () => goTo(null));
  target.addEventListener("click", (event) => {
    const place = event.target.closest(".word");
    if (place && getSelection().isCollapsed) openWord(indexOf(place));
  });
  target.addEventListener("keydown", onKey);
  source.addEventListener("pointermove", (event) => {
    if (!sourcePlaces.length) return;
    const under = document.elementsFromPoint(event.clientX, event.clientY);
    lightTranslationOf(indexOf(under.find((one) => one.classList.contains("source"))));
  });
  source.addEventListener("pointerleave", () => lightTranslationOf(null));
  source.addEventListener("keyup", () => {
    const { selectionStart } = source;
    const at = splitWords(sourcePlaces.length ? source.value : "");
    lightTranslationOf(at.findIndex(({ start, end }) => start <= selectionStart && selectionStart <= end));
  });
}

function onKey(event) {
  if (!words.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const isRightToLeft = getComputedStyle(target).direction === "rtl";
  const [forward, back] = isRightToLeft ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
  const last = words.length - 1;
  const next = {
    [forward]: here === null ? 0 : Math.min(here + 1, last),
    [back]: here === null ? last : Math.max(here - 1, 0),
    Home: 0,
    End: last,
  }[event.key];
  if (next !== undefined) {
    event.preventDefault();
    goTo(next);
    announce(described(words[next]));
  } else if ((event.key === "Enter" || event.key === " ") && here !== null) {
    event.preventDefault();
    openWord(here);
  }
}

function described(word) {
  const from = word.sources.map((src) => sourcePlaces[src]?.textContent).filter(Boolean).join(" ");
  const parts = [word.place.textContent];
  if (from) parts.push(say("word_from", { from }));
  if (word.isDoubtful) parts.push(say("doubt"));
  return parts.join(", ");
}
