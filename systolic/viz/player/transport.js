// Time, keys, links and theme of a page that steps through a record.
"use strict";
const $ = (id) => document.getElementById(id);

function transport({ page, last, unit, units, speeds, zooms, render }) {
  const names = Object.keys(zooms);
  const state = { at: Math.max(0, Math.min(last, page.at)), zoom: names[0], playing: false, speed: speeds[1] };
  let timer = 0;
  function shown() {
    $("cycle").textContent = grouped(state.at);
    $("of").textContent = ` of ${grouped(last)}`;
    $("scrub").value = state.at;
    for (const button of $("views").children) button.setAttribute("aria-selected", String(button.dataset.zoom === state.zoom));
    render();
    history.replaceState(null, "", `#c=${state.at}&z=${state.zoom}`);
  }
  state.go = (at) => { state.at = Math.max(0, Math.min(last, at)); shown(); };
  function play(on) {
    state.playing = on && state.at < last;
    clearInterval(timer);
    $("play-text").textContent = state.playing ? "pause" : "play";
    $("play").setAttribute("aria-label", state.playing ? "Pause" : "Play");
    if (!state.playing) return;
    const rate = Math.min(30, state.speed), stride = Math.round(state.speed / rate);
    timer = setInterval(() => { state.go(state.at + stride); if (state.at >= last) play(false); }, 1000 / rate);
  }
  function faster(by) {
    state.speed = speeds[Math.max(0, Math.min(speeds.length - 1, speeds.indexOf(state.speed) + by))];
    $("speed").value = state.speed;
    if (state.playing) play(true);
  }
  const zoom = (name) => { state.zoom = name; shown(); };
  const keys = {
    " ": () => play(!state.playing), ArrowLeft: (e) => state.go(state.at - (e.shiftKey ? 100 : 1)), ArrowRight: (e) => state.go(state.at + (e.shiftKey ? 100 : 1)),
    Home: () => state.go(0), End: () => state.go(last), "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1),
    ...Object.fromEntries(names.map((name, i) => [String(i + 1), () => zoom(name)])),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("select, summary") || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    if (event.key === " " && event.target.matches("button")) return;
    event.preventDefault();
    keys[event.key](event);
  });
  $("first").onclick = () => state.go(0); $("back").onclick = () => state.go(state.at - 1); $("step").onclick = () => state.go(state.at + 1);
  $("last").onclick = () => state.go(last); $("play").onclick = () => play(!state.playing);
  $("scrub").max = last;
  $("scrub").oninput = () => state.go(Number($("scrub").value));
  $("unit").textContent = unit;
  $("speed").append(...speeds.map((speed) => make("option", { value: speed, text: `${speed} ${units}/s` })));
  $("speed").value = state.speed;
  $("speed").onchange = () => { state.speed = Number($("speed").value); if (state.playing) play(true); };
  $("views").hidden = $("zoom-keys").hidden = names.length < 2;
  $("zoom-keys").nextElementSibling.hidden = names.length < 2;
  $("views").append(...names.map((name) => make("button", { type: "button", role: "tab", "data-zoom": name, text: zooms[name], onclick: () => zoom(name) })));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  $("theme").onclick = () => {
    const isDark = (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    shown();
  };
  document.title = page.title;
  $("title").textContent = page.title; $("subtitle").textContent = page.subtitle; $("about").textContent = page.about;
  $("facts").append(...page.facts.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]));
  addEventListener("resize", shown);
  // Called once all of the page is there.
  state.open = () => {
    const given = new URLSearchParams(location.hash.slice(1)), at = Number(given.get("c"));
    if (given.has("c") && Number.isInteger(at)) state.at = Math.max(0, Math.min(last, at));
    if (names.includes(given.get("z"))) state.zoom = given.get("z");
    shown();
    document.documentElement.dataset.ready = "";
  };
  return state;
}
