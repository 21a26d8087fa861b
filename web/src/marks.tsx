// Marks of a chart: how each looks, and which is nearest to a pointer.
import { line } from "d3-shape";
import type { JSX } from "preact";
import { count, quantity } from "./quantity";
import type { Axis, Mark } from "./state";

export const [HEIGHT, LEFT, TOP, BOTTOM] = [360, 74, 16, 42];
export const STYLES = [
  ["var(--a)", ""], ["var(--b)", "7 3"], ["var(--c)", "2 3"], ["var(--d)", "9 3 2 3"], ["var(--e)", "4 2"], ["var(--f)", "1 2"],
];
export const colorOf = (mark: Mark): string => STYLES[(mark.series ?? 0) % 6][0];

/** Points from which on those that look alike are one path, and none has a name beside it. */
const MANY = 60;

export interface Spot { x: number; y: number; mark: Mark }
export type Place = (value: number) => number;

export const spots = (marks: Mark[]): Spot[] => marks.flatMap((mark) => {
  if (mark.mark === "region" || mark.mark === "bar") return [];
  if (Array.isArray(mark.x)) return mark.x.map((x, i) => ({ x, y: (mark.y as number[])[i], mark }));
  return mark.x === undefined ? [] : [{ x: mark.x, y: mark.y as number, mark }];
});

export const written = (value: number, axis: Axis) => (axis.unit ? quantity(value, axis.unit) : count(Number(value.toPrecision(4))));

/** The text beside a line, with its machine where there are several. */
export const textOf = (mark: Mark): string => (mark.group && mark.role !== "curve" && mark.text ? `${mark.group} ${mark.text}` : mark.text ?? "");

/** The beginning of a text that is too long to be read. */
export const shortened = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export const nameOf = (mark: Mark): string => (mark.label || mark.text || mark.mark).replace(/\n/g, " ");

/** Whether a mark is the operation of that name: a mark may stand for several, named by their last words. */
export const isOf = (mark: Mark, name: string): boolean => {
  const label = nameOf(mark), last = name.slice(name.lastIndexOf(".") + 1);
  return label === name || label.replace(/ and \d+ more$/, "").split(", ").includes(last);
};

/** Spots by cells of the picture: the nearest to a pointer is among those of nine cells, however many there are. */
export class Cells {
  static readonly SIDE = 26;
  private readonly cells = new Map<number, { spot: Spot; px: number; py: number }[]>();

  constructor(found: Spot[], x: Place, y: Place) {
    for (const spot of found) {
      const px = x(spot.x), py = y(spot.y);
      if (!(Math.abs(px) < 1e4 && Math.abs(py) < 1e4)) continue;
      const at = Cells.key(Math.floor(px / Cells.SIDE), Math.floor(py / Cells.SIDE)), cell = this.cells.get(at);
      if (cell) cell.push({ spot, px, py });
      else this.cells.set(at, [{ spot, px, py }]);
    }
  }

  private static key(column: number, row: number): number { return column * 4096 + row; }

  /** The nearest spot within a cell's side; a point goes before a line that is a little nearer. */
  nearest(px: number, py: number): Spot | null {
    const [column, row] = [Math.floor(px / Cells.SIDE), Math.floor(py / Cells.SIDE)];
    let best: Spot | null = null, least = Cells.SIDE ** 2;
    for (let i = -1; i <= 1; i++) for (let j = -1; j <= 1; j++) for (const each of this.cells.get(Cells.key(column + i, row + j)) ?? []) {
      const far = (each.px - px) ** 2 + (each.py - py) ** 2 - (each.spot.mark.mark === "point" ? 60 : 0);
      if (far < least) [best, least] = [each.spot, far];
    }
    return best;
  }
}

export const diamond = (x: number, y: number, r: number) => `M${x},${y - r}L${x + r},${y}L${x},${y + r}L${x - r},${y}Z`;
export function shape(kind: number, x: number, y: number, r: number): string {
  if (kind % 4 === 1) return `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`;
  if (kind % 4 === 2) return `M${x},${y - r}L${x + r},${y + r}L${x - r},${y + r}Z`;
  if (kind % 4 === 3) return diamond(x, y, r * 1.2);
  return `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
}

/** Half a mark's width: longer operations have larger marks. */
const radius = (mark: Mark): number => 5 * (mark.size ?? 1);

interface Label { x: number; y: number; text: string; color: string; end: boolean }

/** Everything of a chart that does not move with the pointer. */
export function drawn(marks: Mark[], x: Place, y: Place, right: number, WIDTH: number): JSX.Element {
  const labels: Label[] = [], points = marks.filter((mark) => mark.mark === "point");
  const many = points.length > MANY, ceilings = marks.filter((mark) => mark.role === "ceiling").map((mark) => y((mark.y as number[])[0]));
  const shapes = marks.filter((mark) => !many || mark.mark !== "point").map((mark) => one(mark, x, y, right, WIDTH, labels, ceilings));
  return <><g clip-path="url(#inside)">{many && joined(points, x, y)}{shapes}</g>{apart(labels, WIDTH).map((each) =>
    <text class={each.end ? "end" : "beside"} x={each.x} y={each.y} style={each.color ? { fill: each.color } : undefined}>{each.text}</text>)}</>;
}

function one(mark: Mark, x: Place, y: Place, right: number, WIDTH: number, labels: Label[], ceilings: number[]): JSX.Element | null {
  const color = colorOf(mark);
  if (mark.mark === "region") {
    const from = x(mark.x0!), wide = Math.max(0, x(mark.x1!) - from), full = mark.color === "full";
    if (full && wide > 6.8 * mark.label!.length) labels.push({ x: from + 6, y: HEIGHT - BOTTOM - 8, text: mark.label!, color: "var(--alert)", end: false });
    return <g><rect class={`zone ${mark.color}`} x={from} width={wide} y={TOP} height={HEIGHT - TOP - BOTTOM} style={full ? { fill: "url(#full)" } : undefined}><title>{mark.label}</title></rect>
      {full && <line class="edge" x1={from} x2={from} y1={TOP} y2={HEIGHT - BOTTOM} />}</g>;
  }
  if (mark.mark === "line") {
    const points = (mark.x as number[]).map((value, i) => [x(value), y((mark.y as number[])[i])] as [number, number])
      .filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py));
    const last = points[points.length - 1], text = textOf(mark);
    const middle = mark.role === "slope" && points[0] ? [points[0][0] + 0.3 * (last[0] - points[0][0]) + 10, points[0][1] + 0.3 * (last[1] - points[0][1]) + 16] : null;
    if (text && last) labels.push(middle ? { x: middle[0], y: middle[1], text, color, end: false }
      : WIDTH - right > 60 ? { x: Math.min(last[0], right) + 6, y: Math.max(TOP + 8, Math.min(last[1] + 4, HEIGHT - BOTTOM)), text, color, end: true }
        : { x: right - 4 - 7 * text.length, y: last[1] - 6, text, color, end: true });
    return <path class={`curve ${mark.role ?? ""}`} d={line()(points) ?? ""} style={{ stroke: color }} stroke-dasharray={STYLES[(mark.dash ?? mark.series ?? 0) % 6][1]} />;
  }
  if (mark.mark === "ridge") return <circle class="ridge" cx={x(mark.x as number)} cy={y(mark.y as number)} r="4"><title>{mark.label}</title></circle>;
  if (mark.mark !== "point") return null;
  const [px, py] = [x(mark.x as number), y(mark.y as number)], text = (mark.text ?? "").split("\n")[0];
  const low = mark.under || ceilings.some((height) => Math.abs(height - py) < 8) ? 17 : 4;  // below the line that it lies on
  if (text) labels.push({ x: px + radius(mark) + 4, y: py + low, text: shortened(text, 34), color: "", end: false });
  return <g>{mark.roof ? <line class="gap" x1={px} x2={px} y1={py} y2={y(mark.roof)} style={{ stroke: color }} /> : null}
    <path class={`spot ${mark.kind ?? ""}`} d={shape(mark.shape ?? 0, px, py, radius(mark))} style={{ fill: color }} /></g>;
}

/** Many points as a few paths, one for each colour and shape, so that ten thousand are drawn as fast as ten. */
function joined(points: Mark[], x: Place, y: Place): JSX.Element[] {
  const alike = new Map<string, { mark: Mark; path: string[]; gaps: string[] }>(), small = points.length > 1000 ? 0.5 : 1;
  for (const mark of points) {
    const key = `${(mark.series ?? 0) % 6} ${(mark.shape ?? 0) % 4} ${mark.kind}`, [px, py] = [x(mark.x as number), y(mark.y as number)].map((v) => Math.round(4 * v) / 4);
    if (!Number.isFinite(px + py)) continue;
    if (!alike.has(key)) alike.set(key, { mark, path: [], gaps: [] });
    alike.get(key)!.path.push(shape(mark.shape ?? 0, px, py, Math.round(4 * small * radius(mark)) / 4));
    if (mark.roof) alike.get(key)!.gaps.push(`M${px},${py}V${Math.round(4 * y(mark.roof)) / 4}`);
  }
  return [...alike.values()].map(({ mark, path, gaps }) => <g>
    {gaps.length > 0 && gaps.length <= 1000 && <path class="gap" d={gaps.join("")} style={{ stroke: colorOf(mark) }} />}
    <path class={`spot ${mark.kind ?? ""} many`} d={path.join("")} style={{ fill: colorOf(mark) }} /></g>);
}

/** Labels moved apart or left out, so that none lies on another. */
function apart(labels: Label[], WIDTH: number): Label[] {
  labels.sort((a, b) => a.y - b.y);
  const placed: Label[] = [];
  for (const label of labels) {
    if (label.end && WIDTH < 560) continue;  // the key below names the lines
    if (!label.end && label.x + 6.6 * label.text.length > WIDTH) {
      label.x -= 6.6 * label.text.length + 24;
      if (label.x < LEFT) continue;
    }
    const near = placed.filter((each) => Math.abs(each.x - label.x) < 7 * Math.max(each.text.length, label.text.length) && label.y - each.y < 13);
    if (near.length && !label.end) continue;
    if (near.length) label.y = Math.max(...near.map((each) => each.y)) + 13;
    placed.push(label);
  }
  return placed;
}
