// What a reader has set: sizes and rates, kept in the page's address, so that a link says the whole state.
import { computed, signal } from "@preact/signals";

export type Values = Record<string, number>;

export interface Size { name: string; value: number; least: number; most: number }
export interface Rate { name: string; value: number; unit: string; resource: string; source: string }
export interface Part { label: string; amount: string; unit: string; rate: string; operations: string[] }
export interface Term { resource: string; parts: Part[] }
export interface Expected { value: number; low: number; high: number; basis: string }
export interface Step {
  name: string; machine: string; sizes: Size[]; rates: Rate[]; terms: Term[]; reasons: string[];
  capacity: number | null; level: string; expected: Expected | null;
}
export interface Page { title: string; beside: string; steps: Step[]; answer: unknown }

declare global {
  interface Window {
    ROOFLINE: { time: (v: Values) => Values; parts: (v: Values) => number[][]; holds: (v: Values) => boolean[] }[];
  }
}

export const page: Page = JSON.parse(document.getElementById("page")!.textContent!);

const asked = (step: Step): Values =>
  Object.fromEntries([...step.sizes, ...step.rates].map((each) => [each.name, each.value]));

/** Read the part of the address behind the number sign: names and plain numbers; anything else is passed over. */
function read(): Values {
  const found: Values = {};
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    const value = Number(text);
    if (Number.isFinite(value) && value >= 0) found[name] = value;
  }
  return found;
}

export const chosen = signal(Math.min(Math.max(0, read().step ?? 0), page.steps.length - 1) | 0);
export const moved = signal<Values>(read());
export const step = computed(() => page.steps[chosen.value]);
export const initial = computed(() => asked(step.value));
export const now = computed<Values>(() => {
  const known = initial.value, set = moved.value;
  return Object.fromEntries(Object.keys(known).map((name) => [name, set[name] ?? known[name]]));
});
export const changed = computed(() => Object.keys(now.value).filter((name) => now.value[name] !== initial.value[name]));

export const timesAt = (values: Values): Values => window.ROOFLINE[chosen.value].time(values);
export const partsAt = (values: Values): number[][] => window.ROOFLINE[chosen.value].parts(values);
export const answer = computed(() => timesAt(now.value));
export const refused = computed(() => {
  const holds = window.ROOFLINE[chosen.value].holds(now.value);
  return step.value.reasons.filter((_, index) => !holds[index]);
});
export const binding = (times: Values): string =>
  step.value.terms.map((term) => term.resource).reduce((a, b) => (times[`time_${b}`] > times[`time_${a}`] ? b : a));

function write(): void {
  const words = new URLSearchParams();
  if (chosen.value) words.set("step", String(chosen.value));
  for (const name of changed.value) words.set(name, String(now.value[name]));
  history.replaceState(null, "", words.toString() ? `#${words}` : location.pathname + location.search);
}

export function set(name: string, value: number): void {
  if (!Number.isFinite(value) || value < 0) return;
  moved.value = { ...moved.value, [name]: value };
  write();
}

export function reset(): void {
  moved.value = {};
  write();
}

export function choose(index: number): void {
  chosen.value = index;
  write();
}

addEventListener("hashchange", () => {
  const found = read();
  chosen.value = Math.min(Math.max(0, found.step ?? 0), page.steps.length - 1) | 0;
  moved.value = found;
});
