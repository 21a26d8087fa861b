// A chart of lines, points and regions: zoomed, read off, pinned, toggled, exported.
import { scaleLinear, scaleLog } from "d3-scale";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import type { JSX } from "preact";
import { Bars } from "./bars";
import { aboutMark } from "./facts";
import { HeatMap } from "./heatmap";
import { BOTTOM, Cells, colorOf, Curve, diamond, drawn, HEIGHT, isOf, LEFT, nameOf, shape, spots, textOf, TOP, type Spot, written, Zone } from "./marks";
import { percent, quantity } from "./quantity";
import { pinned, type Axis, type ChartSpec, type Mark } from "./state";
import { Card, Figures, Key, width } from "./tools";

type Domain = [number, number];

const scaled = (log: boolean, domain: Domain, range: Domain) => (log ? scaleLog(domain, range) : scaleLinear(domain, range));

/** Ticks that fit: powers of ten where there are several, else all, else round ones: 1, 2 and 5 and their tens. */
function ticks(scale: ReturnType<typeof scaled>, log: boolean, most: number): number[] {
  if (!log) return scale.ticks(most);
  const all = scale.ticks();
  const powers = all.filter((t) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9);
  const round = all.filter((t) => "125".includes(t.toExponential(6)[0]));
  const few = powers.length > 1 ? powers : all.length > most && round.length > 1 ? round : all;
  const each = Math.ceil(few.length / most);
  return few.filter((_, i) => i % each === 0);
}

function limits(axis: Axis, log: boolean, values: number[]): Domain {
  let [low, high] = axis.limits ?? [Math.min(...values), Math.max(...values)];
  if (log && low <= 0) low = Math.min(...values.filter((v) => v > 0), high / 1e6);
  return [low, high];
}

/** What stands at a tick: steps of ten are no round numbers of minutes; the unit of a rate stands at the axis alone. */
const tickText = (value: number, axis: Axis): string =>
  axis.unit === "s" && value >= 1 ? `${value.toLocaleString("en")} s` : axis.unit.includes("/") ? written(value, axis).replace(axis.unit, "").trim() : written(value, axis);

/** What an axis shows; its unit where ticks do not have all of it. */
const titleOf = (axis: Axis): string => (axis.unit.includes("/") && !axis.label.includes(axis.unit) ? `${axis.label}, ${axis.unit}` : axis.label);

/** Room to the right of a chart for the names of its lines. */
const beside = (spec: ChartSpec): number =>
  Math.min(260, Math.max(40, 16 + 7.4 * Math.max(0, ...spec.marks.map((mark) => (mark.mark === "line" && mark.role !== "slope" ? textOf(mark).length : 0)))));

const isRoof = (mark: Mark): boolean => mark.role === "slope" || mark.role === "ceiling";
const machineOf = (mark: Mark): string => mark.group || (mark.label ?? "").split(" ")[0];

/** The marks that the key of a chart names, by their name; what a machine's roof has in one stroke is one entry. */
function keyed(spec: ChartSpec): Map<string, Mark[]> {
  const found = new Map<string, Mark[]>();
  for (const mark of spec.marks) {
    if (mark.mark !== "line" && mark.mark !== "region" && (mark.mark !== "point" || spec.kind === "latency")) continue;
    const by = isRoof(mark) ? `${machineOf(mark)} ${mark.series} ${mark.dash}` : nameOf(mark), known = found.get(by);
    if (known) known.push(mark);
    else found.set(by, [mark]);
  }
  return new Map([...found.values()].map((marks) => [isRoof(marks[0]) ? `${spec.kind === "roofline" ? `${machineOf(marks[0])} ` : ""}${marks.map((each) => each.text || nameOf(each)).join(", ")}` : nameOf(marks[0]), marks]));
}

export interface Following { at: number; read: (x: number) => JSX.Element; y: (x: number) => number; set?: (x: number) => void }

export function Chart({ spec, following, extra, head }: {
  spec: ChartSpec; following?: Following; extra?: Mark[]; head?: JSX.Element;
}) {
  if (spec.kind === "bars") return <Bars spec={spec} />;
  if (spec.kind === "heatmap") return <HeatMap spec={spec} />;
  return <Plane spec={spec} following={following} extra={extra} head={head} />;
}

function Plane({ spec, following, extra = [], head }: { spec: ChartSpec; following?: Following; extra?: Mark[]; head?: JSX.Element }) {
  const WIDTH = width.value, RIGHT = WIDTH < 560 ? 14 : beside(spec);
  const svg = useRef<SVGSVGElement>(null), id = useId();
  const [logs, setLogs] = useState({ x: spec.x.scale === "log", y: spec.y.scale === "log" });
  const [zoom, setZoom] = useState<{ x: Domain; y: Domain } | null>(null);
  const [hidden, setHidden] = useState<string[]>([]);
  const [hover, setHover] = useState<Spot | null>(null);
  const [held, hold] = useState<Spot | null>(null);
  const [cross, setCross] = useState<number | null>(null);
  const [table, setTable] = useState(false);
  const [active, setActive] = useState(false);
  const drag = useRef<{ px: number; py: number; from: { x: Domain; y: Domain }; far: boolean } | null>(null);
  const entries = useMemo(() => keyed(spec), [spec]), names = [...entries.keys()];
  const marks = useMemo(() => { const out = new Set(hidden.flatMap((name) => entries.get(name) ?? [])); return spec.marks.filter((mark) => !out.has(mark)); }, [spec, hidden]);
  const all = useMemo(() => spots(marks), [marks]);
  const whole = useMemo(() => ({
    x: limits(spec.x, logs.x, all.map((s) => s.x)), y: limits(spec.y, logs.y, all.map((s) => s.y)),
  }), [spec, logs, all]);
  const domain = zoom ?? whole;
  const x = scaled(logs.x, domain.x, [LEFT, WIDTH - RIGHT]), y = scaled(logs.y, domain.y, [HEIGHT - BOTTOM, TOP]);
  const seen = [marks, domain.x[0], domain.x[1], domain.y[0], domain.y[1], logs, WIDTH];
  const sketch = useMemo(() => drawn(marks, x, y, WIDTH - RIGHT, WIDTH, id), seen);
  const cells = useMemo(() => new Cells(all, x, y), seen);
  const roofs = useMemo(() => marks.filter(isRoof), [marks]);
  const named = useMemo(() => (pinned.value ? all.find((spot) => spot.mark.mark === "point" && isOf(spot.mark, pinned.value)) ?? null : null), [all, pinned.value]);
  const pin = held ?? named;
  /** Pin a point: its name is marked in every chart and table; a place on a line is pinned here alone. */
  const setPin = (spot: Spot | null) => {
    hold(spot && spot.mark.mark !== "point" ? spot : null);
    if (!spot || spot.mark.mark === "point") pinned.value = spot ? nameOf(spot.mark) : "";
  };
  const moving = spots(extra);

  const pointer = (event: { clientX: number; clientY: number }): [number, number] => {
    const box = svg.current!.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * WIDTH, ((event.clientY - box.top) / box.height) * HEIGHT];
  };
  const nearest = (px: number, py: number): Spot | null => {
    const near = moving.find((spot) => Math.hypot(x(spot.x) - px, y(spot.y) - py) < 9);
    return near ?? cells.nearest(px, py);
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
    setPin(found && pin?.mark === found.mark && pin.x === found.x ? null : found);
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
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step && all.length) {
      event.preventDefault();
      setPin(all[(all.findIndex((spot) => spot.mark === pin?.mark && spot.x === pin.x) + step + all.length) % all.length]);
    }
    if (event.key === "Escape" || event.key === "0") { setZoom(null); setPin(null); }
  };
  const told = hover ?? pin;
  const at = following ? (cross ?? following.at) : null;
  return (
    <Card spec={spec} svg={() => svg.current} head={head} table={table} setTable={setTable} about="Click a point to pin it; click the chart, then turn the wheel to zoom; drag to move it; double-click to reset. With the keyboard: left and right move, up and down go from point to point, + and − zoom, Escape resets." tools={<>
      {(["x", "y"] as const).map((axis) => <button aria-pressed={logs[axis]} title={`${spec[axis].label}: logarithmic or linear`}
        onClick={() => { setLogs({ ...logs, [axis]: !logs[axis] }); setZoom(null); }}>{axis} {logs[axis] ? "log" : "linear"}</button>)}
      {zoom && <button onClick={() => setZoom(null)}>reset zoom</button>}</>}>
      {table ? <Figures spec={spec} pinned={pin?.mark ?? null} pick={(spot) => setPin(spot)} /> : (
        <div class="layers"><svg ref={svg} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" tabindex={0} aria-label={`${spec.title}; a table is behind the button above`}
          onPointerMove={move} onPointerLeave={() => { setHover(null); setCross(null); setActive(false); }} onKeyDown={key}
          onPointerDown={(event) => { const [px, py] = pointer(event); drag.current = { px, py, from: domain, far: false }; setActive(true); }}
          onPointerUp={up} onDblClick={() => setZoom(null)}>
          {marks.some((mark) => mark.color === "full") && <pattern id={`full${id}`} width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="8" class="hatch" /></pattern>}
          <clipPath id={`inside${id}`}><rect x={LEFT} y={TOP} width={Math.max(0, WIDTH - RIGHT - LEFT)} height={HEIGHT - TOP - BOTTOM} /></clipPath>
          {ticks(x, logs.x, WIDTH < 560 ? 5 : 10).filter((t, i, all) => !i || x(t) - x(all[i - 1]) > Math.max(44, 7.2 * tickText(t, spec.x).length)).map((t) => <g class="tick"><line x1={x(t)} x2={x(t)} y1={TOP} y2={HEIGHT - BOTTOM} />
            <text x={Math.min(x(t), WIDTH - 3.7 * tickText(t, spec.x).length)} y={HEIGHT - BOTTOM + 16} text-anchor="middle">{tickText(t, spec.x)}</text></g>)}
          {ticks(y, logs.y, 8).map((t) => <g class="tick"><line x1={LEFT} x2={WIDTH - RIGHT} y1={y(t)} y2={y(t)} />
            <text x={LEFT - 6} y={y(t) + 4} text-anchor="end">{tickText(t, spec.y)}</text></g>)}
          <text class="axis" x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">{titleOf(spec.x)}</text>
          <text class="axis" x={LEFT} y={TOP - 4} text-anchor="start">{titleOf(spec.y)}</text>
          {sketch}
          {moving.map((spot) => <g class="moved"><path d={diamond(x(spot.x), y(spot.y), 8)} />
            <text class="beside" x={x(spot.x) + (x(spot.x) > WIDTH - RIGHT - 80 ? -11 : 11)} y={y(spot.y) - 9} text-anchor={x(spot.x) > WIDTH - RIGHT - 80 ? "end" : "start"}>{spot.mark.text}</text></g>)}
        </svg>
        <svg class="over" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
            {following && at !== null && <><line class="here" x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} />
              {following.y(at) > 0 && <circle class="here" cx={x(at)} cy={Math.min(y(following.y(at)), HEIGHT - BOTTOM)} r="4" />}</>}
            {!following && cross !== null && <line class="here faint" x1={x(cross)} x2={x(cross)} y1={TOP} y2={HEIGHT - BOTTOM} />}
            {told && <circle class="told" cx={x(told.x)} cy={y(told.y)} r="9" />}
        </svg>
        </div>)}
      {following && at !== null ? <div class="read" aria-live="polite">{following.read(at)}</div>
        : <p class="read" aria-live="polite">{told ? describe(told, spec) : roofAt(roofs, cross, spec)}</p>}
      {names.length > 1 && names.length <= 24 && <Key names={names} hidden={hidden} hide={setHidden} sign={(name) => {
        const [mark] = entries.get(name)!;
        return mark.mark === "line" ? <Curve mark={mark} d="M0,5H26" /> : mark.mark === "region" ? <Zone mark={mark} x={0} y={0} width={26} height={10} id={id} /> : <path d={shape(mark.shape ?? 0, 13, 5, 4.5)} style={{ fill: colorOf(mark) }} />;
      }} />}
    </Card>);
}

/** What the roofs allow at an intensity: the largest of the lines of roles slope and ceiling there. */
function roofAt(roofs: Mark[], cross: number | null, spec: ChartSpec): string {
  if (cross === null) return "move over the chart to read it";
  if (spec.kind !== "roofline" || !roofs.length) return `${spec.x.label} ${written(cross, spec.x)}`;
  const on = new Map<string, { slopes: number[]; peaks: number[] }>();
  for (const mark of roofs) {
    const group = machineOf(mark), [xs, ys] = [mark.x as number[], mark.y as number[]];
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
  if (mark.roof) parts.push(`${percent(spot.y / mark.roof)} of the roof, ${unit(mark.roof, spec.y)}`);
  if (mark.bound_by) parts.push(`${mark.bound_by} binds`);
  if (mark.time) parts.push(quantity(mark.time, "s"));
  parts.push(...aboutMark(spot, spec));
  return parts.join(" · ");
}
