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
    options([["", "Any status"], ...["ready", "processing", "pending", "failed"].map((status) => [status, SAYS[status]])]));
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
    state.names = collections.map((collection) => collection.name);
    const count = collections.reduce((sum, collection) => sum + collection.documents, 0);
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
    const rows = found.documents.map((doc) => row(doc, state));
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

function row(doc, state) {
  const name = h("button.doc-name", { onclick: () => { location.hash = `#/documents/${doc.id}`; } }, doc.name);
  const facts = dotted(titleOf(doc), doc.page_count && many(doc.page_count, "page"), doc.size && bytes(doc.size), state.collection !== doc.collection && doc.collection, when(doc.created_at));
  const acts = may("editor") ? h("div.acts",
    doc.status === "failed" && !needsPassword(doc.error) && iconButton("again", `Try ${doc.name} again`, () => again(doc, state)),
    iconButton("pen", `Rename or move ${doc.name}`, () => change(doc, state)), iconButton("bin", `Delete ${doc.name}`, () => remove(doc, state))) : h("span");
  return h("li.doc", { "data-id": doc.id, "data-status": doc.status }, may("editor") && state.choosing.box(doc), h("span.doc-kind", { "aria-hidden": "true" }, kindOf(doc)),
    h("div", h("div.row", doc.status === "failed" ? h("strong", doc.name) : name, doc.status !== "ready" && h("span.tag", { class: doc.status === "failed" ? "bad" : "warn" }, SAYS[doc.status])), h("p", facts), doc.error && h("p.why", whyOf(doc.error), " ", may("editor") && needsPassword(doc.error) && h("button.link", { onclick: () => again(doc, state) }, "Enter password")), (doc.notes || []).map((note) => h("p", note))), acts);
}

/** Does it to the documents that `isOne` holds for, draws the list anew and puts the focus on the row or its successor. */
async function act(state, work, said, { id = "", isOne = (doc) => doc.id === id, isGone = false } = {}) {
  const at = [...state.list.children].findIndex((row) => row.dataset.id === id);
  try {
    await work;
    toast(said);
    changed(isOne, isGone);
  } catch (error) { tell(error); }
  await refresh(state);
  const rows = [...state.list.children];
  const next = rows.find((row) => row.dataset.id === id) || rows[Math.min(at, rows.length - 1)];
  if (isLost()) (next?.querySelector("button") || byId("find"))?.focus();
}

async function again(doc, state) {
  const body = await retryWith(doc.name, doc.error);
  if (body) await act(state, send("POST", `/api/documents/${doc.id}/retry`, body), "Processing it again.", { id: doc.id });
}

async function change(doc, state) {
  const name = h("input.field", { value: doc.name, required: true, maxlength: 255 });
  const [place, places] = placeField(doc.collection, state.names);
  const found = await ask("Rename or move", h("div", h("label.stack", "Name", name), h("br"), h("label.stack", "Collection", place), places), "Save", { read: () => ({ name: name.value.trim(), collection: place.value.trim() }) });
  const wanted = found && Object.fromEntries(Object.entries(found).filter(([key, value]) => value && value !== doc[key]));
  if (!wanted || !Object.keys(wanted).length) return;
  await act(state, send("PATCH", `/api/documents/${doc.id}`, wanted), "Saved.", { id: doc.id });
}

async function remove(doc, state) {
  if (!(await isSure(`Delete “${doc.name}”?`, "It can no longer be searched or cited. Your original file is not affected."))) return;
  await act(state, send("DELETE", `/api/documents/${doc.id}`), "Deleted.", { id: doc.id, isGone: true });
}

async function renameFolder(name, state) {
  const wanted = await askPlace(`Rename “${name}”`, "Name or path", name, state.names, h("p", "Its documents and subcollections move too. Keys are not updated: a key for the old name does not give access to the new one."));
  if (!wanted || wanted === name) return;
  const isThere = state.names.some((other) => within(other, wanted) && !within(other, name));
  if (isThere && !(await isSure(`“${wanted}” already exists`, "The two collections will be merged.", "Merge"))) return;
  await folderAct(send("PATCH", url`/api/collections/${name}`, { name: wanted }), `Renamed to ${wanted}.`, wanted, state, name);
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
  await act(state, moved, said, { isOne: (doc) => within(doc.collection, name), isGone: !open });
  state.folders.querySelector("[aria-pressed=true]")?.focus();
}

async function byUrl(state, uploading) {
  const url = await askText("Add from the web", "Address of a page or a file", "", "Add", { type: "url", placeholder: "https://example.org/report.pdf" });
  if (!url) return;
  await act(state, send("POST", "/api/documents/url", { url, collection: placeOf(state) }), "Fetching it.");
  uploading.watch();
}
