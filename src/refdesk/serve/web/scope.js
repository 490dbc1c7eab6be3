// What is searched: everything, or some collections and documents.
import { failureOf, get } from "./api.js";
import { ask, bones, failureState, h } from "./dom.js";
import { foldersOf } from "./folders.js";

export function scopeName(scope = { collections: [], documents: [] }) {
  const all = [...scope.collections, ...scope.documents.map((one) => one.name)];
  if (!all.length) return "All documents";
  return all.length === 1 ? all[0] : `${all[0]} and ${all.length - 1} more`;
}

export function scopeFields(scope) {
  return {
    ...(scope.collections.length ? { collection: scope.collections } : {}),
    ...(scope.documents.length ? { document: scope.documents.map((one) => one.id) } : {}),
  };
}

/** Lets the reader tick collections and documents; changes `scope` in place when it is accepted. */
export async function pickScope(scope) {
  const list = h("div.scope-list", {}, bones(5));
  const find = h("input.field", { type: "search", placeholder: "Find by name", "aria-label": "Find a collection or document", oninput: () => load(find.value) });
  const chosen = { collections: new Set(scope.collections), documents: new Map(scope.documents.map((one) => [one.id, one])) };
  let round = 0;
  async function load(text = "") {
    const mine = (round += 1);
    try {
      const [collections, documents] = await Promise.all([get("/api/collections"), get(`/api/documents?limit=100&q=${encodeURIComponent(text)}`)]);
      if (mine !== round) return;
      const names = foldersOf(collections.collections).map((one) => one.name).filter((name) => name.toLowerCase().includes(text.toLowerCase()));
      list.replaceChildren(h("h3", {}, "Collections"), ...names.map((name) => tick(name, chosen.collections.has(name), (on) => (on ? chosen.collections.add(name) : chosen.collections.delete(name)))),
        h("h3", {}, "Documents"), ...documents.documents.map((one) => tick(one.name, chosen.documents.has(one.id), (on) => (on ? chosen.documents.set(one.id, { id: one.id, name: one.name }) : chosen.documents.delete(one.id)))));
    } catch (error) { list.replaceChildren(failureState(failureOf(error), () => load(text))); }
  }
  load();
  const clear = h("button.link", { type: "button", onclick: () => { chosen.collections.clear(); chosen.documents.clear(); load(find.value); } }, "All documents");
  const yes = await ask("Where to look", h("div", {}, find, list, h("p.small", {}, clear)), "Use these");
  if (yes) Object.assign(scope, { collections: [...chosen.collections], documents: [...chosen.documents.values()] });
}

function tick(name, checked, change) {
  const box = h("input", { type: "checkbox", checked, onchange: () => change(box.checked) });
  return h("label", { title: name }, box, h("span", {}, name));
}
