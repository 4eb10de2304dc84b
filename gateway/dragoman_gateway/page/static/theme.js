// Light or dark theme: the system's, unless the user chooses one.

import { byId } from "./dom.js";
import { keep, recall } from "./storage.js";
import { say } from "./strings.js";

const THEMES = ["auto", "light", "dark"];
let theme = recall("theme", "auto");

export function useTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function showTheme() {
  useTheme();
  const label = `${say("theme")}: ${say(`theme_${theme}`)}`;
  byId("theme").title = label;
  byId("theme").setAttribute("aria-label", label);
}

export function connectTheme() {
  byId("theme").onclick = () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keep("theme", theme);
    showTheme();
  };
  showTheme();
}
