// What is searched: everything, or some collections and documents.
import { failureOf, get, url } from "./api.js";
import { ask, bones, failureState, h, toast } from "./dom.js";
import { foldersOf } from "./folders.js";

export function scopeName(scope = { collections: [], documents: [] }) {
  const all = [...scope.collections, ...scope.documents.map((one) => one.name)];
  if (!all.length) return "All documents";
  return all.length === 1 ? all[0] : `${all[0]} and ${all.length - 1} more`;
}

export function scopeFields(scope) {
  const some = (list) => (list.length ? list : undefined);
  return { collection: some(scope.collections), document: some(scope.documents.map((one) => one.id)) };
}

/** Drops what is no longer there: a collection that was renamed would be searched in vain. */
export async function dropGone(scope) {
  if (!scope.collections.length && !scope.documents.length) return;
  const names = new Set(foldersOf((await get("/api/collections")).collections).map((one) => one.name));
  const isGone = (one) => get(`/api/documents/${one.id}`).then(() => false, (error) => failureOf(error).status === 404 || Promise.reject(error));
  const gone = await Promise.all(scope.documents.map(isGone));
  const before = scopeName(scope);
  Object.assign(scope, { collections: scope.collections.filter((name) => names.has(name)), documents: scope.documents.filter((_, at) => !gone[at]) });
  if (scopeName(scope) !== before) toast(`Parts of “${before}” no longer exist. Now searching: ${scopeName(scope)}.`);
}

/** Lets the reader tick collections and documents; changes `scope` in place when it is accepted. */
export async function pickScope(scope) {
  const list = h("div.scope-list", bones(5));
  const find = h("input.field", { type: "search", placeholder: "Find by name", label: "Find a collection or document", oninput: () => load(find.value) });
  const collections = new Map(scope.collections.map((name) => [name, name]));
  const documents = new Map(scope.documents.map((one) => [one.id, one]));
  const tick = (chosen, key, name, value) => {
    const box = h("input", { type: "checkbox", checked: chosen.has(key), onchange: () => (box.checked ? chosen.set(key, value) : chosen.delete(key)) });
    return h("label", { title: name }, box, h("span", name));
  };
  let round = 0;
  async function load(text = "") {
    const mine = (round += 1);
    try {
      const [places, found] = await Promise.all([get("/api/collections"), get(url`/api/documents?limit=100&q=${text}`)]);
      if (mine !== round) return;
      const names = foldersOf(places.collections).map((one) => one.name).filter((name) => name.toLowerCase().includes(text.toLowerCase()));
      list.replaceChildren(h("h3", "Collections"), ...names.map((name) => tick(collections, name, name, name)),
        h("h3", "Documents"), ...found.documents.map(({ id, name }) => tick(documents, id, name, { id, name })));
    } catch (error) { list.replaceChildren(failureState(error, () => load(text))); }
  }
  load();
  const clear = h("button.link", { onclick: () => { collections.clear(); documents.clear(); load(find.value); } }, "All documents");
  const yes = await ask("Where to look", h("div", find, list, h("p.small", clear)), "Use these");
  if (yes) Object.assign(scope, { collections: [...collections.values()], documents: [...documents.values()] });
}
