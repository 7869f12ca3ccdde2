// Time, keys, links, and the parts of the page that follow them.
"use strict";
const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32];
const $ = (id) => document.getElementById(id);

async function start() {
  const page = JSON.parse($("data").textContent);
  const runs = await Promise.all(page.runs.map((run) => Run.of(run)));
  const last = Math.max(...runs.map((run) => run.end));
  const zooms = ["pe", "array", "tiles", ...(page.model ? ["model"] : [])].filter((z) => z !== "pe" || !runs[0].isCells);
  const state = { cycle: page.cycle, zoom: "array", flow: "all", pe: [0, 0], playing: false, speed: 2 };
  const names = { pe: "One PE", array: "Array", tiles: "Tiles in time", model: "Model" };
  let views = [], timer = 0;

  const shownRuns = () => (state.flow === "all" ? runs : runs.filter((run) => run.dataflow === state.flow));
  const pick = (r, c) => { state.pe = [r, c]; render(0); save(); };

  function readLink() {
    const given = new URLSearchParams(location.hash.slice(1));
    const cycle = given.has("c") ? Number(given.get("c")) : NaN;
    if (Number.isInteger(cycle)) state.cycle = Math.max(0, Math.min(last, cycle));
    if (zooms.includes(given.get("z"))) state.zoom = given.get("z");
    const flow = given.get("d");
    state.flow = runs.some((run) => run.dataflow === flow) ? flow : runs.length > 1 ? "all" : runs[0].dataflow;
    const pe = (given.get("pe") || "").split(",").map(Number);
    if (pe.length === 2 && pe.every(Number.isInteger) && pe[0] >= 0 && pe[0] < runs[0].rows && pe[1] >= 0 && pe[1] < runs[0].cols) state.pe = pe;
  }
  function save() {
    history.replaceState(null, "", `#c=${state.cycle}&z=${state.zoom}&d=${state.flow}&pe=${state.pe.join(",")}`);
  }

  function build() {
    const stage = $("stage"), chosen = shownRuns(), phone = innerWidth < 620;
    document.querySelector(".now").className = `now${chosen.length > 1 ? " several" : ""}`;
    stage.className = `stage${chosen.length > 1 ? " several" : ""}`;
    views = [];
    if (state.zoom === "model") stage.replaceChildren(modelView(page.model));
    else stage.replaceChildren(...chosen.map((run) => {
      const view = state.zoom === "tiles" ? new TilesView(run, go) : run.isCells ? new CellView(run)
        : state.zoom === "pe" ? new PeView(run) : new ArrayView(run, phone || chosen.length > 1 ? 5 : 11, pick);
      views.push(view);
      const caption = make("figcaption", {}, make("b", { text: run.flowName }), ` · ${grouped(run.totalCycles)} cycles`);
      if (chosen.length > 1) caption.append(view.cause = make("i"));
      else if (state.zoom === "array") caption.hidden = true;
      return view.figure = make("figure", { class: `pane${state.zoom === "pe" ? " big-pe" : ""}`, "data-run": run.dataflow }, caption, view.node || view.svg);
    }));
    document.querySelector("main").className = state.zoom === "array" && chosen.length === 1 || state.zoom === "pe" ? "" : "wide";
    for (const button of $("views").children) button.setAttribute("aria-selected", String(button.dataset.zoom === state.zoom));
    $("flow").value = state.flow;
    $("causes").replaceChildren(...chosen.map((run) => make("div", {}, ...run.causes.map(([cause, count]) =>
      make("i", { style: `width:${(100 * count) / last}%;background:${causeColour(cause)}` })))));
    $("key").replaceChildren(...(state.zoom === "array" && !chosen[0].isCells ? keyOf(chosen[0]) : []));
    const used = [...new Set(chosen.flatMap((run) => run.causes.map(([cause]) => cause)))];
    $("legend").replaceChildren(...used.map((cause) => make("li", {}, make("i", { style: `background:${causeColour(cause)}` }), cause.replace("_", " "))));
    buildMatrices(chosen[0]);
    render(0);
  }

  function keyOf(run) {
    const item = (mark, cls, text) => make("li", {}, make(cls ? "span" : "b", { class: cls ? `pill ${cls}` : "", text: mark }), text);
    const [moving, other] = OPERANDS[run.dataflow];
    if (chosenAreMixed()) return [item("A", "a", "words of A"), item("B", "b", "words of B"), item("C", "s", "sums"), item("7", "", "stays in the PE")];
    return run.isOs
      ? [item("A", "a", "moves right"), item("B", "b", "moves down"), item("7", "", "the PE's sum, stays"), item("C", "s", "finished, on its way out")]
      : [item(moving, run.leftIs, "moves right"), item("7", "", `weight: a word of ${other}, stays`), item("Σ", "s", "sum, moves down"), item("(3)", "", "next weight, waiting")];
  }
  function chosenAreMixed() { return shownRuns().length > 1; }

  function buildMatrices(run) {
    const there = run.has("lhs");
    $("matrices").hidden = !there;
    if (!there) return $("matrices").replaceChildren();
    const table = (name, rows, cols, value) => {
      const small = rows > 10 || cols > 10;
      const body = make("table", {}, ...Array.from({ length: rows }, (_, i) => make("tr", {}, ...Array.from({ length: cols }, (_, j) =>
        make("td", { "data-at": `${i},${j}`, ...(small ? { title: value ? full(value(i, j)) : "" } : { text: value ? short(value(i, j)) : "" }) })))));
      return make("figure", { class: `matrix ${name}${small ? " small" : ""}` }, make("figcaption", {}, make("b", { text: name }), ` ${rows} × ${cols}`), body);
    };
    $("matrices").replaceChildren(
      table("A", run.m, run.k, (i, j) => run.at("lhs", i, j)), table("B", run.k, run.n, (i, j) => run.at("rhs", i, j)), table("C", run.m, run.n));
  }

  function inArray(run, t) {
    const inside = { A: new Set(), B: new Set() }, [moving, other] = OPERANDS[run.dataflow];
    for (let l = 0; l < run.lanes; l++) for (let r = 0; r < run.rows; r++) for (let c = 0; c < run.cols; c++) {
      if (run.valid(t, l, r, c)) inside[moving].add(run.at("act_origin", t, l, r, c));
      if (run.held(t, l, r, c)) inside[other].add(run.isOs ? run.at("weight_origin", t, l, r, c) : run.at("weight_origin", t, r, c));
    }
    return inside;
  }

  function renderMatrices(run, t) {
    if (!run.has("lhs")) { $("check").textContent = run.noCheck; return; }
    if (run.has("act_origin")) {
      const inside = inArray(run, t), [r, c] = state.pe, own = { A: -1, B: -1 }, [moving, other] = OPERANDS[run.dataflow];
      if (run.valid(t, 0, r, c)) own[moving] = run.at("act_origin", t, 0, r, c);
      if (run.held(t, 0, r, c)) own[other] = run.isOs ? run.at("weight_origin", t, 0, r, c) : run.at("weight_origin", t, r, c);
      for (const name of ["A", "B"]) document.querySelectorAll(`.matrix.${name} td`).forEach((cell, place) => {
        cell.className = (inside[name].has(place) ? "in" : "") + (own[name] === place ? " own" : "");
      });
    }
    const parts = run.tilesOfK, left = run.results(t);
    let finished = 0, equal = 0;
    document.querySelectorAll(".matrix.C td").forEach((cell) => {
      const sum = left.get(cell.dataset.at), done = sum && sum[1] === parts;
      if (!cell.closest(".small")) cell.textContent = sum ? short(sum[0]) : "";
      else cell.title = sum ? full(sum[0]) : "";
      const right = done && isProduct(run, ...cell.dataset.at.split(",").map(Number), sum[0]);
      finished += done ? 1 : 0; equal += right ? 1 : 0;
      cell.className = !sum ? "" : !done ? "part" : right || run.roundings === null ? "done" : "wrong";
    });
    const all = run.m * run.n, check = $("check");
    if (run.roundings === null) { check.textContent = run.noCheck; return; }
    check.className = `check${finished && finished === equal ? (finished === all ? " good" : "") : finished ? " bad" : ""}`;
    check.textContent = finished === 0 ? "C = A × B: nothing has left the array yet." : finished < equal + 1 && finished === all
      ? `✓ C equals A × B in all ${grouped(all)} elements${run.areWhole ? "" : ", within the rounding bound"}.`
      : `${grouped(finished)} of ${grouped(all)} elements of C are there; ${finished === equal ? "all equal A × B so far." : `${finished - equal} differ from A × B!`}`;
  }

  // The plain product, with the bound of its rounding where sums round: |d| <= gamma_n sum |a||b|.
  function isProduct(run, i, j, value) {
    let sum = 0, size = 0;
    for (let x = 0; x < run.k; x++) { const product = run.at("lhs", i, x) * run.at("rhs", x, j); sum += product; size += Math.abs(product); }
    const nu = run.roundings * run.unitRoundoff;
    return Math.abs(sum - value) <= (run.areWhole ? 0 : (nu / (1 - nu)) * size);
  }

  function renderNow() {
    const chosen = shownRuns(), run = chosen[0], t = run.clip(state.cycle), cause = (state.cycle && run.causeAt[Math.min(state.cycle, run.end) - 1]) || "";
    const beyond = state.cycle > run.cycles && run.cycles < run.end;
    $("cycle").textContent = grouped(state.cycle); $("of").textContent = ` of ${grouped(last)}`;
    const text = beyond && state.zoom !== "tiles" ? `Registers were recorded up to cycle ${grouped(run.cycles)}; the schedule goes on.` : chosen.length > 1 ? page.together : !t ? run.before : (run.captions[cause] || CAUSES[cause] || "");
    const badge = cause && chosen.length === 1 ? [make("b", { text: cause.replace("_", " "), style: causeBadge(cause) })] : [];
    $("caption").replaceChildren(...badge, make("span", { text }));
    const each = (read) => chosen.map((one) => beyond ? "–" : read(one, one.clip(state.cycle))).join(" · ");
    const meters = [["MACs", `${each((one, at) => grouped(one.at("macs", at)))}${run.macs === null ? "" : ` of ${grouped(run.macs)}`}`],
      ["busy PEs", `${each((one, at) => grouped(one.at("busy", at)))} of ${grouped(run.rows * run.cols)}`],
      ["into the array", each((one, at) => bytes(one.at("entered_lhs", at) + one.at("entered_rhs", at)))],
      ["sums out", each((one, at) => bytes(one.at("entered_psum", at)))], ["memory", chosen.map((one) => bytes(memoryBytes(one, state.cycle))).join(" · ")]];
    $("meters").replaceChildren(...meters.map(([name, value]) => make("div", { "data-meter": name }, make("dt", { text: name }), make("dd", { text: value }))));
    $("scrub").value = state.cycle;
    $("scrub").setAttribute("aria-valuetext", `cycle ${state.cycle}${cause ? `, ${cause}` : ""}`);
    renderMatrices(run, t);
    document.querySelector(".inspector").hidden = run.isCells;
    if (run.isCells) return;
    const [r, c] = state.pe;
    $("pe-name").textContent = `PE in row ${r}, column ${c}`;
    $("pe-math").replaceChildren(...equation(run, t, r, c).map(([part, kind]) => make("span", { text: part, class: kind || "" })));
    if (!$("pe-math").childNodes.length) $("pe-math").textContent = "does not multiply in this cycle";
    $("pe-registers").replaceChildren(...registers(run, t, r, c).flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value, "data-register": name })]));
  }

  function memoryBytes(run, t) {
    let moved = 0;
    for (const s of run.slices) {
      if (s.unit === "array") continue;
      moved += s.stop <= t ? s.bytes : s.start < t ? Math.floor((s.bytes * (t - s.start)) / (s.stop - s.start)) : 0;
    }
    return moved;
  }

  function render(glideFor) {
    for (const view of views) {
      view.figure.classList.toggle("beyond", state.zoom !== "tiles" && state.cycle > view.run.cycles && view.run.cycles < view.run.end);
      view.render(state.cycle, state.pe, glideFor);
      if (!view.cause) continue;
      const t = view.run.clip(state.cycle), cause = !t ? "" : state.cycle > view.run.end ? "done" : view.run.causeAt[state.cycle - 1];
      view.cause.textContent = cause.replace("_", " "); view.cause.style.cssText = cause && cause !== "done" ? causeBadge(cause) : "color:inherit";
    }
    renderNow();
  }
  function go(cycle, glideFor = 0) {
    state.cycle = Math.max(0, Math.min(last, cycle));
    render(glideFor); save();
  }
  const stepOn = (by) => { play(false); go(state.cycle + by, by === 1 ? 260 : 0); };
  function play(on) {
    clearTimeout(timer);
    if (on && state.cycle >= last) go(0);
    state.playing = on;
    $("play-text").textContent = on ? "pause" : "play";
    $("play-icon").setAttribute("d", on ? "M2 1h3.5v12H2zM8.5 1H12v12H8.5z" : "M2 1v12l11-6z");
    $("play").setAttribute("aria-label", on ? "Pause" : "Play");
    if (on) tick();
  }
  function tick() {
    const period = 1000 / state.speed;
    timer = setTimeout(() => {
      if (!state.playing) return;
      go(state.cycle + 1, state.speed <= 8 ? period * 0.7 : 0);
      if (state.cycle >= last) play(false); else tick();
    }, period);
  }
  function speedUp(by) {
    state.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(state.speed) + by))];
    $("speed").value = state.speed;
  }
  function zoom(to) { if (zooms.includes(to)) { state.zoom = to; build(); save(); } }
  function turnTo(flow) { state.flow = flow; build(); save(); }
  function move(dr, dc) {
    const [r, c] = state.pe, run = runs[0];
    pick(Math.max(0, Math.min(run.rows - 1, r + dr)), Math.max(0, Math.min(run.cols - 1, c + dc)));
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const flows = runs.length > 1 ? ["all", ...runs.map((run) => run.dataflow)] : [runs[0].dataflow];
    const far = event.shiftKey ? 10 : 1;
    const actions = {
      " ": () => play(!state.playing), ArrowRight: () => stepOn(far), ArrowLeft: () => stepOn(-far),
      Home: () => { play(false); go(0); }, End: () => { play(false); go(last); },
      "+": () => speedUp(1), "=": () => speedUp(1), "-": () => speedUp(-1),
      1: () => zoom("pe"), 2: () => zoom("array"), 3: () => zoom("tiles"), 4: () => zoom("model"),
      d: () => turnTo(flows[(flows.indexOf(state.flow) + 1) % flows.length]),
      W: () => move(-1, 0), A: () => move(0, -1), S: () => move(1, 0), D: () => move(0, 1),
    };
    const button = event.target.tagName === "BUTTON" || event.target.tagName === "SUMMARY";
    if (!(event.key in actions) || (button && event.key === " ")) return;
    event.preventDefault();
    actions[event.key]();
  }

  document.title = page.title;
  $("title").textContent = page.title; $("subtitle").textContent = page.subtitle; $("about").textContent = page.about;
  $("facts").replaceChildren(...page.facts.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]));
  $("views").replaceChildren(...zooms.map((z) => make("button", { type: "button", role: "tab", "data-zoom": z, text: names[z], onclick: () => zoom(z) })));
  $("flow-choice").hidden = runs.length < 2;
  $("flow").replaceChildren(...[...(runs.length > 1 ? [["all", "side by side"]] : []), ...runs.map((run) => [run.dataflow, run.flowName])].map(([value, text]) => make("option", { value, text })));
  $("speed").replaceChildren(...SPEEDS.map((s) => make("option", { value: s, text: `${s} cycles/s` })));
  $("speed").value = state.speed; $("scrub").max = last;
  $("flow").addEventListener("change", (event) => turnTo(event.target.value));
  $("speed").addEventListener("change", (event) => { state.speed = Number(event.target.value); });
  $("scrub").addEventListener("input", (event) => { play(false); go(Number(event.target.value)); });
  $("play").addEventListener("click", () => play(!state.playing));
  for (const [id, action] of [["first", () => stepOn(-last)], ["back", () => stepOn(-1)], ["step", () => stepOn(1)], ["last", () => stepOn(last)]]) $(id).addEventListener("click", action);
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
  document.addEventListener("keydown", keys);
  addEventListener("hashchange", () => { readLink(); build(); });
  readLink(); build();
  document.documentElement.dataset.ready = "yes";
}
if (typeof DecompressionStream === "undefined") {
  $("caption").textContent = "This browser cannot unpack the recording: the player needs Chrome 80, Firefox 113, Safari 16.4 or later.";
} else {
  start();
}
