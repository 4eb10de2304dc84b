// Shows the model's attention weights in a sandboxed frame.

import { askText } from "./api.js";
import { byId } from "./dom.js";
import { described } from "./notice.js";
import { say } from "./strings.js";

const dialog = byId("inside");
const frame = byId("inside-frame");
const picker = byId("inside-sentence");
const link = byId("inside-save");
// The only place where HTML is set: the server's own page, in a frame without an origin.
const policy = window.trustedTypes?.createPolicy("attention", { createHTML: (text) => text });
let running;

// Shows one of `sentences`, which are request bodies with `text` and `target`.
export function openInside(sentences, index) {
  picker.replaceChildren(
    ...sentences.map(({ text }, at) => new Option(text.length > 60 ? `${text.slice(0, 59)}…` : text, at, false, at === index)),
  );
  byId("inside-picker").hidden = sentences.length < 2;
  picker.onchange = () => show(sentences[picker.value]);
  dialog.showModal();
  show(sentences[index]);
}

async function show(body) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  frame.hidden = link.hidden = true;
  byId("inside-wait").textContent = say("inside_wait");
  try {
    const markup = await askText("attention", { body, signal });
    frame.srcdoc = policy ? policy.createHTML(markup) : markup;
    frame.hidden = link.hidden = false;
    byId("inside-wait").textContent = "";
    URL.revokeObjectURL(link.href);
    link.href = URL.createObjectURL(new Blob([markup], { type: "text/html" }));
  } catch (error) {
    if (!signal.aborted) byId("inside-wait").textContent = described(error);
  }
}

byId("inside-close").onclick = () => dialog.close();
dialog.addEventListener("close", () => {
  running?.abort();
  frame.removeAttribute("srcdoc");
  URL.revokeObjectURL(link.href);
  link.removeAttribute("href");
});
