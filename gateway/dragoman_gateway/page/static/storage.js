// What the browser keeps. A browser may refuse to keep anything: then nothing is kept.

const PREFIX = "dragoman.";

export function recall(name, otherwise, storage = "localStorage") {
  try {
    const found = window[storage].getItem(PREFIX + name);
    return found === null ? otherwise : JSON.parse(found);
  } catch {
    return otherwise;
  }
}

export function keep(name, value, storage = "localStorage") {
  try {
    if (value === undefined) window[storage].removeItem(PREFIX + name);
    else window[storage].setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // It is full, or switched off: the page works without.
  }
}
