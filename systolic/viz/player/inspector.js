// One PE in words, in registers and as a large drawing.
"use strict";
const OPERANDS = { ws: ["A", "B"], os: ["A", "B"], is: ["B", "A"] };

function element(run, which, place) {
  const columns = which === "A" ? run.k : run.n;
  return `${which}[${Math.floor(place / columns)},${place % columns}]`;
}

function describe(run, t, r, c) {
  const math = equation(run, t, r, c).map(([text]) => text).join("");
  return `PE row ${r}, column ${c}: ${math || "idle"}`;
}

// The multiply-add of this clock, as [text, kind] pieces; every number is a register.
function equation(run, t, r, c) {
  const pieces = [];
  for (let l = 0; l < run.lanes; l++) {
    if (t === 0 || !run.valid(t, l, r, c) || !run.held(t, l, r, c)) continue;
    const act = run.at("act", t, l, r, c), weight = run.weight(t, l, r, c);
    const [moving, other] = OPERANDS[run.dataflow];
    const product = [[full(act), moving === "A" ? "a" : "b"], [" × "], [full(weight), other === "A" ? "a" : "b"]];
    if (run.macLatency > 1) {
      pieces.push(...product, [` enters the multiplier; its sum is there ${run.macLatency - 1} cycle(s) later. `]);
      continue;
    }
    if (run.isOs && l > 0) { pieces.push([" + "], ...product); continue; }
    const starts = run.isOs && (run.at("flags", t, 0, r, c) & 4) !== 0;
    const before = run.isOs ? (starts ? 0 : run.psum(t - 1, 0, r, c)) : r > 0 ? run.psum(t - 1, l, r - 1, c) : 0;
    if (pieces.length) pieces.push(["; "]);
    pieces.push([full(run.psum(t, l, r, c)), "s"], [" = "], [full(before), "s"], [" + "], ...product);
  }
  return pieces;
}

function registers(run, t, r, c) {
  const rows = [], all = (read) => run.lanesOf(read).join(", ");
  const origin = (name, place, l) => {
    const which = OPERANDS[run.dataflow][name === "act" ? 0 : 1];
    return run.has(`${name}_origin`) ? ` = ${element(run, which, run.at(`${name}_origin`, t, ...(name === "act" || run.isOs ? [l] : []), r, c))}` : "";
  };
  rows.push(["act", all((l) => run.moves(t, l, r, c) ? full(run.at("act", t, l, r, c)) + (run.valid(t, l, r, c) ? origin("act", 0, l) : "") : "empty"), "the word on its way right"]);
  rows.push(["valid", all((l) => run.valid(t, l, r, c) ? "yes" : "no")]);
  if (run.isOs) {
    rows.push(["weight", all((l) => run.at("weight_flags", t, l, r, c) & TOKEN ? full(run.at("weight", t, l, r, c)) + (run.held(t, l, r, c) ? origin("weight", 0, l) : "") : "empty")]);
    rows.push(["psum", full(run.at("psum", t, r, c))]);
    const state = run.at("shadow_state", t, r, c);
    rows.push(["shadow", state ? `${full(run.at("shadow", t, r, c))} (${state === 1 ? "held" : "on its way out"})` : "empty"]);
  } else {
    rows.push(["weight", run.held(t, 0, r, c) ? full(run.weight(t, 0, r, c)) + origin("weight", 0, 0) : "empty"]);
    rows.push(["shadow", run.at("shadow_real", t, r, c) ? `${full(run.at("shadow", t, r, c))} (the next weight)` : "empty"]);
    rows.push(["moving", Array.from({ length: run.parts.moving.shape[1] }, (_, w) => run.at("moving_flags", t, w, r, c) & TOKEN ? `${full(run.at("moving", t, w, r, c))}, ${run.at("moving_hops", t, w, r, c)} rows to fall` : "empty").join(", ")]);
    rows.push(["psum", all((l) => full(run.psum(t, l, r, c)))]);
  }
  return rows;
}

class PeView {
  constructor(run) {
    this.run = run;
    this.svg = make("svg", { viewBox: "0 -34 720 470", role: "img" });
    const box = (x, y, width, height) => make("rect", { x, y, width, height, rx: 12, class: "register" });
    const words = (x, y, text) => make("text", { x, y, class: "label", text });
    const path = (d) => make("path", { d, class: "wire" });
    this.svg.append(
      path("M 20 130 H 120 M 210 130 H 700"), path("M 165 160 V 225 H 262"), path("M 420 80 V 225 H 318"),
      path("M 290 253 V 302"), path(`M 20 330 H 262 M 318 330 H 430 M 550 330 H ${run.isOs ? 600 : 700}`));
    if (!run.isOs) this.svg.append(path("M 540 45 H 475"));
    this.svg.append(
      box(120, 95, 90, 70), box(365, 10, 110, 70), box(430, 295, 120, 70), run.isOs ? box(600, 295, 100, 70) : box(540, 10, 100, 70),
      make("circle", { cx: 290, cy: 225, r: 28, class: "op" }), make("circle", { cx: 290, cy: 330, r: 28, class: "op" }),
      make("text", { x: 290, y: 225, text: "×" }), make("text", { x: 290, y: 330, text: "+" }),
      words(165, 80, "act"), words(420, -8, run.isOs ? "weight, moves down" : "weight, stays"), words(490, 281, "psum"),
      run.isOs ? words(650, 281, "shadow (leaving)") : words(600, -8, "shadow: the next one"),
      words(60, 114, `${OPERANDS[run.dataflow][0]}, from the left`), words(88, 314, run.isOs ? "its own sum" : "sum from above"),
      words(644, 114, "to the right →"), ...(run.isOs ? [] : [words(632, 314, "to the PE below ↓")]));
    const text = (x, y, cls = "") => { const node = make("text", { x, y, class: cls }); this.svg.append(node); return node; };
    this.values = { act: text(165, 131), weight: text(420, 46, "held"), shadow: run.isOs ? text(650, 331) : text(590, 46), psum: text(490, 331, "held"), before: text(88, 350) };
    this.math = text(360, 412);
  }
  render(cycle, picked) {
    const { run } = this, t = run.clip(cycle), [r, c] = picked;
    const shown = Object.fromEntries(registers(run, t, r, c).map(([name, value]) => [name, value.split(" ")[0]]));
    for (const name of ["act", "weight", "shadow", "psum"]) this.values[name].textContent = shown[name] === "empty" ? "–" : shown[name];
    const before = t === 0 ? 0 : run.isOs ? run.psum(t - 1, 0, r, c) : r > 0 ? run.psum(t - 1, 0, r - 1, c) : 0;
    this.values.before.textContent = full(before);
    this.math.textContent = equation(run, t, r, c).map(([part]) => part).join("") || "no multiplication in this cycle";
    this.svg.setAttribute("aria-label", describe(run, t, r, c));
  }
}
