// Translates the page that it runs in. translator.html makes a bookmark of it.
// The words of a paragraph are sent with the positions of its elements, which stay the page's own:
// they are moved to the positions in the translation, and no markup is read.

(async (api, target, key) => {
  const SKIPPED = "script, style, noscript, template, textarea, input, select, button[disabled], pre, svg, math, " +
    "canvas, iframe, object, video, audio, [translate=no], .notranslate, [contenteditable]";
  const KEPT = `code, kbd, samp, var, ${SKIPPED}`;
  const BREAK = "\u2028";
  const TEXTS = 40; // in a request
  const AT_ONCE = 4;
  const LETTER = /\p{L}/u;

  const isInline = (node) =>
    node.nodeType === Node.TEXT_NODE ||
    (node.nodeType === Node.ELEMENT_NODE &&
      getComputedStyle(node).display.startsWith("inline") &&
      [...node.children].every(isInline));

  // Paragraphs: runs of inline nodes that have letters.
  function* runs(element) {
    if (element.matches(KEPT)) return;
    let run = [];
    const take = () => {
      const found = run;
      run = [];
      return found.some((node) => LETTER.test(node.textContent)) ? found : null;
    };
    for (const node of [...element.childNodes]) {
      if (isInline(node)) {
        run.push(node);
      } else if (node.nodeType === Node.ELEMENT_NODE) {
        const found = take();
        if (found) yield found;
        yield* runs(node);
      }
    }
    const found = take();
    if (found) yield found;
  }

  // The text of a run without white space at its ends, and the elements in it. Offsets count code points.
  function read(nodes) {
    const found = { nodes, points: [], codes: [], keep: [], elements: [] };
    const isSpace = () => !found.points.length || found.points.at(-1) === " " || found.points.at(-1) === BREAK;
    const visit = (node, parent) => {
      if (node.nodeType === Node.TEXT_NODE) {
        for (const point of node.data) {
          if (!/\s/.test(point)) found.points.push(point);
          else if (!isSpace()) found.points.push(" ");
        }
      } else if (node.nodeType === Node.ELEMENT_NODE) {
        const number = found.codes.length;
        const begin = found.points.length;
        const code = parent === null ? [begin, begin] : [begin, begin, parent];
        found.codes.push(code);
        found.elements.push(node);
        if (node.localName === "br") found.points.push(BREAK);
        else if (node.matches(KEPT)) found.points.push(...node.textContent.trim());
        else for (const child of node.childNodes) visit(child, number);
        code[1] = found.points.length;
        if (node.matches(KEPT) && code[1] > begin) found.keep.push([begin, code[1]]);
      }
    };
    for (const node of nodes) visit(node, null);
    if (found.points.at(-1) === " ") found.points.pop();
    for (const span of [...found.codes, ...found.keep]) {
      for (const side of [0, 1]) span[side] = Math.min(span[side], found.points.length);
    }
    return found;
  }

  // Puts a translation in the place of a run; its elements are moved.
  function write({ nodes, elements, codes: sent }, text, codes) {
    const points = Array.from(text);
    const children = new Map();
    sent.forEach(([, , parent], number) => {
      const key = parent ?? null;
      children.set(key, [...(children.get(key) ?? []), number]);
    });
    const fill = (holder, begin, end, parent) => {
      const inside = (children.get(parent) ?? []).sort((one, other) => codes[one][0] - codes[other][0] || one - other);
      let at = begin;
      const say = (until) => {
        if (until > at) holder.append(points.slice(at, until).join(""));
        at = Math.max(at, until);
      };
      for (const number of inside) {
        const [from, to] = codes[number];
        say(from);
        const element = elements[number];
        holder.append(element);
        if (element.localName !== "br" && !element.matches(KEPT)) {
          element.replaceChildren();
          fill(element, from, to, number);
        }
        at = Math.max(at, to);
      }
      say(end);
    };
    const whole = nodes.map((node) => node.textContent).join("");
    const mark = document.createComment("");
    nodes[0].before(mark);
    const translated = document.createDocumentFragment();
    for (const node of nodes) if (node.nodeType === Node.TEXT_NODE) node.remove();
    if (/^\s/.test(whole)) translated.append(" ");
    fill(translated, 0, points.length, null);
    if (/\s$/.test(whole)) translated.append(" ");
    mark.replaceWith(translated);
  }

  async function ask(batch) {
    const body = {
      text: batch.map((one) => one.points.join("")),
      markup: batch.map(({ codes, keep }) => ({ codes, keep })),
      source_language: "auto",
      target_language: target,
    };
    const headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
    const answer = await fetch(`${api}translate`, {
      method: "POST", headers, body: JSON.stringify(body), credentials: "omit",
    });
    const found = await answer.json();
    if (answer.ok) {
      found.translations.forEach((one, index) => write(batch[index], one.text, one.codes?.codes ?? []));
      return;
    }
    // A paragraph in a language that is not translated stays as it is.
    const index = found.error?.text_index;
    if (index === undefined) throw new Error(found.error?.message ?? answer.statusText);
    const rest = batch.filter((_, number) => number !== index);
    if (rest.length) await ask(rest);
  }

  const all = [...runs(document.body)].map(read);
  const batches = [];
  for (let at = 0; at < all.length; at += TEXTS) batches.push(all.slice(at, at + TEXTS));
  try {
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (let batch = batches.shift(); batch; batch = batches.shift()) await ask(batch);
      }),
    );
    document.documentElement.lang = target;
  } catch (error) {
    alert(`Dragoman: ${error.message}`);
  }
})("API", "TARGET", "KEY");
