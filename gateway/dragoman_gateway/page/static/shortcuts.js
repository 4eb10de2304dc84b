// Keyboard shortcuts, and the dialog that lists them.

import { byId, element, icon } from "./dom.js";
import { say } from "./strings.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const CONTROL = isMac ? "⌘" : "Ctrl";
// Icons, since some fonts lack these characters.
const BACK = { icon: "back", label: "key_back" };
const LEFT = { icon: "left", label: "key_left" };
const RIGHT = { icon: "right", label: "key_right" };
const SHORTCUTS = [
  { keys: [CONTROL, "Enter"], key: "ENTER", text: "shortcut_translate", action: "translate" },
  { keys: [CONTROL, "Shift", "S"], key: "S", shift: true, text: "swap", action: "swap" },
  { keys: [CONTROL, "Shift", "Y"], key: "Y", shift: true, text: "copy", action: "copy" },
  { keys: [CONTROL, "Shift", BACK], key: "BACKSPACE", shift: true, text: "clear", action: "clear" },
  { keys: [LEFT, RIGHT], text: "shortcut_words" },
  { keys: ["Enter"], text: "shortcut_alternatives" },
  { keys: ["Esc"], text: "shortcut_close" },
];

function keyCap(key) {
  if (typeof key === "string") return element("kbd", {}, key);
  return element("kbd", {}, icon(key.icon), element("span", { className: "away" }, say(key.label)));
}

// `actions`: functions by the names in the table above.
export function connectShortcuts(actions) {
  addEventListener("keydown", (event) => {
    if (!(isMac ? event.metaKey : event.ctrlKey) || event.altKey || document.querySelector("dialog[open]")) return;
    const pressed = event.key.toUpperCase();
    const found = SHORTCUTS.find((one) => one.key === pressed && Boolean(one.shift) === event.shiftKey);
    if (!found) return;
    event.preventDefault();
    actions[found.action]();
  });
  for (const { keys, text } of SHORTCUTS) {
    const term = element("dt", {}, ...keys.map(keyCap));
    byId("shortcuts-list").append(term, element("dd", {}, say(text)));
  }
  byId("shortcuts-open").onclick = () => byId("shortcuts").showModal();
  byId("shortcuts-close").onclick = () => byId("shortcuts").close();
}
