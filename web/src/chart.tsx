// Time on each resource over one size: the largest is the least a run can take; a line at what is set, dots where it flips.
import { scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import { binding, now, step, timesAt, type Size, type Values } from "./state";
import { count, quantity } from "./quantity";

const [HEIGHT, LEFT, TOP, BOTTOM] = [330, 64, 14, 40];
/** As wide as the window allows, so that text keeps its size on a phone. */
const fitting = () => Math.max(320, Math.min(1080, innerWidth - 70));
const width = signal(fitting());
addEventListener("resize", () => { width.value = fitting(); });
const POINTS = 260;
export const STYLES = [
  ["var(--a)", ""], ["var(--b)", "7 3"], ["var(--c)", "2 3"], ["var(--d)", "9 3 2 3"], ["var(--e)", "4 2"], ["var(--f)", "1 2"],
];

interface Point { x: number; times: Values; binds: string }

function sampled(size: Size, values: Values): Point[] {
  const least = Math.max(1, size.least), ratio = size.most / least;
  const tried = Array.from({ length: POINTS }, (_, i) => Math.round(least * ratio ** (i / (POINTS - 1))));
  return [...new Set(tried)].map((x) => {
    const times = timesAt({ ...values, [size.name]: x });
    return { x, times, binds: binding(times) };
  });
}

/** Points between steps: a time that jumps where another algorithm is the faster one has no line across the jump. */
function unbroken(points: Point[], of: (p: Point) => number): Point[][] {
  const pieces: Point[][] = [[]];
  points.forEach((point, i) => {
    const before = points[i - 1];
    if (before && of(before) > 0 && of(point) > 0) {
      const jump = Math.abs(Math.log(of(point) / of(before))), stretch = Math.log(point.x / before.x);
      if (jump > 2.5 * stretch + 0.1) pieces.push([]);
    }
    pieces[pieces.length - 1].push(point);
  });
  return pieces;
}

/** The sizes at which another resource binds: looked for between two points by halving. */
export function flips(size: Size, values: Values, points: Point[]): { x: number; from: string; to: string }[] {
  return points.slice(1).flatMap((after, i) => {
    const before = points[i];
    if (before.binds === after.binds) return [];
    let [low, high] = [before.x, after.x];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (binding(timesAt({ ...values, [size.name]: middle })) === before.binds) low = middle;
      else high = middle;
    }
    return [{ x: high, from: before.binds, to: binding(timesAt({ ...values, [size.name]: high })) }];
  });
}

export function Chart() {
  const sizes = step.value.sizes, WIDTH = width.value, RIGHT = WIDTH < 500 ? 84 : 120;
  const [name, setName] = useState(sizes[0]?.name ?? "");
  const [hover, setHover] = useState<number | null>(null);
  const [table, setTable] = useState(false);
  const size = sizes.find((each) => each.name === name) ?? sizes[0];
  const values = now.value;
  const points = useMemo(() => (size ? sampled(size, values) : []), [size, values]);
  if (!size || points.length < 2) return null;
  const resources = step.value.terms.map((term) => term.resource);
  const all = points.flatMap((p) => resources.map((r) => p.times[`time_${r}`])).filter((t) => t > 0 && Number.isFinite(t));
  const top = Math.max(...all, ...points.map((p) => p.times.lower)), bottom = Math.max(Math.min(...all), top / 1e6);
  const x = scaleLog([points[0].x, points[points.length - 1].x], [LEFT, WIDTH - RIGHT]);
  const y = scaleLog([bottom / 1.5, top * 1.5], [HEIGHT - BOTTOM, TOP]);
  const path = (of: (p: Point) => number) => unbroken(points, of).map((piece) =>
    line<Point>().defined((p) => of(p) >= bottom / 1.5).x((p) => x(p.x)).y((p) => y(of(p)))(piece) ?? "").join("");
  const found = flips(size, values, points);
  const here = Math.min(Math.max(values[size.name], points[0].x), points[points.length - 1].x);
  const at = hover ?? here;
  const read = timesAt({ ...values, [size.name]: at });
  const tens = (scale: typeof x) => {
    const powers = scale.ticks().filter((t) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9);
    return powers.length > 1 ? powers : scale.ticks(4);
  };
  const move = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * WIDTH;
    setHover(Math.max(points[0].x, Math.min(points[points.length - 1].x, Math.round(x.invert(px)))));
  };
  const ends = resources
    .map((resource, i) => ({ resource, i, y: y(Math.max(points[points.length - 1].times[`time_${resource}`], bottom / 1.5)) }))
    .sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => { if (i && end.y - ends[i - 1].y < 13) end.y = ends[i - 1].y + 13; });
  return (
    <section class="card" aria-label="Time over a size">
      <div class="row">
        <h2>Time over <select aria-label="size of the chart" value={size.name}
          onChange={(e) => setName(e.currentTarget.value)}>{sizes.map((s) => <option value={s.name}>{s.name}</option>)}</select></h2>
        <button onClick={() => setTable(!table)}>{table ? "picture" : "table"}</button>
      </div>
      {table ? <TimesTable points={points} name={size.name} resources={resources} /> : (
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" onPointerMove={move} onPointerLeave={() => setHover(null)}>
          <title>{`Time on each resource over ${size.name}`}</title>
          {tens(x).map((t) => <g class="tick"><line x1={x(t)} x2={x(t)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text x={x(t)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">{count(t)}</text></g>)}
          {tens(y).map((t) => <g class="tick"><line x1={LEFT} x2={WIDTH - RIGHT} y1={y(t)} y2={y(t)} />
            <text x={LEFT - 6} y={y(t) + 4} text-anchor="end">{quantity(t, "s")}</text></g>)}
          <text class="axis" x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">{size.name}</text>
          <path class="lower" d={path((p) => p.times.lower)} />
          {resources.map((resource, i) => <path class="time" d={path((p) => p.times[`time_${resource}`])}
            stroke={STYLES[i % 6][0]} stroke-dasharray={STYLES[i % 6][1]} />)}
          {ends.map((end) => <text class="end" x={WIDTH - RIGHT + 6} y={end.y + 4} style={{ fill: STYLES[end.i % 6][0] }}>{end.resource}</text>)}
          {found.map((flip) => <g class="flip"><circle cx={x(flip.x)} cy={y(timesAt({ ...values, [size.name]: flip.x }).lower)} r="4" />
            <text x={x(flip.x)} y={TOP + 10} text-anchor="middle">{`${flip.to} from ${count(flip.x)}`}</text></g>)}
          <line class="here" x1={x(at)} x2={x(at)} y1={TOP + 16} y2={HEIGHT - BOTTOM} />
          <circle class="here" cx={x(at)} cy={y(Math.max(read.lower, bottom / 1.5))} r="3.5" />
        </svg>)}
      <p class="read" aria-live="polite">at {size.name} = {count(at)}: <b>{quantity(read.lower, "s")}</b> at best, {binding(read)} binds
        {" · "}{resources.map((r) => `${r} ${quantity(read[`time_${r}`], "s")}`).join(" · ")}</p>
      <p class="quiet">{found.length ? found.map((f) => `${f.from} → ${f.to} at ${size.name} = ${count(f.x)}`).join("; ")
        : `${binding(read)} binds at every ${size.name} shown, the rest as it is`}</p>
    </section>
  );
}

function TimesTable({ points, name, resources }: { points: Point[]; name: string; resources: string[] }) {
  const few = points.filter((_, i) => i % Math.ceil(points.length / 24) === 0);
  return (
    <div class="scroll"><table><thead><tr><th>{name}</th><th>at best</th>{resources.map((r) => <th>{r}</th>)}<th>binds</th></tr></thead>
      <tbody>{few.map((p) => <tr><td>{count(p.x)}</td><td>{quantity(p.times.lower, "s")}</td>
        {resources.map((r) => <td>{quantity(p.times[`time_${r}`], "s")}</td>)}<td>{p.binds}</td></tr>)}</tbody></table></div>
  );
}
