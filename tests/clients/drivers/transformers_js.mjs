// transformers.js in Node.js: reads jobs from stdin, one JSON in a line, and prints a line of JSON for each.
//
// node transformers_js.mjs FOLDER, where FOLDER has node_modules

import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

import { result } from "./transformers_js_job.mjs";

console.log = console.error;
const build = join(process.argv[2], "node_modules/@huggingface/transformers/dist/transformers.node.mjs");
const library = await import(pathToFileURL(build));
library.env.allowRemoteModels = false;

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  library.env.localModelPath = dirname(job.folder);
  const done = await result(library, { ...job, model: basename(job.folder) }).catch((error) => ({ error: error.message }));
  process.stdout.write(JSON.stringify(done) + "\n");
}
