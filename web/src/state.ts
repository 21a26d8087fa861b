// What a reader sees and has set: the page of an answer, its functions, and the sizes and rates that were moved.
import { computed, signal } from "@preact/signals";

export type Values = Record<string, number>;

export interface Size { name: string; value: number; given: boolean; least: number; most: number }
export interface Rate { name: string; value: number; unit: string; resource: string; source: string; quantity: string; place: string; dtype: string; figure: string }
export interface Part { label: string; amount: string; unit: string; rate: string; operations: string[] }
export interface Term { resource: string; column: string; parts: Part[] }
export interface Expected { value: number; low: number; high: number; basis: string }
export interface Operation {
  where: string; kind: string; time: number; binds: string; repeat: number; flops: number | null; bytes: number | null;
}
export interface Step {
  name: string; on: string; work: string; machine: string; chips: number; spread: string; sizes: Size[]; rates: Rate[]; terms: Term[]; reasons: string[]; untimed: string[];
  capacity: number | null; level: string; expected: Expected | null; operations: Operation[]; prices: Record<string, { value: number; source: string }>;
}
export interface Cell { text: string; value?: number; unit?: string; share?: number; tone?: string; source?: string }
export type Section =
  | { kind: "headline"; subject: string; beside: string; level: number }
  | { kind: "sentences"; lines: string[]; tone: string }
  | { kind: "pairs"; pairs: [string, string][] }
  | { kind: "listing"; name: string; items: string[]; tone: string }
  | { kind: "table"; name: string; columns: { name: string; align: string }[]; rows: { cells: Cell[]; level?: number; tone?: string }[] };
export interface Axis { label: string; unit: string; scale: string; limits: [number, number]; names: string[]; whole?: boolean }
export interface Mark {
  mark: string; label?: string; text?: string; series?: number; dash?: number; x?: number | number[]; y?: number | number[];
  x0?: number; x1?: number; row?: number; column?: number; shade?: number; value?: number; over?: boolean; figure?: string; part?: string; color?: string; kind?: string; roof?: number | null; shape?: number;
  bound_by?: string; on?: string; role?: string; group?: string; size?: number; time?: number | null; under?: boolean;
}
export interface ChartSpec { step?: string; on?: string; grouped?: boolean; kind: string; title: string; subtitle: string; x: Axis; y: Axis; marks: Mark[]; notes: string[] }
export interface Page {
  title: string; beside: string; sections: Section[]; charts: ChartSpec[]; steps: Step[]; answer: any; command?: string[];
}
export interface StepFunctions {
  time: (v: Values) => Values; parts: (v: Values) => number[][]; holds: (v: Values) => boolean[]; multiples: (v: Values) => Values; work: (v: Values) => number[];
}

export const page = signal<Page | null>(null);
export const functions = signal<StepFunctions[]>([]);
export const moved = signal<Values>({});
export const phase = signal("");
export const place = signal(0);
/** Whether charts and sections of an answer are still being worked out. */
export const pending = signal(false);
/** The name of what is pinned in charts and tables. */
export const pinned = signal("");
/** Dollars of a chip for an hour by machine, tokens of an answer, and what the chart over a size shows. */
export const prices = signal<Record<string, string>>({});
export const USUAL_OUTPUT = 256;
export const output = signal(USUAL_OUTPUT);
export const over = signal("");
export const measure = signal("");

/** Indices of the steps of the phase shown: one for each machine. */
export const beside = computed<number[]>(() => {
  const steps = page.value?.steps ?? [];
  const name = steps.some((each) => each.name === phase.value) ? phase.value : steps[0]?.name;
  return steps.flatMap((each, i) => (each.name === name ? [i] : []));
});
export const phases = computed(() => [...new Set((page.value?.steps ?? []).map((each) => each.name))]);
export const index = computed(() => beside.value[Math.min(place.value, beside.value.length - 1)] ?? 0);
export const step = computed<Step>(() => page.value!.steps[index.value]);
export const live = computed(() => (page.value?.steps.length ?? 0) > 0 && functions.value.length === page.value!.steps.length);

/** The name of a rate in the page's address: with its machine where there are several. */
export const keyOf = (of: Step, name: string): string =>
  beside.value.length > 1 && of.rates.some((rate) => rate.name === name) ? `${name}@${of.on}` : name;

export const asked = (of: Step): Values => Object.fromEntries([...of.sizes, ...of.rates].map((each) => [each.name, each.value]));
export const nowOf = (of: Step): Values => {
  const known = asked(of), set = moved.value;
  return Object.fromEntries(Object.keys(known).map((name) => [name, set[keyOf(of, name)] ?? known[name]]));
};
export const initial = computed(() => asked(step.value));
export const now = computed<Values>(() => nowOf(step.value));
export const changed = computed(() => (live.value ? Object.keys(now.value).filter((name) => now.value[name] !== initial.value[name]) : []));

export const timesAt = (values: Values): Values => functions.value[index.value].time(values);
export const partsAt = (values: Values): number[][] => functions.value[index.value].parts(values);
export const answer = computed(() => timesAt(now.value));
export const refused = computed(() => {
  const holds = functions.value[index.value].holds(now.value);
  return step.value.reasons.filter((_, i) => !holds[i]);
});
/** What a size has to be a multiple of for a step of these values to run. */
export const multipleOf = (name: string, values: Values, which = index.value): number => functions.value[which].multiples(values)[name] ?? 1;
export const bindingOf = (of: Step, times: Values): string =>
  of.terms.reduce((a, b) => (times[b.column] > times[a.column] ? b : a)).resource;
/** What is not timed of each of several steps; of none where all lack the same of the same machine, as in ``untimed_apart``. */
export function untimedApart(all: Step[]): string[][] {
  const said = all.map((of) => of.untimed.join("; "));
  return all.map((of) => (said.length > 1 && said.every((line) => line === said[0]) ? [] : of.untimed));
}
export const binding = (times: Values): string => bindingOf(step.value, times);

/** What a reader set beside sizes and rates, as words of an address: each begins with a dot, as no size does. */
export function settings(): Record<string, string> {
  const said: Record<string, string> = {};
  if (phases.value.indexOf(phase.value) > 0) said[".step"] = phase.value;
  if (place.value) said[".place"] = String(place.value);
  if (output.value !== USUAL_OUTPUT) said[".output"] = String(output.value);
  if (over.value) said[".over"] = over.value;
  if (measure.value) said[".measure"] = measure.value;
  for (const [name, price] of Object.entries(prices.value)) if (price) said[`.price.${name}`] = price;
  return said;
}

/** Set what such words say; words of anything else are passed over. */
export function takeSettings(said: Record<string, string>): void {
  const whole = (text: string | undefined, least: number, usual: number) => (text && /^\d+$/.test(text) && Number(text) >= least ? Number(text) : usual);
  phase.value = said[".step"] ?? "";
  place.value = whole(said[".place"], 0, 0);
  output.value = whole(said[".output"], 1, USUAL_OUTPUT);
  over.value = said[".over"] ?? "";
  measure.value = said[".measure"] ?? "";
  prices.value = Object.fromEntries(Object.entries(said).filter(([name]) => name.startsWith(".price.")).map(([name, price]) => [name.slice(7), price]));
}

/** Called after each move: a report writes its address, the explorer asks again. */
export const listeners: (() => void)[] = [];

export function set(name: string, value: number): void {
  if (!Number.isFinite(value) || value < 0) return;
  moved.value = { ...moved.value, [name]: value };
  listeners.forEach((tell) => tell());
}

export function reset(): void {
  moved.value = {};
  listeners.forEach((tell) => tell());
}

/** Change something beside sizes and rates. */
export function settle(does: () => void): void {
  does();
  listeners.forEach((tell) => tell());
}

export function choose(name: string, at: number = place.value): void {
  phase.value = name;
  place.value = at;
  listeners.forEach((tell) => tell());
}

/** Words of a command line with what was moved in them. */
export function movedWords(words: string[]): string[] {
  const found = [...words];
  const sets: string[] = [];
  const it = live.value ? step.value : null;
  for (const [key, value] of Object.entries(moved.value)) {
    const name = key.split("@")[0];
    const rate = it?.rates.find((each) => each.name === name);
    if (rate) { if (rate.figure) sets.push("--set", `${rate.figure}=${value}`); continue; }
    if (!it?.sizes.some((each) => each.name === name)) continue;
    const at = found.findIndex((word) => word.startsWith(`${name}=`)), option = `--${name.replace(/_/g, "-")}`;
    if (at >= 0) found[at] = `${name}=${value}`;
    else if (found.includes(option)) found[found.indexOf(option) + 1] = String(value);
    else if (found[0] === "llm" || found[0] === "train") found.push(option, String(value));
    else found.push(`${name}=${value}`);
  }
  return [...found, ...sets];
}

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);
export const commandLine = (words: string[]): string => ["roofline", ...words.map(quoted)].join(" ");

/** Options whose keyword in Python has another name; and those that say how an answer is shown, which has no keyword. */
const KEYWORDS: Record<string, string> = { for: "for_", chips: "files", bandwidth: "bandwidths", from: "start", level: "levels", name: "names", ceiling: "dtypes", points: "measured" };
const FLAGS: Record<string, string> = { "valid-only": "count_padding=False", warm: 'over="warm"', cold: "", sources: "", parts: "", modules: "", explain: "" };
const SHOWN = ["view", "why", "kind", "chart", "split"];
const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;

/** A value in Python: numbers with commas between are a list, sizes of axes and figures that are set a dictionary. */
function literal(text: string): string {
  const each = text.split(",");
  if (each.every((one) => NUMBER.test(one))) return each.length > 1 ? `[${each.join(", ")}]` : text;
  return JSON.stringify(text);
}

/** Bytes, of which several are a list; commas between three digits each stand in one number. */
const amounts = (text: string): string => text.includes(",") && !/\d,\d{3}\D*$/.test(text) ? `[${text.split(",").map((one) => JSON.stringify(one.trim())).join(", ")}]` : literal(text);

const axes = (text: string): string =>
  `{${text.split(/,(?=[^,=]+=)/).map((one) => { const [axis, size] = one.split("="); return `${JSON.stringify(axis)}: ${literal(size)}`; }).join(", ")}}`;

/** The same question in Python: options become keywords, one that is given several times a list. */
export function python(words: string[]): string {
  const [name, ...rest] = words.flatMap((word) => /^--[\w-]+=/.exec(word) ? [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)] : [word]);
  const positional: string[] = [], keywords = new Map<string, string[]>(), sets: string[] = [];
  const add = (key: string, value: string) => keywords.set(key, [...(keywords.get(key) ?? []), value]);
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i], next = rest[i + 1], at = word.indexOf("=");
    if (word === "--set") { i++; sets.push(axes(next).slice(1, -1)); continue; }
    if (word.startsWith("--")) {
      const option = word.slice(2), key = name === "scaling" && option === "for" ? "unknown" : KEYWORDS[option] ?? option.replace(/-/g, "_");
      if (option in FLAGS) { if (FLAGS[option]) add(FLAGS[option].split("=")[0], FLAGS[option].split("=")[1]); }
      else if (next === undefined || next.startsWith("--")) add(key.replace(/^no_/, ""), option.startsWith("no-") ? "False" : "True");
      else if (option === "vary" && next.includes("=")) { i++; const [size, range] = next.split("="); add(key, literal(size)); add(size, literal(range)); }
      else { i++; if (!SHOWN.includes(option) || name === "plot") add(key, /^(mesh|torus_axes)$/.test(key) && next.includes("=") ? axes(next) : key.startsWith("bytes") ? amounts(next) : literal(next)); }
    } else if (/^[\p{L}_][\p{L}\p{N}_]*=[^\[]*$/u.test(word)) add(word.slice(0, at), literal(word.slice(at + 1)));
    else if (name === "comm" && positional.length) add("bytes", amounts(word));
    else positional.push(JSON.stringify(word));
  }
  const [sought] = keywords.get("for_") ?? [], operand = /^"dtype:?(\d*)"$/.exec(sought ?? ""), zones = sought === '"intensity"' && !positional.length;
  if (operand || zones) keywords.delete("for_");
  const given = [...keywords].map(([key, values]) => `${key}=${new Set(values).size > 1 || key === "bandwidths" && values[0][0] !== "[" ? `[${values.join(", ")}]` : values[0]}`);
  if (sets.length) given.push(`set={${sets.join(", ")}}`);
  const call = (does: string, ...words: string[]) => `roofline.${does}(${[...words, ...given].join(", ")})`;
  const asked = operand ? call("solve_dtypes", ...positional, operand[1] || "0")
    : name === "scaling" && positional.length > 1 ? `[${call(name, "name")} for name in (${positional.join(", ")})]`
    : call(zones ? "zones" : name, ...positional);
  return `import roofline\n\nanswer = ${asked}`;
}
