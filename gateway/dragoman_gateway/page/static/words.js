// Words of a text and of its translation: positions, alignments and probabilities.

// White space as in Python's str.split, which the server uses to count words.
const WORD = /[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;
const BYTE = /^<0x([0-9A-F]{2})>$/;
const END = "</s>";
const SHARE = 0.25;

export function splitWords(text) {
  return Array.from(text.matchAll(WORD), (found) => ({
    start: found.index,
    end: found.index + found[0].length,
    sources: [],
    logProb: null,
  }));
}

// Returns the words of a translation, each with its source words and the lowest log-probability of its tokens.
export function detailedWords(text, answer) {
  const words = splitWords(text);
  for (const link of (answer.alignments ?? "").split(" ")) {
    const [src, tgt] = link.split("-").map(Number);
    if (words[tgt] && Number.isInteger(src)) words[tgt].sources.push(src);
  }
  const scores = answer.token_scores;
  if (scores) addLogProbs(text, words, scores.tokens, scores.log_probs);
  return words;
}

// The tokens must spell the words in order; otherwise no word gets a log-probability.
function addLogProbs(text, words, tokens, logProbs) {
  const letters = words.flatMap(({ start, end }, word) =>
    Array.from(text.slice(start, end), (letter) => ({ letter, word })),
  );
  const found = words.map(() => 0);
  let place = 0;
  let bytes = [];
  for (const [index, token] of tokens.entries()) {
    if (token === END) continue;
    const byte = BYTE.exec(token);
    let piece = token.replaceAll("▁", "");
    if (byte) {
      bytes.push(parseInt(byte[1], 16));
      piece = decoded(bytes);
      if (piece !== "") bytes = [];
    }
    const word = letters[Math.min(place, letters.length - 1)]?.word;
    if (word === undefined) return;
    found[word] = Math.min(found[word], logProbs[index]);
    for (const letter of piece.replace(/\s/g, "")) {
      if (letters[place]?.letter !== letter) return;
      place += 1;
    }
  }
  if (place === letters.length) words.forEach((word, index) => (word.logProb = found[index]));
}

function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array(bytes));
  } catch {
    return ""; // an incomplete character
  }
}

function sentences(text, language) {
  if (!Intl.Segmenter) return text ? [{ start: 0, end: text.length }] : [];
  const found = [];
  for (const { segment, index } of segmenter(language).segment(text)) {
    const start = index + segment.length - segment.trimStart().length;
    if (segment.trim()) found.push({ start, end: index + segment.trimEnd().length });
  }
  return found;
}

function segmenter(language) {
  try {
    return new Intl.Segmenter(language, { granularity: "sentence" });
  } catch {
    return new Intl.Segmenter(undefined, { granularity: "sentence" });
  }
}

// Returns pairs of one or more sentences of the text and their translations, by the word alignment.
// Two sentences are in one pair if at least a quarter of the links of one go to the other.
export function sentencePairs(source, sourceLanguage, target, targetLanguage, words) {
  const from = sentences(source, sourceLanguage);
  const to = sentences(target, targetLanguage);
  if (!from.length || !to.length) return [];
  const sourceWords = splitWords(source);
  const at = sourceWords.map((word) => from.findIndex(({ end }) => word.start < end));
  const ranges = to.map((sentence, index) => {
    const inside = words.filter((word) => word.start >= sentence.start && word.start < sentence.end);
    const linked = inside.flatMap((word) => word.sources.map((src) => at[src])).filter((one) => one >= 0);
    const counts = new Map();
    for (const one of linked) counts.set(one, (counts.get(one) ?? 0) + 1);
    const many = [...counts].filter(([, count]) => count >= SHARE * linked.length).map(([one]) => one);
    const even = Math.min(from.length - 1, index);
    return many.length ? [Math.min(...many), Math.max(...many)] : [even, even];
  });
  const pairs = [];
  for (const [index, [first, last]] of ranges.entries()) {
    const before = pairs.at(-1);
    if (before && first <= before.last) {
      before.last = Math.max(before.last, last);
      before.to = index;
    } else {
      if (before) before.last = Math.max(before.last, first - 1);
      pairs.push({ first: before ? first : 0, last, from: index, to: index });
    }
  }
  pairs.at(-1).last = from.length - 1;
  return pairs.map((pair) => ({
    source: { start: from[pair.first].start, end: from[pair.last].end },
    target: { start: to[pair.from].start, end: to[pair.to].end },
  }));
}
