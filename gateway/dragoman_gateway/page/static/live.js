// Live text: translates a text while it is typed or spoken, in a session of the server. Words that
// were shown do not change, except the last ones.

import { Refused, ask } from "./api.js";
import { announce, byId, element } from "./dom.js";
import { say } from "./strings.js";

const PAUSE_MS = 1000; // pause in typing after which the last word is complete
const REVISE = 2; // words at the end that may change, shown in grey
const Recognition = window.SpeechRecognition ?? window.webkitSpeechRecognition;

const source = byId("live-source");
const shown = byId("live-translation");
let languages = () => ({});
let failed = () => {};
let session = null; // id, with the languages that it was created for
let waiting = null; // the newest change, while another one is sent
let isSending = false;
let recognition = null;
let cleared = 0; // how often the text was cleared
let timer;

// Sends the newest text; texts in between are left out.
async function send(change) {
  waiting = change;
  if (isSending) return;
  isSending = true;
  try {
    while (waiting) {
      const next = waiting;
      waiting = null;
      const before = cleared;
      const { translation, revisable } = await updated(next);
      if (before !== cleared) continue;
      const stable = translation.slice(0, translation.length - revisable.length);
      shown.replaceChildren(stable, element("span", { className: "old" }, revisable));
      if (next.finish) announce(translation);
    }
  } catch (error) {
    failed(error);
  } finally {
    isSending = false;
  }
}

async function updated(change) {
  const wanted = languages();
  const key = JSON.stringify(wanted);
  if (session?.key === key) {
    try {
      return await ask(`live/${session.id}`, { body: change });
    } catch (error) {
      // The session has expired, or a sentence that had ended was edited: begin again.
      if (!(error instanceof Refused) || !["not_found", "invalid_input", "too_large"].includes(error.code)) throw error;
    }
  }
  forget();
  const { id } = await ask("live", { body: { ...wanted, revise: REVISE } });
  session = { id, key };
  return ask(`live/${id}`, { body: change });
}

function forget() {
  if (session) ask(`live/${session.id}`, { method: "DELETE" }).catch(() => {});
  session = null;
}

function typed() {
  clearTimeout(timer);
  send({ text: source.value.replace(/\S*$/, "") });
  timer = setTimeout(() => send({ text: source.value }), PAUSE_MS);
}

function listen() {
  if (recognition) return recognition.stop();
  const before = source.value && `${source.value.trimEnd()} `;
  recognition = new Recognition();
  Object.assign(recognition, { continuous: true, interimResults: true, lang: languages().source_language });
  recognition.onresult = ({ results }) => {
    const all = [...results];
    source.value = before + all.map(([best]) => best.transcript.trim()).join("\n");
    send({ text: source.value, finish: all.at(-1).isFinal });
  };
  recognition.onerror = ({ error }) => error !== "no-speech" && failed(new Error(say("live_failed", { error })));
  recognition.onend = () => {
    recognition = null;
    showListening();
  };
  recognition.start();
  showListening();
}

function showListening() {
  byId("live-speak").setAttribute("aria-pressed", String(recognition !== null));
  byId("live-speak").textContent = say(recognition ? "live_stop" : "live_speak");
}

function clear() {
  recognition?.stop();
  clearTimeout(timer);
  cleared += 1;
  waiting = null;
  source.value = shown.textContent = "";
  forget();
}

// Connects the panel; `requestOptions` returns the languages and terms of a session.
export function connectLive({ requestOptions, onFailed }) {
  languages = requestOptions;
  failed = onFailed;
  source.oninput = typed;
  byId("live-clear").onclick = clear;
  byId("live-speak").hidden = !Recognition;
  byId("live-speak").onclick = listen;
  showListening();
}
