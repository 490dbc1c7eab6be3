// Two hand-drawn kinds of charts, each with a text alternative.
import { s } from "./dom.js";

const WIDTH = matchMedia("(max-width: 820px)").matches ? 330 : 480; // as wide as it is shown, so that its letters keep their size
const LABELS = WIDTH > 400 ? 130 : 104;

/** Columns over time: {label, value, part}; `part` of the value is the paler top of its column. */
export function columns(points, unit, partUnit) {
  const height = 190;
  const most = Math.max(1, ...points.map((one) => one.value));
  const step = (WIDTH - 40) / points.length;
  const y = (value) => height - 24 - (value / most) * (height - 44);
  const bars = points.flatMap((one, at) => {
    const x = 36 + at * step;
    const wide = Math.max(1, step - Math.min(4, step / 4));
    const title = s("title", `${one.label}: ${one.value} ${unit}${one.part ? `, ${one.part} ${partUnit}` : ""}`);
    const rest = one.value - (one.part || 0);
    return [s("rect", { class: "bar soft", x, y: y(one.value), width: wide, height: y(rest) - y(one.value) }, title), s("rect", { class: "bar", x, y: y(rest), width: wide, height: height - 24 - y(rest) }, title.cloneNode(true))];
  });
  const every = Math.ceil(points.length / (WIDTH > 400 ? 6 : 4));
  const labels = points.map((one, at) => (at % every ? null : s("text", { x: 36 + at * step, y: height - 6 }, one.label)));
  const axis = [...new Set([0, Math.ceil(most / 2), most])].flatMap((value) => [s("line", { class: "axis", x1: 36, x2: WIDTH, y1: y(value), y2: y(value) }), s("text", { x: 28, y: y(value) + 4, "text-anchor": "end" }, String(value))]);
  const total = points.reduce((sum, one) => sum + one.value, 0);
  return s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", label: `${total} ${unit} in ${points.length} days, at most ${most} a day` }, axis, bars, labels);
}

/** Bars from the left: {label, value, most}; `most` is a longer, paler bar behind. */
export function lanes(rows, written, scale = 0) {
  const most = scale || Math.max(1e-9, ...rows.map((one) => one.most ?? one.value ?? 0));
  const line = 26;
  const wide = (value) => Math.max(value ? 2 : 0, (value / most) * (WIDTH - LABELS - 110));
  const drawn = rows.flatMap((one, at) => {
    const y = at * line;
    const text = one.most == null ? written(one.value ?? 0) : `${written(one.value)} / ${written(one.most)}`;
    return [s("text", { class: "strong", x: 0, y: y + 16 }, one.label.length > LABELS / 7 ? `${one.label.slice(0, LABELS / 7 - 1)}…` : one.label),
      one.most ? s("rect", { class: "bar soft", x: LABELS, y: y + 5, width: wide(one.most), height: 14, rx: 3 }) : null,
      s("rect", { class: "bar", x: LABELS, y: y + 5, width: wide(one.value ?? 0), height: 14, rx: 3 }),
      s("text", { x: LABELS + 8 + wide(one.most ?? one.value ?? 0), y: y + 16 }, text)];
  });
  const said = rows.map((one) => `${one.label} ${written(one.value ?? 0)}`).join(", ");
  return s("svg", { viewBox: `0 0 ${WIDTH} ${Math.max(1, rows.length) * line}`, role: "img", label: said }, drawn);
}
