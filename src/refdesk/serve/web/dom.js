// Making elements. Text goes in as text nodes only; nothing here reads HTML but `trusted`, which takes what the server sanitised.

import { failureOf } from "./api.js";

export const byId = (id) => document.getElementById(id);
const isPlain = (value) => Boolean(value) && Object.getPrototypeOf(value) === Object.prototype;

/** h("a.button", {href: "#/ask", onclick: go}, "Ask", icon("ask")), or without attributes: h("p", "Ask").
 *  `label` is the aria-label, `depth` how far CSS sets it in. */
export function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (tag === "button") element.type = "button";
  element.classList.add(...classes);
  return fill(element, rest);
}

export const s = (tag, ...rest) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), rest);

function fill(element, rest) {
  const [attributes, children] = isPlain(rest[0]) ? [rest[0], rest.slice(1)] : [{}, rest];
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else if (name === "label") element.setAttribute("aria-label", value);
    else if (name === "depth") element.style.setProperty("--depth", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child != null && child !== false));
  return element;
}

export const icon = (name) => s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("use", { href: `#i-${name}` }));

export const iconButton = (name, label, onclick, more = {}) =>
  h("button.plain", { label, title: label, onclick, ...more }, icon(name));

/** Nodes of HTML that `/page/render` has sanitised; made in an inert document first. */
export function trusted(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** To those who listen instead of looking: the stages and the whole answer, not every word as it comes. */
export function say(text) {
  byId("said").textContent = text;
}

/** Puts `rows` into `place`; what had the focus there has it again. */
export function redraw(place, rows) {
  const had = place.contains(document.activeElement) && document.activeElement;
  place.replaceChildren(...rows);
  if (had) refocus(had, place);
}

/** The focus for what was drawn anew: the same control of the same row, or the first one of that row. */
export function refocus(had, place) {
  const id = had.closest("[data-id]")?.dataset.id;
  const row = id ? place.querySelector(`[data-id="${CSS.escape(id)}"]`) : place;
  const name = (one) => one.id || one.getAttribute("aria-label") || one.title || one.textContent;
  const same = [...(row?.querySelectorAll("a, button, input, select, textarea") || [])].find((one) => name(one) === name(had));
  (same || (id && row?.querySelector("a, button, .field")))?.focus();
}

/** True when what had the focus is gone. */
export const isLost = () => !document.activeElement || document.activeElement === document.body;

export const calmly = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

export function toast(text) {
  const one = h("div.toast", text);
  byId("toasts").append(one);
  setTimeout(() => one.remove(), 4000 + 40 * text.length); // as long as it takes to read
}

export const tell = (error) => toast(failureOf(error).text);

/** A question over the page; gives what `read` makes of it, or null when it is dismissed. While `read` fails it stays. */
export function ask(title, body, yes, { danger = false, no = "Cancel", read = () => true } = {}) {
  return new Promise((resolve) => {
    const wrong = h("p.small.bad", { role: "alert" });
    const go = h("button.button", { type: "submit", class: danger ? "danger" : "primary" }, yes);
    const form = h("form", h("h2", title), body, wrong, h("div.actions", no && h("button.button", { onclick: () => box.close() }, no), go));
    const box = h("dialog", { label: title, oncancel: (event) => { if (!no) event.preventDefault(); } }, form);
    let result = null;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (go.ariaDisabled) return; // asked for already
      go.ariaDisabled = "true";
      try {
        result = await read();
        box.close();
      } catch (error) { wrong.textContent = failureOf(error).text; }
      go.ariaDisabled = null;
    });
    box.addEventListener("close", () => { box.remove(); resolve(result); });
    document.body.append(box);
    box.showModal();
  });
}

/** Asks before something is done that cannot be undone. */
export const isSure = (title, text, yes = "Delete") => ask(title, h("p", text), yes, { danger: true });

export async function askText(title, label, value, yes, more = {}) {
  const box = h("input.field", { value, required: true, maxlength: more.type === "url" ? 2000 : 200, ...more });
  return ask(title, h("label.stack", label, box), yes, { read: () => box.value.trim() });
}

export const needsPassword = (reason) => /needs a password|password (does not open|is wrong)/i.test(reason || "");

/** Why a file failed, as a sentence of this page: the command line's options are of no use here. */
export function whyOf(reason = "") {
  const text = reason.replace(/; (give it with|use) --password.*/, "").trim().replace(/[.;]$/, "");
  return text && `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** What another try needs: a password when the file asked for one; null when it is called off. */
export async function retryWith(name, reason) {
  if (!needsPassword(reason)) return {};
  const box = h("input.field", { type: "password", required: true, autocomplete: "off" });
  const password = await ask(`Open ${name}`, h("label.stack", "Password", box), "Try again", { read: () => box.value });
  return password ? { password } : null;
}

export const bones = (lines = 6) => h("div.bones", { "aria-hidden": "true" }, Array.from({ length: lines }, () => h("i")));

export const emptyState = (name, title, text, ...more) => h("div.empty", icon(name), h("h2", title), h("p", text), ...more);

export function failureState(error, retry) {
  return h("div.notice.bad", { role: "alert" }, h("p", error.text || failureOf(error).text), retry && h("button.link", { onclick: retry }, "Try again"));
}

export const number = (value, digits = 0) => Number(value || 0).toLocaleString("en-GB", { maximumFractionDigits: digits });
export const milliseconds = (value) => (value > 0 && value < 0.05 ? "<0.1 ms" : value >= 1000 ? `${number(value / 1000, 1)} s` : `${number(value, value < 10 ? 1 : 0)} ms`);
export const bytes = (value) => (value >= 1e6 ? `${number(value / 1e6, 1)} MB` : `${number(Math.max(1, value / 1e3))} kB`);
export const dotted = (...parts) => parts.filter(Boolean).join(" · ");
export const many = (count, what = "document") => `${number(count)} ${what}${count === 1 ? "" : "s"}`;
/** [["low", "Low"]] -> what a select offers */
export const options = (choices, chosen) => choices.map(([value, text = value]) => h("option", { value, selected: value === chosen }, text));
/** A document's title, where it says more than its name: "report.pdf", "report" -> "" */
export const titleOf = ({ name, title }) => (title && title !== name && title !== name.replace(/\.\w+$/, "") ? title : "");
/** A moment, as far away as it is: "10:01" today, "3 Nov" this year, "3 Nov 2024". */
export function when(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return "";
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: date.getFullYear() === now.getFullYear() ? undefined : "numeric" });
}
