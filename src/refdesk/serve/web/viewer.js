// The page viewer: a document's pages with the quoted lines highlighted, citation by citation.
import { failureOf, get, url } from "./api.js";
import { bones, byId, failureState, h, icon, iconButton, say, titleOf } from "./dom.js";

const panel = byId("viewer");
const frame = byId("frame");
const ZOOMS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3];
const documents = new Map();
let state = null; // {cites, at, documentId, page, zoom, asText, leafed, back}; leafed: away from the citation's page
let drawn = 0;

/** Where there is no room beside the page it lies over it, so nothing below it can be reached. */
const covers = matchMedia("(max-width: 1120px)");
function cover() {
  for (const part of [...frame.children]) if (part !== panel) part.inert = state !== null && covers.matches;
}
covers.addEventListener("change", cover);

/** Opens at one of an answer's citations; `back` is focused when the viewer closes. */
export function openCitation(cites, at, back) {
  const cite = cites[at];
  if (!state && covers.matches) history.pushState({ viewer: true }, ""); // so that Back shuts it
  state = { cites, at, documentId: cite.document_id, page: cite.page, zoom: state?.zoom ?? 1, asText: false, back: back || state?.back };
  return draw();
}

/** Opens a document to leaf through. */
export function openDocument(documentId, page = 1, back = null) {
  state = { cites: [], at: -1, documentId, page, zoom: state?.zoom ?? 1, asText: false, back };
  return draw();
}

export function closeViewer(focus = true) {
  if (!state) return;
  const { back, cites, at } = state;
  state = null;
  drawn += 1; // what was on its way is not shown
  panel.hidden = true;
  panel.replaceChildren();
  frame.classList.remove("with-viewer");
  cover();
  for (const link of document.querySelectorAll(".chip.open, .source.open")) link.classList.remove("open");
  if (!focus) return;
  if (history.state?.viewer) history.back();
  else if (location.hash.startsWith("#/documents/")) history.replaceState(null, "", "#/documents");
  const isSame = (link) => link.cites?.some((cite) => cite.marker === cites[at]?.marker && cite.document_id === cites[at].document_id);
  const drawnAnew = () => [...document.querySelectorAll(".chip, .source")].findLast(isSame);
  (back?.isConnected ? back : drawnAnew() || byId("question"))?.focus();
}
addEventListener("popstate", () => { if (state?.cites.length && !history.state?.viewer) closeViewer(); });

/** What a key does while the viewer is open; true when it did something. */
export function viewerKey({ key, target }) {
  const sheet = panel.querySelector(".viewer-pages");
  if (!state || !sheet) return false;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  const leaf = { PageDown: 1, PageUp: -1 }[key];
  const zoom = { "+": 1, "=": 1, "-": -1 }[key];
  const room = (at, shown, whole) => ((step || leaf) > 0 ? at + shown < whole - 1 : at > 0);
  const rolls = step ? room(sheet.scrollLeft, sheet.clientWidth, sheet.scrollWidth) : leaf && room(sheet.scrollTop, sheet.clientHeight, sheet.scrollHeight);
  if (rolls && sheet.contains(target)) return false; // first to the edge of what is shown
  if (step && state.cites.length) return go(step);
  return leaf || step ? turn(leaf || step) : Boolean(zoom) && rescale(zoom);
}

function go(step) {
  const at = state.at + step;
  if (!state.cites[at]) return false;
  openCitation(state.cites, at);
  return true;
}

const turn = (step) => toPage(state.page + step);

function toPage(page) {
  if (page < 1 || page > (documents.get(state.documentId)?.page_count || 1)) return false;
  Object.assign(state, { page, leafed: true });
  draw();
  return true;
}

function rescale(step) {
  const at = ZOOMS.indexOf(state.zoom) + step;
  if (!ZOOMS[at]) return false;
  state.zoom = ZOOMS[at];
  const sheet = panel.querySelector(".viewer-pages");
  const mark = [...sheet.querySelectorAll(".mark, mark")].find((mark) => isSeen(mark, sheet));
  const was = mark?.getBoundingClientRect();
  const [across, down] = [(sheet.scrollLeft + sheet.clientWidth / 2) / sheet.scrollWidth, (sheet.scrollTop + sheet.clientHeight / 2) / sheet.scrollHeight];
  for (const leaf of panel.querySelectorAll(".leaf")) resize(leaf);
  if (mark) { // it stays where the eye is; a line that has grown over the edge is drawn in
    const now = mark.getBoundingClientRect();
    sheet.scrollBy({ left: now.left - was.left, top: now.top - was.top, behavior: "instant" });
    mark.scrollIntoView({ block: "nearest", inline: now.width > sheet.clientWidth ? "start" : "nearest", behavior: "instant" });
  } else sheet.scrollTo({ left: across * sheet.scrollWidth - sheet.clientWidth / 2, top: down * sheet.scrollHeight - sheet.clientHeight / 2, behavior: "instant" });
  const [out, into] = panel.querySelectorAll("[data-zoom]");
  [out.disabled, into.disabled] = [at === 0, at === ZOOMS.length - 1];
  say(`${state.zoom * 100} per cent`);
  return true;
}

function isSeen(element, sheet) {
  const [mine, frame] = [element.getBoundingClientRect(), sheet.getBoundingClientRect()];
  return mine.bottom > frame.top && mine.top < frame.bottom && mine.right > frame.left && mine.left < frame.right;
}

/** As wide as the zoom says, and as sharp: a page that has grown is asked for anew. Text grows by its letters. */
function resize(leaf) {
  if (leaf.matches(".text")) { leaf.style.fontSize = `${0.95 * state.zoom}rem`; return; }
  leaf.style.width = `${state.zoom * 100}%`;
  const img = leaf.querySelector("img");
  if (img && sharpness(leaf) > Number(img.dataset.width)) {
    const [finer, width] = [new Image(), String(sharpness(leaf))];
    img.dataset.width = width;
    finer.onload = () => { if (img.dataset.width === width) img.src = finer.src; }; // the last one, whichever comes last
    finer.src = img.src.replace(/width=\d+/, `width=${width}`);
  }
}

const sharpness = (leaf) => Math.min(2400, Math.ceil((leaf.clientWidth * (devicePixelRatio || 1)) / 200) * 200) || 1000;

async function documentOf(id) {
  if (!documents.has(id)) {
    documents.set(id, await get(url`/api/documents/${id}`));
  }
  return documents.get(id);
}

/** Those for which `isOne` holds were changed, or are gone: shown as they are now, or no longer. */
export function changed(isOne, isGone) {
  const ids = [...documents.values()].filter(isOne).map((doc) => doc.id);
  for (const id of ids) documents.delete(id);
  if (!state || !ids.includes(state.documentId)) return;
  if (isGone) closeViewer();
  else draw();
}

async function draw() {
  const mine = (drawn += 1);
  const now = { ...state };
  const cite = now.cites[now.at];
  panel.hidden = false;
  frame.classList.add("with-viewer");
  cover();
  markOpen(cite);
  let known;
  try {
    known = await documentOf(now.documentId);
  } catch (error) {
    const failure = failureOf(error).status === 404 ? { text: "This document no longer exists, or you do not have access to it." } : failureOf(error);
    if (mine === drawn) panel.replaceChildren(h("div.viewer-bar", h("h2", cite?.document_name || "Document"), closer()), h("div.viewer-pages", failureState(failure, () => draw())));
    return;
  }
  if (mine !== drawn) return;
  const numbers = cite && !now.leafed ? pagesOf(cite) : [now.page];
  const sheet = h("div.viewer-pages", { tabindex: "0", role: "group", label: "Pages" });
  const held = panel.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  panel.replaceChildren(...[bar(known, now), cite && quoteBar(cite, now), sheet, pager(known, now)].filter(Boolean));
  if (held) (panel.querySelector(`[aria-label="${CSS.escape(held)}"]:not(:disabled)`) || sheet).focus({ preventScroll: true });
  const leaves = await Promise.all(numbers.map((number) => leaf(known, number, cite, now, numbers.length > 1, sheet)));
  if (mine !== drawn) return;
  (leaves.map((shown) => shown.querySelector(".mark, mark")).find(Boolean) || leaves[0])?.scrollIntoView({ block: leaves[0].querySelector(".mark, mark") ? "center" : "start" });
  if (covers.matches && !panel.contains(document.activeElement)) sheet.focus(); // it lies over the rest
}

const pagesOf = (cite) => [...new Set([cite.page, ...cite.boxes.map((box) => box.page)])].sort((a, b) => a - b);

function markOpen(cite) {
  for (const link of document.querySelectorAll(".chip, .source")) link.classList.toggle("open", Boolean(link.cites?.includes(cite)));
}

const closer = () => iconButton("close", "Close the viewer", () => closeViewer());

function bar(known, now) {
  const heading = (now.cites[now.at]?.heading_path || []).join(" › ");
  return h("div.viewer-bar",
    h("h2", { title: known.name }, known.name, h("span", heading || titleOf(known) || known.collection)),
    iconButton("minus", "Smaller", () => rescale(-1), { "data-zoom": "", disabled: now.zoom === ZOOMS[0] }), iconButton("plus", "Larger", () => rescale(1), { "data-zoom": "", disabled: now.zoom === ZOOMS.at(-1) }),
    hasImage(known) && iconButton(now.asText ? "image" : "text", now.asText ? "Show the page" : "Show the text", () => { Object.assign(state, { asText: !now.asText, zoom: 1 }); draw(); }),
    h("a.plain", { href: url`/api/documents/${known.id}/original`, download: known.name, label: "Download the original", title: "Download the original" }, icon("down")),
    closer());
}

function quoteBar(cite, now) {
  const count = now.cites.length;
  return h("div.viewer-cite",
    h("blockquote", cite.quote || "Only the page is cited."),
    h("div.row",
      h("span.quiet.small", `Citation ${now.at + 1} of ${count}`),
      iconButton("left", "Previous citation", () => go(-1), { disabled: now.at === 0 }),
      iconButton("right", "Next citation", () => go(1), { disabled: now.at === count - 1 })),
    cite.located === false && h("p.small.quiet", "The exact lines could not be located on this page."));
}

function pager(known, now) {
  const last = known.page_count || 1;
  const box = h("input.field", { value: now.page, inputmode: "numeric", label: "Page", onchange: () => {
    toPage(Math.min(last, Math.max(1, parseInt(box.value, 10) || now.page)));
  } });
  return h("div.pager",
    iconButton("left", "Previous page", () => turn(-1), { disabled: now.page <= 1 }),
    h("span", "Page "), box, h("span", ` of ${last}`),
    iconButton("right", "Next page", () => turn(1), { disabled: now.page >= last }));
}

const hasImage = (known) => known.has_page_images && known.page_count > 0;

async function leaf(known, number, cite, now, several, sheet) {
  const image = hasImage(known) && !now.asText;
  const element = h("article.leaf", { class: image ? "waiting" : "text", label: `Page ${number}`, "data-page": number });
  resize(element);
  if (several) sheet.append(h("p.leaf-name", `Page ${number}`));
  sheet.append(element);
  if (image) await picture(element, known, number, cite);
  else await words(element, known, number, cite);
  return element;
}

function picture(element, known, number, cite) {
  return new Promise((resolve) => {
    const width = sharpness(element);
    const img = h("img", { "data-width": width, alt: `Page ${number} of ${known.name}`, onload: () => {
      if (!element.matches(".waiting")) return; // only sharper than before
      element.classList.remove("waiting");
      for (const box of cite?.boxes || []) if (box.page === number) element.append(mark(box));
      resolve();
    }, onerror: () => {
      img.remove();
      element.className = "leaf text";
      words(element, known, number, cite).then(resolve);
    } });
    img.src = url`/api/documents/${known.id}/pages/${number}/image?width=${width}&format=webp`;
    element.append(img);
  });
}

/** Half a line of air left and right makes a marked line look marked by hand; the box itself stays covered. */
function mark(box) {
  const element = h("div.mark");
  const set = { left: box.x - 0.3, top: box.y - 0.15, width: box.width + 0.6, height: box.height + 0.3 };
  for (const [name, value] of Object.entries(set)) element.style[name] = `${value}%`;
  return element;
}

async function words(element, known, number, cite) {
  element.append(bones(5));
  try {
    const page = await get(url`/api/documents/${known.id}/pages/${number}/text`);
    const characters = Array.from(page.text); // positions count characters, not UTF-16 units
    const [from, to] = rangeOn(page, characters.length, cite);
    const pieces = (start, end) => marked(characters, start, end, from, to);
    const drawn = [];
    let last = 0;
    for (const { start, end, head_rows: heads } of page.tables || []) {
      let [above, below] = [start, end]; // the lines around it are its margin
      while (characters[above - 1] === "\n") above -= 1;
      while (characters[below] === "\n") below += 1;
      drawn.push(...pieces(last, Math.max(last, above)), tableOf(characters, start, end, heads, pieces));
      last = below;
    }
    drawn.push(...pieces(last, characters.length));
    element.replaceChildren(...(drawn.length ? drawn : ["This page has no text."]));
  } catch (error) {
    element.replaceChildren(failureState(error));
  }
}

/** Some characters, those that are cited as a mark. */
function marked(characters, start, end, from, to) {
  const cut = (first, last) => characters.slice(first, last).join("");
  const [first, last] = [Math.max(start, from), Math.min(end, to)];
  const parts = first < last ? [cut(start, first), h("mark", cut(first, last)), cut(last, end)] : [cut(start, end)];
  return parts.filter((part) => part !== "");
}

const CELL = [..." | "];

/** The lines of a table as rows; a line of one cell stands over all columns. */
function tableOf(characters, start, end, heads, pieces) {
  const rows = [[]];
  let at = start;
  for (let place = start; place <= end; place += 1) {
    const isCell = CELL.every((character, offset) => characters[place + offset] === character);
    if (place < end && characters[place] !== "\n" && !isCell) continue;
    rows.at(-1).push([at, place]);
    if (isCell) place += CELL.length - 1;
    else if (place < end) rows.push([]);
    at = place + 1;
  }
  const width = Math.max(...rows.map((row) => row.length));
  const drawn = rows.map((row, number) => h("tr", row.map(([first, last]) =>
    h(number < heads && last > first ? "th" : "td", { colspan: row.length === 1 && width > 1 && width }, pieces(first, last)))));
  return h("div.leaf-table", h("table", h("thead", drawn.slice(0, heads)), h("tbody", drawn.slice(heads))));
}

function rangeOn(page, length, cite) {
  if (!cite?.origin || cite.document_id !== page.document_id && page.document_id) return [0, 0];
  const start = page.start ?? 0;
  const [from, to] = cite.origin.map((place) => Math.min(length, Math.max(0, place - start)));
  return [from, to];
}
