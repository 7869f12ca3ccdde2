// A loop nest's loads and stores, and the cache lines that they touch: the record replayed, access by access.
"use strict";
const inked = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

async function start() {
  const page = JSON.parse($("data").textContent);
  const buffer = await unpack(page.blob);
  const part = Object.fromEntries(page.parts.map(({ name, type, shape, offset }) => [name, new TYPES[type](buffer, offset, shape.reduce((a, b) => a * b, 1))]));
  const levels = page.levels.length - 1, last = part.level.length;
  const held = Array.from({ length: levels }, () => new Set()), found = page.levels.map(() => 0);
  let done = 0;

  // Contents of the caches, and counts, after the first t accesses.
  function replay(t) {
    if (t < done) { done = 0; found.fill(0); for (const lines of held) lines.clear(); }
    for (; done < t; done++) {
      const line = lineOf(done), level = part.level[done];
      found[level]++;
      for (let at = 0; at < Math.min(level + 1, levels); at++) {
        const gone = part.left[done * levels + at];
        if (gone) held[at].delete(gone - 1);
        held[at].add(line);
      }
    }
  }
  const lineOf = (i) => part[`lines_${page.operands[part.operand[i]].id}`][part.element[i]];
  const levelOf = (line) => { const at = held.findIndex((lines) => lines.has(line)); return at < 0 ? levels : at; };
  const state = transport({ page, last, unit: "access", units: "accesses", speeds: [2, 10, 60, 300, 1200], zooms: { lines: "Lines" }, render });
  $("span-choice").hidden = true;

  function drawMatrices() {
    const [A, B, C] = page.operands, canvas = $("matrices"), width = canvas.clientWidth, gap = 26;
    const cell = Math.max(3, Math.min(17, Math.floor((width - gap - 30) / (A.cols + B.cols)), Math.floor(620 / (A.rows + B.rows))));
    const ratio = window.devicePixelRatio || 1, high = (A.rows + B.rows) * cell + 2 * gap + 6;
    canvas.style.height = `${high}px`; canvas.width = width * ratio; canvas.height = high * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio); pen.font = "600 14px system-ui, sans-serif"; pen.textBaseline = "middle";
    const places = [[2, gap + B.rows * cell + gap], [2 + A.cols * cell + gap, gap], [2 + A.cols * cell + gap, gap + B.rows * cell + gap]];
    page.operands.forEach(({ name, rows, cols, id }, o) => {
      const [left, top] = places[o], lines = part[`lines_${id}`];
      pen.fillStyle = inked("--ink"); pen.fillText(`${name}  ${rows} × ${cols}`, left, top - 12);
      for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) {
        pen.fillStyle = page.levels[levelOf(lines[r * cols + c])].colour;
        pen.fillRect(left + c * cell, top + r * cell, cell - (cell > 5 ? 1 : 0.5), cell - (cell > 5 ? 1 : 0.5));
      }
      if (state.at === 0 || part.operand[state.at - 1] !== o) return;
      const now = part.element[state.at - 1], line = lines[now];
      pen.strokeStyle = inked("--ink"); pen.lineWidth = 1;
      for (let e = 0; e < rows * cols; e++) if (lines[e] === line) pen.strokeRect(left + (e % cols) * cell - 0.5, top + Math.floor(e / cols) * cell - 0.5, cell, cell);
      pen.lineWidth = 3; pen.strokeRect(left + (now % cols) * cell - 0.5, top + Math.floor(now / cols) * cell - 0.5, cell, cell);
    });
  }
  function drawStrip() {
    const canvas = $("strip"), width = canvas.clientWidth, ratio = window.devicePixelRatio || 1, count = Math.min(last, 240);
    canvas.style.height = "46px"; canvas.width = width * ratio; canvas.height = 46 * ratio;
    const pen = canvas.getContext("2d"), from = Math.max(0, Math.min(last - count, state.at - Math.round(count / 2)));
    pen.scale(ratio, ratio); pen.font = "12px system-ui, sans-serif";
    for (let i = 0; i < count; i++) {
      const level = part.level[from + i], high = 6 + (24 * level) / levels;
      pen.fillStyle = page.levels[level].colour;
      pen.fillRect((i * width) / count, 30 - high, Math.max(0.6, width / count - 0.8), high);
    }
    pen.strokeStyle = inked("--ink");
    if (state.at) pen.strokeRect(((state.at - 1 - from) * width) / count, 0.5, width / count, 30);
    pen.fillStyle = inked("--soft"); pen.textBaseline = "middle";
    pen.fillText(`access ${grouped(from + 1)}`, 0, 39);
    pen.textAlign = "right"; pen.fillText(grouped(from + count), width, 39);
  }
  const mark = (level) => make("i", { style: `background-color:${page.levels[level].colour}` });
  function row(level, cells, data) {
    const name = make("td", { text: page.levels[level].name });
    name.prepend(mark(level));
    return make("tr", { "data-level": data }, name, ...cells);
  }
  function render() {
    replay(state.at);
    drawMatrices(); drawStrip();
    const number = (value) => make("td", { class: "number", text: grouped(value) });
    $("sums").tBodies[0].replaceChildren(...page.levels.map((level, i) => row(i, [number(found[i]), make("td", { class: "bar" }, make("i", { style: `background-color:${level.colour};--share:${state.at ? (100 * found[i]) / state.at : 0}%` }))], level.name)));
    const starts = page.operands.map(({ id }) => part[`lines_${id}`][0]);
    const ofOperand = (line) => starts.filter((first) => first <= line).length - 1;
    $("held").tBodies[0].replaceChildren(...held.map((lines, i) => {
      const counts = [0, 0, 0];
      for (const line of lines) counts[ofOperand(line)]++;
      return row(i, [...counts, page.levels[i].lines].map(number), page.levels[i].name);
    }));
    const i = state.at - 1;
    if (i < 0) { $("caption").textContent = page.before; showCode(-1); return; }
    const { name, cols } = page.operands[part.operand[i]], element = part.element[i];
    const does = part.writes[i] ? "stores" : "loads", level = page.levels[part.level[i]];
    const gone = Array.from({ length: levels }, (_, at) => part.left[i * levels + at] ? page.levels[at].name : "").filter(Boolean);
    $("caption").textContent = `The loop ${does} ${name}[${Math.floor(element / cols)}, ${element % cols}], whose line was in ${level.name}${gone.length ? `; for it a line leaves ${gone.join(" and ")}` : ""}.`;
    showCode(part.operand[i]);
  }
  function showCode(operand) {
    $("code").replaceChildren(...page.code.flatMap((text) => {
      if (operand < 0 || !text.includes(page.operands[operand].name + "[")) return [`${text}\n`];
      const name = page.operands[operand].name, begin = text.indexOf(name + "["), end = text.indexOf("]", begin) + 1;
      return [text.slice(0, begin), make("b", { text: text.slice(begin, end) }), `${text.slice(end)}\n`];
    }));
  }
  $("legend").append(...page.levels.map((level, i) => make("li", {}, mark(i), `line in ${level.name}`)));
  state.open();
}
start();
