// --- the data: base64 of gzip, a header of JSON and the arrays that it names --------------------

const $ = id => document.getElementById(id);

const TYPES = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  i1: Int8Array,
  i2: Int16Array,
  i4: Int32Array,
  f4: Float32Array,
};

async function unzipped(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let n = 0; n < binary.length; n++) bytes[n] = binary.charCodeAt(n);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function readData() {
  const buffer = await unzipped($("data").textContent);
  $("data").remove();
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = new TextDecoder().decode(new Uint8Array(buffer, 8, length));
  const start = 8 + length;
  return JSON.parse(header, (_, value) => {
    if (!Array.isArray(value?.array)) return value;
    const [kind, offset, size] = value.array;
    return new TYPES[kind](buffer, start + offset, size);
  });
}

if (typeof DecompressionStream === "undefined") {
  $("about").textContent = "This page needs a browser of 2023 or later.";
  return;
}
const data = await readData();
