// The library: collections as folders, documents with their status, and everything one does to them.
import { failureOf, get, may, query, send } from "./api.js";
import { askPlace, Choosing, placeField } from "./choosing.js";
import { ask, askText, bones, bytes, emptyState, failureState, h, icon, iconButton, needsPassword, number, pages, retryWith, titleOf, toast, when, whyOf } from "./dom.js";
import { foldersOf, inSight } from "./folders.js";
import { dropZone, Uploading } from "./uploads.js";
import { closeViewer, forget, openDocument } from "./viewer.js";

const PAGE = 50;
let open = null;

/** Opening another document of the list does not draw the list anew. */
export function stays([id, page]) {
  if (!open?.list.isConnected) return false;
  if (id) openDocument(id, Number(page) || 1, open.list.querySelector(`[data-id="${CSS.escape(id)}"] .doc-name`));
  else closeViewer(false);
  return true;
}

export async function show(main, [id, page]) {
  const state = { collection: "", names: [], q: "", status: "", offset: 0, list: h("ul.docs", { "aria-label": "Documents" }), folders: h("ul.folders", { "aria-label": "Collections" }), more: h("div") };
  const uploading = new Uploading(() => refresh(state), () => state.collection || "default");
  state.uploading = uploading;
  state.choosing = new Choosing(state.list, (work, said) => act(state, work, said), () => state.names);
  const find = h("input.field", { id: "find", type: "search", placeholder: "Search by name", "aria-label": "Search by name", oninput: () => { clearTimeout(state.timer); state.timer = setTimeout(() => { state.q = find.value.trim(); load(state); }, 150); } });
  const status = h("select.field.short", { "aria-label": "Status", onchange: () => { state.status = status.value; load(state); } },
    [["", "Every status"], ["ready", "Ready"], ["processing", "Being read"], ["pending", "Waiting"], ["failed", "Failed"]].map(([value, text]) => h("option", { value }, text)));
  const view = h("div.view", {},
    h("div.view-head", {}, h("div.spread", {}, h("h1", {}, "Documents"), h("p", { "data-total": "" }, " "))),
    may("editor") && dropZone((files) => uploading.add(files), h("button.button", { type: "button", onclick: () => byUrl(state, uploading) }, "Add from the web")), uploading.list,
    h("div.library", {}, h("nav", { "aria-label": "Collections" }, state.folders), h("div", {}, h("div.row.finding", {}, h("div.spread", {}, find), status), state.choosing.bar, state.list, state.more)));
  state.total = view.querySelector("[data-total]");
  main.replaceChildren(view);
  open = state;
  uploading.watch();
  await refresh(state);
  if (id) stays([id, page]);
  return () => { uploading.stop(); open = null; };
}

const refresh = (state) => Promise.all([load(state), loadFolders(state)]);

async function loadFolders(state) {
  try {
    const found = await get("/api/collections");
    const collections = found.collections;
    state.names = collections.map((one) => one.name);
    const count = collections.reduce((sum, one) => sum + (one.documents), 0);
    const entry = (name, label, amount, depth = 0, mayEdit = false) => h("li", { "data-depth": Math.min(depth, 4) },
      h("button.plain.folder", { title: name || label, type: "button", "aria-pressed": String(state.collection === name), onclick: () => { state.collection = name; refresh(state); } }, icon("folder"), h("span", {}, label), h("small", {}, number(amount))),
      mayEdit && amount > 0 && state.collection === name && [iconButton("pen", `Rename the collection ${name}`, () => renameFolder(name, state)), iconButton("bin", `Delete the collection ${name}`, () => removeFolder(name, amount, state))]);
    state.folders.replaceChildren(entry("", "Everything", count), ...inSight(foldersOf(collections), state.collection).map((one) => entry(one.name, one.label, one.documents, one.depth, one.mayEdit)));
    const place = state.folders.closest(".view")?.querySelector(".drop p");
    if (place) place.textContent = state.collection ? `or drop them here; they go into ${state.collection}` : "or drop them here, as many as you like";
  } catch { state.folders.replaceChildren(); }
}

async function load(state, more = false) {
  state.offset = more ? state.offset + PAGE : 0;
  const mine = (state.round = (state.round || 0) + 1);
  if (!more && !state.list.childElementCount) state.list.replaceChildren(h("li", {}, bones()));
  try {
    const found = await get(`/api/documents?${query({ collection: state.collection, q: state.q, status: state.status, limit: PAGE, offset: state.offset })}`);
    if (mine !== state.round) return;
    const rows = found.documents.map((one) => row(one, state));
    if (more) state.list.append(...rows); else state.list.replaceChildren(...rows);
    state.choosing.keep();
    const total = found.total;
    main(state).classList.toggle("bare", !total && !isFiltered(state)); // an empty library has nothing to filter
    state.total.textContent = !total && !isFiltered(state) ? "What you add here can be searched and cited." : total === 1 ? "1 document" : `${number(total)} documents`;
    const left = total - state.offset - rows.length;
    state.more.replaceChildren(...(left > 0 ? [h("p", {}, h("br"), h("button.button", { type: "button", onclick: () => load(state, true) }, `Show more (${number(left)})`))] : total || state.uploading.isBusy() ? [] : [nothing(state)]));
  } catch (error) { if (mine === state.round) state.list.replaceChildren(h("li", {}, failureState(failureOf(error), () => load(state)))); }
}

const main = (state) => state.list.closest(".library");
const isFiltered = (state) => Boolean(state.q || state.status || state.collection);

function nothing(state) {
  if (isFiltered(state)) return emptyState("files", "Nothing fits", "Try another name, folder or status.");
  return emptyState("files", "No documents yet", may("editor") ? "Drop files above: PDF, Word, PowerPoint, Excel, CSV, HTML, Markdown, text, mail, EPUB, images." : "Nothing has been added that you may read.");
}

const TAGS = { ready: "", pending: "Waiting", processing: "Being read", failed: "Failed" };

/** "MD" and "TXT" say more than the first letters of "markdown" and "text". */
const kindOf = ({ name, format }) => (/\.(\w{1,5})$/.exec(name)?.[1] || format || "").slice(0, 5);

function row(one, state) {
  const name = h("button.doc-name", { type: "button", onclick: () => {
    const address = `#/documents/${one.id}`;
    if (location.hash === address) stays([one.id]); // closed in the meantime
    else location.hash = address;
  } }, one.name);
  const facts = [titleOf(one), one.page_count ? pages(one.page_count) : "", one.size ? bytes(one.size) : "", state.collection === one.collection ? "" : one.collection, when(one.created_at)].filter(Boolean).join(" · ");
  const acts = may("editor") ? h("div.acts", {},
    one.status === "failed" && !needsPassword(one.error) && iconButton("again", `Try ${one.name} again`, () => again(one, state)),
    iconButton("pen", `Rename or move ${one.name}`, () => change(one, state)), iconButton("bin", `Delete ${one.name}`, () => remove(one, state))) : h("span");
  return h("li.doc", { "data-id": one.id, "data-status": one.status }, may("editor") && state.choosing.box(one), h("span.doc-kind", { "aria-hidden": "true" }, kindOf(one)),
    h("div", {}, h("div.row", {}, one.status === "failed" ? h("strong", {}, one.name) : name, TAGS[one.status] && h("span.tag", { class: one.status === "failed" ? "bad" : "warn" }, TAGS[one.status])), h("p", {}, facts), one.error && h("p.why", {}, whyOf(one.error), " ", may("editor") && needsPassword(one.error) && h("button.link", { type: "button", onclick: () => again(one, state) }, "Give the password")), (one.notes || []).map((note) => h("p", {}, note))), acts);
}

/** Does it, draws the list anew and puts the focus on the row it was about, or on the one that took its place. */
async function act(state, work, said, id = "") {
  const at = [...state.list.children].findIndex((row) => row.dataset.id === id);
  try { await work; toast(said); } catch (error) { toast(failureOf(error).text); }
  await refresh(state);
  const rows = [...state.list.children];
  const one = rows.find((row) => row.dataset.id === id) || rows[Math.min(at, rows.length - 1)];
  if (document.activeElement === document.body || !document.activeElement) (one?.querySelector("button") || document.getElementById("find"))?.focus();
}

async function again(one, state) {
  const body = await retryWith(one.name, one.error);
  if (body) await act(state, send("POST", `/api/documents/${one.id}/retry`, body), "It is being read again.", one.id);
}

async function change(one, state) {
  const name = h("input.field", { value: one.name, required: true, maxlength: 255 });
  const [place, places] = placeField(one.collection, state.names);
  const found = await ask("Rename or move", h("div", {}, h("label.stack", {}, "Name", name), h("br"), h("label.stack", {}, "Collection", place), places), "Save", { read: () => ({ name: name.value.trim(), collection: place.value.trim() }) });
  const changed = found && Object.fromEntries(Object.entries(found).filter(([key, value]) => value && value !== one[key]));
  if (!changed || !Object.keys(changed).length) return;
  forget(one.id);
  await act(state, send("PATCH", `/api/documents/${one.id}`, changed), "Saved.", one.id);
}

async function remove(one, state) {
  if (!(await ask(`Delete “${one.name}”?`, h("p", {}, "It can no longer be searched or cited. The file you added it from is not touched."), "Delete", { danger: true }))) return;
  forget(one.id);
  await act(state, send("DELETE", `/api/documents/${one.id}`), "Deleted.", one.id);
}

async function renameFolder(name, state) {
  const wanted = await askPlace(`Rename “${name}”`, "Name, or path", name, state.names, h("p", {}, "What is inside it goes along. Keys are not changed: who may read the old name does not see the new one by it."));
  if (!wanted || wanted === name) return;
  await folderAct(send("PATCH", `/api/collections/${encodeURIComponent(name)}`, { name: wanted }), `It is called ${wanted}.`, wanted, state);
}

async function removeFolder(name, amount, state) {
  if (!(await ask(`Delete “${name}”?`, h("p", {}, `${amount === 1 ? "1 document" : `${number(amount)} documents`} in it can no longer be searched or cited. The files you added are not touched.`), "Delete", { danger: true }))) return;
  await folderAct(send("DELETE", `/api/collections/${encodeURIComponent(name)}`), "Deleted.", "", state);
}

/** Opens the folder that is there afterwards, and puts the focus on it. */
async function folderAct(work, said, open, state) {
  await act(state, work.then(() => { state.collection = open; }), said);
  state.folders.querySelector("[aria-pressed=true]")?.focus();
}

async function byUrl(state, uploading) {
  const url = await askText("Add from the web", "Address of a page or a file", "", "Add", { type: "url", placeholder: "https://example.org/report.pdf" });
  if (!url) return;
  await act(state, send("POST", "/api/documents/url", { url, collection: state.collection || "default" }), "It is being fetched.");
  uploading.watch();
}
