// The history, which is stored only in this browser.

import { byId, element, iconButton } from "./dom.js";
import { languageName, say, when } from "./strings.js";
import { keep, recall } from "./storage.js";

const MOST = 100;
const MOST_LETTERS = 5000;
let past = recall("past", []);
let open = () => {};

const isOn = () => recall("past.on", true);

export function connectPast(onOpen) {
  open = onOpen;
  byId("past-on").checked = isOn();
  byId("past-on").onchange = (event) => {
    keep("past.on", event.target.checked);
    if (!event.target.checked) set([]);
  };
  byId("past-clear").onclick = () => set([]);
  showPast();
}

// Stores a translation. If the text continues the last one, it replaces it.
export function remember(entry) {
  if (!isOn() || entry.text.length > MOST_LETTERS) return;
  const [last] = past;
  const isGoingOn =
    last && last.target === entry.target && (entry.text.startsWith(last.text) || last.text.startsWith(entry.text));
  const rest = (isGoingOn ? past.slice(1) : past).filter(
    (one) => one.text !== entry.text || one.target !== entry.target,
  );
  set([{ ...entry, at: Date.now() }, ...rest].slice(0, MOST));
}

function set(entries) {
  past = entries;
  keep("past", past.length ? past : undefined);
  showPast();
}

function showPast() {
  byId("past-none").hidden = past.length > 0;
  byId("past-clear").disabled = !past.length;
  const items = past.map((entry) => {
    const names = `${languageName(entry.source)} → ${languageName(entry.target)} · ${when(entry.at)}`;
    const again = element("button", { type: "button", className: "again", onclick: () => open(entry) });
    again.append(
      element("span", { dir: "auto" }, entry.text),
      element("span", { dir: "auto" }, entry.translation),
      element("small", {}, names),
    );
    const remove = iconButton("clear", say("remove"), () => set(past.filter((one) => one !== entry)));
    return element("li", {}, again, remove);
  });
  byId("past-list").replaceChildren(...items);
}
