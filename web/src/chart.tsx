// A chart of lines, points, regions and bars: zoomed, read off, pinned, toggled, exported.
import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { JSX } from "preact";
import { csv, give, png, svgText } from "./exports";
import { count, quantity } from "./quantity";
import type { Axis, ChartSpec, Mark } from "./state";

const [HEIGHT, LEFT, TOP, BOTTOM] = [360, 74, 16, 42];
/** As wide as the window allows, so that text keeps its size on a phone. */
const fitting = () => Math.max(300, Math.min(1120, document.documentElement.clientWidth - 62));
export const width = signal(fitting());
addEventListener("resize", () => { width.value = fitting(); });
export const STYLES = [
  ["var(--a)", ""], ["var(--b)", "7 3"], ["var(--c)", "2 3"], ["var(--d)", "9 3 2 3"], ["var(--e)", "4 2"], ["var(--f)", "1 2"],
];

type Domain = [number, number];
interface Spot { x: number; y: number; mark: Mark }

const written = (value: number, axis: Axis) => (axis.unit ? quantity(value, axis.unit) : count(Number(value.toPrecision(4))));
const scaled = (log: boolean, domain: Domain, range: Domain) => (log ? scaleLog(domain, range) : scaleLinear(domain, range));

/** Ticks that fit: powers of ten where there are several. */
function ticks(scale: ReturnType<typeof scaled>, log: boolean, most: number): number[] {
  if (!log) return scale.ticks(most);
  const all = scale.ticks();
  const powers = all.filter((t) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9);
  const few = powers.length > 1 ? powers : all.filter((_, i) => i % Math.ceil(all.length / most) === 0);
  const each = Math.ceil(few.length / most);
  return few.filter((_, i) => i % each === 0);
}

function limits(axis: Axis, log: boolean, values: number[]): Domain {
  let [low, high] = axis.limits ?? [Math.min(...values), Math.max(...values)];
  if (log && low <= 0) low = Math.min(...values.filter((v) => v > 0), high / 1e6);
  return [low, high];
}

const spots = (marks: Mark[]): Spot[] => marks.flatMap((mark) => {
  if (mark.mark === "region" || mark.mark === "bar") return [];
  if (Array.isArray(mark.x)) return mark.x.map((x, i) => ({ x, y: (mark.y as number[])[i], mark }));
  return mark.x === undefined ? [] : [{ x: mark.x, y: mark.y as number, mark }];
});

const nameOf = (mark: Mark): string => (mark.label || mark.text || mark.mark).replace(/\n/g, " ");

export interface Following { at: number; read: (x: number) => JSX.Element; y: (x: number) => number; set?: (x: number) => void }

export function Chart({ spec, following, extra, head }: {
  spec: ChartSpec; following?: Following; extra?: Mark[]; head?: JSX.Element;
}) {
  if (spec.kind === "bars") return <Bars spec={spec} />;
  return <Plane spec={spec} following={following} extra={extra} head={head} />;
}

function Plane({ spec, following, extra = [], head }: { spec: ChartSpec; following?: Following; extra?: Mark[]; head?: JSX.Element }) {
  const WIDTH = width.value, RIGHT = WIDTH < 560 ? 14 : 176;
  const svg = useRef<SVGSVGElement>(null);
  const [logs, setLogs] = useState({ x: spec.x.scale === "log", y: spec.y.scale === "log" });
  const [zoom, setZoom] = useState<{ x: Domain; y: Domain } | null>(null);
  const [hidden, setHidden] = useState<string[]>([]);
  const [hover, setHover] = useState<Spot | null>(null);
  const [pin, setPin] = useState<Spot | null>(null);
  const [cross, setCross] = useState<number | null>(null);
  const [table, setTable] = useState(false);
  const [active, setActive] = useState(false);
  const drag = useRef<{ px: number; py: number; from: { x: Domain; y: Domain }; far: boolean } | null>(null);
  const marks = useMemo(() => spec.marks.filter((mark) => !hidden.includes(nameOf(mark))), [spec, hidden]);
  const all = useMemo(() => spots(marks), [marks]);
  const whole = useMemo(() => ({
    x: limits(spec.x, logs.x, all.map((s) => s.x)), y: limits(spec.y, logs.y, all.map((s) => s.y)),
  }), [spec, logs, all]);
  const domain = zoom ?? whole;
  const x = scaled(logs.x, domain.x, [LEFT, WIDTH - RIGHT]), y = scaled(logs.y, domain.y, [HEIGHT - BOTTOM, TOP]);
  const sketch = useMemo(() => drawn(marks, x, y, WIDTH - RIGHT, WIDTH), [marks, domain.x[0], domain.x[1], domain.y[0], domain.y[1], logs, WIDTH]);
  const moving = spots(extra);

  const pointer = (event: { clientX: number; clientY: number }): [number, number] => {
    const box = svg.current!.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
  };
  const nearest = (px: number, py: number): Spot | null => {
    let best: Spot | null = null, least = 26 ** 2;
    for (const spot of [...moving, ...all]) {
      const far = (x(spot.x) - px) ** 2 + (y(spot.y) - py) ** 2 - (spot.mark.mark === "point" ? 60 : 0);
      if (far < least) [best, least] = [spot, far];
    }
    return best;
  };
  const shifted = (of: Domain, log: boolean, share: number): Domain => {
    if (log) { const by = (of[1] / of[0]) ** share; return [of[0] * by, of[1] * by]; }
    const by = (of[1] - of[0]) * share; return [of[0] + by, of[1] + by];
  };
  const stretched = (of: Domain, log: boolean, about: number, by: number): Domain =>
    log ? [about * (of[0] / about) ** by, about * (of[1] / about) ** by] : [about + (of[0] - about) * by, about + (of[1] - about) * by];
  const move = (event: PointerEvent) => {
    const [px, py] = pointer(event), from = drag.current;
    if (from && event.buttons) {
      if (Math.hypot(px - from.px, py - from.py) > 4) from.far = true;
      if (from.far && event.pointerType !== "touch") setZoom({
        x: shifted(from.from.x, logs.x, (from.px - px) / (WIDTH - RIGHT - LEFT)),
        y: shifted(from.from.y, logs.y, (py - from.py) / (HEIGHT - TOP - BOTTOM)) });
      return;
    }
    setCross(Math.min(Math.max(x.invert(px), domain.x[0]), domain.x[1]));
    setHover(nearest(px, py));
  };
  const up = (event: PointerEvent) => {
    const from = drag.current;
    drag.current = null;
    if (from?.far) return;
    const [px, py] = pointer(event), found = nearest(px, py);
    setPin(found && pin?.mark === found.mark ? null : found);
  };
  const wheel = (event: WheelEvent) => {
    if (!active && !event.ctrlKey) return;
    event.preventDefault();
    const [px, py] = pointer(event), by = event.deltaY > 0 ? 1.2 : 1 / 1.2;
    setZoom({ x: stretched(domain.x, logs.x, x.invert(px), by), y: stretched(domain.y, logs.y, y.invert(py), by) });
  };
  useEffect(() => {
    const node = svg.current;
    node?.addEventListener("wheel", wheel, { passive: false });
    return () => node?.removeEventListener("wheel", wheel);
  });
  const key = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -0.1, ArrowRight: 0.1 }[event.key];
    if (by) { event.preventDefault(); setZoom({ ...domain, x: shifted(domain.x, logs.x, by) }); }
    if (event.key === "+" || event.key === "-") {
      const middle = logs.x ? Math.sqrt(domain.x[0] * domain.x[1]) : (domain.x[0] + domain.x[1]) / 2;
      setZoom({ ...domain, x: stretched(domain.x, logs.x, middle, event.key === "+" ? 0.8 : 1.25) });
    }
    if (event.key === "Escape" || event.key === "0") { setZoom(null); setPin(null); }
  };
  const told = hover ?? pin, names = [...new Set(spec.marks.filter((m) => m.mark === "line" || m.mark === "point").map(nameOf))];
  const at = following ? (cross ?? following.at) : null;
  return (
    <section class="card chart" aria-label={spec.title}>
      <div class="row">{head ?? <h2>{spec.title}</h2>}
        <span class="tools">
          {(["x", "y"] as const).map((axis) => <button aria-pressed={logs[axis]} title={`${spec[axis].label}: logarithmic or linear`}
            onClick={() => { setLogs({ ...logs, [axis]: !logs[axis] }); setZoom(null); }}>{axis} {logs[axis] ? "log" : "linear"}</button>)}
          {zoom && <button onClick={() => setZoom(null)}>reset zoom</button>}
          <button onClick={() => setTable(!table)}>{table ? "picture" : "table"}</button>
          <Exports spec={spec} svg={() => svg.current} />
        </span></div>
      {spec.subtitle && <p class="quiet">{spec.subtitle}</p>}
      {table ? <Figures spec={spec} pinned={pin?.mark ?? null} pick={(mark) => setPin(spots([mark])[0] ?? null)} /> : (
        <div class="layers"><svg ref={svg} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" tabIndex={0} aria-label={`${spec.title}; a table is behind the button above`}
          onPointerMove={move} onPointerLeave={() => { setHover(null); setCross(null); setActive(false); }} onKeyDown={key}
          onPointerDown={(event) => { const [px, py] = pointer(event); drag.current = { px, py, from: domain, far: false }; setActive(true); }}
          onPointerUp={up} onDblClick={() => setZoom(null)}>
          <clipPath id="inside"><rect x={LEFT} y={TOP} width={Math.max(0, WIDTH - RIGHT - LEFT)} height={HEIGHT - TOP - BOTTOM} /></clipPath>
          {ticks(x, logs.x, WIDTH < 560 ? 5 : 10).filter((t, i, all) => !i || x(t) - x(all[i - 1]) > 44).map((t) => <g class="tick"><line x1={x(t)} x2={x(t)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text x={x(t)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">{written(t, spec.x).replace(/ .*$/, (rest) => (spec.x.unit.includes("/") ? rest.replace(spec.x.unit, "") : rest))}</text></g>)}
          {ticks(y, logs.y, 8).map((t) => <g class="tick"><line x1={LEFT} x2={WIDTH - RIGHT} y1={y(t)} y2={y(t)} />
            <text x={LEFT - 6} y={y(t) + 4} text-anchor="end">{written(t, spec.y).replace("/s", "")}</text></g>)}
          <text class="axis" x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">{spec.x.label}{spec.x.unit && `, ${spec.x.unit}`}</text>
          <text class="axis" x={LEFT} y={TOP - 4} text-anchor="start">{spec.y.label}{spec.y.unit && !spec.y.label.includes(spec.y.unit) ? `, ${spec.y.unit}` : ""}</text>
          {sketch}
          {moving.map((spot) => <g class="moved"><path d={diamond(x(spot.x), y(spot.y), 8)} />
            <text x={x(spot.x) + 11} y={y(spot.y) + 4}>{spot.mark.text}</text></g>)}
        </svg>
        <svg class="over" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
            {following && at !== null && <><line class="here" x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} />
              <circle class="here" cx={x(at)} cy={Math.min(y(following.y(at)), HEIGHT - BOTTOM)} r="4" /></>}
            {!following && cross !== null && <line class="here faint" x1={x(cross)} x2={x(cross)} y1={TOP} y2={HEIGHT - BOTTOM} />}
            {told && <circle class="told" cx={x(told.x)} cy={y(told.y)} r="9" />}
        </svg>
        </div>)}
      {following && at !== null ? <div class="read" aria-live="polite">{following.read(at)}</div>
        : <p class="read" aria-live="polite">{told ? describe(told, spec) : roofAt(all, cross, spec)}</p>}
      {names.length > 1 && names.length <= 24 && <p class="legend">{names.map((name) => {
        const mark = spec.marks.find((each) => nameOf(each) === name)!, [color, dash] = STYLES[(mark.series ?? 0) % 6];
        return <button class="key" aria-pressed={!hidden.includes(name)} title="show or hide"
          onClick={() => setHidden(hidden.includes(name) ? hidden.filter((each) => each !== name) : [...hidden, name])}>
          <svg viewBox="0 0 26 10" width="26" height="10" aria-hidden="true">{mark.mark === "line"
            ? <line x1="0" x2="26" y1="5" y2="5" style={{ stroke: color }} stroke-width="2" stroke-dasharray={dash} />
            : <path d={shape(mark.shape ?? 0, 13, 5, 4.5)} style={{ fill: color }} />}</svg>{name}</button>;
      })}</p>}
      <details class="drawer quiet"><summary>about this chart</summary>
        <p>Click a point to pin it; click the chart, then turn the wheel to zoom; drag to move it; double-click to reset. With the keyboard: arrows move, + and − zoom, Escape resets.</p>
        {spec.notes.length > 0 && <ul>{spec.notes.map((note) => <li>{note}</li>)}</ul>}</details>
    </section>);
}

/** What the roofs allow at an intensity: the largest of the lines of roles slope and ceiling there. */
function roofAt(all: Spot[], cross: number | null, spec: ChartSpec): string {
  if (cross === null) return "move over the chart to read it";
  const roofs = [...new Set(all.map((spot) => spot.mark))].filter((mark) => mark.role === "slope" || mark.role === "ceiling");
  if (spec.kind !== "roofline" || !roofs.length) return `${spec.x.label} ${written(cross, spec.x)}`;
  const on = new Map<string, { slopes: number[]; peaks: number[] }>();
  for (const mark of roofs) {
    const group = mark.group || (mark.label ?? "").split(" ")[0], [xs, ys] = [mark.x as number[], mark.y as number[]];
    if (!on.has(group)) on.set(group, { slopes: [], peaks: [] });
    if (mark.role === "slope") on.get(group)!.slopes.push(ys[0] / xs[0]);
    else on.get(group)!.peaks.push(Math.max(...ys));
  }
  const lines = [...on].map(([name, { slopes, peaks }]) =>
    `${name} ${quantity(Math.min(Math.max(...slopes, 0) * cross || Infinity, Math.max(...peaks, 0) || Infinity), spec.y.unit)}`);
  return `at ${quantity(cross, spec.x.unit)}, attainable: ${lines.join(" · ")}`;
}

function describe(spot: Spot, spec: ChartSpec): string {
  const { mark } = spot, unit = (value: number, axis: Axis) => written(value, axis);
  const parts = [nameOf(mark), `${unit(spot.x, spec.x)}, ${unit(spot.y, spec.y)}`];
  if (mark.roof) parts.push(`${((100 * spot.y) / mark.roof).toPrecision(2)} % of the roof, ${unit(mark.roof, spec.y)}`);
  if (mark.bound_by) parts.push(`${mark.bound_by} binds`);
  if (mark.time) parts.push(quantity(mark.time, "s"));
  return parts.join(" · ");
}

const diamond = (x: number, y: number, r: number) => `M${x},${y - r}L${x + r},${y}L${x},${y + r}L${x - r},${y}Z`;
function shape(kind: number, x: number, y: number, r: number): string {
  if (kind % 4 === 1) return `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`;
  if (kind % 4 === 2) return `M${x},${y - r}L${x + r},${y + r}L${x - r},${y + r}Z`;
  if (kind % 4 === 3) return diamond(x, y, r * 1.2);
  return `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
}

/** Half a mark's width: longer operations have larger marks. */
const radius = (mark: Mark): number => 5 * (mark.size ?? 1);

function drawn(marks: Mark[], x: (v: number) => number, y: (v: number) => number, right: number, WIDTH: number): JSX.Element {
  const labels: { x: number; y: number; text: string; color: string; end: boolean }[] = [];
  const many = marks.filter((mark) => mark.mark === "point").length > 60;
  const shapes = marks.map((mark) => {
    const color = STYLES[(mark.series ?? 0) % 6][0];
    if (mark.mark === "region") return <rect class={`zone ${mark.color}`} x={x(mark.x0!)} width={Math.max(0, x(mark.x1!) - x(mark.x0!))} y={TOP} height={HEIGHT - TOP - BOTTOM}><title>{mark.label}</title></rect>;
    if (mark.mark === "line") {
      const points = (mark.x as number[]).map((value, i) => [x(value), y((mark.y as number[])[i])] as [number, number])
        .filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py));
      const last = points[points.length - 1], text = mark.text ?? "";
      const middle = mark.role === "slope" ? points[0] && [points[0][0] + 0.3 * (last[0] - points[0][0]) + 10, points[0][1] + 0.3 * (last[1] - points[0][1]) + 16] as [number, number] : null;
      if (text && last) labels.push(middle ? { x: middle[0], y: middle[1], text, color, end: false }
        : WIDTH - right > 60 ? { x: Math.min(last[0], right) + 6, y: Math.max(TOP + 8, Math.min(last[1] + 4, HEIGHT - BOTTOM)), text, color, end: true }
          : { x: right - 4 - 7 * text.length, y: last[1] - 6, text, color, end: true });
      return <path class={`curve ${mark.role ?? ""}`} d={line()(points) ?? ""} style={{ stroke: color }} stroke-dasharray={STYLES[(mark.dash ?? mark.series ?? 0) % 6][1]} />;
    }
    if (mark.mark === "ridge") return <circle class="ridge" cx={x(mark.x as number)} cy={y(mark.y as number)} r="4"><title>{mark.label}</title></circle>;
    if (mark.mark !== "point") return null;
    const [px, py] = [x(mark.x as number), y(mark.y as number)];
    const text = (mark.text ?? "").split("\n")[0];
    if (text && !many) labels.push({ x: px + radius(mark) + 4, y: py + 4, text: text.length > 34 ? `${text.slice(0, 33)}…` : text, color: "", end: false });
    return <g>{mark.roof ? <line class="gap" x1={px} x2={px} y1={py} y2={y(mark.roof)} style={{ stroke: color }} /> : null}
      <path class={`spot ${mark.kind ?? ""}`} d={shape(mark.shape ?? 0, px, py, radius(mark))} style={{ fill: color }} /></g>;
  });
  labels.sort((a, b) => a.y - b.y);
  const placed: typeof labels = [];
  for (const label of labels) {
    const near = placed.filter((each) => Math.abs(each.x - label.x) < 7 * Math.max(each.text.length, label.text.length) && label.y - each.y < 13);
    if (near.length && !label.end) continue;
    if (near.length) label.y = Math.max(...near.map((each) => each.y)) + 13;
    if (!label.end && label.x + 6.6 * label.text.length > WIDTH) label.x = Math.max(LEFT, label.x - 6.6 * label.text.length - 22);
    placed.push(label);
  }
  return <><g clip-path="url(#inside)">{shapes}</g>{placed.map((each) =>
    <text class={each.end ? "end" : "beside"} x={each.x} y={each.y} style={each.color ? { fill: each.color } : undefined}>{each.text}</text>)}</>;
}

function Exports({ spec, svg }: { spec: ChartSpec; svg: () => SVGSVGElement | null }) {
  const name = spec.title.replace(/[^\w.-]+/g, "-").slice(0, 60) || "chart";
  const kinds: Record<string, () => void> = {
    PNG: () => { const found = svg(); if (found) png(found, `${name}.png`); },
    SVG: () => { const found = svg(); if (found) give(`${name}.svg`, svgText(found), "image/svg+xml"); },
    CSV: () => give(`${name}.csv`, csv(spec), "text/csv"),
    JSON: () => give(`${name}.json`, JSON.stringify(spec, null, 2), "application/json"),
  };
  return <select aria-label="save this chart" value="" onChange={(e) => { kinds[e.currentTarget.value]?.(); e.currentTarget.value = ""; }}>
    <option value="">save …</option>{Object.keys(kinds).map((kind) => <option value={kind}>{kind}</option>)}</select>;
}

/** The table behind a chart: a row a point; a click pins it in the picture, the reverse highlights the row. */
function Figures({ spec, pinned, pick }: { spec: ChartSpec; pinned: Mark | null; pick: (mark: Mark) => void }) {
  const rows = spots(spec.marks), each = Math.ceil(rows.length / 400);
  return (
    <div class="scroll tall" tabIndex={0} role="group" aria-label={spec.title}><table><thead><tr><th class="left">what</th><th>{spec.x.label}</th><th>{spec.y.label}</th></tr></thead>
      <tbody>{rows.filter((_, i) => i % each === 0).map((spot) => <tr class={spot.mark === pinned ? "pinned" : ""} onClick={() => pick(spot.mark)}>
        <td class="left">{nameOf(spot.mark)}</td><td>{written(spot.x, spec.x)}</td><td>{written(spot.y, spec.y)}</td></tr>)}</tbody></table></div>);
}

/** Rows of bars, the longest as wide as there is room. */
function Bars({ spec }: { spec: ChartSpec }) {
  const bars = spec.marks.filter((mark) => mark.mark === "bar"), most = Math.max(...bars.map((bar) => bar.x1 ?? 0)) || 1;
  const rows = [...new Set(bars.map((bar) => bar.row))];
  return (
    <section class="card" aria-label={spec.title}><div class="row"><h2>{spec.title}</h2><span class="tools"><Exports spec={spec} svg={() => null} /></span></div>
      {rows.map((row) => { const of = bars.filter((bar) => bar.row === row); return (
        <div class="bars"><span class="name">{of[0].label}</span><span class="bar">{of.map((bar) =>
          <i title={`${bar.part} ${quantity(bar.x1! - bar.x0!, spec.x.unit)}`} style={{ width: `${(100 * (bar.x1! - bar.x0!)) / most}%`, background: STYLES[(bar.series ?? 0) % 6][0] }} />)}</span>
          <span class="figure">{quantity(Math.max(...of.map((bar) => bar.x1!)), spec.x.unit)}</span></div>); })}
      <ul class="quiet">{spec.notes.map((note) => <li>{note}</li>)}</ul></section>);
}
