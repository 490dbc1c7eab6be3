// Which view is shown, who is here, light or dark, and the keys that work everywhere.
import { arrive, failureOf, may, me, send } from "./api.js";
import { bones, failureState } from "./dom.js";
import { closeViewer, isViewerOpen, viewerKey } from "./viewer.js";
import { showTalks } from "./talks.js";

const VIEWS = {
  ask: () => import("./ask.js"),
  documents: () => import("./documents.js"),
  traces: () => import("./traces.js"),
  analytics: () => import("./analytics.js"),
  settings: () => import("./settings.js"),
};
const main = document.getElementById("main");
const frame = document.getElementById("frame");
const menu = document.getElementById("menu");
const themeButton = document.getElementById("theme");
let leave = () => {};
let shown = 0;

/** `#/documents/ab12/3` -> ["documents", "ab12", "3"] */
const route = () => location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);

async function show() {
  const [name = "ask", ...rest] = route();
  const view = VIEWS[name] ? name : "ask";
  const mine = (shown += 1);
  openMenu(false);
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === view) {
      link.setAttribute("aria-current", "page");
      document.title = `${link.textContent} · Refdesk`;
    } else link.removeAttribute("aria-current");
  }
  try {
    // The box of the ask view can be typed into at once; the others wait until it is known what one may do.
    const [module] = await Promise.all([VIEWS[view](), view === "ask" || arrive()]);
    if (mine !== shown) return;
    if (module.stays?.(rest)) return;
    leave();
    leave = () => {};
    closeViewer(false);
    main.className = "main";
    main.replaceChildren(bones());
    const left = await module.show(main, rest);
    if (mine === shown && left) leave = left;
  } catch (error) {
    if (mine === shown) main.replaceChildren(failureState(failureOf(error), () => location.reload())); // a newer page may be there
  }
}

function openMenu(open) {
  const was = frame.classList.contains("side-open");
  frame.classList.toggle("side-open", open);
  menu.setAttribute("aria-expanded", String(open));
  main.inert = open; // it lies under the menu
  if (open) document.querySelector("#nav a").focus();
  else if (was) menu.focus();
}

function showTheme() {
  themeButton.setAttribute("aria-pressed", String(document.documentElement.dataset.theme === "dark"));
}

themeButton.addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  dispatchEvent(new CustomEvent("refdesk-theme", { detail: theme }));
  try { localStorage.setItem("refdesk.theme", theme); } catch { /* then for this visit only */ }
  showTheme();
});
menu.addEventListener("click", () => openMenu(!frame.classList.contains("side-open")));
frame.addEventListener("click", (event) => { if (event.target === frame) openMenu(false); }); // beside the menu
document.getElementById("side").addEventListener("click", (event) => { if (event.target.closest("a")) openMenu(false); });
document.getElementById("sign-out").addEventListener("click", async () => {
  await send("DELETE", "/api/session").catch(() => {});
  location.assign("/sign-in");
});

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  const wantsBox = (event.key === "/" && !isTyping(event.target)) || (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey));
  if (wantsBox) {
    event.preventDefault();
    const box = document.getElementById("question") || document.getElementById("find");
    if (box) box.focus();
    else location.hash = "#/ask";
  } else if (event.key === "Escape") {
    if (frame.classList.contains("side-open")) openMenu(false);
    else if (isViewerOpen()) closeViewer();
  } else if (!isTyping(event.target) && !event.ctrlKey && !event.metaKey && !event.altKey && viewerKey(event.key)) {
    event.preventDefault();
  }
});

async function begin() {
  showTheme();
  addEventListener("hashchange", show);
  const shownFirst = show();
  try {
    await arrive();
  } catch (error) {
    if (failureOf(error).status !== 401) main.replaceChildren(failureState(failureOf(error), () => location.reload()));
    return;
  }
  document.getElementById("who").textContent = me.id ? `${me.name} · ${me.role}` : "This machine";
  document.getElementById("sign-out").hidden = !me.id;
  for (const link of document.querySelectorAll("#nav [data-role]")) link.hidden = !may(link.dataset.role);
  await Promise.all([shownFirst, showTalks()]);
  document.documentElement.dataset.ready = "yes";
}

begin();
