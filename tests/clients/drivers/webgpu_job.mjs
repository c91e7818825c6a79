// The outputs of `model.onnx` on WebGPU for each step, which takes what is fed back from the step before it, and the
// operators that run with each provider.

import * as ort from "onnxruntime-web/webgpu";
import { plain, tensor } from "./transformers_js_job.mjs";

const METHODS = ["debug", "error", "info", "log", "warn"];
const OPTIONS = { executionProviders: ["webgpu"], logSeverityLevel: 0, logVerbosityLevel: 1 };

export async function result(_, { steps, feedback }) {
  if (!(await navigator.gpu?.requestAdapter())) throw new Error("WebGPU has no adapter");
  const lines = [];
  for (const name of METHODS) console[name] = (...words) => lines.push(words.join(" "));
  const session = await ort.InferenceSession.create("/models/model/model.onnx", OPTIONS);
  const answers = [];
  let past = {};
  for (const step of steps) {
    const inputs = Object.entries(step).map(([name, each]) => [name, tensor(ort, each)]);
    const outputs = await session.run({ ...Object.fromEntries(inputs), ...past });
    past = Object.fromEntries(Object.entries(feedback).map(([output, input]) => [input, outputs[output]]));
    answers.push(plain({ ...outputs }));
  }
  return { result: answers, placed: placed(lines) };
}

// The operators of each provider, from the lines that a session prints about where its nodes run.
function placed(lines) {
  const operators = {};
  let provider;
  for (const line of lines.filter((each) => each.includes("VerifyEachNodeIsAssignedToAnEp]"))) {
    provider = line.match(/placed on \[(\w+)\]/)?.[1] ?? provider;
    if (provider) (operators[provider] ??= []).push(...(line.match(/(?<=\]\s+)\w+(?= \()/) ?? []));
  }
  return operators;
}
