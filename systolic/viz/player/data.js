// The recorded run: nothing here computes a register, everything is looked up.
"use strict";
const TOKEN = 1, REAL = 2;
const TYPES = { f4: Float32Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array };

async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

class Run {
  static async of(packed) {
    const run = Object.assign(new Run(), packed);
    const buffer = await unpack(packed.blob);
    run.parts = {};
    for (const { name, type, shape, offset } of packed.parts) {
      const size = shape.reduce((all, side) => all * side, 1);
      run.parts[name] = { shape, data: new TYPES[type](buffer, offset, size) };
    }
    run.causeAt = packed.causes.flatMap(([cause, count]) => Array(count).fill(cause));
    run.first = new Map();
    return run;
  }
  has(name) { return name in this.parts; }
  // An element of a part; 0 outside of the time recorded.
  at(name, ...index) {
    const { shape, data } = this.parts[name];
    let place = 0;
    for (let i = 0; i < shape.length; i++) {
      if (index[i] < 0 || index[i] >= shape[i]) return 0;
      place = place * shape[i] + index[i];
    }
    return data[place];
  }
  clip(cycle) { return Math.min(cycle, this.cycles); }
  get isOs() { return this.dataflow === "os"; }
  // Whether PE (r, c) holds a word that moves right, an operand, a live weight, and multiplies.
  moves(t, l, r, c) { return (this.at("flags", t, l, r, c) & TOKEN) !== 0; }
  valid(t, l, r, c) { return this.at("valid", t, l, r, c) !== 0; }
  held(t, l, r, c) {
    return this.isOs ? (this.at("weight_flags", t, l, r, c) & REAL) !== 0 : this.at("weight_real", t, r, c) !== 0;
  }
  weight(t, l, r, c) { return this.isOs ? this.at("weight", t, l, r, c) : this.at("weight", t, r, c); }
  psum(t, l, r, c) { return this.isOs ? this.at("psum", t, r, c) : this.at("psum", t, l, r, c); }
  busy(t, r, c) {
    for (let l = 0; l < this.lanes; l++) if (this.valid(t, l, r, c) && this.held(t, l, r, c)) return true;
    return false;
  }
  lanesOf(read) { return Array.from({ length: this.lanes }, (_, l) => read(l)); }
  // What has left by cycle t: place "row,col" of C -> [sum, is finished].
  results(t) {
    const cycle = this.parts.leaving_cycle, out = new Map();
    for (let i = 0; i < cycle.data.length && cycle.data[i] <= t; i++) {
      if (this.parts.leaving_batch.data[i] !== 0) continue;
      const key = `${this.parts.leaving_row.data[i]},${this.parts.leaving_col.data[i]}`;
      const before = out.get(key);
      out.set(key, [this.parts.leaving_sum.data[i], (before ? before[1] : 0) + 1]);
    }
    return out;
  }
}

function short(value) {
  if (Number.isInteger(value)) return String(value);
  const digits = Math.abs(value) >= 1000 || Math.abs(value) < 0.01 ? value.toExponential(1) : value.toPrecision(3);
  return digits;
}
function full(value) { return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(9))); }
function grouped(value) { return String(value).replace(/\B(?=(\d{3})+$)/g, ","); }
function bytes(count) {
  return count < 10240 ? `${grouped(count)} B` : count < 10485760 ? `${(count / 1024).toFixed(1)} KiB` : `${(count / 1048576).toFixed(1)} MiB`;
}

function make(tag, options = {}, ...children) {
  const svg = ["svg", "g", "rect", "text", "line", "path", "circle", "title"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
