// One line about an error with advice, and a retry if it can help.

import { byId } from "./dom.js";
import { say } from "./strings.js";

const FIRST_WAIT_S = 2;
const MOST_WAIT_S = 30;
const WITH_OWN_TEXT = new Set(["offline", "too_many_requests", "quota_used_up", "unavailable", "deadline_exceeded", "too_large", "internal"]);
const TRIED_AGAIN = new Set(["offline", "too_many_requests", "unavailable", "deadline_exceeded"]);
let timer;
let repeat; // runs when the time is over, or when the network is available again
let tries = 0;

function stopWaiting() {
  clearInterval(timer);
  removeEventListener("online", repeat);
}

export function clearNotice() {
  stopWaiting();
  byId("notice").hidden = true;
  byId("notice-text").textContent = "";
}

// Call this after a success, so that the next failure is retried soon.
export function wentWell() {
  tries = 0;
  clearNotice();
}

export function notify(text, actionText, action) {
  stopWaiting();
  byId("notice").hidden = false;
  if (byId("notice-text").textContent !== text) byId("notice-text").textContent = text;
  const button = byId("notice-action");
  button.hidden = !action;
  button.textContent = actionText ?? "";
  button.onclick = () => {
    clearNotice();
    action?.();
  };
}

// Shows an error; `again` repeats the failed request.
export function explain(error, again) {
  const text = described(error);
  if (!again || !TRIED_AGAIN.has(error.code)) {
    return error.code === "internal" ? notify(text, say("again"), again) : notify(text);
  }
  tries += 1;
  let left = Math.ceil(error.retryAfter ?? Math.min(FIRST_WAIT_S * 2 ** (tries - 1), MOST_WAIT_S));
  notify(text, say("again_in", { seconds: left }), again);
  repeat = () => {
    clearNotice();
    again();
  };
  if (error.code === "offline") addEventListener("online", repeat);
  timer = setInterval(() => {
    left -= 1;
    if (left > 0) byId("notice-action").textContent = say("again_in", { seconds: left });
    else repeat();
  }, 1000);
}

export function described(error) {
  if (WITH_OWN_TEXT.has(error.code)) {
    const key = error.code === "offline" && !navigator.onLine ? "error_no_network" : `error_${error.code}`;
    return say(key, { message: error.message });
  }
  return error.message || say("error_internal");
}
