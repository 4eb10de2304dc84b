// The gateway's API. Its URL is relative to this module, so that any path prefix works.

import { recall, keep } from "./storage.js";

export const API = new URL("../api/v1/", import.meta.url);
const JSON_TYPE = "application/json";

// The error of a failed request. `code` is the gateway's code, or "offline"; `option` is at fault.
export class Refused extends Error {
  usedKey = null;

  constructor(code, message, status = 0, retryAfter = null, option = null) {
    super(message);
    Object.assign(this, { code, status, retryAfter, option });
  }

  // Whether another key has been entered since the request was sent.
  get isOfFormerKey() {
    return this.needsKey && this.usedKey !== null && this.usedKey !== key;
  }

  get needsKey() {
    return this.status === 401 || this.status === 403;
  }
}

let key = recall("key", recall("key", "", "localStorage"), "sessionStorage");

export const hasKey = () => Boolean(key);

export function useKey(secret, isKept) {
  key = secret;
  keep("key", secret || undefined, "sessionStorage");
  keep("key", isKept && secret ? secret : undefined, "localStorage");
}

async function send(path, { method, body, signal, form } = {}) {
  const headers = {};
  const usedKey = key;
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = JSON_TYPE;
  let answer;
  try {
    answer = await fetch(new URL(path, API), {
      method: method ?? (body !== undefined || form ? "POST" : "GET"),
      headers,
      body: form ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal,
      credentials: "omit",
      cache: "no-store",
    });
  } catch (error) {
    throw signal?.aborted ? error : new Refused("offline", "");
  }
  if (!answer.ok) throw Object.assign(await refusal(answer), { usedKey });
  return answer;
}

async function refusal(answer) {
  const body = await answer.json().catch(() => ({}));
  const error = body.error ?? {};
  const header = parseFloat(answer.headers.get("Retry-After"));
  const retryAfter = error.retry_after_s ?? (Number.isFinite(header) ? header : null);
  const code = error.code ?? (answer.status >= 502 ? "unavailable" : "internal");
  return new Refused(code, error.message ?? answer.statusText, answer.status, retryAfter, error.option);
}

// Sends a request and returns the JSON of the answer.
export async function ask(path, options) {
  const answer = await send(path, options);
  return answer.status === 204 ? null : answer.json();
}

export async function askText(path, options) {
  return (await send(path, options)).text();
}

export async function askFile(path, options) {
  return (await send(path, options)).blob();
}

// Yields the events of a streamed translation.
export async function* stream(body, signal) {
  const answer = await send("translate/stream", { body, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value.replaceAll("\r", "")).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const found = parse(event);
        if (found) yield found;
      }
    }
  } catch (error) {
    if (signal.aborted || error instanceof Refused) throw error;
    throw new Refused("offline", "");
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(event) {
  let name = "message";
  const data = [];
  for (const line of event.split("\n")) {
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    else if (line.startsWith("event:")) name = line.slice(6).trim();
  }
  if (!data.length) return null; // a comment, which keeps the connection open
  const value = JSON.parse(data.join("\n"));
  if (name !== "error") return value;
  const { code, message, retry_after_s: retryAfter, option } = value.error;
  throw new Refused(code, message, 0, retryAfter ?? null, option);
}
