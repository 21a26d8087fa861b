// Questions to the server: the latest of each kind counts, one that is overtaken is given up.
import type { Page, StepFunctions } from "./state";

export interface Question { words?: string[]; options?: Record<string, unknown>; more?: string }
export interface Option { name: string; option: string; help: string; flag: boolean; choices: string[] }
export interface Catalog {
  commands: Record<string, { help: string; options: Option[] }>; models: string[];
  chips: { key: string; name: string; vendor: string }[]; formats: string[]; functions: string[];
}

export class Wrong extends Error {}

const running = new Map<string, AbortController>();

/** Ask; another question of the same kind ends this one, which then gives null. */
async function post(kind: string, path: string, body: BodyInit): Promise<any> {
  running.get(kind)?.abort();
  const mine = new AbortController();
  running.set(kind, mine);
  try {
    const found = await fetch(path, { method: "POST", body, signal: mine.signal });
    const data = await found.json();
    if (running.get(kind) !== mine) return null;
    if (!found.ok || data.error) throw new Wrong(data.error ?? `the server says ${found.status}`);
    return data;
  } catch (wrong) {
    if (mine.signal.aborted) return null;
    if (wrong instanceof Wrong) throw wrong;
    throw new Wrong("the explorer's server does not answer: is `roofline explore` still running?");
  }
}

export const askData = (command: string, question: Question, kind = command): Promise<any> =>
  post(`data ${kind}`, `api/${command}`, JSON.stringify(question));

/** The page of an answer with the functions of its steps; ``live`` asks for these alone, ``rest`` for all else. */
export async function askPage(command: string, question: Question, kind = "page", form: "page" | "live" | "rest" = "page"): Promise<{ page: Page; functions: StepFunctions[] } | null> {
  const page = await post(kind, `${form}/${command}`, JSON.stringify(question));
  if (page === null) return null;
  const functions = page.steps.length ? (await import(new URL(page.functions, location.href.replace(/#.*/, "")).href)).default : [];
  return { page, functions };
}

export async function sendFile(file: File): Promise<string | null> {
  const found = await post("file", `file?name=${encodeURIComponent(file.name)}`, file);
  return found && found.path;
}

export const catalogOf = async (): Promise<Catalog> => (await fetch("catalog")).json();
