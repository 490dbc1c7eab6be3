// The library: collections as folders, documents with their status, and all actions on them.
import { get, may, me, query, send, url } from "./api.js";
import { askPlace, Choosing, placeField } from "./choosing.js";
import { ask, askText, bones, byId, bytes, dotted, emptyState, failureState, h, icon, iconButton, isLost, isSure, many, needsPassword, number, options, redraw, retryWith, tell, titleOf, toast, when, whyOf } from "./dom.js";
import { foldersOf, inSight } from "./folders.js";
import { dropZone, SAYS, takeDrops, Uploading } from "./uploads.js";
import { changed, closeViewer, openDocument } from "./viewer.js";

const PAGE = 50;
const MOST = 1000; // rows in one reply of the service
let open = null;

/** Opening another document of the list does not draw the list anew. */
export function stays([id, page]) {
  if (!open?.list.isConnected) return false;
  if (id) openDocument(id, Number(page) || 1, open.list.querySelector(`[data-id="${CSS.escape(id)}"] .doc-name`));
  else closeViewer(false);
  return true;
}

export async function show(main, [id, page]) {
  const state = { collection: "", names: [], q: "", status: "", offset: 0, list: h("ul.docs", { label: "Documents" }), folders: h("ul.folders", { label: "Collections" }), more: h("div"), total: h("p", " ") };
  const uploading = (state.uploading = new Uploading(() => refresh(state), () => placeOf(state)));
  state.choosing = new Choosing(state.list, (work, said, change) => act(state, work, said, change), () => state.names);
  const find = h("input.field", { id: "find", type: "search", placeholder: "Search by name", label: "Search by name", oninput: () => { clearTimeout(state.timer); state.timer = setTimeout(() => { state.q = find.value.trim(); first(state); }, 150); } });
  const status = h("select.field.short", { label: "Status", onchange: () => { state.status = status.value; first(state); } },
    options([["", "Any status"], ...["ready", "processing", "pending", "failed"].map((one) => [one, SAYS[one]])]));
  const add = (files) => uploading.add(files);
  const button = (text, onclick) => h("button.button", { onclick }, text);
  const view = h("div.view",
    h("div.view-head", h("div.spread", h("h1", "Documents"), state.total)),
    may("editor") && dropZone(add, [button("Add from the web", () => byUrl(state, uploading)), button("New collection", () => newFolder(state))]), uploading.list,
    h("div.library", h("nav", { label: "Collections" }, state.folders), h("div", h("div.row.finding", h("div.spread", find), status), state.choosing.bar, state.list, state.more)));
  if (may("editor")) takeDrops(view, add);
  main.replaceChildren(view);
  open = state;
  uploading.watch();
  await refresh(state);
  if (id) stays([id, page]);
  return () => { uploading.stop(); if (open === state) open = null; };
}

const refresh = (state) => Promise.all([load(state), loadFolders(state)]);

/** The list from its beginning: another search, status or folder. */
function first(state) {
  state.offset = 0;
  return load(state);
}

function enter(state, name) {
  state.collection = name;
  return Promise.all([first(state), loadFolders(state)]);
}

/** Where files go: into the open folder, else the first one of one's key. */
const placeOf = (state) => state.collection || (me.collections?.[0] ?? "default");

async function loadFolders(state) {
  const place = state.folders.closest(".view")?.querySelector(".drop p");
  if (place) place.textContent = `or drop them here to add them to ${placeOf(state)}`;
  try {
    const { collections } = await get("/api/collections");
    state.names = collections.map((one) => one.name);
    const count = collections.reduce((sum, one) => sum + one.documents, 0);
    if (state.collection && !state.names.includes(state.collection)) collections.push({ name: state.collection, documents: 0, may_edit: true }); // new, or emptied
    const entry = ({ name, label, documents, depth = 0, mayEdit }) => h("li", { depth },
      h("button.plain.folder", { title: name || label, "aria-pressed": String(state.collection === name), onclick: () => enter(state, name) }, icon("folder"), h("span", label), h("small", number(documents))),
      mayEdit && documents > 0 && state.collection === name && [iconButton("pen", `Rename the collection ${name}`, () => renameFolder(name, state)), iconButton("bin", `Delete the collection ${name}`, () => removeFolder(name, documents, state))]);
    redraw(state.folders, [{ name: "", label: "Everything", documents: count }, ...inSight(foldersOf(collections), state.collection)].map(entry));
  } catch { /* the old ones stay; the list says what is wrong */ }
}

/** As many rows as are shown, or the next ones below them. */
async function load(state, more = false) {
  state.offset = more ? state.offset + PAGE : Math.min(state.offset, MOST - PAGE);
  const part = more ? { limit: PAGE, offset: state.offset } : { limit: state.offset + PAGE };
  const mine = (state.round = (state.round || 0) + 1);
  if (!more && !state.list.childElementCount) state.list.replaceChildren(h("li", bones()));
  try {
    const found = await get(`/api/documents?${query({ collection: state.collection, q: state.q, status: state.status, ...part })}`);
    if (mine !== state.round) return;
    const rows = found.documents.map((one) => row(one, state));
    if (more) state.list.append(...rows);
    else redraw(state.list, rows);
    state.choosing.keep();
    const { total } = found;
    const isBare = !total && !(state.q || state.status || state.collection);
    state.list.closest(".library").classList.toggle("bare", isBare); // an empty library has nothing to filter
    state.total.textContent = isBare ? "Documents you add here can be searched and cited." : many(total);
    const left = total - state.list.childElementCount;
    state.more.replaceChildren(...(left > 0 ? [h("p", h("br"), h("button.button", { onclick: () => load(state, true) }, `Show more (${number(left)})`))] : total || state.uploading.isBusy() ? [] : [nothing(state)]));
    if (more && isLost()) rows[0]?.querySelector("button").focus();
  } catch (error) { if (mine === state.round) state.list.replaceChildren(h("li", failureState(error, () => refresh(state)))); }
}

function nothing(state) {
  if (state.q || state.status) return emptyState("files", "No matches", "Try another name, folder or status.");
  if (state.collection) return emptyState("folder", "This collection is empty", "Add a document, or the collection disappears.");
  return emptyState("files", "No documents yet", may("editor") ? "Drop files above: PDF, Word, PowerPoint, Excel, CSV, HTML, Markdown, text, mail, EPUB, images." : "There are no documents you can read.");
}

/** "MD" and "TXT" say more than the first letters of "markdown" and "text". */
const kindOf = ({ name, format }) => (/\.(\w{1,5})$/.exec(name)?.[1] || format || "").slice(0, 5);

function row(one, state) {
  const name = h("button.doc-name", { onclick: () => { location.hash = `#/documents/${one.id}`; } }, one.name);
  const facts = dotted(titleOf(one), one.page_count && many(one.page_count, "page"), one.size && bytes(one.size), state.collection !== one.collection && one.collection, when(one.created_at));
  const acts = may("editor") ? h("div.acts",
    one.status === "failed" && !needsPassword(one.error) && iconButton("again", `Try ${one.name} again`, () => again(one, state)),
    iconButton("pen", `Rename or move ${one.name}`, () => change(one, state)), iconButton("bin", `Delete ${one.name}`, () => remove(one, state))) : h("span");
  return h("li.doc", { "data-id": one.id, "data-status": one.status }, may("editor") && state.choosing.box(one), h("span.doc-kind", { "aria-hidden": "true" }, kindOf(one)),
    h("div", h("div.row", one.status === "failed" ? h("strong", one.name) : name, one.status !== "ready" && h("span.tag", { class: one.status === "failed" ? "bad" : "warn" }, SAYS[one.status])), h("p", facts), one.error && h("p.why", whyOf(one.error), " ", may("editor") && needsPassword(one.error) && h("button.link", { onclick: () => again(one, state) }, "Enter password")), (one.notes || []).map((note) => h("p", note))), acts);
}

/** Does it to the documents that `isOne` holds for, draws the list anew and puts the focus on the row or its successor. */
async function act(state, work, said, { id = "", isOne = (one) => one.id === id, isGone = false } = {}) {
  const at = [...state.list.children].findIndex((row) => row.dataset.id === id);
  try {
    await work;
    toast(said);
    changed(isOne, isGone);
  } catch (error) { tell(error); }
  await refresh(state);
  const rows = [...state.list.children];
  const one = rows.find((row) => row.dataset.id === id) || rows[Math.min(at, rows.length - 1)];
  if (isLost()) (one?.querySelector("button") || byId("find"))?.focus();
}

async function again(one, state) {
  const body = await retryWith(one.name, one.error);
  if (body) await act(state, send("POST", `/api/documents/${one.id}/retry`, body), "Processing it again.", { id: one.id });
}

async function change(one, state) {
  const name = h("input.field", { value: one.name, required: true, maxlength: 255 });
  const [place, places] = placeField(one.collection, state.names);
  const found = await ask("Rename or move", h("div", h("label.stack", "Name", name), h("br"), h("label.stack", "Collection", place), places), "Save", { read: () => ({ name: name.value.trim(), collection: place.value.trim() }) });
  const wanted = found && Object.fromEntries(Object.entries(found).filter(([key, value]) => value && value !== one[key]));
  if (!wanted || !Object.keys(wanted).length) return;
  await act(state, send("PATCH", `/api/documents/${one.id}`, wanted), "Saved.", { id: one.id });
}

async function remove(one, state) {
  if (!(await isSure(`Delete “${one.name}”?`, "It can no longer be searched or cited. Your original file is not affected."))) return;
  await act(state, send("DELETE", `/api/documents/${one.id}`), "Deleted.", { id: one.id, isGone: true });
}

async function renameFolder(name, state) {
  const wanted = await askPlace(`Rename “${name}”`, "Name or path", name, state.names, h("p", "Its documents and subcollections move too. Keys are not updated: a key for the old name does not give access to the new one."));
  if (!wanted || wanted === name) return;
  const isThere = state.names.some((one) => within(one, wanted) && !within(one, name));
  if (isThere && !(await isSure(`“${wanted}” already exists`, "The two collections will be merged.", "Merge"))) return;
  await folderAct(send("PATCH", url`/api/collections/${name}`, { name: wanted }), `It is called ${wanted}.`, wanted, state, name);
}

async function removeFolder(name, amount, state) {
  if (!(await isSure(`Delete “${name}”?`, `${many(amount)} will no longer be searchable or citable. Your original files are not affected.`))) return;
  await folderAct(send("DELETE", url`/api/collections/${name}`), "Deleted.", "", state, name);
}

const within = (collection, name) => `${collection}/`.startsWith(`${name}/`);

async function newFolder(state) {
  const name = await askPlace("New collection", "Name or path", state.collection && `${state.collection}/`, state.names);
  if (name) await enter(state, name);
}

/** Opens the folder that is there afterwards, and puts the focus on it. */
async function folderAct(work, said, open, state, name) {
  const moved = work.then(() => Object.assign(state, { collection: open, offset: 0 }));
  await act(state, moved, said, { isOne: (one) => within(one.collection, name), isGone: !open });
  state.folders.querySelector("[aria-pressed=true]")?.focus();
}

async function byUrl(state, uploading) {
  const url = await askText("Add from the web", "Address of a page or a file", "", "Add", { type: "url", placeholder: "https://example.org/report.pdf" });
  if (!url) return;
  await act(state, send("POST", "/api/documents/url", { url, collection: placeOf(state) }), "Fetching it.");
  uploading.watch();
}
