// The conversations on the left: open, rename, delete.
import { failureOf, get, send, url } from "./api.js";
import { askText, byId, dotted, h, iconButton, isSure, redraw, tell, when } from "./dom.js";

const list = byId("talks");

const current = () => location.hash.match(/^#\/ask\/(.+)$/)?.[1] || "";

const MOST = 200; // rows; older ones are found by their traces
const waiting = new Map(); // conversations with an answer on its way: {id: question}
export const deleted = new Set(); // here; what is kept of them elsewhere no longer counts
let known = [];

/** Says that an answer is on its way in conversation `id`, or, without a question, that it is no longer. */
export function pending(id, question = "") {
  if (question) { waiting.set(id, question); draw(); } else waiting.delete(id);
}

function draw() {
  const fresh = [...waiting].filter(([id]) => !known.some((one) => one.id === id)).map(([id, title]) => ({ id, title }));
  const talks = [...fresh.reverse(), ...known];
  redraw(list, [talks.length ? h("div", { role: "list" }, talks.map(row)) : h("p.quiet.small.talks-none", "Your conversations appear here.")]);
  markTalk();
}

export async function showTalks() {
  try {
    known = (await get(`/api/conversations?limit=${MOST}`)).conversations;
    draw();
  } catch (error) {
    list.replaceChildren(h("p.quiet.small", failureOf(error).text));
  }
}

function row(talk) {
  const title = talk.title || "Untitled";
  return h("div.talk", { role: "listitem", "data-id": talk.id },
    h("a", { href: url`#/ask/${talk.id}`, title: dotted(title, when(talk.updated_at)) }, title),
    waiting.has(talk.id) && h("span.spinner", { role: "img", label: "Answering" }),
    !waiting.has(talk.id) && [iconButton("pen", `Rename “${title}”`, () => rename(talk)), iconButton("bin", `Delete “${title}”`, () => remove(talk))]);
}

function markTalk() {
  for (const one of list.querySelectorAll(".talk")) {
    const open = current() === encodeURIComponent(one.dataset.id);
    one.toggleAttribute("data-current", open);
    one.firstElementChild.ariaCurrent = open ? "true" : null;
  }
}
addEventListener("hashchange", markTalk);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !document.querySelector("dialog[open]")) showTalks(); }); // another tab may have asked

async function rename(talk) {
  const title = await askText("Rename this conversation", "Title", talk.title, "Rename");
  if (title) await tried(send("PATCH", url`/api/conversations/${talk.id}`, { title }));
}

async function remove(talk) {
  if (!(await isSure(`Delete “${talk.title || "Untitled"}”?`, "Its questions, answers and traces are deleted permanently."))) return;
  await tried(send("DELETE", url`/api/conversations/${talk.id}`).then(() => deleted.add(talk.id)));
  if (current() === encodeURIComponent(talk.id)) location.hash = "#/ask";
  else (list.querySelector(".talk a") || document.querySelector(".talks-head a")).focus();
}

async function tried(work) {
  try { await work; } catch (error) { tell(error); }
  await showTalks();
}
