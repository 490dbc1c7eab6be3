// Hover or focus on a marker shows the quote; arrows go from marker to marker; a click opens the page.
import { byId, h, isLost } from "./dom.js";
import { openCitation } from "./viewer.js";

const tip = byId("tip");
let shownFor = null;
let hiding = 0; // soon: the pointer may be on its way to the quote

function showTip(anchor, ...content) {
  clearTimeout(hiding);
  tip.replaceChildren(...content);
  tip.hidden = false;
  shownFor = anchor;
  anchor.setAttribute("aria-describedby", "tip");
  const at = anchor.getBoundingClientRect();
  const size = tip.getBoundingClientRect();
  const left = Math.min(Math.max(12, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 12);
  const above = at.top - size.height - 10;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : at.bottom + 10}px`;
}

export function hideTip() {
  clearTimeout(hiding);
  tip.hidden = true;
  shownFor?.removeAttribute("aria-describedby");
  shownFor = null;
}
addEventListener("scroll", hideTip, true);
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

function tipped(element, content) {
  const show = () => showTip(element, ...content());
  for (const name of ["mouseenter", "focus"]) element.addEventListener(name, show);
  element.addEventListener("mouseleave", () => { hiding = setTimeout(hideTip, 200); });
  element.addEventListener("blur", hideTip);
}
tip.addEventListener("mouseenter", () => clearTimeout(hiding));
tip.addEventListener("mouseleave", hideTip);

/** Citations of the same words of the same page, together: the cells of a row are cited one by one, their row is shown once. */
export function sameQuotes(cites) {
  const found = new Map();
  for (const cite of cites) {
    const key = JSON.stringify([cite.document_id, cite.page, cite.quote]);
    found.set(key, [...(found.get(key) || []), cite]);
  }
  return [...found.values()];
}

/** The numbers of citations, each once. */
export const markersOf = (cites) => [...new Set(cites.map((cite) => cite.marker))].sort((a, b) => a - b);

export const place = (cite) => `page ${cite.page}${cite.heading_path?.length ? ` · ${cite.heading_path.at(-1)}` : ""}`;

/** Draws `body` anew by `draw`; a marker that had the focus has it again. */
export async function keepMarker(body, draw) {
  const all = () => [...body.querySelectorAll(".chip")];
  const at = all().indexOf(document.activeElement);
  await draw();
  if (at >= 0 && isLost()) all()[at]?.focus({ preventScroll: true });
}

/** Gives the markers in `body` their citations: the ones of their own sentence, else all with the number. */
export function bindChips(body, answer) {
  const cites = answer.citations;
  for (const chip of body.querySelectorAll(".chip")) {
    const marker = Number(chip.dataset.marker);
    const claim = answer.claims[Number(chip.dataset.claim ?? -1)];
    const own = (claim?.citations || []).map((index) => cites[index]).filter((cite) => cite?.marker === marker);
    const mine = own.length ? own : cites.filter((cite) => cite.marker === marker);
    if (mine.length) bindChip(chip, mine, cites);
  }
  body.addEventListener("keydown", walk);
}

export function bindChip(chip, mine, cites) {
  chip.cites = mine;
  chip.ariaLabel = `Citation ${mine[0].marker}: ${mine[0].document_name}, page ${mine[0].page}`;
  chip.addEventListener("click", () => { hideTip(); openCitation(cites, cites.indexOf(mine[0]), chip); });
  tipped(chip, () => [
    h("div.tip-name", `${mine[0].document_name}, ${place(mine[0])}`),
    ...sameQuotes(mine).slice(0, 3).map(([cite]) => h("p.tip-quote", cite.quote ? `“${cite.quote}”` : "Only the page is cited.")),
  ]);
}

function walk(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.matches?.(".chip")) return;
  const all = [...document.querySelectorAll(".answer .chip")];
  const next = all[all.indexOf(event.target) + step];
  if (!next) return;
  event.preventDefault();
  event.stopPropagation();
  next.focus();
  if (!byId("viewer").hidden) next.click();
}

export const VERDICTS = {
  partly: "Only partly supported",
  unsupported: "Not supported by the documents",
  contradicted: "Contradicted by the documents",
};

/** Marks the sentences that are not proved; each ends with a sign that says why. */
export function markClaims(body, answer, makeIcon) {
  answer.claims.forEach((claim, index) => {
    const runs = [...body.querySelectorAll(`.claim[data-claim="${index}"]`)];
    if (!VERDICTS[claim.verdict] || !runs.length) return;
    for (const run of runs) run.dataset.verdict = claim.verdict;
    const reason = `${VERDICTS[claim.verdict]}${claim.note ? `: ${claim.note}` : "."}`;
    const flag = h("button.flag", { "data-verdict": claim.verdict, label: reason }, makeIcon("flag"));
    tipped(flag, () => [h("div", reason)]);
    runs.at(-1).after(flag);
  });
}
