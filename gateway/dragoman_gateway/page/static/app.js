// The page: translates the typed text, and connects the other modules.

import { closeBox, fillBox, openBox } from "./alternatives.js";
import { Refused, ask, hasKey, stream } from "./api.js";
import { curlOf, pythonOf } from "./code.js";
import { announce, byId, copyText, tick } from "./dom.js";
import { connectDocuments, resume, setLimits } from "./documents.js";
import { connectGlossary, glossaryOptions, loadSaved, showTerms } from "./glossary.js";
import { openInside } from "./inside.js";
import { askForKey, connectKey } from "./key.js";
import { connectLive } from "./live.js";
import { connectMemories, loadMemories, memoryOptions, showUse } from "./memories.js";
import { clearNotice, described, explain, notify, wentWell } from "./notice.js";
import * as panes from "./panes.js";
import { connectPast, remember } from "./past.js";
import { connectShortcuts } from "./shortcuts.js";
import { fillInterfaceLanguages, languageName, loadStrings, number, percent, say } from "./strings.js";
import { keep, recall } from "./storage.js";
import { connectTheme, useTheme } from "./theme.js";
import { detailedWords, sentencePairs, splitWords } from "./words.js";

const AUTO = "auto";
const PAUSE_MS = 250; // pause in typing, before the text is translated
const SETTLED_MS = 500; // time after which a translation is announced and added to the history
const MOST_DETAILED = 5000; // maximum length of a text for alignments and scores
const FAULTS = ["repetition", "short", "long"]; // warnings that make the server search again, except in streams
const ALTERNATIVES = 8;
const MOST_SHOWN = 6;
const LIKELY = 0.3; // minimum probability of a detected language
const SURE = 0.95; // from this probability on, not detected again while the text only grows
const TELLING = 60; // the detected language is kept while this many first characters stay the same
const WORSE = 1.2; // maximum difference of an alternative's score to the best one
const TAG = /<\/?[a-z][^<>]*>/i;
const PANELS = ["documents", "glossary", "memory", "live", "past", "code"];

const sourcePicker = byId("source-language");
const targetPicker = byId("target-language");
const formatPicker = byId("format");
let languages = [];
let most = null; // maximum number of characters in a request
let detected = null; // language and probability of the text, and the text's beginning
let running = null; // the running translation, which the next one aborts
let timer;
let isDone = false; // whether the shown translation belongs to the text
let word = null; // the word whose alternatives are open

// ---- Languages

const source = () => sourcePicker.value;
const target = () => targetPicker.value;
const knownSource = () => (source() === AUTO ? detected?.language : source()) ?? null;
const targetsOf = (code) =>
  code === AUTO ? [...new Set(languages.flatMap((one) => one.targets))] : (languages.find((one) => one.code === code)?.targets ?? []);
const canTranslate = (from, into) => targetsOf(from).includes(into);

async function loadLanguages() {
  languages = (await ask("languages")).languages.filter((one) => one.targets.length);
  const linked = fromFragment();
  const [from, into] = linked ? [linked.source, linked.target] : recall("languages", [AUTO, null]);
  const named = (code) => languageName(code, languages.find((one) => one.code === code)?.name);
  const codes = languages.map((one) => one.code).sort((one, other) => named(one).localeCompare(named(other)));
  sourcePicker.replaceChildren(new Option(say("detect"), AUTO), ...codes.map((code) => new Option(named(code), code)));
  sourcePicker.value = codes.includes(from) ? from : AUTO;
  fillTargets(into ?? preferredTarget());
}

// The reader's own language; if it is English, another one, since most people translate from English.
function preferredTarget() {
  const own = document.documentElement.lang;
  return targetsOf(AUTO).find((code) => code === own && own !== "en") ?? targetsOf(AUTO).find((code) => code !== "en");
}

function fillTargets(wanted) {
  const codes = targetsOf(source());
  const named = (code) => languageName(code, languages.find((one) => one.code === code)?.name);
  targetPicker.replaceChildren(
    ...codes.sort((one, other) => named(one).localeCompare(named(other))).map((code) => new Option(named(code), code)),
  );
  targetPicker.value = codes.includes(wanted) ? wanted : (codes[0] ?? "");
}

function languagesChanged() {
  const [, before] = recall("languages", []);
  if (before && before !== target()) keep("languages.before", before);
  keep("languages", [source(), target()]);
  byId("swap").disabled = !canSwap();
  showDetected();
  showTerms();
  showUse();
}

function canSwap() {
  const from = knownSource();
  return source() === AUTO && !from ? languages.length > 1 : canTranslate(target(), from);
}

function swap() {
  if (!canSwap()) return;
  const from = knownSource() ?? targetsOf(target()).find((code) => canTranslate(target(), code));
  const text = panes.translation().text;
  sourcePicker.value = target();
  fillTargets(from);
  detected = null;
  if (isDone && text) panes.setSource(text);
  languagesChanged();
  showCount();
  translate();
}

function showDetected() {
  const isShown = source() === AUTO && detected;
  byId("detected").textContent = isShown
    ? say("detected", { language: languageName(detected.language), probability: percent(detected.probability) })
    : "";
}

// ---- Translation

function request() {
  const found = { text: panes.sourceText(), source_language: source(), target_language: target() };
  if (isHtml()) found.format = "html";
  return Object.assign(found, glossaryOptions(), memoryOptions());
}

const isHtml = () => formatPicker.value === "html";

// The panes show HTML as source text; only the words in it are translated.
function setFormat(format) {
  formatPicker.value = format;
  document.documentElement.dataset.format = format;
  byId("source").spellcheck = format === "text";
  detected = null;
}

// The text without tags and scripts, only for language detection.
const wordsOf = (text) =>
  isHtml() ? text.replace(/<(script|style)\b.*?<\/\1\s*>/gis, " ").replace(/<[^>]*>/g, " ").trim() : text;

function typed() {
  closeBox();
  showCount();
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  translateSoon();
}

function translateSoon() {
  clearTimeout(timer);
  isDone = false;
  running?.abort();
  if (!panes.sourceText().trim()) return translate();
  panes.markOld();
  showActions();
  timer = setTimeout(translate, PAUSE_MS);
}

async function translate() {
  clearTimeout(timer);
  if (!target()) return; // the languages are not loaded yet
  running?.abort();
  isDone = false;
  word = null;
  const text = panes.sourceText();
  if (!text.trim()) return showNothing();
  clearNotice();
  if (isTooLong(text)) {
    panes.clearTranslation();
    return notify(say("error_characters", { most: number(most) }));
  }
  const mine = (running = new AbortController());
  showCode();
  panes.markOld();
  showActions();
  byId("busy").hidden = false;
  try {
    if (source() === AUTO) await detect(wordsOf(text), mine.signal);
    const asked = request();
    if (knownSource()) asked.source_language = knownSource();
    let found = await (isHtml() ? whole(asked, mine.signal) : follow(asked, mine.signal));
    if (!isHtml() && found.warnings?.some((warning) => FAULTS.includes(warning))) {
      found = await withDetails(asked, (body) => whole(body, mine.signal));
    }
    if (source() === AUTO && !detected && found.detected_language) {
      detected = { language: found.detected_language, probability: found.detected_probability, of: "" };
      languagesChanged();
    }
    panes.showWarnings(found.warnings ?? []);
    wentWell();
    isDone = true;
    showActions();
    byId("busy").hidden = true;
    await new Promise((done) => setTimeout(done, SETTLED_MS));
    if (mine.signal.aborted) return;
    announce(panes.translation().text);
    remember({ source: knownSource() ?? AUTO, target: target(), format: formatPicker.value, text, translation: panes.translation().text });
  } catch (error) {
    if (mine.signal.aborted) return;
    panes.clearTranslation();
    const isUnknown = error.code === "invalid_input" && source() === AUTO && !detected;
    if (isUnknown) notify(say("error_language", { message: error.message }));
    else failed(error, translate);
  } finally {
    if (running === mine) byId("busy").hidden = true;
  }
}

// Detects the language of the text. If it is already in the target language, the direction is
// reversed.
async function detect(text, signal) {
  if (!text) return;
  if (detected && detected.probability >= SURE && detected.of.length === TELLING && text.startsWith(detected.of)) return;
  const [found] = (await ask("detect", { body: { text }, signal })).detections;
  // With a low probability it may be another language: the server decides when it translates.
  const isKnown = found.probability >= LIKELY && targetsOf(found.language).length > 0;
  detected = isKnown ? { ...found, of: text.slice(0, TELLING) } : null;
  if (detected && !canTranslate(detected.language, target())) {
    const possible = targetsOf(detected.language);
    const before = recall("languages.before", null);
    fillTargets(possible.includes(before) ? before : possible[0]);
  }
  languagesChanged();
}

// Shows the translation as it grows, and returns the last event, which has the whole translation.
function follow(asked, signal) {
  return withDetails(asked, async (body) => {
    let last = null;
    for await (const part of stream(body, signal)) {
      last = part;
      panes.showPart(part.text);
    }
    if (!last) throw new Refused("unavailable", "");
    show(last);
    return last;
  });
}

// Requests alignments and token scores, unless the text is long, or a memory may have its translation.
async function withDetails(asked, send) {
  if (asked.text.length > MOST_DETAILED || asked.memory_id) return send(asked);
  const scored = { ...asked, return_token_scores: true };
  try {
    return await send({ ...scored, return_alignments: "hard" });
  } catch (error) {
    // The model may have no alignment heads.
    if (error.option !== "return_alignments") throw error;
    return send(scored);
  }
}

function show(found) {
  if (found.token_scores) panes.showWords(found.text, detailedWords(found.text, found));
  else panes.showPlain(found.text);
}

// Tags are placed only in a complete translation, so translations with tags are not streamed.
async function whole(asked, signal) {
  const [found] = (await ask("translate", { body: asked, signal })).translations;
  show(found);
  return found;
}

function showNothing() {
  byId("busy").hidden = true;
  detected = null;
  isDone = false;
  panes.clearTranslation();
  clearNotice();
  languagesChanged();
  showActions();
  showCode();
}

function failed(error, again) {
  if (error.isOfFormerKey && again) return again();
  byId("busy").hidden = true;
  if (error.needsKey) {
    notify(described(error), say("key_enter"), () => askForKey(error, again));
    askForKey(error, again);
  } else {
    explain(error, again);
  }
}

function showActions() {
  const has = isDone && panes.translation().text !== "";
  byId("copy").disabled = !has;
  byId("inside-open").disabled = !has || isHtml();
  byId("share").disabled = byId("clear").disabled = !panes.sourceText();
}

const isTooLong = (text) => most !== null && [...text].length > most;

function showCount() {
  const text = panes.sourceText();
  const count = number([...text].length);
  byId("count").textContent = most === null ? say("characters", { number: count }) : say("characters_of", { number: count, most: number(most) });
  byId("count").classList.toggle("over", isTooLong(text));
  formatPicker.classList.toggle("hint", !isHtml() && TAG.test(text));
}

function showCode() {
  if (byId("code").hidden) return;
  const asked = { ...request(), text: panes.sourceText() || say("example") };
  byId("curl").textContent = curlOf(asked);
  byId("python").textContent = pythonOf(asked);
}

// ---- Alternatives and attention: both are for a single sentence

function pairs() {
  const { text, words } = panes.translation();
  return sentencePairs(panes.sourceText(), knownSource() ?? undefined, text, target(), words);
}

const between = (text, { start, end }) => text.slice(start, end);

async function showAlternatives(index) {
  closeBox();
  const { text, words } = panes.translation();
  const at = words[index];
  const pair = pairs().find(({ target: { start, end } }) => at.start >= start && at.start < end);
  if (!pair) return;
  const place = panes.markOpen(index);
  const current = between(text, pair.target);
  const prefix = text.slice(pair.target.start, at.start).trimEnd();
  word = index;
  const opened = new AbortController();
  openBox(place, () => {
    opened.abort();
    panes.markOpen(null);
  });
  const body = { text: between(panes.sourceText(), pair.source), target_language: target(), prefix, count: ALTERNATIVES };
  if (knownSource()) body.source_language = knownSource();
  try {
    const { alternatives } = await ask("alternatives", { body, signal: opened.signal });
    const texts = worthwhile(alternatives);
    const choose = (chosen) => replace(pair, chosen, current);
    fillBox(place, between(text, at), prefix, current, texts, choose);
  } catch (error) {
    if (opened.signal.aborted) return;
    closeBox();
    failed(error);
  }
}

// Returns the alternatives, best first, without those with a much lower score.
function worthwhile(alternatives) {
  const ordered = alternatives.toSorted((one, other) => other.score - one.score);
  const kept = ordered.filter((one, rank) => rank < 2 || one.score > ordered[0].score - WORSE);
  return [...new Set(kept.map((one) => one.text))].slice(0, MOST_SHOWN);
}

// Replaces a sentence of the translation by the chosen alternative.
async function replace(pair, chosen, current) {
  closeBox();
  if (chosen === current) return;
  const { text, words } = panes.translation();
  const whole = text.slice(0, pair.target.start) + chosen + text.slice(pair.target.end);
  const [from, into] = [between(panes.sourceText(), pair.source), chosen];
  panes.showWords(whole, splitWords(whole));
  announce(chosen);
  remember({ source: knownSource() ?? AUTO, target: target(), format: "text", text: panes.sourceText(), translation: whole });
  const { signal } = running;
  const body = { text: from, target: into, target_language: target(), return_alignments: "hard", return_token_scores: true };
  if (knownSource()) body.source_language = knownSource();
  try {
    const [found] = (await ask("score", { body, signal })).scores;
    if (panes.translation().text !== whole) return;
    const before = splitWords(panes.sourceText().slice(0, pair.source.start)).length;
    const moved = detailedWords(chosen, found).map((one) => ({
      ...one,
      start: one.start + pair.target.start,
      end: one.end + pair.target.start,
      sources: one.sources.map((src) => src + before),
    }));
    const shift = whole.length - text.length;
    const rest = words.filter((one) => one.start >= pair.target.end);
    panes.showWords(whole, [
      ...words.filter((one) => one.end <= pair.target.start),
      ...moved,
      ...rest.map((one) => ({ ...one, start: one.start + shift, end: one.end + shift })),
    ]);
  } catch (error) {
    if (!signal.aborted && error.code !== "invalid_input") failed(error);
  }
}

function lookInside() {
  const { text, words } = panes.translation();
  const all = pairs();
  if (!all.length) return;
  const at = words[word ?? panes.wordHere()]?.start ?? 0;
  const index = Math.max(0, all.findIndex((pair) => at < pair.target.end));
  const sentences = all.map((pair) => ({
    text: between(panes.sourceText(), pair.source),
    target: between(text, pair.target),
    target_language: target(),
    ...(knownSource() ? { source_language: knownSource() } : {}),
  }));
  openInside(sentences, index);
}

// ---- Sharing: text and languages are in the URL fragment, which browsers do not send to servers

function fromFragment() {
  const parts = location.hash.slice(1).split("/").map(decoded);
  const format = parts[0] === "html" ? parts.shift() : "text";
  if (parts.length < 2) return null;
  const [from, into, ...text] = parts;
  return { source: from, target: into, format, text: text.join("/") };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

function openFragment() {
  const found = fromFragment();
  if (found) open(found);
}

function open({ source: from, target: into, format = "text", text }) {
  setFormat(format);
  if (from === AUTO || languages.some((one) => one.code === from)) sourcePicker.value = from;
  fillTargets(into);
  detected = null;
  panes.setSource(text);
  languagesChanged();
  showCount();
  translate();
}

async function share(event) {
  const { currentTarget } = event;
  const parts = [source(), target(), panes.sourceText()];
  if (isHtml()) parts.unshift("html");
  const hash = `#${parts.map(encodeURIComponent).join("/")}`;
  history.replaceState(null, "", hash);
  await copied(location.href, currentTarget, "shared");
}

async function copied(text, button, key = "copied") {
  try {
    await copyText(text);
    tick(button, say(key));
  } catch {
    notify(say("error_copy"));
  }
}

// ---- The rest of the page

function openPanel(name, isOpen = byId(name).hidden) {
  for (const panel of PANELS) {
    const shown = isOpen && panel === name;
    byId(panel).hidden = !shown;
    byId(`${panel}-open`).setAttribute("aria-expanded", String(shown));
  }
  if (!isOpen) return;
  if (name === "code") showCode();
  if (name === "glossary") loadSaved();
  if (name === "memory") loadMemories();
  byId(name).scrollIntoView({ block: "nearest" });
}

function clear() {
  panes.setSource("");
  typed();
  byId("source").focus();
}

function connect() {
  panes.connectPanes({ onInput: typed, onWord: showAlternatives });
  const stored = {
    languages: () => ({ source: knownSource(), target: target() }),
    changed: () => (panes.sourceText().trim() ? translateSoon() : showCode()),
    failed: (error) => (error.code ? failed(error) : notify(error.message)),
  };
  connectGlossary(stored);
  connectMemories(stored);
  connectPast(open);
  connectDocuments({
    requestOptions: () => ({ source_language: source(), target_language: target(), ...glossaryOptions(), ...memoryOptions() }),
    open: () => openPanel("documents", true),
    onKeyNeeded: (error) => failed(error),
  });
  connectLive({
    requestOptions: () => ({
      source_language: knownSource() ?? languages.find((one) => one.targets.includes(target()))?.code,
      target_language: target(),
      ...glossaryOptions(),
    }),
    onFailed: (error) => (error.code ? failed(error) : notify(error.message)),
  });
  connectKey(begin);
  connectShortcuts({ translate, swap, clear, copy: () => byId("copy").click() });
  fillInterfaceLanguages(byId("interface-language"));
  sourcePicker.onchange = () => {
    detected = null;
    fillTargets(target());
    languagesChanged();
    translate();
  };
  targetPicker.onchange = () => {
    languagesChanged();
    translate();
  };
  formatPicker.onchange = () => {
    setFormat(formatPicker.value);
    languagesChanged();
    showCount();
    translate();
  };
  byId("swap").onclick = swap;
  byId("clear").onclick = clear;
  byId("share").onclick = share;
  byId("copy").onclick = (event) => copied(panes.translation().text, event.currentTarget);
  byId("curl-copy").onclick = (event) => copied(byId("curl").textContent, event.currentTarget);
  byId("python-copy").onclick = (event) => copied(byId("python").textContent, event.currentTarget);
  byId("inside-open").onclick = lookInside;
  for (const name of PANELS) byId(`${name}-open`).onclick = () => openPanel(name);
  addEventListener("hashchange", openFragment);
}

// Requests the server's information, until it answers.
async function begin() {
  try {
    const info = await ask("info");
    const bounds = [info.limits?.text_characters, info.limits?.characters_per_request].filter(Number.isFinite);
    most = bounds.length ? Math.min(...bounds) : null;
    if (info.features?.keys_required && !hasKey()) askForKey(null, begin);
    setLimits(info.features?.document_formats ?? [], info.features?.file_bytes ?? null);
    await loadLanguages();
  } catch (error) {
    return failed(error, begin);
  }
  wentWell();
  languagesChanged();
  showCount();
  resume();
  loadSaved();
  loadMemories();
  if (fromFragment()) openFragment();
  else translate();
}

useTheme();
await loadStrings();
connectTheme();
connect();
panes.showSource();
showCount();
showActions();
document.documentElement.classList.add("ready");
if (matchMedia("(hover: hover)").matches) byId("source").focus(); // on touch devices a keyboard would cover the page
begin();
