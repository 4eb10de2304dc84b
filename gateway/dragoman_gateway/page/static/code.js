// The current request as code samples, which never contain the key.

import { API, hasKey } from "./api.js";

const shellQuoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const python = (value) => JSON.stringify(value).replaceAll(/[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, escaped);
const escaped = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;

export function curlOf(request) {
  const lines = [`curl -s ${new URL("translate", API)}`, `-H 'Content-Type: application/json'`];
  if (hasKey()) lines.push(`-H "Authorization: Bearer $DRAGOMAN_KEY"`);
  const body = JSON.stringify(request).replaceAll(/[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, escaped);
  lines.push(`-d ${shellQuoted(body)}`);
  return lines.join(" \\\n  ");
}

export function pythonOf(request) {
  return request.format || request.memory_id ? pythonOfRequest(request) : pythonOfClient(request);
}

// The Python client has no method for texts in a format, or for memories of the server.
function pythonOfRequest(request) {
  const given = Object.entries(request).map(([name, value]) => `        ${python(name)}: ${python(value)},\n`);
  const key = hasKey() ? `    headers={"Authorization": f"Bearer {os.environ['DRAGOMAN_KEY']}"},\n` : "";
  return (
    `${hasKey() ? "import os\n\n" : ""}import requests\n\n` +
    `answer = requests.post(\n    ${python(new URL("translate", API).href)},\n${key}` +
    `    json={\n${given.join("")}    },\n)\n` +
    `answer.raise_for_status()\nprint(answer.json()["translations"][0]["text"])\n`
  );
}

function pythonOfClient({ text, ...options }) {
  const url = new URL("../..", API).href.replace(/\/$/, "");
  const given = Object.entries(options).map(([name, value]) => `        ${name}=${python(value)},\n`);
  const imports = hasKey() ? "import os\n\n" : "";
  const key = hasKey() ? `, api_key=os.environ["DRAGOMAN_KEY"]` : "";
  return (
    `${imports}from dragoman_client import Translator\n\n` +
    `with Translator(${python(url)}${key}) as translator:\n` +
    `    translation = translator.translate(\n        ${python(text)},\n${given.join("")}    )\n` +
    `    print(translation.text)\n`
  );
}
