// One array as a picture: PEs, the staircases of words at its edges, what falls out below.
"use strict";
const PITCH = 84, BOX = 76, LEFT = 42, TOP = 28, BELOW = 30, GAP = 22;

class ArrayView {
  constructor(run, ahead, onPick) {
    this.run = run; this.onPick = onPick;
    const { rows, cols } = run;
    this.left = Math.min(ahead, run.stairs[0]); this.top = Math.min(ahead, run.stairs[1]);
    this.below = Math.min(2, rows);
    this.x0 = this.left * LEFT + GAP + 8; this.y0 = this.top * TOP + GAP + 22;
    const width = this.x0 + cols * PITCH + 10, height = this.y0 + rows * PITCH + this.below * BELOW + 44;
    this.svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", class: run.dataflow,
      "aria-label": `Array of ${rows} by ${cols} PEs, ${run.flowName}` });
    this.svg.style.minWidth = `${Math.round(width * 0.38)}px`; // a large array scrolls on a phone
    this.layers = {};
    const order = ["boxes", "still", "leftEdge", "topEdge", "fallen", "moving", "sums", "acts"];
    for (const name of order) this.svg.append(this.layers[name] = make("g"));
    this.build(rows, cols, width, height);
  }
  center(r, c) { return [this.x0 + c * PITCH + BOX / 2, this.y0 + r * PITCH + BOX / 2]; }
  build(rows, cols, width, height) {
    const { run } = this;
    this.pes = Array.from({ length: rows }, (_, r) => Array.from({ length: cols }, (_, c) => this.pe(r, c)));
    this.leftWords = this.edge(rows, this.left, "leftEdge", run.leftIs, (place, far) =>
      [this.x0 - GAP - far * LEFT + 2, this.center(place, 0)[1] - (run.isOs ? 24 : 18)]);
    this.topWords = this.edge(cols, this.top, "topEdge", run.topIs, (place, far) =>
      [this.center(0, place)[0] + (run.isOs ? 16 : 10), this.y0 - GAP + 4 - far * TOP]);
    this.outWords = this.edge(cols, this.below, "fallen", "s", (place, far) =>
      [this.center(0, place)[0], this.y0 + rows * PITCH + 4 + far * BELOW]);
    const label = (x, y, text, anchor) => this.svg.append(make("text", { x, y, class: "label", text, style: `text-anchor:${anchor};font-size:${Math.max(18, 2.6 * cols)}px` }));
    label(4, this.y0 - 16, `${run.leftName} →`, "start");
    label(this.x0 - 2, Math.max(12, 1.6 * cols), `${run.topName} ↓`, "start");
    label(this.x0, height - 10, `${run.outName} ↓`, "start");
  }
  pill(layer, kind, x, y, width = 38) {
    const text = make("text", { x, y });
    const pill = make("g", { class: `pill ${kind}` }, make("rect", { x: x - width / 2, y: y - 12, width, height: 24, rx: 12 }), text);
    pill.setAttribute("display", "none");
    this.layers[layer].append(pill);
    return { pill, text, kind };
  }
  pe(r, c) {
    const { run } = this, [x, y] = this.center(r, c);
    const box = make("rect", { class: "box", x: x - BOX / 2, y: y - BOX / 2, width: BOX, height: BOX, rx: 10 });
    const title = make("title", { text: `PE ${r}, ${c}` });
    const group = make("g", { class: "pe", tabindex: "0", role: "img", "data-pe": `${r},${c}` }, title, box);
    for (const event of ["mouseenter", "focus", "click"]) group.addEventListener(event, () => this.onPick(r, c));
    this.layers.boxes.append(group);
    const still = (cls, dx, dy) => {
      const text = make("text", { x: x + dx, y: y + dy, class: cls, "pointer-events": "none" });
      this.layers.still.append(text);
      return text;
    };
    const made = { group };
    if (run.isOs) {
      made.act = this.pill("acts", run.leftIs, x - 18, y - 24, 34);
      made.weight = this.pill("moving", run.topIs, x + 18, y - 24, 34);
      made.psum = still("held psum", 0, 2);
      made.shadow = this.pill("sums", "s", x, y + 26, 56);
    } else {
      made.act = this.pill("acts", run.leftIs, x - 17, y - 18);
      made.weight = still("held weight", 17, -2);
      made.shadow = still("shadow", 24, -28);
      made.moving = this.pill("moving", run.topIs, x + 10, y - 26, 36);
      made.psum = this.pill("sums", "s", x, y + 24, 56);
    }
    for (const name of ["act", "psum", "shadow", "moving", "weight"]) {
      made[name]?.pill?.setAttribute("pointer-events", "none");
      (made[name]?.text || made[name])?.setAttribute("data-word", `${name} ${r},${c}`);
    }
    return made;
  }
  edge(places, length, layer, kind, where) {
    return Array.from({ length: places }, (_, place) => Array.from({ length }, (_, i) => {
      const [x, y] = where(place, i + 1), word = this.pill(layer, kind, x, y, kind === "s" ? 56 : 36);
      word.text.setAttribute("data-word", `${layer} ${place},${i}`);
      word.pill.style.opacity = kind === "s" ? 1 - 0.28 * i : length > 6 && i > length - 4 ? 0.35 + 0.2 * (length - i) : "";
      return word;
    }));
  }
  // Motion from where the words were one clock ago: whole layers, since all words of one kind move alike.
  glide(duration) {
    if (!duration || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const from = { acts: [-PITCH, 0], leftEdge: [-LEFT, 0], topEdge: [0, -TOP], fallen: [0, -BELOW], moving: [0, -PITCH], sums: [0, -PITCH] };
    for (const [name, [x, y]] of Object.entries(from)) {
      this.layers[name].animate([{ transform: `translate(${x}px,${y}px)` }, { transform: "none" }], { duration, easing: "cubic-bezier(.4,0,.3,1)" });
    }
  }
  render(cycle, picked, glideFor) {
    const { run } = this, t = run.clip(cycle);
    for (let r = 0; r < run.rows; r++) for (let c = 0; c < run.cols; c++) this.renderPe(t, r, c, picked);
    this.renderEdge(this.leftWords, "left", t);
    this.renderEdge(this.topWords, "top", t);
    for (let c = 0; c < run.cols; c++) this.outWords[c].forEach((word, i) => {
      // Stationary sums show in the bottom row first, and leave it with the next clock.
      const index = t - 1 - i - (run.isOs ? 0 : 1), mark = run.isOs ? 1 : TOKEN;
      const lanes = Array.from({ length: run.parts.bottom.shape[1] }, (_, l) => l).filter((l) => run.at("bottom_flags", index, l, c) & mark);
      this.show(word, index >= 0 && lanes.length > 0, () => lanes.map((l) => run.at("bottom", index, l, c)));
    });
    if (cycle <= run.cycles) this.glide(glideFor);
  }
  renderEdge(words, side, t) {
    const ways = this.run.parts[side].shape[1];
    words.forEach((line, place) => line.forEach((word, i) => {
      const lanes = Array.from({ length: ways }, (_, l) => l).filter((l) => this.run.at(`${side}_flags`, t + i, l, place) & TOKEN);
      const real = lanes.some((l) => this.run.at(`${side}_flags`, t + i, l, place) & REAL);
      this.show(word, t + i < this.run.cycles && lanes.length > 0, () => lanes.map((l) => this.run.at(side, t + i, l, place)), real);
    }));
  }
  show(word, there, values, valid = true) {
    word.pill.setAttribute("display", there ? "inline" : "none");
    if (!there) { word.text.textContent = ""; return; }
    word.text.textContent = values().map(short).join(" ");
    const size = word.text.textContent.length;
    word.text.style.fontSize = size > 4 ? `${Math.max(7, 74 / size)}px` : "";
    word.pill.setAttribute("class", `pill ${word.kind}${valid ? "" : " invalid"}`);
  }
  renderPe(t, r, c, picked) {
    const { run } = this, pe = this.pes[r][c], lanes = [...Array(run.lanes).keys()];
    const here = lanes.filter((l) => run.moves(t, l, r, c)), busy = run.busy(t, r, c);
    const chosen = picked && picked[0] === r && picked[1] === c;
    pe.group.setAttribute("class", `pe${busy ? " busy" : ""}${chosen ? " picked" : ""}`);
    pe.group.setAttribute("aria-label", describe(run, t, r, c));
    this.show(pe.act, here.length > 0, () => here.map((l) => run.at("act", t, l, r, c)), here.some((l) => run.valid(t, l, r, c)));
    if (run.isOs) {
      const words = lanes.filter((l) => run.at("weight_flags", t, l, r, c) & TOKEN);
      this.show(pe.weight, words.length > 0, () => words.map((l) => run.at("weight", t, l, r, c)), words.some((l) => run.held(t, l, r, c)));
      pe.psum.textContent = short(run.at("psum", t, r, c));
      const state = run.at("shadow_state", t, r, c);
      this.show(pe.shadow, state !== 0, () => [run.at("shadow", t, r, c)]);
    } else {
      pe.weight.textContent = run.at("weight_real", t, r, c) ? short(run.at("weight", t, r, c)) : "";
      pe.shadow.textContent = run.at("shadow_real", t, r, c) ? `(${short(run.at("shadow", t, r, c))})` : "";
      const falling = [...Array(run.parts.moving.shape[1]).keys()].filter((w) => run.at("moving_flags", t, w, r, c) & TOKEN);
      this.show(pe.moving, falling.length > 0, () => falling.map((w) => run.at("moving", t, w, r, c)), falling.some((w) => run.at("moving_flags", t, w, r, c) & REAL));
      this.show(pe.psum, here.length > 0, () => here.map((l) => run.at("psum", t, l, r, c)));
    }
  }
}

// An array of which only counts by cells were recorded.
class CellView {
  constructor(run) {
    this.run = run;
    const [, rows, cols] = run.parts.cells_busy.shape, size = 26;
    const heat = make("g", { class: "heat" });
    this.cells = [];
    for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) {
      const cell = make("rect", { x: 40 + c * size, y: 40 + r * size, width: size, height: size, rx: 3 });
      cell.append(make("title"));
      heat.append(cell); this.cells.push([cell, r, c]);
    }
    const width = 50 + cols * size, height = 84 + rows * size;
    this.svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" }, heat);
    this.svg.append(
      make("text", { x: 40, y: 24, class: "label", style: "text-anchor:start", text: `${run.rows} × ${run.cols} PEs, ${run.side} × ${run.side} in a cell` }),
      make("text", { x: 40, y: height - 18, class: "label", style: "text-anchor:start", text: "■ multiplying   ■ loaded, waiting" }));
    this.svg.lastChild.replaceChildren(this.key("var(--compute)", "■ multiplying   "), this.key("var(--b)", "■ loaded, waiting"));
  }
  key(fill, text) {
    const span = document.createElementNS("http://www.w3.org/2000/svg", "tspan");
    span.textContent = text; span.style.fill = fill;
    return span;
  }
  render(cycle) {
    const t = this.run.clip(cycle), all = this.run.side * this.run.side;
    let busyPes = 0;
    for (const [cell, r, c] of this.cells) {
      const busy = this.run.at("cells_busy", t, r, c), held = this.run.at("cells_held", t, r, c);
      busyPes += busy;
      const colour = busy ? "var(--compute)" : "var(--b)", share = (busy || held * 0.45) / all;
      cell.style.fill = share ? `color-mix(in srgb, ${colour} ${Math.round(25 + 75 * share)}%, var(--card))` : "var(--card)";
      cell.firstChild.textContent = `${busy} PEs multiply, ${held} hold a weight, ${this.run.at("cells_streaming", t, r, c)} a moving word`;
    }
    this.svg.setAttribute("aria-label", `${busyPes} of ${this.run.rows * this.run.cols} PEs multiply`);
  }
}
