// The conversations on the left: open, rename, delete.
import { failureOf, get, send } from "./api.js";
import { ask, askText, h, iconButton, toast } from "./dom.js";

const list = document.getElementById("talks");

const current = () => location.hash.match(/^#\/ask\/(.+)$/)?.[1] || "";

export async function showTalks() {
  try {
    const found = await get("/api/conversations");
    const talks = found.conversations;
    list.replaceChildren(talks.length ? h("div", { role: "list" }, talks.map(row)) : h("p.quiet.small", { class: "talks-none" }, "What you ask is kept here."));
  } catch (error) {
    list.replaceChildren(h("p.quiet.small", {}, failureOf(error).text));
  }
}

function row(talk) {
  const title = talk.title || "Untitled";
  const open = current() === encodeURIComponent(talk.id);
  return h("div.talk", { role: "listitem", "data-id": talk.id, "data-current": open },
    h("a", { href: `#/ask/${encodeURIComponent(talk.id)}`, title, "aria-current": open ? "true" : undefined }, title),
    iconButton("pen", `Rename “${title}”`, () => rename(talk)),
    iconButton("bin", `Delete “${title}”`, () => remove(talk)));
}

export function markTalk() {
  for (const one of list.querySelectorAll(".talk")) {
    const open = current() === encodeURIComponent(one.dataset.id);
    one.toggleAttribute("data-current", open);
    one.firstElementChild.toggleAttribute("aria-current", open);
  }
}
addEventListener("hashchange", markTalk);

async function rename(talk) {
  const title = await askText("Rename this conversation", "Title", talk.title, "Rename");
  if (!title) return;
  await tried(send("PATCH", `/api/conversations/${encodeURIComponent(talk.id)}`, { title }));
}

async function remove(talk) {
  const text = h("p", {}, "Its questions, answers and traces are removed for good.");
  if (!(await ask(`Delete “${talk.title || "Untitled"}”?`, text, "Delete", { danger: true }))) return;
  await tried(send("DELETE", `/api/conversations/${encodeURIComponent(talk.id)}`));
  if (current() === encodeURIComponent(talk.id)) location.hash = "#/ask";
}

async function tried(work) {
  try { await work; } catch (error) { toast(failureOf(error).text); }
  await showTalks();
}
