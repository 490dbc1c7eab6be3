// The conversations on the left: open, rename, delete.
import { failureOf, get, send } from "./api.js";
import { ask, askText, h, iconButton, toast, when } from "./dom.js";

const list = document.getElementById("talks");

const current = () => location.hash.match(/^#\/ask\/(.+)$/)?.[1] || "";

const MOST = 200; // rows; older ones are found by their traces
const waiting = new Map(); // conversations with an answer on its way: {id: question}
let known = [];

/** Says that an answer is on its way in conversation `id`, or, without a question, that it is no longer. */
export function pending(id, question = "") {
  if (question) { waiting.set(id, question); draw(); } else waiting.delete(id);
}

function draw() {
  const fresh = [...waiting].filter(([id]) => !known.some((one) => one.id === id)).map(([id, title]) => ({ id, title, isNew: true }));
  const talks = [...fresh.reverse(), ...known];
  const held = list.contains(document.activeElement) ? document.activeElement.closest(".talk")?.dataset.id : "";
  list.replaceChildren(talks.length ? h("div", { role: "list" }, talks.map(row)) : h("p.quiet.small", { class: "talks-none" }, "What you ask is kept here."));
  if (held) (rowOf(held) || list.querySelector(".talk"))?.firstElementChild.focus();
}

const rowOf = (id) => list.querySelector(`[data-id="${CSS.escape(id)}"]`);

export async function showTalks() {
  try {
    known = (await get(`/api/conversations?limit=${MOST}`)).conversations;
    draw();
  } catch (error) {
    list.replaceChildren(h("p.quiet.small", {}, failureOf(error).text));
  }
}

function row(talk) {
  const title = talk.title || "Untitled";
  const open = current() === encodeURIComponent(talk.id);
  return h("div.talk", { role: "listitem", "data-id": talk.id, "data-current": open },
    h("a", { href: `#/ask/${encodeURIComponent(talk.id)}`, title: [title, when(talk.updated_at)].filter(Boolean).join(" · "), "aria-current": open ? "true" : undefined }, title),
    waiting.has(talk.id) && h("span.spinner", { role: "img", "aria-label": "An answer is on its way" }),
    !talk.isNew && [iconButton("pen", `Rename “${title}”`, () => rename(talk)), iconButton("bin", `Delete “${title}”`, () => remove(talk))]);
}

export function markTalk() {
  for (const one of list.querySelectorAll(".talk")) {
    const open = current() === encodeURIComponent(one.dataset.id);
    one.toggleAttribute("data-current", open);
    if (open) one.firstElementChild.setAttribute("aria-current", "true");
    else one.firstElementChild.removeAttribute("aria-current");
  }
}
addEventListener("hashchange", markTalk);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !document.querySelector("dialog[open]")) showTalks(); }); // another tab may have asked

async function rename(talk) {
  const title = await askText("Rename this conversation", "Title", talk.title, "Rename");
  if (!title) return;
  await tried(send("PATCH", `/api/conversations/${encodeURIComponent(talk.id)}`, { title }));
  rowOf(talk.id)?.firstElementChild.focus();
}

async function remove(talk) {
  const text = h("p", {}, "Its questions, answers and traces are removed for good.");
  if (!(await ask(`Delete “${talk.title || "Untitled"}”?`, text, "Delete", { danger: true }))) return;
  await tried(send("DELETE", `/api/conversations/${encodeURIComponent(talk.id)}`));
  if (current() === encodeURIComponent(talk.id)) location.hash = "#/ask";
  else (list.querySelector(".talk a") || document.querySelector(".talks-head a")).focus();
}

async function tried(work) {
  try { await work; } catch (error) { toast(failureOf(error).text); }
  await showTalks();
}
