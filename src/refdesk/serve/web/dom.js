// Making elements. Text goes in as text nodes only; nothing here reads HTML but `trusted`, which takes what the server sanitised.

const SVG = "http://www.w3.org/2000/svg";

/** h("a.button", {href: "#/ask", onclick: go}, "Ask", icon("ask")) */
export function h(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  return fill(document.createElement(tag || "div"), classes, attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), [], attributes, children);
}

function fill(element, classes, attributes, children) {
  if (classes.length) element.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function icon(name) {
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  return s("svg", { class: "icon", "aria-hidden": "true" }, use);
}

export const iconButton = (name, label, onclick, more = {}) =>
  h("button.plain", { type: "button", "aria-label": label, title: label, onclick, ...more }, icon(name));

/** Nodes of HTML that `/page/render` has sanitised; made in an inert document first. */
export function trusted(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** To those who listen instead of looking: the stages and the whole answer, not every word as it comes. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

export const calmly = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

export function toast(text) {
  const one = h("div.toast", {}, text);
  document.getElementById("toasts").append(one);
  setTimeout(() => one.remove(), 4000 + 40 * text.length); // as long as it takes to read
}

/** A question over the page; gives what `read` makes of it, or null when it is dismissed. */
export function ask(title, body, yes, { danger = false, read = () => true } = {}) {
  return new Promise((resolve) => {
    const id = `d${Math.random().toString(36).slice(2)}`;
    const form = h("form", { method: "dialog" }, h("h2", { id }, title), body, h("div.actions", {},
      h("button.button", { type: "button", onclick: () => box.close() }, "Cancel"),
      h("button.button", { type: "submit", class: danger ? "danger" : "primary" }, yes)));
    const box = h("dialog", { "aria-labelledby": id }, form);
    let result = null;
    form.addEventListener("submit", () => { result = read(); });
    box.addEventListener("close", () => { box.remove(); resolve(result); });
    document.body.append(box);
    box.showModal();
  });
}

export async function askText(title, label, value, yes, more = {}) {
  const box = h("input.field", { value, required: true, maxlength: more.type === "url" ? 2000 : 200, ...more });
  return ask(title, h("label.stack", {}, label, box), yes, { read: () => box.value.trim() });
}

export const needsPassword = (reason) => /needs a password|password does not open/i.test(reason || "");

/** Why a file failed, as a sentence of this page: the command line's options are of no use here. */
export function whyOf(reason = "") {
  const text = reason.replace(/; give it with --password.*/, "").trim().replace(/[.;]$/, "");
  return text && `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** What another try needs: a password when the file asked for one; null when it is called off. */
export async function retryWith(name, reason) {
  if (!needsPassword(reason)) return {};
  const box = h("input.field", { type: "password", required: true, autocomplete: "off" });
  const password = await ask(`Open ${name}`, h("label.stack", {}, "Its password", box), "Try again", { read: () => box.value });
  return password ? { password } : null;
}

export const bones = (lines = 6) => h("div.bones", { "aria-hidden": "true" }, Array.from({ length: lines }, () => h("i")));

export const emptyState = (name, title, text, ...more) => h("div.empty", {}, icon(name), h("h2", {}, title), h("p", {}, text), ...more);

export function failureState(error, retry) {
  return h("div.notice.bad", { role: "alert" }, h("p", {}, error.text || String(error)), retry && h("button.link", { type: "button", onclick: retry }, "Try again"));
}

export const number = (value, digits = 0) => Number(value || 0).toLocaleString("en-GB", { maximumFractionDigits: digits });
export const milliseconds = (value) => (value > 0 && value < 0.05 ? "<0.1 ms" : value >= 1000 ? `${number(value / 1000, 1)} s` : `${number(value, value < 10 ? 1 : 0)} ms`);
export const bytes = (value) => (value >= 1e6 ? `${number(value / 1e6, 1)} MB` : `${number(Math.max(1, value / 1e3))} kB`);
/** A document's title, where it says more than its name: "report.pdf", "report" -> "" */
export const titleOf = ({ name, title }) => (title && title !== name && title !== name.replace(/\.\w+$/, "") ? title : "");
export const pages = (count) => (count === 1 ? "1 page" : `${number(count)} pages`);
/** A moment, as far away as it is: "10:01" today, "3 Nov" this year, "3 Nov 2024". */
export function when(text) {
  const date = new Date(text);
  if (!text || Number.isNaN(date.getTime())) return "";
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: date.getFullYear() === now.getFullYear() ? undefined : "numeric" });
}
