// A sharded line: the mesh with what each chip holds, and plans as bars of math, memory and network.
import { useState } from "preact/hooks";
import { Bars } from "./bars";
import { STYLES } from "./marks";
import { count } from "./quantity";
import type { ChartSpec, Mark } from "./state";

interface Dim { label: string; size: number | null; over: string[] }
interface Tensor { name: string; dtype: string; source: string; dims: Dim[] }
interface Plan { rank: number; name: string; math: number | null; moving: number | null; comms: number | null; lower: number | null }
interface Plans { schema: string; mesh: Record<string, number>; links: Record<string, string[]>; tensors: Tensor[]; plans: Plan[] }

/** Chips drawn along an axis, blocks of further axes, and plans with bars. */
const [MOST_ALONG, MOST_BLOCKS, MOST_PLANS, CHIP, PITCH, EDGE] = [8, 4, 12, 34, 46, 30];

export const isSharded = (answer: any): answer is Plans => answer?.schema === "roofline/plans/1";

export function Sharding({ answer }: { answer: Plans }) {
  const axes = Object.entries(answer.mesh).filter(([, size]) => typeof size === "number");
  return <>{axes.length > 0 && <MeshView answer={answer} axes={axes} />}<PlanBars plans={answer.plans} /></>;
}

function PlanBars({ plans }: { plans: Plan[] }) {
  const priced = plans.filter((plan) => typeof plan.lower === "number").slice(0, MOST_PLANS);
  if (!priced.length) return null;
  const parts = [["math", "math"], ["memory", "moving"], ["network", "comms"]] as const;
  const marks: Mark[] = priced.flatMap((plan, row) => parts.map(([part, key], series) => ({ mark: "bar", row, part, series, x0: 0, x1: plan[key] ?? 0 })));
  const spec: ChartSpec = { kind: "bars", grouped: true, title: "Math, memory and network of each plan", marks,
    subtitle: plans.length > priced.length ? `the first ${priced.length} of ${plans.length}; the longest bar of a plan is its time where all overlaps` : "the longest bar of a plan is its time where all overlaps",
    x: { label: "time", unit: "s", scale: "linear", limits: [0, 1], names: [] },
    y: { label: "plan", unit: "", scale: "linear", limits: [0, priced.length], names: priced.map((plan) => plan.name) }, notes: [] };
  return <Bars spec={spec} />;
}

type Place = Record<string, number>;

/** Which part of a dimension a chip holds: the axes it is sharded over count as digits, the first is the highest. */
function share(dim: Dim, at: Place, mesh: Record<string, number>): { part: number; of: number } {
  return dim.over.reduce(({ part, of }, axis) => ({ part: part * (mesh[axis] ?? 1) + (at[axis] ?? 0), of: of * (mesh[axis] ?? 1) }), { part: 0, of: 1 });
}

function holding(tensor: Tensor, at: Place, mesh: Record<string, number>): string {
  const dims = tensor.dims.map((dim) => {
    const { part, of } = share(dim, at, mesh), label = dim.label.startsWith("#") ? count(dim.size ?? 0) : dim.label;
    if (of === 1) return label;
    return typeof dim.size === "number" ? `${label} ${count(Math.floor((dim.size * part) / of))} to ${count(Math.floor((dim.size * (part + 1)) / of) - 1)}` : `${label} part ${part + 1} of ${of}`;
  });
  return `${tensor.name.startsWith("%") ? tensor.dtype : tensor.name}[${dims.join(", ")}]`;
}

function MeshView({ answer, axes }: { answer: Plans; axes: [string, number][] }) {
  const [of, setOf] = useState(0), [at, setAt] = useState<Place | null>(null);
  const mesh = answer.mesh, [[across, columns], [down, rows] = ["", 1], ...rest] = axes;
  const many = rest.reduce((product, [, size]) => product * size, 1), tensor = answer.tensors[of];
  const [wide, high, deep] = [Math.min(columns, MOST_ALONG), Math.min(rows, MOST_ALONG), Math.min(many, MOST_BLOCKS)];
  const block = (k: number): Place => {
    const found: Place = {};
    [...rest].reverse().forEach(([name, size]) => { found[name] = k % size; k = Math.floor(k / size); });
    return found;
  };
  const part = (place: Place): number => tensor.dims.reduce((sum, dim) => { const { part, of } = share(dim, place, mesh); return sum * of + part; }, 0);
  const parts = tensor.dims.reduce((product, dim) => product * share(dim, {}, mesh).of, 1);
  const [BLOCK, HIGH] = [EDGE + wide * PITCH, EDGE + high * PITCH + 8], shape = (axis: string) => (answer.links[axis] ?? []).join(", ");
  const key = (event: KeyboardEvent) => {
    const by = { ArrowLeft: [across, -1], ArrowRight: [across, 1], ArrowUp: [down, -1], ArrowDown: [down, 1] }[event.key] as [string, number] | undefined;
    if (!by || !by[0]) return;
    event.preventDefault();
    const now = at ?? { [across]: 0, [down]: 0, ...block(0) };
    setAt({ ...now, [by[0]]: Math.max(0, Math.min(mesh[by[0]] - 1, (now[by[0]] ?? 0) + by[1])) });
  };
  const chosen = (place: Place) => at !== null && Object.entries(place).every(([name, value]) => !name || at[name] === value);
  const cut = columns > wide || rows > high || many > deep;
  return <section class="card mesh" aria-label="Mesh"><h2>Mesh <small>{axes.map(([name, size]) => `${name}=${size}${shape(name) ? `, ${shape(name)}` : ""}`).join(" · ")}</small></h2>
    <p class="tabs" role="group" aria-label="tensor shown">{answer.tensors.map((each, i) => <button aria-pressed={i === of} onClick={() => setOf(i)}>{holding(each, {}, {})}</button>)}</p>
    <div class="scroll"><svg role="img" tabindex={0} aria-label={`mesh of ${axes.map(([name, size]) => `${name}=${size}`).join(", ")}; arrows go from chip to chip`}
      width={deep * BLOCK + 10} height={HIGH} viewBox={`0 0 ${deep * BLOCK + 10} ${HIGH}`} onKeyDown={key} onPointerLeave={() => setAt(null)}>
      {Array.from({ length: deep }, (_, k) => { const where = block(k), left = k * BLOCK + EDGE; return <g>
        <text class="axis" x={left} y="12">{across} →{rest.length > 0 && `  ${Object.entries(where).map(([name, value]) => `${name}=${value}`).join(", ")}`}</text>
        {down && <text class="axis" x={left - 24} y={EDGE + 20}>{down} ↓</text>}
        {Array.from({ length: wide * high }, (_, n) => {
          const [i, j] = [n % wide, Math.floor(n / wide)], place: Place = { [across]: i, ...(down ? { [down]: j } : {}), ...where };
          const [x, y] = [left + i * PITCH, EDGE - 8 + j * PITCH], number = part(place);
          const ring = (axis: string) => shape(axis).includes("ring");
          return <g>
            {(i < wide - 1 || (ring(across) && columns === wide && wide > 2)) && <line class="link" x1={x + CHIP} x2={x + (i < wide - 1 ? PITCH : CHIP + 6)} y1={y + CHIP / 2} y2={y + CHIP / 2} />}
            {down && (j < high - 1 || (ring(down) && rows === high && high > 2)) && <line class="link" x1={x + CHIP / 2} x2={x + CHIP / 2} y1={y + CHIP} y2={y + (j < high - 1 ? PITCH : CHIP + 6)} />}
            <g class={chosen(place) ? "chip chosen" : "chip"} onPointerMove={() => setAt(place)}>
              <rect x={x} y={y} width={CHIP} height={CHIP} rx="4" style={{ fill: STYLES[number % 6][0] }} />
              <text x={x + CHIP / 2} y={y + CHIP / 2 + 4} text-anchor="middle">{number + 1}</text></g></g>;
        })}</g>; })}
    </svg></div>
    <p class="read" aria-live="polite">{at ? `chip ${Object.entries(at).filter(([name]) => name).map(([name, value]) => `${name}=${value}`).join(", ")} holds ${answer.tensors.map((each) => holding(each, at, mesh)).join(" · ")}`
      : "move over a chip to read what it holds"}</p>
    <p class="quiet">{parts > 1 ? `a number is a part of the tensor, ${count(parts)} in all; chips of one number hold the same` : "every chip holds the whole tensor"}{cut && " · a larger mesh is drawn in part"}</p>
  </section>;
}
