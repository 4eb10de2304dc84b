// Browser storage. If the browser refuses to store anything, nothing is stored.

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
    // Storage is full or disabled; the page works without it.
  }
}
