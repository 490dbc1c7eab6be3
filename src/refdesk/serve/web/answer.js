// One finished answer: text, sources, confidence, what is missing, and actions.
import { send, url } from "./api.js";
import { bindChip, bindChips, hideTip, markClaims, markersOf, place, sameQuotes, VERDICTS } from "./chips.js";
import { dotted, h, icon, iconButton, isLost, milliseconds, tell, toast, trusted } from "./dom.js";
import { openCitation } from "./viewer.js";

/** Sanitised HTML of an answer's text; its sentences and markers carry their numbers. */
export async function rendered(content, answer) {
  const claims = answer.claims.map(({ start, end }) => [start, end]);
  const markers = markersOf(answer.citations);
  const quoted = answer.model === "extractive"; // sentences of documents, which are no Markdown
  const chunks = answer.claims.map((claim) => answer.citations[claim.citations[0]]?.chunk_id ?? 0);
  return (await send("POST", "/page/render", { content, claims, markers, quoted, chunks })).html;
}

/** Names of documents in an answer from the list of documents: each leads to its document. */
function linkNames(body, sources) {
  const longestFirst = [...sources].sort((a, b) => b.document_name.length - a.document_name.length);
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts) {
    const one = longestFirst.find((source) => text.data.includes(source.document_name));
    if (!one) continue;
    const name = text.splitText(text.data.indexOf(one.document_name));
    name.splitText(one.document_name.length);
    name.replaceWith(h("a", { href: url`#/documents/${one.document_id}` }, one.document_name));
  }
}

export async function showBody(body, answer) {
  body.classList.remove("streaming");
  try {
    body.replaceChildren(trusted(await rendered(answer.content, answer)));
  } catch {
    body.replaceChildren(h("p", answer.content)); // without the service's help, plain
  }
  body.append(...(answer.figures || []).map((figure) => drawn(figure, answer)));
  for (const table of body.querySelectorAll("table")) {
    const wide = h("div.wide", { tabindex: "0", role: "group", label: "Table" });
    table.before(wide);
    wide.append(table);
  }
  bindChips(body, answer);
  markClaims(body, answer, icon);
  if (!answer.citations.length) linkNames(body, answer.sources || []);
  if (answer.short && !answer.figures?.length) body.prepend(h("p.short", h("strong", answer.short))); // the claims are ranges of the text below it
}

/** The head and the rows that a figure was read from; its cells are marked and open the page. */
function drawn({ table, head_rows, marked, cells }, answer) {
  const used = new Map(marked.map(([row, column], at) => [`${row} ${column}`, cells[at]]));
  const rows = table.map((row, at) => h("tr", row.map((text, column) => {
    const cell = used.get(`${at} ${column}`);
    const shown = cell && answer.citations[cell.citation] ? h("button.link", { onclick: (event) => openCitation(answer.citations, cell.citation, event.target) }, text) : text;
    return h(at < head_rows ? "th" : "td", { class: cell ? "used" : "" }, shown);
  })));
  return h("table.figure", h("thead", rows.slice(0, head_rows)), h("tbody", rows.slice(head_rows)));
}

/** What stands below the text, in this order; `again(question, options)` asks something. */
export function around(answer, again) {
  if (answer.stopped) return [stoppedNote(answer, again), sources(answer)].filter(Boolean);
  return [...answer.notes.map((note) => h("p.notice.warn", note)), doubts(answer), conflicts(answer), missing(answer), sure(answer), sources(answer), tools(answer), offers(answer, again)].filter(Boolean);
}

const stoppedNote = (answer, again) => h("p.notice", { class: "stopped" },
  answer.content ? "Stopped early. The text so far is kept but was not checked. " : "Stopped before anything was written. ",
  h("button.link", { onclick: () => again(answer.question) }, "Ask again"));

/** “Searched for … instead of …”, before the text. */
export function readAs(answer, again) {
  const searched = answer.corrected_question || (answer.standalone_question !== answer.question && answer.standalone_question);
  if (!searched || searched === answer.question) return null;
  return h("p.notice", { class: "read-as" }, "Searched for ", h("strong", searched), " instead of ", h("em", answer.question), ". ",
    h("button.link", { onclick: () => again(answer.question, { verbatim: true }) }, "Search for exactly what I wrote"));
}

function doubts(answer) {
  const doubtful = answer.claims.filter((claim) => VERDICTS[claim.verdict]);
  if (!doubtful.length) return null;
  const bad = doubtful.some((claim) => claim.verdict === "contradicted");
  return h("div.checks.notice", { class: bad ? "bad" : "warn" },
    h("strong", doubtful.length === 1 ? "One sentence is not fully supported" : `${doubtful.length} sentences are not fully supported`),
    h("ul", doubtful.map((claim) => h("li", h("q", claim.text), ` ${VERDICTS[claim.verdict]}${claim.note ? `: ${claim.note}` : ""}.`))));
}

function conflicts(answer) {
  const found = answer.sufficiency.conflicts || [];
  if (!found.length) return null;
  return h("div.checks.notice.warn", h("strong", "The sources disagree"),
    h("ul", found.map((one) => h("li", `${one.text} `, one.markers.map((marker) => chip(marker, answer))))));
}

function chip(marker, answer) {
  const mine = answer.citations.filter((cite) => cite.marker === marker);
  if (!mine.length) return `[${marker}]`;
  const one = h("button.chip", String(marker));
  bindChip(one, mine, answer.citations);
  return one;
}

function missing(answer) {
  const aspects = answer.sufficiency.missing_aspects || [];
  if (!aspects.length) return null;
  const isShort = aspects.every((one) => one.length < 25);
  return h("div.checks.notice", h("strong", "Not found in the documents"), isShort ? `: ${aspects.map((one) => `“${one}”`).join(", ")}` : h("ul", aspects.map((one) => h("li", one))));
}

function sure(answer) {
  const { level, reason } = answer.confidence;
  if (!reason && !answer.citations.length) return null;
  const on = { low: 1, medium: 2, high: 3 }[level];
  return h("p.sure", { "data-level": level }, h("span.bars", { "aria-hidden": "true" }, [1, 2, 3].map((bar) => h("i", { class: bar <= on ? "on" : "" }))),
    h("strong", `${level.charAt(0).toUpperCase()}${level.slice(1)} confidence`), h("span", reason));
}

function sources(answer) {
  if (!answer.citations.length) return null;
  const ordered = [...answer.citations].sort((a, b) => a.marker - b.marker);
  return h("ol.sources", { label: "Sources" }, sameQuotes(ordered).map((cites) => {
    const [cite] = cites;
    const one = h("button.source", { onclick: () => { hideTip(); openCitation(answer.citations, answer.citations.indexOf(cite), one); } },
      h("b", markersOf(cites).join(" ")), h("strong", cite.document_name, h("span", ` · ${place(cite)}`)), cite.quote && h("em", cite.quote));
    one.cites = cites;
    return h("li", one);
  }));
}

function tools(answer) {
  const good = iconButton("good", "This is correct", () => judge("correct"));
  const poor = iconButton("poor", "This is wrong", () => judge("wrong"));
  const below = h("div");
  async function judge(verdict, correction = "") {
    try {
      await send("POST", "/api/feedback", { answer_id: answer.id, verdict, correction });
      good.ariaPressed = verdict === "correct";
      poor.ariaPressed = verdict === "wrong";
      if (correction || verdict === "correct") { below.replaceChildren(); toast("Thank you. Your feedback appears in Analytics."); } else {
        below.replaceChildren(correctionForm(judge));
        below.querySelector("textarea").focus();
      }
      if (isLost()) poor.focus(); // the form is gone
    } catch (error) { tell(error); }
  }
  const said = answer.feedback?.[0]?.verdict;
  if (said) (said === "correct" ? good : poor).ariaPressed = "true";
  const told = dotted({ extractive: "quoted from the documents", none: "" }[answer.model] ?? answer.model, answer.cached !== "no" && "from the cache",
    answer.metrics.total_ms && milliseconds(answer.metrics.total_ms), answer.usage.cost_usd ? `$${answer.usage.cost_usd.toFixed(4)}` : "");
  return h("div", h("div.tools",
    iconButton("copy", "Copy with citations", () => copy(withCitations(answer), "Copied, with its citations.")), good, poor,
    h("a.plain", { href: `#/traces/${answer.id}`, label: "How this was answered", title: "How this was answered" }, icon("trace")),
    exported(answer, "markdown", "Download as Markdown"), exported(answer, "html", "Download as a web page"),
    h("span.meta", told)), below);
}

const exported = (answer, format, label) =>
  h("a.plain", { href: `/api/answers/${answer.id}/export?format=${format}`, download: "", label, title: label }, icon(format === "html" ? "page" : "down"));

function correctionForm(judge) {
  const box = h("textarea.field", { rows: 2, required: true });
  return h("form.correct", { onsubmit: (event) => { event.preventDefault(); judge("wrong", box.value.trim()); } },
    h("label.stack", "What is the correct answer?", box), h("div.row", h("button.button", { type: "submit" }, "Send correction"), h("span.quiet.small", "Marked as wrong. Adding a correction is optional.")));
}

function offers(answer, again) {
  if (!answer.suggested_questions.length) return null;
  return h("div.more", h("h3", "You could also ask"), offerList(answer.suggested_questions, again));
}

export const offerList = (questions, again) =>
  h("ul.offers", questions.map((one) => h("li", h("button.offer", { onclick: () => again(one) }, one))));

/** The text and, below it, where each number points. */
export function withCitations(answer) {
  const lines = sameQuotes(answer.citations).map((cites) => {
    const [{ document_name, page, quote }] = cites;
    return `${markersOf(cites).map((marker) => `[${marker}]`).join(" ")} ${document_name}, page ${page}${quote ? `: “${quote}”` : ""}`;
  });
  return [answer.short, answer.content, lines.join("\n")].filter(Boolean).join("\n\n");
}

export async function copy(text, said = "Copied.") {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // pages that are not served over HTTPS have no clipboard
    const box = h("textarea", text);
    (document.querySelector("dialog[open]") || document.body).append(box); // the rest cannot be reached then
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  toast(said);
}
