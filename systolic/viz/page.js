"use strict";
// The theme: the system's, or the one that the reader chose last.
const root = document.documentElement;
const theme = document.getElementById("theme");
const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const remembered = { get: () => null, set: () => {} };
try { // a page that was opened from a disk may be denied a store
  const store = window.localStorage;
  remembered.get = () => store.getItem("systolic-theme");
  remembered.set = (value) => store.setItem("systolic-theme", value);
} catch { /* it is forgotten then */ }
function named() { theme.textContent = isDark() ? "light" : "dark"; theme.setAttribute("aria-label", `switch to ${theme.textContent} colours`); }
if (["dark", "light"].includes(remembered.get())) root.dataset.theme = remembered.get();
theme.hidden = false;
named();
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  remembered.set(root.dataset.theme);
  named();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", named);

// Sorting: numbers by value, largest first at the first press, texts as words; blanks stay last either way.
const said = document.getElementById("said");
const words = new Intl.Collator("en", { numeric: true });
function keyOf(row, index, isNumber) {
  const cell = row.cells[index];
  if (!isNumber) return cell.textContent.trim() || null;
  return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
}
function sort(head) {
  const body = head.closest("table").tBodies[0];
  const isNumber = head.classList.contains("number");
  const before = head.getAttribute("aria-sort");
  const first = isNumber ? "descending" : "ascending";
  const second = isNumber ? "ascending" : "descending";
  const way = before === first ? second : first;
  const sign = way === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => [keyOf(row, head.cellIndex, isNumber), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (isNumber ? a - b : words.compare(a, b));
  });
  body.append(...rows.map(([, row]) => row));
  for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", way);
  said.textContent = `sorted by ${head.innerText.replace(/\s+/g, " ").trim()}, ${way}`;
}
for (const head of document.querySelectorAll("thead th")) head.firstElementChild.addEventListener("click", () => sort(head));

// Definitions: on hover, on focus and on touch; Escape closes them.
const tip = document.getElementById("tip");
let shownFor = null;
function show(word) {
  const text = document.getElementById(word.getAttribute("aria-describedby"));
  const term = document.createElement("b");
  term.textContent = text.previousElementSibling.textContent;
  tip.replaceChildren(term, text.textContent);
  tip.hidden = false;
  shownFor = word;
  const at = word.getBoundingClientRect();
  const left = Math.min(Math.max(at.left, 12), innerWidth - tip.offsetWidth - 12);
  const below = at.bottom + 6;
  const fits = below + tip.offsetHeight < innerHeight || at.top < tip.offsetHeight + 6;
  tip.style.left = `${left}px`;
  tip.style.top = `${fits ? below : at.top - tip.offsetHeight - 6}px`;
}
function hide() { tip.hidden = true; shownFor = null; }
for (const word of document.querySelectorAll("[aria-describedby]")) {
  word.addEventListener("pointerenter", () => show(word));
  word.addEventListener("pointerleave", (event) => {
    // The pointer may move onto the definition itself, to read or to copy it; a finger that is lifted leaves it open.
    if (event.pointerType !== "touch" && event.relatedTarget !== tip && document.activeElement !== word) hide();
  });
  word.addEventListener("focus", () => show(word));
  word.addEventListener("blur", hide);
}
tip.addEventListener("pointerleave", hide);
addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
addEventListener("pointerdown", (event) => { if (shownFor && event.target !== tip && !shownFor.contains(event.target)) hide(); });
// A word that takes the focus may be scrolled into view.
addEventListener("scroll", () => { if (shownFor) show(shownFor); }, { passive: true, capture: true });
