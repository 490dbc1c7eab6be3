// How the library is used: volume, latency, cache, cost, refusals, accuracy.
import { get } from "./api.js";
import { columns, lanes } from "./charts.js";
import { bones, emptyState, h, milliseconds, number, options, tell } from "./dom.js";

const percent = (share) => (share == null ? "–" : `${number(share * 100)} %`);
const took = (ms) => (ms === null ? "–" : milliseconds(ms));
const day = (text) => new Date(text).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const PERIODS = { 7: "7 days", 30: "30 days", 90: "90 days", 365: "A year" };

export async function show(main) {
  const view = h("div.view", bones());
  main.replaceChildren(view); // before anything arrives: by then another view may be shown
  await draw(view, 30);
}

async function draw(view, days) {
  const found = await get(`/api/analytics?days=${days}`);
  const period = h("select.field.short", { label: "Period", onchange: () => draw(view, Number(period.value)).catch(tell) }, options(Object.entries(PERIODS), String(days)));
  const head = h("div.view-head", h("div.spread", h("h1", "Analytics"), h("p", `${day(found.from)} to ${day(found.to)}`)), period);
  if (!found.questions) { view.replaceChildren(head, emptyState("chart", "No data yet", "Figures appear after the first questions.")); return; }
  const cached = (found.cache.exact_share ?? 0) + (found.cache.semantic_share ?? 0);
  view.replaceChildren(head,
    h("div.figures", figure(number(found.questions), "questions"), figure(took(found.latency.total.p50_ms), "median time"), figure(took(found.latency.total.p95_ms), "95th percentile"),
      figure(percent(cached), "from the cache"), figure(percent(found.abstentions.share), "not in the documents"), found.failures.failed ? figure(number(found.failures.failed), "failed") : "", found.model_failures.answers ? figure(number(found.model_failures.answers), "whose model failed") : "", figure(`$${number(found.cost.total_usd, 4)}`, found.cost.unknown ? `cost, ${found.cost.unknown} unknown` : "cost"), figure(percent(found.feedback.accuracy), "judged correct")),
    h("div.charts",
      chart("Questions per day", columns(found.per_day.map((one) => ({ label: day(one.day), value: one.questions, part: one.abstained })), "questions", "not in the documents"), found.abstentions.abstained ? h("p.quiet.small", "Lighter: not in the documents.") : ""),
      chart("Time per stage, median and 95th percentile", lanes(Object.entries(found.latency.stages).filter(([, one]) => one.count).map(([name, one]) => ({ label: name.replace(/_ms$/, "").replaceAll("_", " "), value: one.p50_ms, most: one.p95_ms })), milliseconds)),
      chart("Confidence", lanes(["high", "medium", "low"].map((name) => ({ label: name, value: found.confidence[name] })), number)),
      chart("Where answers come from", lanes([["no", "new"], ["exact", "same question"], ["semantic", "similar question"]].map(([name, label]) => ({ label, value: found.cache[name] })), number)),
      chart("Accuracy by collection", found.feedback.by_collection.length ? lanes(found.feedback.by_collection.map((one) => ({ label: one.collection, value: one.accuracy })), percent, 1) : h("p.quiet", "No feedback yet.")),
      found.failures.failed ? chart("Errors", lanes(Object.entries(found.failures.codes).map(([label, value]) => ({ label: label.replaceAll("_", " "), value })), number)) : "",
      chart("Models", lanes(found.models.map((one) => ({ label: { extractive: "quoted", none: "no answer" }[one.model] || one.model, value: one.questions })), number))));
}

const figure = (value, label) => h("div.figure", h("strong", value), h("span", label));
const chart = (title, ...drawing) => h("section.card.chart", h("h2", title), ...drawing);
