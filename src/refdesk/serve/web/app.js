// Routing between views, the current user, the colour theme, and global keyboard shortcuts.
import { arrive, failureOf, may, me, send } from "./api.js";
import { bones, byId, failureState, icon, isLost } from "./dom.js";
import { forgetAll } from "./running.js";
import { closeViewer, viewerKey } from "./viewer.js";
import { showTalks } from "./talks.js";

const VIEWS = ["ask", "documents", "graph", "traces", "analytics", "settings"]; // each a file of this name
const main = byId("main");
const frame = byId("frame");
const menu = byId("menu");
const themeButton = byId("theme");
let leave = () => {};
let shown = 0;

/** `#/documents/ab12/3` -> ["documents", "ab12", "3"] */
const route = () => location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map((part) => {
  try { return decodeURIComponent(part); } catch { return part; } // written by hand
});

async function show() {
  const [name = "ask", ...rest] = route();
  const view = VIEWS.includes(name) ? name : "ask";
  const mine = (shown += 1);
  openMenu(false);
  for (const link of document.querySelectorAll("#nav a")) {
    const isOpen = link.dataset.view === view;
    link.ariaCurrent = isOpen ? "page" : null;
    if (isOpen) document.title = `${link.textContent} · Refdesk`;
  }
  try {
    // The box of the ask view can be typed into at once; the others wait until it is known what one may do.
    const [module] = await Promise.all([import(`./${view}.js`), view === "ask" || arrive()]);
    if (mine !== shown) return;
    if (module.stays?.(rest)) return;
    leave();
    leave = () => {};
    closeViewer(false);
    main.className = "main";
    main.replaceChildren(bones());
    const left = await module.show(main, rest);
    if (mine !== shown) { left?.(); return; }
    if (left) leave = left;
    if (mine > 1 && isLost()) main.focus(); // the link that led here is gone
  } catch (error) {
    if (mine === shown) main.replaceChildren(failureState(error, () => location.reload())); // a newer page may be there
  }
}

function openMenu(open) {
  const was = frame.classList.contains("side-open");
  frame.classList.toggle("side-open", open);
  menu.ariaExpanded = open;
  main.inert = document.querySelector(".top").inert = open; // they lie under the menu
  if (open) document.querySelector("#nav a").focus();
  else if (was) menu.focus();
}

function shut() {
  if (frame.classList.contains("side-open")) openMenu(false);
  else closeViewer();
}

function showTheme() {
  themeButton.ariaPressed = document.documentElement.dataset.theme === "dark";
}

themeButton.addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  dispatchEvent(new CustomEvent("refdesk-theme", { detail: theme }));
  try { localStorage.setItem("refdesk.theme", theme); } catch { /* then for this visit only */ }
  showTheme();
});
menu.addEventListener("click", () => openMenu(true));
frame.addEventListener("click", (event) => { if (event.target === frame) shut(); }); // beside what lies over the page
byId("side").addEventListener("click", (event) => { if (event.target.closest("a")) openMenu(false); });
byId("sign-out").addEventListener("click", async () => {
  await send("DELETE", "/api/session").catch(() => {});
  forgetAll();
  location.assign("/sign-in");
});

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  const wantsBox = (event.key === "/" && !isTyping(event.target)) || (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey));
  if (wantsBox) {
    event.preventDefault();
    const box = byId("question") || byId("find");
    if (box) box.focus();
    else location.hash = "#/ask";
  } else if (event.key === "Escape") shut();
  else if (!isTyping(event.target) && !event.ctrlKey && !event.metaKey && !event.altKey && (!event.shiftKey || event.key === "+") && viewerKey(event)) event.preventDefault();
});

for (const one of document.querySelectorAll("[data-icon]")) one.prepend(icon(one.dataset.icon));

async function begin() {
  showTheme();
  addEventListener("hashchange", show);
  const shownFirst = show();
  try {
    await arrive();
  } catch (error) {
    if (failureOf(error).status !== 401) main.replaceChildren(failureState(error, () => location.reload()));
    return;
  }
  byId("who").textContent = me.id ? `${me.name} · ${me.role}` : "This machine";
  byId("sign-out").hidden = !me.id;
  for (const link of document.querySelectorAll("#nav [data-role]")) link.hidden = !may(link.dataset.role);
  await Promise.all([shownFirst, showTalks()]);
  document.documentElement.dataset.ready = "yes";
}

begin();
