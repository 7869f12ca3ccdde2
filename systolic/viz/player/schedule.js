// The tiles of the matmul through memory and array, and the matmul among the rows of its model.
"use strict";
const CAUSES = {
  preload: "weights shift in before the first words", fill: "the array fills: not every PE has work yet",
  compute: "a word enters in every cycle", drain: "the last sums find their way out",
  weight_load: "the array waits while the next weights shift in", stall_dram: "the array waits for main memory",
  stall_onchip: "the array waits for the port of the on-chip memory", stall_bank: "two words want the same bank of the on-chip memory",
};
function causeColour(cause) { return `var(--${cause})`; }
function causeBadge(cause) { return `background:${causeColour(cause)};color:${cause.startsWith("stall") ? "#fff" : "#10151b"}`; }

class TilesView {
  constructor(run, onTime) {
    this.run = run; this.slices = run.slices;
    const units = [...new Set(this.slices.map((s) => s.unit))].sort((a, b) => (a === "array") - (b === "array"));
    const width = 1000, lane = 46, height = units.length * lane + 34;
    this.end = run.slicesEnd; this.left = 78; this.scale = (width - this.left - 8) / Math.max(1, this.end);
    this.svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Schedule of memory ports and array" });
    units.forEach((unit, i) => {
      this.svg.append(make("text", { x: 4, y: i * lane + 22, text: unit === "array" ? "array" : `${unit} port` }));
      for (const s of this.slices.filter((s) => s.unit === unit && s.stop > s.start)) {
        const fill = unit === "array" ? causeColour(s.cause) : s.operand === "lhs" ? "var(--a)" : s.operand === "rhs" ? "var(--b)" : "var(--s)";
        const bar = make("rect", { x: this.left + s.start * this.scale, y: i * lane + 6, width: Math.max(0.6, (s.stop - s.start) * this.scale - 0.3), height: lane - 14, rx: 2, style: `fill:${fill}` });
        bar.append(make("title", { text: this.words(s) }));
        bar.addEventListener("click", () => onTime(s.start));
        this.svg.append(bar);
      }
    });
    const base = units.length * lane + 14;
    for (let i = 0; i <= 5; i++) {
      const at = Math.round((this.end * i) / 5);
      this.svg.append(make("text", { x: this.left + at * this.scale, y: base, style: `text-anchor:${i === 5 ? "end" : "middle"}`, text: grouped(at) }));
    }
    this.cursor = make("line", { class: "cursor", y1: 0, y2: base - 10 });
    this.svg.append(this.cursor);
    this.doing = make("dl", { class: "doing" });
    this.units = units;
    const note = this.end < run.totalCycles ? `The schedule's first ${grouped(this.end)} of ${grouped(run.totalCycles)} cycles. ` : "";
    const free = this.slices.filter((s) => s.unit !== "array").every((s) => s.stop === s.start);
    this.node = make("div", { class: "gantt" },
      make("p", { text: `${note}${run.mapping}${free ? " Memory is unlimited here, so that transfers take no time." : ""}` }), this.svg, this.doing);
  }
  words(s) {
    const cycles = `cycles ${grouped(s.start + 1)} to ${grouped(s.stop)}`;
    return s.unit === "array" ? `${s.cause}, ${s.name}: ${cycles}` : `${s.name}, ${bytes(s.bytes)}: ${cycles}`;
  }
  render(cycle) {
    const at = Math.max(0, Math.min(cycle, this.end) - 0.5);
    this.cursor.setAttribute("x1", this.left + at * this.scale); this.cursor.setAttribute("x2", this.left + at * this.scale);
    this.doing.replaceChildren(...this.units.flatMap((unit) => {
      const now = this.slices.filter((s) => s.unit === unit && s.start < cycle && cycle <= s.stop);
      return [make("dt", { text: unit }), make("dd", { text: now.map((s) => this.words(s)).join("; ") || "idle" })];
    }));
  }
}

function modelView(model, layer) {
  const longest = Math.max(...model.rows.map((row) => row.each));
  const head = make("tr", {}, ...["op", "shape", "cycles", "", "bound by"].map((text, i) => make("th", { text, class: i === 2 ? "number" : i === 1 ? "wide" : "" })));
  const rows = model.rows.map((row) => make("tr", { class: `${row.kind}${row.chosen ? " chosen" : ""}` },
    make("td", { text: row.name }), make("td", { text: row.shape, class: "wide" }), make("td", { class: "number", text: grouped(Math.round(row.each)) }),
    make("td", { class: "bar" }, make("i", { style: `width:${(100 * row.each) / longest}%` })), make("td", { text: row.bound })));
  return make("div", { class: "rows" }, make("p", { text: model.words }), make("table", {}, head, ...rows));
}
