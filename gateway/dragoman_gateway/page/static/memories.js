// Translation memories stored on the server: each is made from files, and one is used at a time.

import { ask } from "./api.js";
import { announce, byId, element, iconButton } from "./dom.js";
import { languageName, number, say } from "./strings.js";
import { keep, recall } from "./storage.js";

let memories = [];
let chosen = recall("memory", null); // id
let languages = () => ({});
let changed = () => {};
let failed = () => {};

export function connectMemories(options) {
  ({ languages, changed, failed } = options);
  byId("memory-file").onchange = async (event) => {
    const input = event.target;
    const [file] = input.files;
    input.disabled = true;
    if (file) await upload(file);
    input.value = "";
    input.disabled = false;
  };
}

// Returns the option of a request for the chosen memory, unless that is for other languages.
export function memoryOptions() {
  const { source, target } = languages();
  const memory = memories.find(({ id }) => id === chosen);
  const fits = memory?.target_language === target && (!source || memory.source_language === source);
  return fits ? { memory_id: chosen } : {};
}

export async function loadMemories() {
  try {
    ({ memories } = await ask("memories"));
  } catch (error) {
    memories = [];
    if (error.status >= 500 || error.code === "offline") failed(error);
  }
  showMemories();
}

function showMemories() {
  const none = { id: null, name: say("memory_none") };
  const current = memories.some(({ id }) => id === chosen) ? chosen : null;
  const items = [none, ...memories].map((memory) => {
    const tick = element("input", { type: "radio", name: "memory", checked: memory.id === current });
    tick.onchange = () => {
      use(memory.id);
      showUse();
      changed();
    };
    const item = element("li", {}, element("label", { className: "tick" }, tick, element("bdi", {}, memory.name)));
    if (memory.id) {
      const direction = `${languageName(memory.source_language)} → ${languageName(memory.target_language)}`;
      const count = say("memory_segments", { number: number(memory.segment_count) });
      const remove = iconButton("clear", say("remove_named", { name: memory.name }), () => removeMemory(memory));
      item.append(element("span", { className: "note" }, `${direction}, ${count}`), remove);
    }
    return item;
  });
  byId("memory-list").replaceChildren(...items);
  showUse();
}

// Shows whether a memory is used for these languages.
export function showUse() {
  byId("memory-number").hidden = !memoryOptions().memory_id;
  byId("memory-number").textContent = number(1);
}

function use(id) {
  chosen = id;
  keep("memory", id ?? undefined);
}

// A file with the name of a memory is added to that.
async function upload(file) {
  const { source, target } = languages();
  if (!source) return failed({ message: say("save_language") });
  const direction = { source_language: source, target_language: target };
  const fits = (memory) => memory.source_language === source && memory.target_language === target;
  const form = new FormData();
  form.append("file", file, file.name);
  try {
    await loadMemories(); // others may have changed them
    const known = memories.find((memory) => memory.name === file.name && fits(memory));
    const { id } = known ?? (await ask("memories", { body: { name: file.name, ...direction } }));
    try {
      await ask(`memories/${id}/import`, { form });
    } catch (error) {
      if (!known) await ask(`memories/${id}`, { method: "DELETE" });
      throw error;
    }
    use(id);
    await loadMemories();
    changed();
    announce(file.name);
  } catch (error) {
    failed(error);
  }
}

async function removeMemory({ id, name }) {
  if (!confirm(say("memory_remove_sure", { name }))) return;
  try {
    await ask(`memories/${id}`, { method: "DELETE" });
    await loadMemories();
    changed();
  } catch (error) {
    failed(error);
  }
}
