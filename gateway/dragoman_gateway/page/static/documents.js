// Documents: files are chosen or dropped, translated in the background, and downloaded.

import { ask, askFile } from "./api.js";
import { announce, byId, element, iconButton, save } from "./dom.js";
import { described } from "./notice.js";
import { bytes, number, percent, say } from "./strings.js";
import { keep, recall } from "./storage.js";

const WAIT_S = 2;
const PAUSE_MS = 300;
const RETRY_MS = 3000;
const ENDED = new Set(["done", "failed", "cancelled"]);
const COMPARED = /\.(txt|md|markdown|srt|vtt|properties|strings|pot?|json|arb|ya?ml)$/i;
const MOST_COMPARED_BYTES = 1 << 20;
let options = () => ({});
let needsKey = () => {};
let limits = { formats: [], fileBytes: null };
const shown = new Set(); // ids of the jobs with a row
let underWay = 0;

export function connectDocuments({ requestOptions, open, onKeyNeeded }) {
  options = requestOptions;
  needsKey = onKeyNeeded;
  byId("file").onchange = (event) => {
    submitAll(event.target.files);
    event.target.value = "";
  };
  let depth = 0;
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  const show = (isOver) => (byId("dropping").hidden = !isOver);
  addEventListener("dragenter", (event) => hasFiles(event) && show(++depth > 0));
  addEventListener("dragleave", (event) => hasFiles(event) && show(--depth > 0));
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    show((depth = 0));
    open();
    submitAll(event.dataTransfer.files);
  });
}

export function setLimits(formats, fileBytes) {
  limits = { formats, fileBytes };
  const parts = [formats.join(", ")];
  if (fileBytes) parts.push(say("file_most", { size: bytes(fileBytes) }));
  byId("formats").textContent = parts.filter(Boolean).join(" · ");
  byId("file").accept = formats.join(",");
}

function submitAll(files) {
  for (const file of files) submit(file);
}

// Only jobs of this tab are listed: other users without a key may have jobs too.
const ids = () => recall("jobs", [], "sessionStorage");
const setIds = (all) => keep("jobs", all, "sessionStorage");
const dropId = (id) => setIds(ids().filter((one) => one !== id));

export function resume() {
  for (const id of ids().filter((one) => !shown.has(one))) {
    shown.add(id);
    ask(`documents/${id}`)
      .then((job) => follow(job, new Row(job.file_name)))
      .catch((error) => {
        shown.delete(id);
        if (error.status === 404) dropId(id); // it has expired
      });
  }
}

class Row {
  constructor(name) {
    this.name = element("bdi", { className: "name" }, name);
    this.state = element("p", { className: "state" });
    this.progress = element("progress", { max: 1 });
    this.progress.setAttribute("aria-label", name);
    this.actions = element("span", { className: "do" });
    this.item = element("li", {}, this.name, this.actions, this.state, this.progress);
    byId("jobs").prepend(this.item);
  }

  show(text, isWrong = false) {
    this.state.textContent = text;
    this.state.classList.toggle("wrong", isWrong);
  }

  fail(error, remove = () => this.item.remove()) {
    this.progress.remove();
    this.show(described(error), true);
    this.actions.replaceChildren(iconButton("clear", say("remove"), remove));
  }
}

async function submit(file) {
  const row = new Row(file.name);
  const ending = file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
  if (limits.formats.length && !limits.formats.includes(ending)) {
    return row.fail({ message: say("file_format", { formats: limits.formats.join(", ") }) });
  }
  if (limits.fileBytes && file.size > limits.fileBytes) {
    return row.fail({ message: say("file_large", { size: bytes(limits.fileBytes) }) });
  }
  const upload = new AbortController();
  row.show(say("job_sending"));
  row.actions.replaceChildren(iconButton("clear", say("cancel"), () => upload.abort()));
  const form = new FormData();
  for (const [name, value] of Object.entries(options())) {
    for (const one of Array.isArray(value) ? value : [value]) {
      form.append(name, typeof one === "object" ? JSON.stringify(one) : one);
    }
  }
  form.append("file", file, file.name);
  try {
    const job = await ask("documents", { form, signal: upload.signal });
    setIds([...ids(), job.id]);
    shown.add(job.id);
    follow(job, row, file);
  } catch (error) {
    if (upload.signal.aborted) return row.item.remove();
    row.fail(error);
    if (error.needsKey) needsKey(error);
  }
}

async function follow(job, row, file) {
  count(1);
  const left = new AbortController();
  const { signal } = left;
  row.actions.replaceChildren(
    iconButton("clear", say("cancel"), () => {
      left.abort();
      forget(job.id, row);
    }),
  );
  while (!ENDED.has(job.state)) {
    showProgress(job, row);
    try {
      job = await ask(`documents/${job.id}?wait_s=${WAIT_S}`, { signal });
      await pause(PAUSE_MS);
    } catch (error) {
      if (signal.aborted) break;
      if (!["offline", "unavailable", "too_many_requests"].includes(error.code)) {
        count(-1);
        return row.fail(error, () => forget(job.id, row));
      }
      row.show(described(error), true);
      await pause((error.retryAfter ?? 0) * 1000 || RETRY_MS);
    }
    if (signal.aborted) break;
  }
  count(-1);
  if (!signal.aborted) showEnd(job, row, file);
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function showProgress(job, row) {
  row.progress.value = job.done;
  const parts = [say(`job_${job.state}`), percent(job.done)];
  if (job.seconds_remaining != null) parts.push(say("job_left", { seconds: number(Math.ceil(job.seconds_remaining)) }));
  row.show(parts.join(" · "));
}

function showEnd(job, row, file) {
  const remove = () => forget(job.id, row);
  if (job.state !== "done") return row.fail(job.error ?? { message: say(`job_${job.state}`) }, remove);
  row.progress.value = 1;
  row.progress.remove();
  const parts = [say("job_done")];
  if (job.characters != null) parts.push(say("characters", { number: number(job.characters) }));
  for (const [why, texts] of Object.entries(job.left ?? {})) {
    parts.push(say(`left_${why}`, { number: number(texts) }));
  }
  row.show(parts.join(" · "));
  const download = element("button", { type: "button", className: "button" }, say("download"));
  download.onclick = async () => {
    try {
      save(await askFile(`documents/${job.id}/result`), job.file_name);
    } catch (error) {
      row.show(described(error), true);
      if (error.needsKey) needsKey(error);
    }
  };
  row.actions.replaceChildren(download, iconButton("clear", say("remove"), remove));
  // Only the tab that has sent a file still has it.
  if (file && file.size <= MOST_COMPARED_BYTES && COMPARED.test(job.file_name)) {
    download.after(compareButton(job, row, file));
  }
  announce(`${job.file_name}: ${say("job_done")}`);
}

function compareButton(job, row, file) {
  let table = null;
  const button = element("button", { type: "button", className: "button", "aria-expanded": "false" }, say("compare"));
  button.onclick = async () => {
    if (table) {
      table.remove();
      table = null;
    } else {
      try {
        const translation = await askFile(`documents/${job.id}/result`);
        table = sideBySide(await file.text(), await translation.text());
        row.item.append(table);
      } catch (error) {
        row.show(described(error), true);
      }
    }
    button.setAttribute("aria-expanded", String(table !== null));
  };
  return button;
}

// A table of paragraphs and their translations; if their numbers differ, of the whole texts.
function sideBySide(source, translation) {
  const texts = [source, translation];
  const [left, right] = texts.map((text) => text.replaceAll("\r\n", "\n").split(/\n(?:[ \t]*\n)+/));
  const rows = left.length === right.length ? left.map((text, index) => [text, right[index]]) : [texts];
  const cells = (row) => row.map((text) => element("td", { dir: "auto" }, text));
  const table = element("table", { className: "beside" }, ...rows.map((row) => element("tr", {}, ...cells(row))));
  table.setAttribute("aria-label", say("compare"));
  return table;
}

async function forget(id, row) {
  row.item.remove();
  dropId(id);
  await ask(`documents/${id}`, { method: "DELETE" }).catch(() => {}); // it expires by itself
}

function count(change) {
  underWay += change;
  byId("documents-number").hidden = !underWay;
  byId("documents-number").textContent = number(underWay);
}
