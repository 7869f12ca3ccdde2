// Warps of an SM and blocks over SMs: everything is looked up in the record, nothing is computed but sums of it.
"use strict";
const SPANS = [60, 200, 600, 2000, 8000];
const inked = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

async function start() {
  const page = JSON.parse($("data").textContent);
  const buffer = await unpack(page.blob);
  const part = Object.fromEntries(page.parts.map(({ name, type, shape, offset }) => [name, new TYPES[type](buffer, offset, shape[0])]));
  const first = page.warps.map(({ from }) => from), past = page.warps.map(({ to }) => to);
  const state = transport({ page, last: page.cycles, unit: "cycle", units: "cycles", speeds: [5, 20, 60, 200, 600], zooms: { warps: "Warps of an SM", blocks: "Blocks over SMs" }, render });
  state.span = page.cycles > 600 ? 200 : 60;

  // The event of warp w that holds cycle t (the cycle after clock t - 1), or -1 before and after its life.
  function eventAt(w, t) {
    let low = first[w], high = past[w] - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (part.stop[middle] < t) low = middle + 1;
      else if (part.start[middle] >= t) high = middle - 1;
      else return middle;
    }
    return -1;
  }
  function sumsUntil(t) {
    const sums = page.reasons.map(() => 0);
    for (let e = 0; e < part.start.length; e++) if (part.start[e] < t) sums[part.reason[e]] += Math.min(t, part.stop[e]) - part.start[e];
    return sums;
  }

  const fills = {};
  function fillOf(context, reason) {
    const { colour, lined } = page.reasons[reason];
    if (!lined) return colour;
    if (!fills[reason]) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 8;
      const pen = tile.getContext("2d");
      pen.fillStyle = colour; pen.fillRect(0, 0, 8, 8);
      pen.strokeStyle = "rgba(255,255,255,.8)"; pen.lineWidth = 1.6;
      for (const at of [-4, 4, 12]) { pen.beginPath(); pen.moveTo(at - 6, 10); pen.lineTo(at + 6, -2); pen.stroke(); }
      fills[reason] = context.createPattern(tile, "repeat");
    }
    return fills[reason];
  }

  function canvasOf(id, height) {
    const canvas = $(id), ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
    return { pen, width };
  }

  const LEFT = 88;
  function window_() {
    const span = Math.min(state.span, page.cycles);
    const from = Math.max(0, Math.min(page.cycles - span, state.at - Math.round(span / 2)));
    return [from, from + span];
  }
  function drawLanes() {
    const high = page.warps.length > 24 ? 13 : 19, gap = 7;
    const tops = page.warps.map((warp, i) => 4 + i * high + warp.scheduler * gap);
    const { pen, width } = canvasOf("lanes", 4 + page.warps.length * high + page.subCores * gap + 18);
    const [from, to] = window_(), x = (t) => LEFT + ((t - from) / (to - from)) * (width - LEFT - 6);
    for (let w = 0; w < page.warps.length; w++) {
      pen.fillStyle = inked("--soft");
      pen.fillText(`${page.warps[w].name}`, 4, tops[w] + high / 2);
      for (let e = first[w]; e < past[w]; e++) {
        if (part.stop[e] <= from || part.start[e] >= to) continue;
        const left = x(Math.max(from, part.start[e])), right = x(Math.min(to, part.stop[e]));
        pen.fillStyle = fillOf(pen, part.reason[e]);
        pen.fillRect(left, tops[w] + 1, Math.max(0.6, right - left - (right - left > 4 ? 0.7 : 0)), high - 2);
      }
    }
    const bottom = tops[tops.length - 1] + high;
    pen.fillStyle = inked("--soft");
    for (let i = 0; i <= 4; i++) {
      const t = Math.round(from + ((to - from) * i) / 4);
      pen.textAlign = i === 4 ? "right" : i ? "center" : "left";
      pen.fillText(grouped(t), x(t), bottom + 11);
    }
    pen.strokeStyle = inked("--ink"); pen.lineWidth = 1.5;
    if (state.at > 0) pen.strokeRect(x(state.at - 1), 2, Math.max(2, x(state.at) - x(state.at - 1)), bottom - 2);
  }
  function drawWaves() {
    const total = page.total, most = Math.max(...page.waves.map((wave) => wave.sms)), high = Math.max(2, Math.min(12, Math.floor(520 / page.sms)));
    const { pen, width } = canvasOf("waves", page.sms * high + 24), x = (t) => LEFT + (t / total) * (width - LEFT - 6);
    pen.fillStyle = inked("--line"); pen.fillRect(LEFT, 0, width - LEFT - 6, page.sms * high);
    let number = 0;
    for (const { start: begin, cycles, rounds, sms } of page.waves) {
      const shown = Math.min(rounds, 2000);
      for (let i = 0; i < shown; i++, number++) {
        pen.fillStyle = number % 2 ? page.tones[1] : page.tones[0];
        const left = x(begin + i * cycles), wide = Math.max(0.5, x(begin + (i + 1) * cycles) - left - 0.6);
        if (high > 4) for (let sm = 0; sm < sms; sm++) pen.fillRect(left, sm * high, wide, high - 1);
        else pen.fillRect(left, 0, wide, sms * high);
      }
    }
    if (page.after > 0) { pen.fillStyle = page.tones[2]; pen.fillRect(x(total - page.after), 0, x(total) - x(total - page.after), most * high); }
    pen.fillStyle = inked("--soft");
    pen.fillText("SM 0", 4, 8); pen.fillText(`SM ${page.sms - 1}`, 4, page.sms * high - 7);
    pen.fillText("0", LEFT, page.sms * high + 12);
    pen.textAlign = "right"; pen.fillText(`${grouped(Math.round(total))} cycles`, width - 6, page.sms * high + 12);
  }

  function render() {
    $("warps").hidden = state.zoom !== "warps";
    const ofBlocks = state.zoom === "blocks";
    $("blocks").hidden = !ofBlocks;
    $("legend").hidden = document.querySelector(".clock").hidden = $("meters").hidden = ofBlocks;
    document.querySelector(".now").className = ofBlocks ? "now of-blocks" : "now";
    if (ofBlocks) $("caption").textContent = page.caption;
    if (state.zoom === "blocks") drawWaves(); else { drawLanes(); fillTables(); }
  }
  const mark = (reason) => make("i", { style: `background-color:${page.reasons[reason].colour}`, class: page.reasons[reason].lined ? "lined" : "" });
  function fillTables() {
    const issuing = [];
    $("table").tBodies[0].replaceChildren(...page.warps.map((warp, w) => {
      const e = eventAt(w, state.at);
      const cells = e < 0 ? ["", "", "", "", ""] : [
        part.block[e], page.reasons[part.reason[e]].name.replaceAll("_", " "), page.instructions[part.instruction[e]],
        grouped(part.start[e] + 1), grouped(part.stop[e])];
      if (e >= 0 && part.reason[e] === 0) issuing.push(`${warp.name} issues ${cells[2]}`);
      const does = make("td", { text: cells[1] });
      if (e >= 0) does.prepend(mark(part.reason[e]));
      const classes = [e >= 0 && part.reason[e] === 0 ? "issues" : "", w && page.warps[w - 1].scheduler !== warp.scheduler ? "apart" : ""];
      return make("tr", { "data-warp": w, class: classes.join(" ") }, make("td", { text: warp.name }), make("td", { text: warp.scheduler }), make("td", { text: cells[0] }), does,
        make("td", { text: cells[2] }), make("td", { class: "number", text: cells[3] }), make("td", { class: "number", text: cells[4] }));
    }));
    const sums = sumsUntil(state.at), all = sums.reduce((a, b) => a + b, 0);
    $("sums").tBodies[0].replaceChildren(...page.reasons.map((reason, i) => [reason, i]).filter(([, i]) => page.sums[i]).map(([reason, i]) => {
      const name = make("td", { text: reason.name.replaceAll("_", " "), title: reason.text });
      name.prepend(mark(i));
      const bar = make("i", { style: `background-color:${reason.colour};--share:${all ? (100 * sums[i]) / all : 0}%`, class: reason.lined ? "lined" : "" });
      return make("tr", { "data-reason": reason.name }, name, make("td", { class: "number", text: grouped(sums[i]) }), make("td", { class: "bar" }, bar));
    }));
    const issued = sums[0];
    $("caption").textContent = state.at === 0 ? page.before : issuing.length ? `${issuing.join("; ")}.` : "No warp issues in this cycle: each of them waits.";
    $("meters").replaceChildren(...[["issued", grouped(issued)], ["per cycle", state.at ? (issued / state.at).toFixed(2) : "0"]].map(([name, value]) =>
      make("div", {}, make("dt", { text: name }), make("dd", { "data-meter": name, text: value }))));
  }

  $("lanes").onclick = (event) => {
    const box = $("lanes").getBoundingClientRect(), [from, to] = window_();
    state.go(1 + Math.floor(from + ((event.clientX - box.left - LEFT) / (box.width - LEFT - 6)) * (to - from)));
  };
  $("span").append(...SPANS.filter((span, i) => !i || SPANS[i - 1] < page.cycles).map((span) => make("option", { value: span, text: `${grouped(span)} cycles` })));
  $("span").value = state.span;
  $("span").onchange = () => { state.span = Number($("span").value); render(); };
  $("legend").append(...page.reasons.map((reason, i) => [reason, i]).filter(([, i]) => page.sums[i]).map(([reason, i]) => make("li", { title: reason.text }, mark(i), reason.name.replaceAll("_", " "))));
  $("words").append(...page.reasons.flatMap((reason) => [make("dt", { text: reason.name.replaceAll("_", " ") }), make("dd", { text: reason.text })]));
  $("list").tBodies[0].append(...page.waves.map((wave) => make("tr", {}, make("td", { text: grouped(wave.rounds) }), ...[wave.sms, wave.resident, wave.start, wave.cycles].map((value) => make("td", { class: "number", text: grouped(Math.round(value)) })))));
  state.open();
}
start();
