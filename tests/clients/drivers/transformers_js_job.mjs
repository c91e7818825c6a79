// What a job does in transformers.js, in Node.js and in a browser alike.

export async function result(library, job) {
  const options = { dtype: job.dtype ?? "fp32", ...job.load };
  if (job.ids) return { result: await generated(library, job, options) };
  if (job.feeds) return fed(library, job, options);
  if (job.prompts) return masks(library, job, options);
  if (job.texts) return { result: await tokens(library, job) };
  const words = job.arguments.map((each) => argument(library, each));
  const pipe = await library.pipeline(job.pipeline, job.model, options);
  if (job.vocoder) {
    pipe.vocoder = await vocoderOf(library, job, options);
    pipe.processor ??= await library.AutoProcessor.from_pretrained(job.model);
  }
  const inputs = job.processed ? await pipe.processor(words[0]) : {};
  return { result: plain(await pipe(...words)), inputs: plain(inputs) };
}

// The tokens of each text, without those that stand for its ends.
async function tokens(library, job) {
  const tokenizer = await library.AutoTokenizer.from_pretrained(job.model);
  return job.texts.map((text) => tokenizer.encode(text, { add_special_tokens: false }));
}

// What a model gives for tensors; with options, the tokens that it writes for them.
async function fed(library, job, options) {
  const model = await loaded(library, job, options);
  const feeds = Object.entries(job.feeds).map(([name, each]) => [name, tensor(library, each)]);
  const inputs = Object.fromEntries(feeds);
  const given = await called(library, job, options, model, inputs);
  await model.dispose();
  return { result: plain(given) };
}

async function called(library, job, options, model, inputs) {
  if (!job.options) return model(inputs);
  if (!job.vocoder) return model.generate({ ...inputs, ...job.options });
  const vocoder = await vocoderOf(library, job, options);
  return model.generate_speech(inputs.input_ids, inputs.speaker_embeddings, { ...job.options, vocoder });
}

// The file of a folder that makes a sound of a spectrogram.
function vocoderOf(library, job, options) {
  return library.SpeechT5HifiGan.from_pretrained(job.model, { ...options, model_file_name: job.vocoder });
}

// The model of the first of some classes that knows its type.
async function loaded(library, job, options) {
  for (const name of job.classes.slice(0, -1)) {
    const model = await library[name].from_pretrained(job.model, options).catch((error) => {
      if (!error.message.startsWith("Unsupported model type")) throw error;
    });
    if (model) return model;
  }
  return library[job.classes.at(-1)].from_pretrained(job.model, options);
}

export function tensor(library, { type, dims, data }) {
  const values = type === "int64" ? data.map(BigInt) : data;
  return new library.Tensor(type, values, dims);
}

// The tokens that a decoder adds to some tokens.
async function generated(library, job, options) {
  const model = await library.AutoModelForCausalLM.from_pretrained(job.model, options);
  const ids = new library.Tensor("int64", BigInt64Array.from(job.ids.map(BigInt)), [1, job.ids.length]);
  const attention_mask = library.ones_like(ids);
  const text = await model.generate({ inputs: ids, attention_mask, ...job.options });
  return text.tolist()[0].slice(job.ids.length).map(Number);
}

// The masks that a model of Segment Anything makes of an image and points.
async function masks(library, job, options) {
  const model = await library.AutoModelForMaskGeneration.from_pretrained(job.model, options);
  const processor = await library.AutoProcessor.from_pretrained(job.model);
  const inputs = await processor(argument(library, job.arguments[0]), job.prompts);
  return { result: plain(await model(inputs)), inputs: plain(inputs) };
}

function argument(library, value) {
  if (value?.image) {
    const { data, width, height } = value.image;
    return new library.RawImage(Uint8ClampedArray.from(data), width, height, 3);
  }
  if (value?.numbers) return Float32Array.from(value.numbers);
  if (value?.speaker) return { speaker_embeddings: Float32Array.from(value.speaker) };
  return value;
}

// A value of the library in terms of JSON: tensors, images and sounds as their numbers.
export function plain(value) {
  if (value === null || typeof value !== "object") return typeof value === "bigint" ? Number(value) : value;
  if (ArrayBuffer.isView(value)) return Array.from(value, Number);
  if (value.dims && value.data) return { dims: [...value.dims], data: Array.from(value.data, Number) };
  if (value.sampling_rate && value.audio) return { audio: plain(value.audio), sampling_rate: value.sampling_rate };
  if (value.width && value.data) return { dims: [value.height, value.width], data: Array.from(value.data) };
  if (Array.isArray(value)) return value.map(plain);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]));
}
