// Elements of the page. All texts are set as text: the page's security policy forbids setting HTML.

export function byId(id) {
  return document.getElementById(id);
}

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("data-") || key.startsWith("aria-")) {
      made.setAttribute(key, value);
    } else {
      made[key] = value;
    }
  }
  made.append(...children);
  return made;
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

export function iconButton(name, label, action) {
  const made = element("button", { type: "button", className: "icon", title: label, onclick: action });
  made.setAttribute("aria-label", label);
  made.append(icon(name));
  return made;
}

// Announces a text to screen readers when they are idle.
export function announce(text) {
  const said = byId("said");
  said.textContent = "";
  requestAnimationFrame(() => (said.textContent = text));
}

// Copies text, even if the page is not a secure context and has no clipboard API.
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const carrier = element("textarea", { value: text, className: "away" });
  document.body.append(carrier);
  carrier.select();
  const isCopied = document.execCommand("copy");
  carrier.remove();
  if (!isCopied) throw new Error("the browser does not copy");
}

// Shows briefly on a button that its action is done.
export function tick(button, label) {
  const use = button.querySelector("use");
  const was = use.getAttribute("href");
  if (was === "#i-done") return;
  use.setAttribute("href", "#i-done");
  button.classList.add("good");
  announce(label);
  setTimeout(() => {
    use.setAttribute("href", was);
    button.classList.remove("good");
  }, 1500);
}

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
