// Which page is shown and what it asks: all of it stands in the address, so that a link says the whole state.
import { signal } from "@preact/signals";
import type { Question } from "./api";
import type { Field } from "./fields";

export type State = Record<string, string>;

/** A page: ``live`` where its answers have parts that move, which are asked for before the rest. */
export interface Route { key: string; title: string; command: string; live?: boolean; fields: Field[]; start: State; ask: (state: State) => Question | null }

export const list = (text: string | undefined): string[] => (text ?? "").split(",").map((each) => each.trim()).filter(Boolean);
const words = (text: string | undefined): string[] => (text ?? "").match(/[^\s=]+\s*=\s*\S+|\S+/g)?.map((each) => each.replace(/\s+/g, "")) ?? [];
const MORE: Field = { key: "more", label: "more options, as on the command line", size: 34, hint: "--set hbm=4e12" };
const FORMATS = ["fp8", "int8", "int4", "fp4", "bf16", "fp16"];
const format = (key: string, label: string): Field => ({ key, label, kind: "choice", choices: FORMATS });

/** Options of a command from fields of the same name. */
const options = (state: State, ...names: string[]): Record<string, unknown> =>
  Object.fromEntries(names.filter((name) => state[name]).map((name) => [name, state[name] === "1" && CHECKS.has(name) ? true : state[name]]));
const CHECKS = new Set(["estimate", "disaggregate", "advise"]);

export const ROUTES: Route[] = [
  {
    key: "operation", title: "Operation", command: "bound", live: true,
    fields: [
      { key: "line", label: "line of notation", kind: "line", hint: "bf16[B, D] * bf16[D, F]" },
      { key: "on", label: "chips to compare", kind: "chips", size: 22, hint: "h100,mi300x" },
      { key: "sizes", label: "sizes", size: 28, hint: "B=64 D=8192 F=8192" },
      { key: "policy", label: "bytes", kind: "choice", choices: ["each-op", "fused", "tiled", "streamed", "minimal"] },
      { key: "estimate", label: "expected too", kind: "check" }, MORE,
    ],
    start: { line: "bf16[B, D] * bf16[D, F] -> bf16[B, F]", on: "h100", sizes: "B=64 D=8192 F=8192" },
    ask: (state) => (state.line ? { words: [state.line, ...words(state.sizes)], options: { on: list(state.on), ...options(state, "policy", "estimate") }, more: state.more } : null),
  },
  {
    key: "model", title: "Model", command: "llm", live: true,
    fields: [
      { key: "model", label: "model", kind: "model", size: 22 }, { key: "on", label: "chips × count, to compare", kind: "chips", size: 20, hint: "h100:8, 8 x h200" },
      { key: "tensor", label: "tensor", size: 4 }, { key: "expert", label: "expert", size: 4 },
      { key: "batch", label: "batch", size: 6 }, { key: "prompt", label: "prompt", size: 7 }, { key: "context", label: "context", size: 7 },
      format("weights", "weights"), format("kv", "keys and values"), format("compute", "arithmetic"),
      { key: "estimate", label: "expected too", kind: "check" }, MORE,
    ],
    start: { model: "llama-3-70b", on: "h200:8", tensor: "8", batch: "64", prompt: "2048", context: "8192" },
    ask: (state) => (state.model ? { words: [state.model], options: { on: list(state.on), ...options(state, "tensor", "expert", "batch", "prompt", "context", "weights", "kv", "compute", "estimate") }, more: state.more } : null),
  },
  {
    key: "training", title: "Training", command: "train", live: true,
    fields: [
      { key: "model", label: "model", kind: "model", size: 22 }, { key: "on", label: "chips × count, to compare", kind: "chips", size: 20, hint: "h100:64" },
      { key: "batch_tokens", label: "tokens of a step", size: 9 }, { key: "sequence", label: "sequence", size: 7 }, { key: "fsdp", label: "fsdp", size: 4 },
      { key: "tensor", label: "tensor", size: 4 }, { key: "pipeline", label: "pipeline", size: 4 }, { key: "data", label: "data", size: 4 },
      { key: "checkpoint", label: "checkpoint", kind: "choice", choices: ["none", "selective", "matmuls", "full"] },
      format("weights", "weights"), { key: "tokens", label: "token budget", size: 8, hint: "15T" },
      { key: "measured", label: "measured step", size: 8, hint: "1.2s" }, { key: "estimate", label: "expected too", kind: "check" }, MORE,
    ],
    start: { model: "llama-3-8b", on: "h100:64", batch_tokens: "4M", sequence: "4096", tensor: "4", checkpoint: "full" },
    ask: (state) => (state.model ? { words: [state.model], options: { on: list(state.on), ...options(state, "batch_tokens", "sequence", "fsdp", "tensor", "pipeline", "data", "checkpoint", "weights", "tokens", "measured", "estimate") }, more: state.more } : null),
  },
  {
    key: "plan", title: "Plan", command: "plan",
    fields: [
      { key: "model", label: "model", kind: "model", size: 22 }, { key: "on", label: "chips to choose from", size: 20, kind: "chips", hint: "h100,h200" },
      { key: "rate", label: "requests", size: 8, hint: "12/s" }, { key: "prompt", label: "prompt", size: 7 }, { key: "output", label: "answer", size: 7 },
      { key: "ttft", label: "first token within", size: 8, hint: "500ms" }, { key: "tpot", label: "between tokens", size: 8, hint: "30ms" },
      { key: "prices", label: "prices an hour", size: 22, hint: "h100=2.5,h200=3.1" }, { key: "formats", label: "formats", size: 10, hint: "bf16,fp8" }, MORE,
    ],
    start: { model: "llama-3-8b", on: "l4,a100,h100", rate: "4/s", prompt: "1024", output: "128", prices: "l4=0.7,a100=1.8,h100=2.5" },
    ask: (state) => (state.model && state.on && state.rate ? { words: [state.model], options: { on: state.on, ...options(state, "rate", "prompt", "output", "ttft", "tpot", "formats", "prices") }, more: state.more } : null),
  },
  {
    key: "sharding", title: "Sharding", command: "shard",
    fields: [
      { key: "line", label: "sharded line", kind: "line", hint: "A[I_X, J] * B[J_X, K_Y] -> C[I, K_Y]" },
      { key: "on", label: "chips", kind: "chips", size: 16 }, { key: "sizes", label: "sizes", size: 30 }, { key: "mesh", label: "mesh", size: 12, hint: "X=4,Y=4" }, MORE,
    ],
    start: { line: "A[I_X, J] * B[J, K_Y] -> C[I, K_Y]", on: "v5e:4x4", sizes: "I=8192 J=8192 K=8192" },
    ask: (state) => (state.line ? { words: [state.line, ...words(state.sizes)], options: { on: state.on, ...options(state, "mesh") }, more: state.more } : null),
  },
  {
    key: "measured", title: "Measured", command: "profile",
    fields: [{ key: "on", label: "the chip that it ran on", kind: "chips", size: 18, hint: "h100" }, MORE], start: {},
    ask: (state) => (state.file && state.on ? { words: [state.file], options: { on: state.on, top: 10_000 }, more: state.more } : null),
  },
  { key: "chips", title: "Chips", command: "chips", fields: [], start: {}, ask: () => ({ words: [] }) },
];

export const route = signal<Route>(ROUTES[0]);
export const state = signal<State>({});

const written = (): string => {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(state.value)) if (value) said.set(name, value);
  return `#/${route.value.key}?${said}`;
};

/** What was asked last on each page, as its address: who comes back finds it again. */
const left: Record<string, string> = {};

/** The address that leads to a page: as it was left; the page that is open begins anew. */
export const addressOf = (page: Route): string => (page !== route.value && left[page.key]) || `#/${page.key}`;

/** Read the address; a page that there is not is the first. */
export function read(): void {
  const [, key, query] = /^#\/(\w*)\??(.*)$/.exec(location.hash) ?? [];
  const found = ROUTES.find((each) => each.key === key) ?? ROUTES[0];
  const given = Object.fromEntries(new URLSearchParams(query ?? ""));
  route.value = found;
  const own = Object.keys(given).filter((name) => found.fields.some((field) => field.key === name && name !== "on"));
  state.value = own.length ? given : { ...found.start, ...given };
  left[found.key] = written();
}

/** Change what is asked; a change that is a step of its own can be taken back. */
export function change(fields: State, { step = true } = {}): void {
  state.value = { ...state.value, ...fields };
  left[route.value.key] = written();
  if (written() === location.hash) return;
  history[step ? "pushState" : "replaceState"](null, "", written());
}

/** More options with one of them said anew; of figures, as in ``--set hbm=4e12``, the one of that name. */
export function withOption(more: string, option: string, value: string): string {
  const name = value.includes("=") ? value.slice(0, value.indexOf("=") + 1) : "";
  return [more.replace(new RegExp(`(^|\\s)${option}(=|\\s+)${name}\\S+`), ""), option, value].join(" ").trim();
}

/** Words of the address beside the fields: what a reader set, each with a dot before it. Those not said are taken out. */
export function keepSettings(said: State, { step = false } = {}): void {
  state.value = Object.fromEntries(Object.entries(state.value).filter(([name]) => !name.startsWith(".")));
  change(said, { step });
}

/** The sizes of a question with one of them changed, where its fields hold it. */
export function withSize(name: string, value: number): State | null {
  if (route.value.fields.some((field) => field.key === name)) return { [name]: String(value) };
  if (!route.value.fields.some((field) => field.key === "sizes")) return null;
  const all = words(state.value.sizes), at = all.findIndex((word) => word.startsWith(`${name}=`));
  all[at < 0 ? all.length : at] = `${name}=${value}`;
  return { sizes: all.join(" ") };
}
