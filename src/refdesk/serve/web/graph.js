// Names in the documents: an entity, related names, and a sentence for each.
import { failureOf, get, query } from "./api.js";
import { bones, dotted, emptyState, h, many, s } from "./dom.js";
import { openCitation } from "./viewer.js";

const SIZE = 420;
const LONGEST = 18; // letters of a name in the drawing
const place = (key) => `#/graph/${encodeURIComponent(key)}`;

export async function show(main, [key = ""]) {
  const box = h("input.field", { id: "find", type: "search", placeholder: "A person, a place, a code …", label: "Search names", maxlength: 200, value: key });
  const form = h("form.row.finding", { role: "search" }, box, h("button.button", { type: "submit" }, "Show"));
  const body = h("div", bones());
  form.addEventListener("submit", (event) => { event.preventDefault(); location.hash = place(box.value.trim()); });
  main.replaceChildren(h("div.view", h("div.view-head", h("div", h("h1", "Names"), h("p", "People, places and codes in the documents, and the sentences that mention them together."))), form, body));
  try {
    const found = await get(`/api/graph?${query({ entity: key })}`);
    if (found.entity) box.value = found.entity.name;
    body.replaceChildren(...(found.entity ? around(found) : listed(found.entities)));
  } catch (error) {
    if (failureOf(error).status !== 404) throw error;
    body.replaceChildren(emptyState("graph", "No document mentions this", "Try another spelling, or ask a question about it."));
  }
}

const listed = (entities) => (entities.length
  ? [h("h2", "Most mentioned"), h("div.named", entities.map((one) => h("a.button", { href: place(one.key) }, one.name, h("small.quiet", ` ${one.chunks}`))))]
  : [emptyState("graph", "No names yet", "Add documents to see the names in them.")]);

function around({ entity, edges }) {
  const cites = edges.map((edge) => edge.citation);
  const head = h("div", h("h2", entity.name), h("p.quiet", dotted(many(entity.chunks, "passage"), entity.names.length > 1 && `also written ${entity.names.slice(1, 4).join(", ")}`)));
  if (!edges.length) return [head, emptyState("graph", "No related names", "No sentence mentions it together with another name.")];
  const rows = edges.map((edge, at) => {
    const proof = h("button.link", { onclick: () => openCitation(cites, at, proof) }, `“${edge.citation.quote.trim()}” `, h("span.quiet", dotted(edge.citation.document_name, `page ${edge.citation.page}`)));
    return h("li", h("p", h("a", { href: place(edge.key) }, edge.name), edge.says && h("span.quiet", ` · ${edge.says}`), edge.by && h("span.quiet", ` · found by ${edge.by}`), edge.count > 1 && h("span.quiet", ` · ${many(edge.count, "sentence")}`)), proof);
  });
  return [head, h("div.around", drawn(entity, edges, cites), h("ul.edges", { label: "Related names" }, rows))];
}

/** The entity in the middle, what stands beside it in a circle; a line opens its proof, a name leads on. */
function drawn(entity, edges, cites) {
  const middle = SIZE / 2;
  const at = edges.map((edge, number) => {
    const angle = (2 * Math.PI * number) / edges.length - Math.PI / 2;
    const far = (edges.length > 8 && number % 2 ? 0.26 : 0.37) * SIZE;
    return [middle + far * Math.cos(angle), middle + far * Math.sin(angle)];
  });
  const lines = edges.map((edge, number) => s("line", { x1: middle, y1: middle, x2: at[number][0], y2: at[number][1], "stroke-width": Math.min(5, 1 + edge.count / 2), onclick: () => openCitation(cites, number, null) }, s("title", edge.citation.quote)));
  const nodes = edges.map((edge, number) => {
    const [x, y] = at[number];
    return s("a", { href: place(edge.key), label: edge.name }, s("circle", { cx: x, cy: y, r: 7 }), s("text", { x, y: y + 19, "text-anchor": "middle" }, short(edge.name)), s("title", edge.name));
  });
  const hub = s("g", { class: "hub" }, s("circle", { cx: middle, cy: middle, r: 11 }), s("text", { x: middle, y: middle + 26, "text-anchor": "middle" }, short(entity.name)));
  return s("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", label: `${entity.name} and ${many(edges.length, "name")} beside it` }, lines, nodes, hub);
}

const short = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
