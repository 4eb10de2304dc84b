// The demonstration of translator.js, and the bookmark that translates a page.

import { API } from "./api.js";

const { Translator, LanguageDetector } = window;
const byId = (id) => document.getElementById(id);

const { languages } = await (await fetch(new URL("languages", API))).json();
const targets = [...new Set(languages.flatMap((one) => one.targets))];
const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
const nameOf = (code) => languages.find((one) => one.code === code)?.name ?? names.of(code);
for (const picker of [byId("demo-target"), byId("bookmark-target")]) {
  picker.replaceChildren(...targets.map((code) => new Option(nameOf(code), code)));
  picker.value = targets.find((code) => navigator.language.startsWith(code)) ?? targets[0];
}

let former = new AbortController();
byId("demo-translate").addEventListener("click", async () => {
  former.abort();
  former = new AbortController();
  const { signal } = former;
  const text = byId("demo-text").value;
  const translation = byId("demo-translation");
  translation.textContent = "";
  try {
    const detector = await LanguageDetector.create({ signal });
    const [{ detectedLanguage: sourceLanguage, confidence }] = await detector.detect(text, { signal });
    byId("demo-detected").textContent = `${nameOf(sourceLanguage)}, ${Math.round(100 * confidence)} %`;
    const targetLanguage = byId("demo-target").value;
    const translator = await Translator.create({ sourceLanguage, targetLanguage, signal });
    for await (const part of translator.translateStreaming(text, { signal })) translation.append(part);
  } catch (error) {
    if (error.name !== "AbortError") translation.textContent = error.message;
  }
});

const code = await (await fetch(new URL("in-place.js", import.meta.url))).text();
function bookmark() {
  const values = { API: API.href, TARGET: byId("bookmark-target").value, KEY: "" };
  const filled = code
    .replace(/^\/\/.*\n/gm, "")
    .replace(/"(API|TARGET|KEY)"/g, (_, name) => JSON.stringify(values[name]));
  byId("bookmark").href = `javascript:${encodeURIComponent(filled)}`;
}
byId("bookmark-target").addEventListener("change", bookmark);
bookmark();
