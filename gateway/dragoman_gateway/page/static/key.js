// Asks for the API key.

import { hasKey, useKey } from "./api.js";
import { byId } from "./dom.js";
import { say } from "./strings.js";

const dialog = byId("key");
let waiting = [];

function showKeyState() {
  byId("key-open").hidden = !hasKey();
}

// Opens the dialog; `again` repeats the refused request after a key is entered.
export function askForKey(error, again) {
  byId("key-why").textContent = error && hasKey() ? error.message : say("key_why");
  byId("key-forget").hidden = !hasKey();
  if (again) waiting.push(again);
  if (!dialog.open) dialog.showModal();
  byId("key-secret").focus();
}

function finish() {
  showKeyState();
  const all = new Set(waiting);
  dialog.close();
  for (const again of all) again();
}

export function connectKey(changed) {
  byId("key-open").onclick = () => askForKey(null, changed);
  byId("key-cancel").onclick = () => dialog.close();
  dialog.addEventListener("close", () => {
    byId("key-secret").value = "";
    waiting = [];
  });
  byId("key-form").addEventListener("submit", (event) => {
    const secret = byId("key-secret").value.trim();
    event.preventDefault();
    if (!secret) return byId("key-secret").focus();
    useKey(secret, byId("key-stays").checked);
    finish();
  });
  byId("key-forget").onclick = () => {
    useKey("", false);
    finish();
  };
  showKeyState();
}
