// Alternatives for a word and the rest of the sentence, each shown as a whole sentence.

import { byId, element } from "./dom.js";
import { say } from "./strings.js";

const box = byId("alternatives");
const title = byId("alternatives-title");
const list = byId("alternatives-list");
let closed = () => {};

// Opens the box below a word; `fillBox` fills it later.
export function openBox(place, onClose) {
  closed = onClose;
  list.replaceChildren();
  title.textContent = say("alternatives_wait");
  box.showPopover();
  put(place);
}

function put(place) {
  const word = place.getBoundingClientRect();
  const width = box.offsetWidth;
  const page = document.querySelector("main").getBoundingClientRect();
  const left = Math.max(page.left, Math.min(word.left - 16, page.right - width));
  box.style.left = `${left + scrollX}px`;
  box.style.top = `${word.bottom + 8 + scrollY}px`;
}

// Fills the box: all texts begin with `prefix`, and `current` is the present sentence.
export function fillBox(place, word, prefix, current, texts, choose) {
  const bare = word.replace(/^\p{P}+|\p{P}+$/gu, "") || word;
  title.textContent = say(texts.length ? "alternatives" : "alternatives_none", { word: bare });
  const items = texts.map((text) => {
    const begin = text.startsWith(prefix) ? prefix.length : 0;
    const button = element("button", { type: "button", dir: "auto", onclick: () => choose(text) });
    const [, space, next, rest] = /^(\s*)(\S*)([^]*)$/.exec(text.slice(begin));
    button.append(text.slice(0, begin) + space, element("b", {}, next), element("span", {}, rest));
    if (text === current) button.setAttribute("aria-current", "true");
    return element("li", {}, button);
  });
  list.replaceChildren(...items);
  put(place);
  (list.querySelector("button:not([aria-current])") ?? list.querySelector("button"))?.focus({ preventScroll: true });
  box.scrollIntoView({ block: "nearest" });
}

export function closeBox() {
  if (box.matches(":popover-open")) box.hidePopover();
}

// Unlike "toggle", this event is dispatched immediately, before the box opens for another word.
box.addEventListener("beforetoggle", (event) => {
  if (event.newState === "closed") closed();
});
box.addEventListener("keydown", (event) => {
  const buttons = [...list.querySelectorAll("button")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !buttons.length) return;
  event.preventDefault();
  const next = buttons.indexOf(document.activeElement) + step;
  buttons[(next + buttons.length) % buttons.length].focus();
});
