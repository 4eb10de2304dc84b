// The web's Translator and LanguageDetector, over this server, for any page of an allowed origin:
// <script src="https:…/translator.js" crossorigin></script>, with data-key="…" if a key is required.
// Source: webmachinelearning.github.io/translation-api

{
  const script = document.currentScript;
  const API = new URL("api/v1/", script.src);
  const KEY = script.dataset.key;
  const OURS = Symbol("made by create()");
  const NAMES = { 401: "NotAllowedError", 403: "NotAllowedError", 413: "QuotaExceededError", 429: "QuotaExceededError" };

  const failure = (name, message) =>
    name === "QuotaExceededError" && globalThis.QuotaExceededError
      ? new globalThis.QuotaExceededError(message)
      : new DOMException(message, name);

  async function send(path, body, signal) {
    signal?.throwIfAborted();
    const headers = KEY ? { Authorization: `Bearer ${KEY}` } : {};
    if (body) headers["Content-Type"] = "application/json";
    let answer;
    try {
      answer = await fetch(new URL(path, API), {
        method: body ? "POST" : "GET",
        headers,
        body: body && JSON.stringify(body),
        signal,
        credentials: "omit",
      });
    } catch {
      signal?.throwIfAborted();
      throw failure("NetworkError", "the translation server does not answer");
    }
    if (answer.ok) return answer;
    const { error } = await answer.json().catch(() => ({}));
    throw failure(NAMES[answer.status] ?? "UnknownError", error?.message ?? answer.statusText);
  }

  async function ask(path, body, signal) {
    const answer = await send(path, body, signal);
    try {
      return await answer.json();
    } catch {
      signal?.throwIfAborted();
      throw failure("NetworkError", "the answer ended too early");
    }
  }

  // Yields the parts that are added to a translation as it grows.
  async function* deltas(body, signal) {
    const answer = await send("translate/stream", body, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const events = (rest + value.replaceAll("\r", "")).split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const data = event.split("\n").find((line) => line.startsWith("data:"));
          if (!data) continue; // a comment, which keeps the connection open
          const { delta, error } = JSON.parse(data.slice(5));
          if (error) throw failure("UnknownError", error.message);
          if (delta) yield delta;
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof DOMException ? error : failure("NetworkError", "the stream ended too early");
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  let listed;
  // The server's directions, requested once.
  async function pairs(signal) {
    listed ??= ask("languages").catch((error) => {
      listed = undefined;
      throw error;
    });
    const { pairs: found } = await listed;
    signal?.throwIfAborted();
    return found;
  }

  // A language tag in its usual form; a RangeError if it is none.
  const canonical = (tag) => Intl.getCanonicalLocales(String(tag))[0];

  function required(options, name) {
    if (options?.[name] === undefined) throw new TypeError(`${name} is missing`);
    return canonical(options[name]);
  }

  // The served code for a language tag: itself, a less specific one, or one in the same script.
  function served(tag, codes) {
    const lower = new Map(codes.map((code) => [code.replaceAll("_", "-").toLowerCase(), code]));
    for (let rest = tag.toLowerCase(); rest; rest = rest.slice(0, Math.max(0, rest.lastIndexOf("-")))) {
      if (lower.has(rest)) return lower.get(rest);
    }
    const likely = (one) => {
      const { language, script: written } = new Intl.Locale(one).maximize();
      return `${language}-${written}`;
    };
    for (const [code, original] of lower) {
      try {
        if (likely(code) === likely(tag)) return original;
      } catch {
        // a code that is no language tag
      }
    }
    return undefined;
  }

  async function direction(sourceTag, targetTag, signal) {
    const all = await pairs(signal);
    const source = served(sourceTag, [...new Set(all.map((pair) => pair.source))]);
    const targets = all.filter((pair) => pair.source === source).map((pair) => pair.target);
    const target = source && served(targetTag, targets);
    return target && { source_language: source, target_language: target };
  }

  // Reports a download that has nothing to do, as pages expect it.
  function watch(options) {
    if (!options?.monitor) return;
    const monitor = new EventTarget();
    options.monitor(monitor);
    for (const loaded of [0, 1]) {
      const event = Object.assign(new Event("downloadprogress"), { loaded, total: 1 });
      monitor.dispatchEvent(event);
      monitor.ondownloadprogress?.(event);
    }
  }

  class Model {
    #destroyer = new AbortController();

    constructor(proof) {
      if (proof !== OURS) throw new TypeError("Illegal constructor: use create()");
    }

    // Aborts with the page's signal, or when the object is destroyed.
    signalOf(options) {
      return AbortSignal.any([this.#destroyer.signal, options?.signal].filter(Boolean));
    }

    get inputQuota() {
      return Infinity;
    }

    async measureInputUsage(_input, options) {
      this.signalOf(options).throwIfAborted();
      return 0;
    }

    destroy() {
      this.#destroyer.abort(new DOMException("it was destroyed", "AbortError"));
    }
  }

  class Translator extends Model {
    #languages;

    constructor(proof, tags, languages) {
      super(proof);
      this.#languages = languages;
      for (const [name, value] of Object.entries(tags)) Object.defineProperty(this, name, { value, enumerable: true });
    }

    static async availability(options) {
      const source = required(options, "sourceLanguage");
      const target = required(options, "targetLanguage");
      const found = await direction(source, target).catch(() => undefined);
      return found ? "available" : "unavailable";
    }

    static async create(options) {
      const sourceLanguage = required(options, "sourceLanguage");
      const targetLanguage = required(options, "targetLanguage");
      options.signal?.throwIfAborted();
      const languages = await direction(sourceLanguage, targetLanguage, options.signal);
      if (!languages) {
        throw failure("NotSupportedError", `${sourceLanguage} is not translated into ${targetLanguage} here`);
      }
      watch(options);
      return new Translator(OURS, { sourceLanguage, targetLanguage }, languages);
    }

    async translate(input, options) {
      const text = String(input);
      const signal = this.signalOf(options);
      signal.throwIfAborted();
      if (!text.trim()) return text;
      const { translations } = await ask("translate", { text, ...this.#languages }, signal);
      return translations[0].text;
    }

    translateStreaming(input, options) {
      const text = String(input);
      const left = new AbortController();
      const signal = AbortSignal.any([this.signalOf(options), left.signal]);
      const parts = text.trim() ? deltas({ text, ...this.#languages }, signal) : [text].values();
      return new ReadableStream({
        async pull(controller) {
          try {
            signal.throwIfAborted();
            const { value, done } = await parts.next();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            controller.error(error);
          }
        },
        cancel(reason) {
          left.abort(reason);
        },
      });
    }
  }

  class LanguageDetector extends Model {
    constructor(proof, expected) {
      super(proof);
      Object.defineProperty(this, "expectedInputLanguages", { value: expected, enumerable: true });
    }

    static async #expected(options, signal) {
      const tags = Array.from(options?.expectedInputLanguages ?? [], canonical);
      const sources = [...new Set((await pairs(signal)).map((pair) => pair.source))];
      return { tags, isServed: tags.every((tag) => served(tag, sources)) };
    }

    static async availability(options) {
      Array.from(options?.expectedInputLanguages ?? [], canonical);
      const found = await LanguageDetector.#expected(options).catch(() => undefined);
      return found?.isServed ? "available" : "unavailable";
    }

    static async create(options) {
      options?.signal?.throwIfAborted();
      const { tags, isServed } = await LanguageDetector.#expected(options, options?.signal);
      if (!isServed) throw failure("NotSupportedError", "a language is not detected here");
      watch(options);
      return new LanguageDetector(OURS, options?.expectedInputLanguages ? Object.freeze(tags) : null);
    }

    async detect(input, options) {
      const text = String(input);
      const signal = this.signalOf(options);
      signal.throwIfAborted();
      if (!text.trim()) return [{ detectedLanguage: "und", confidence: 1 }];
      const { detections } = await ask("detect", { text }, signal);
      const [{ language, probability }] = detections;
      return [
        { detectedLanguage: language, confidence: probability },
        { detectedLanguage: "und", confidence: 1 - probability },
      ];
    }
  }

  for (const [name, value] of Object.entries({ Translator, LanguageDetector })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
}
