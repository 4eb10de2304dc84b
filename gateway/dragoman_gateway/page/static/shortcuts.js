// Keyboard shortcuts, and the dialog that lists them.

import { byId, element } from "./dom.js";
import { say } from "./strings.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
const CONTROL = isMac ? "⌘" : "Ctrl";
const SHORTCUTS = [
  { keys: [CONTROL, "Enter"], key: "ENTER", text: "shortcut_translate", action: "translate" },
  { keys: [CONTROL, "Shift", "S"], key: "S", shift: true, text: "swap", action: "swap" },
  { keys: [CONTROL, "Shift", "Y"], key: "Y", shift: true, text: "copy", action: "copy" },
  { keys: [CONTROL, "Shift", "⌫"], key: "BACKSPACE", shift: true, text: "clear", action: "clear" },
  { keys: ["←", "→"], text: "shortcut_words" },
  { keys: ["Enter"], text: "shortcut_alternatives" },
  { keys: ["Esc"], text: "shortcut_close" },
];

// `actions`: functions by the names that the table above has.
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
    const term = element("dt", {}, ...keys.map((key) => element("kbd", {}, key)));
    byId("shortcuts-list").append(term, element("dd", {}, say(text)));
  }
  byId("shortcuts-open").onclick = () => byId("shortcuts").showModal();
  byId("shortcuts-close").onclick = () => byId("shortcuts").close();
}
