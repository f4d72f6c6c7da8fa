// Keys for lists, progress that renews itself. Every page works without it.
"use strict";

const LISTED = "[data-list] tbody tr";
const EVERY_MS = 1000;
const EVERY_HIDDEN_MS = 10000;

function rows() {
  return Array.from(document.querySelectorAll(LISTED));
}

function here() {
  const focused = document.activeElement && document.activeElement.closest(LISTED);
  return focused || document.querySelector(`${LISTED}.here`);
}

function go(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(here());
  const next = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
  all.forEach((row) => row.classList.toggle("here", row === next));
  const target = next.querySelector("a") || next.querySelector("input");
  if (target) target.focus();
  next.scrollIntoView({ block: "nearest" });
}

function mark() {
  const row = here();
  const box = row && row.querySelector("input[type=checkbox]");
  if (box) box.click();
}

function open() {
  const row = here();
  const link = row && row.querySelector("a");
  if (link) link.click();
}

function sheet() {
  const dialog = document.getElementById("keys");
  if (dialog && !dialog.open) dialog.showModal();
}

const KEYS = {
  j: () => go(1),
  k: () => go(-1),
  x: mark,
  o: open,
  "?": sheet,
  "/": () => {
    const first = document.querySelector(".filters input:not([type=hidden]), .find input");
    if (first) first.focus();
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const tag = event.target.tagName;
  const typing = tag === "TEXTAREA" || tag === "SELECT" || (tag === "INPUT" && event.target.type !== "checkbox");
  if (typing || document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && tag === "INPUT") {
    event.preventDefault();
    open();
    return;
  }
  if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

document.querySelectorAll("[data-keys]").forEach((button) => {
  button.hidden = false;
  button.addEventListener("click", sheet);
});

// A box that marks all boxes of its table, and a button that says how many are marked.
document.querySelectorAll("[data-all]").forEach((all) => {
  all.closest("td, th").hidden = false;
  const boxes = Array.from(all.closest("table").querySelectorAll("tbody input[type=checkbox]"));
  all.addEventListener("change", () => {
    boxes.forEach((box) => { box.checked = all.checked; });
    count();
  });
  boxes.forEach((box) => box.addEventListener("change", count));
  function count() {
    const marked = boxes.filter((box) => box.checked).length;
    all.checked = marked === boxes.length;
    document.querySelectorAll("[data-marked]").forEach((place) => { place.textContent = String(marked); });
  }
});

// A part of the page that is fetched again until it says that it is done.
document.querySelectorAll("[data-live]").forEach((part) => {
  const least = Number(part.dataset.every) || EVERY_MS;
  let failed = 0;
  async function renew() {
    try {
      const answer = await fetch(part.dataset.live, { headers: { accept: "text/html" }, redirect: "error" });
      if (answer.status === 401 || answer.status === 403) { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!part.contains(document.activeElement)) part.replaceChildren(...fresh.body.childNodes);
      failed = 0;
    } catch {
      failed += 1;
    }
    if (part.querySelector("[data-done]")) {
      if (part.dataset.then) location.assign(part.dataset.then);
      return;
    }
    const every = document.hidden ? Math.max(EVERY_HIDDEN_MS, least) : least * Math.min(1 + failed, 10);
    setTimeout(renew, every);
  }
  if (!part.querySelector("[data-done]")) setTimeout(renew, least);
});
