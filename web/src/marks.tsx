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

/** The dash of a line: of the seventh of a chart another than that of the first, whose colour it has. */
export const dashOf = (mark: Mark): string => { const at = mark.dash ?? mark.series ?? 0; return STYLES[(at + Math.floor(at / 6)) % 6][1]; };

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

/** How many shapes there are: those of the pictures. */
const SHAPES = 8;

export const diamond = (x: number, y: number, r: number) => `M${x},${y - r}L${x + r},${y}L${x},${y + r}L${x - r},${y}Z`;
export function shape(kind: number, x: number, y: number, r: number): string {
  const path = (points: number[][]) => `M${points.map(([dx, dy]) => `${x + r * dx},${y + r * dy}`).join("L")}Z`;
  switch (kind % SHAPES) {
    case 1: return path([[-1, -1], [1, -1], [1, 1], [-1, 1]]);
    case 2: return path([[0, -1], [1, 1], [-1, 1]]);
    case 3: return diamond(x, y, r * 1.2);
    case 4: return path([[0, 1], [1, -1], [-1, -1]]);
    case 5: return path([[-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]]);
    case 6: return path([[-1, -1], [0, -0.5], [1, -1], [0.5, 0], [1, 1], [0, 0.5], [-1, 1], [-0.5, 0]]);
    case 7: return path([[0, -1.1], [1.05, -0.35], [0.65, 0.9], [-0.65, 0.9], [-1.05, -0.35]]);
    default: return `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
  }
}

/** Half a mark's width: longer operations have larger marks. */
const radius = (mark: Mark): number => 5 * (mark.size ?? 1);

/** A text and where its first letter may stand, the best place first. One of an ``end`` stands behind its line; a ``spare`` one only where it covers none. */
interface Label { places: [number, number][]; text: string; color: string; end?: boolean; spare?: boolean }

/** Everything of a chart that does not move with the pointer; the names of its clip and its hatching end with `id`. */
export function drawn(marks: Mark[], x: Place, y: Place, right: number, WIDTH: number, id: string): JSX.Element {
  const labels: Label[] = [], points = marks.filter((mark) => mark.mark === "point");
  const many = points.length > MANY;
  const shapes = marks.filter((mark) => !many || mark.mark !== "point").map((mark) => one(mark, x, y, right, WIDTH, labels, id));
  return <><g clip-path={`url(#inside${id})`}>{many && joined(points, x, y)}{shapes}</g>{placed(labels, obstacles(marks, x, y, right), right, WIDTH).map((each) =>
    <text class={each.end ? "end" : "beside"} x={each.x} y={each.y} style={each.color ? { fill: each.color } : undefined}>{each.text}</text>)}</>;
}

/** A line, in a chart and in its key. */
export const Curve = ({ mark, d }: { mark: Mark; d: string }) =>
  <path class={`curve ${mark.role ?? ""}`} d={d} style={{ stroke: colorOf(mark) }} stroke-dasharray={dashOf(mark)} />;

/** A region, in a chart and in its key. */
export const Zone = ({ mark, id, ...box }: { mark: Mark; id: string; x: number; y: number; width: number; height: number }) =>
  <rect class={`zone ${mark.color}`} {...box} style={mark.color === "full" ? { fill: `url(#full${id})` } : undefined}><title>{mark.label}</title></rect>;

function one(mark: Mark, x: Place, y: Place, right: number, WIDTH: number, labels: Label[], id: string): JSX.Element | null {
  const color = colorOf(mark);
  if (mark.mark === "region") {
    const from = x(mark.x0!), wide = Math.max(0, x(mark.x1!) - from), full = mark.color === "full";
    if (full && wide > 6.8 * mark.label!.length) labels.push({ places: [HEIGHT - BOTTOM - 8, TOP + 14, (HEIGHT + TOP - BOTTOM) / 2].map((at) => [from + 6, at]), text: mark.label!, color: "var(--alert)" });
    return <g><Zone mark={mark} x={from} y={TOP} width={wide} height={HEIGHT - TOP - BOTTOM} id={id} />
      {full && <line class="edge" x1={from} x2={from} y1={TOP} y2={HEIGHT - BOTTOM} />}</g>;
  }
  if (mark.mark === "line") {
    const points = (mark.x as number[]).map((value, i) => [x(value), y((mark.y as number[])[i])] as [number, number])
      .filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py));
    const last = points[points.length - 1], text = textOf(mark);
    const wide = widthOf(text), beside = ([px, py]: [number, number]) => [[px + 6, py + 4], [px - wide / 2, py - 8], [px - wide - 6, py - 2], [px + 6, py + 16], [px - wide - 6, py + 12], [px + 6, py - 10]] as [number, number][];
    const at = (share: number): [number, number] => [points[0][0] + share * (last[0] - points[0][0]), points[0][1] + share * (last[1] - points[0][1])];
    if (text && last) labels.push(mark.role === "slope" ? { spare: true, places: [0.3, 0.4, 0.5, 0.2, 0.6, 0.7, 0.8, 0.9, 0.1].map(at).flatMap(([px, py]) => [[px + 10, py + 16], [px - 8 - widthOf(text), py - 4]] as [number, number][]), text, color }
      : last[0] < right - 40 ? { places: beside(last), text, color, spare: WIDTH < 560 }
      : { places: [[Math.min(last[0], right) + 6, Math.max(TOP + 8, Math.min(last[1] + 4, HEIGHT - BOTTOM))]], text, color, end: true });
    return <Curve mark={mark} d={line()(points) ?? ""} />;
  }
  if (mark.mark === "ridge") return <circle class="ridge" cx={x(mark.x as number)} cy={y(mark.y as number)} r="4"><title>{mark.label}</title></circle>;
  if (mark.mark !== "point") return null;
  const [px, py] = [x(mark.x as number), y(mark.y as number)], text = (mark.text ?? "").split("\n")[0];
  if (text && inside(px, py, right)) {
    const said = shortened(text, 34), beyond = radius(mark) + 4, wide = widthOf(said), left = Math.max(LEFT + 3, px - beyond - wide);
    const around: [number, number][] = [[px + beyond, py + 4], [px + beyond, py + 17], [px - wide / 2, py + beyond + 11], [px + beyond, py - 9], [left, py + 4], [left, py - 9],
      [left, py + 17], [px - wide / 2, py - beyond - 4], [px + beyond, py + 31], [px + beyond, py - 23], [left, py - 23], [left, py + 31]];
    labels.push({ places: mark.under ? [around[1], ...around] : around, text: said, color: "", spare: WIDTH < 560 && !mark.under });  // on a phone the key below names them
  }
  return <g>{mark.roof ? <line class="gap" x1={px} x2={px} y1={py} y2={y(mark.roof)} style={{ stroke: color }} /> : null}
    <path class={`spot ${mark.kind ?? ""}`} d={shape(mark.shape ?? 0, px, py, radius(mark))} style={{ fill: color }} /></g>;
}

/** Many points as a few paths, one for each colour and shape, so that ten thousand are drawn as fast as ten. */
function joined(points: Mark[], x: Place, y: Place): JSX.Element[] {
  const alike = new Map<string, { mark: Mark; path: string[]; gaps: string[] }>(), small = points.length > 1000 ? 0.5 : 1;
  for (const mark of points) {
    const key = `${(mark.series ?? 0) % 6} ${(mark.shape ?? 0) % SHAPES} ${mark.kind}`, [px, py] = [x(mark.x as number), y(mark.y as number)].map((v) => Math.round(4 * v) / 4);
    if (!Number.isFinite(px + py)) continue;
    if (!alike.has(key)) alike.set(key, { mark, path: [], gaps: [] });
    alike.get(key)!.path.push(shape(mark.shape ?? 0, px, py, Math.round(4 * small * radius(mark)) / 4));
    if (mark.roof) alike.get(key)!.gaps.push(`M${px},${py}V${Math.round(4 * y(mark.roof)) / 4}`);
  }
  return [...alike.values()].map(({ mark, path, gaps }) => <g>
    {gaps.length > 0 && gaps.length <= 1000 && <path class="gap" d={gaps.join("")} style={{ stroke: colorOf(mark) }} />}
    <path class={`spot ${mark.kind ?? ""} many`} d={path.join("")} style={{ fill: colorOf(mark) }} /></g>);
}

const inside = (px: number, py: number, right: number): boolean => px >= LEFT - 1 && px <= right + 1 && py >= TOP - 1 && py <= HEIGHT - BOTTOM + 1;

const widths = new Map<string, number>();
let pen: CanvasRenderingContext2D | null = null;

/** Pixels that a text takes, those of names of lines, which are bold, included. */
export function widthOf(text: string, bold = false): number {
  const known = widths.get(text + bold);
  if (known !== undefined) return known;
  pen ??= document.createElement("canvas").getContext("2d")!;
  pen.font = `${bold ? "600 " : ""}12px system-ui, sans-serif`;
  const found = pen.measureText(text).width;
  widths.set(text + bold, found);
  return found;
}

/** Pixels between two samples of a line, how many samples a mark counts for, and how many the next best place. */
const [APART, MARK, NEXT] = [3, 20, 0.4];

/** Where lines and marks lie: what a label should not stand on, each place with its weight. */
function obstacles(marks: Mark[], x: Place, y: Place, right: number): [number, number, number][] {
  return marks.flatMap((mark): [number, number, number][] => {
    if (mark.mark === "region" || mark.mark === "bar" || mark.x === undefined) return [];
    if (!Array.isArray(mark.x)) {
      const [px, py] = [x(mark.x), y(mark.y as number)], r = mark.mark === "ridge" ? 4 : radius(mark);
      return [[px, py, MARK], [px - r, py, MARK], [px + r, py, MARK], [px, py - r, MARK], [px, py + r, MARK]];
    }
    const found: [number, number, number][] = [], ys = mark.y as number[];
    let before: [number, number] | null = null;
    mark.x.forEach((value, i) => {
      const [px, py] = [x(value), y(ys[i])];
      if (!Number.isFinite(px + py)) { before = null; return; }
      if (before) {
        const [qx, qy]: [number, number] = before, many = Math.min(400, Math.ceil(Math.hypot(px - qx, py - qy) / APART));
        for (let k = 0; k < many; k++) found.push([qx + ((px - qx) * k) / many, qy + ((py - qy) * k) / many, 1]);
      }
      before = [px, py];
    });
    return found;
  }).filter(([px, py]) => inside(px, py, right));
}

/** Labels where they stand on no other one and on as little of lines and marks as may be; those without room are left out. */
function placed(labels: Label[], taken: [number, number, number][], right: number, WIDTH: number): { x: number; y: number; text: string; color: string; end?: boolean }[] {
  const boxes: [number, number, number, number][] = [];
  const ends = labels.filter((label) => label.end && WIDTH >= 560).map((label) => ({ ...label, x: label.places[0][0], y: label.places[0][1] })).sort((a, b) => a.y - b.y);
  const floor = HEIGHT - BOTTOM;
  ends.forEach((label, i) => { if (i) label.y = Math.max(label.y, ends[i - 1].y + 13); });
  for (let i = ends.length - 1, most = floor; i >= 0; most = ends[i].y - 13, i--) ends[i].y = Math.min(ends[i].y, most);
  for (const label of ends) boxes.push([label.x, label.y - 11, label.x + widthOf(label.text, true), label.y + 3]);
  const others = labels.filter((label) => !label.end).flatMap((label) => {
    const wide = widthOf(label.text);
    let best: [number, number] | null = null, least = Infinity;
    label.places.forEach(([px, py], i) => {
      const [left, top, far, low] = [px - 2, py - 11, px + wide + 2, py + 3];
      if (left < LEFT || far > WIDTH || top < TOP - 2 || low > floor + 1) return;
      if (boxes.some((box) => left < box[2] && far > box[0] && top < box[3] && low > box[1])) return;
      let covered = 0;
      for (const [ox, oy, weight] of taken) if (ox > left - 1 && ox < far + 1 && oy > top && oy < low) covered += weight;
      const cost = covered + NEXT * i + (far > right ? 1 : 0);
      if (cost < least && !(label.spare && covered)) [best, least] = [[px, py], cost];
    });
    if (best === null) return [];
    const [px, py]: [number, number] = best;
    boxes.push([px - 2, py - 11, px + wide + 2, py + 3]);
    return [{ ...label, x: px, y: py }];
  });
  return [...ends, ...others];
}
