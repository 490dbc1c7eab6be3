// The trace of an answer: its stages as a waterfall, with input and output.
import { get, url } from "./api.js";
import { showBody } from "./answer.js";
import { bones, dotted, emptyState, h, milliseconds, when } from "./dom.js";

export async function show(main, [id]) {
  const view = h("div.view", bones());
  main.replaceChildren(view); // before anything arrives: by then another view may be shown
  view.replaceChildren(...(await (id ? trace(id) : list())));
}

async function list() {
  const { answers } = await get("/api/answers?limit=100");
  return [h("div.view-head", h("div", h("h1", "Traces"), h("p", "What happened between each question and its answer."))),
    answers.length ? h("ul.answers", answers.map((answer) => h("li", h("a", { href: `#/traces/${answer.id}` }, h("span", { title: answer.question }, answer.question), answer.error ? h("span.tag.bad", "failed") : "", h("span.quiet.small", when(answer.created_at)))))) : emptyState("trace", "Nothing has been asked yet", "Every answer leaves a trace here.")];
}

async function trace(id) {
  const trace = await get(url`/api/traces/${id}`);
  const answer = trace.error ? null : await get(url`/api/answers/${id}`); // none where it failed
  const total = Math.max(trace.total_ms || 0, ...trace.stages.map((stage) => stage.started_ms + stage.took_ms), 0.001);
  const text = h("div.answer");
  if (answer) await showBody(text, answer);
  return [
    h("div.view-head", h("div", h("p", h("a", { href: "#/traces" }, "All traces")), h("h1", answer?.question || trace.question || "Trace"),
      h("p", dotted(milliseconds(total), answer?.level && `level ${answer.level}`, answer?.strategy && `${answer.strategy} search`, answer?.intent && `${answer.intent} question`, answer?.model !== "none" && answer?.model, answer?.cached && answer.cached !== "no" && "from the cache")))),
    trace.error ? h("p.notice.bad", [trace.error.message, trace.error.hint].filter(Boolean).join("; ")) : "",
    h("ul.fall", { label: "Stages" }, trace.stages.map((stage) => h("li", row(stage, total)))),
    trace.passages.length ? looked(trace.passages) : "",
    answer ? h("div.card", h("h2", "Answer"), text, answer.conversation_id ? h("a", { href: url`#/ask/${answer.conversation_id}` }, "Open the conversation") : "") : ""];
}

function row(stage, total) {
  const bar = h("i");
  bar.style.left = `${(stage.started_ms / total) * 100}%`;
  bar.style.width = `${(stage.took_ms / total) * 100}%`;
  const state = stage.skipped ? "skipped" : stage.error ? "failed" : "";
  return h("details", { depth: stage.depth || 0, class: `${stage.depth ? "inside" : ""} ${state}` },
    h("summary", h("span.name", stage.name), h("span.lane", { "aria-hidden": "true" }, stage.skipped ? "" : bar), h("span.ms", stage.skipped ? "skipped" : milliseconds(stage.took_ms))),
    h("dl", (stage.skipped || stage.error) && h("div", h("dt", stage.error ? "Ended early" : "Why it did not run"), h("dd", stage.error || stage.skipped)),
      values("Input", stage.input), values("Output", stage.output), stage.cost_usd ? h("div", h("dt", "Cost"), h("dd", `$${stage.cost_usd.toFixed(5)}`)) : ""));
}

const looked = (passages) => h("div.card", h("h2", "Passages considered"), h("table.plain-table",
  h("thead", h("tr", ["Passage", "Words", "Meaning", "Score", "Use"].map((name) => h("th", name)))),
  h("tbody", passages.map((one) => h("tr", h("td", h("a", { href: url`#/documents/${one.document_id}/${one.page}` }, one.document_name), " ", dotted(`page ${one.page}`, one.heading_path.at(-1))),
    [one.lexical_score.toFixed(1), one.cosine.toFixed(2), one.score.toFixed(2), one.use].map((value) => h("td", value)))))));

function values(name, given) {
  const lines = Object.entries(given || {}).map(([key, value]) => `${key}: ${typeof value === "object" ? JSON.stringify(value) : value}`);
  return h("div", h("dt", name), h("dd", lines.length ? h("pre", lines.join("\n")) : h("span.quiet", "no details")));
}
