// Fields of a question: words with suggestions, choices, chips, and a line of notation with colours and completion.
import { useRef, useState } from "preact/hooks";
import type { Catalog } from "./api";
import { Draft } from "./draft";

export interface Field {
  key: string; label: string; kind?: "text" | "check" | "choice" | "chips" | "model" | "line"; usual?: string; hint?: string;
  choices?: string[]; size?: number;
}

export function FieldView({ field, value, change, catalog }: { field: Field; value: string; change: (text: string) => void; catalog: Catalog | null }) {
  if (field.kind === "line") return <LineField field={field} value={value} change={change} catalog={catalog} />;
  if (field.kind === "check") return <label class="check"><input type="checkbox" checked={value === "1"} onChange={(e) => change(e.currentTarget.checked ? "1" : "")} />{field.label}</label>;
  if (field.kind === "choice") return <label>{field.label}<select value={value} onChange={(e) => change(e.currentTarget.value)}>
    {["", ...(field.choices ?? [])].map((each) => <option value={each}>{each || "as usual"}</option>)}</select></label>;
  const list = field.kind === "model" || field.kind === "chips" ? `list-${field.key}` : undefined;
  return (
    <label>{field.label}<Draft list={list} value={value} placeholder={field.hint && `e.g. ${field.hint}`} size={Math.max(field.size ?? 10, (field.hint ?? "").length + 3)} spellcheck={false} autocomplete="off"
      done={(text) => change(text.trim())} />
      {list && <datalist id={list}>{field.kind === "model" ? catalog?.models.map((each) => <option value={each} />)
        : catalog?.chips.map((each) => <option value={value.includes(",") ? `${value.slice(0, value.lastIndexOf(",") + 1)}${each.key}` : each.key}>{each.name}</option>)}</datalist>}</label>);
}

const TOKENS = /(\b(?:bf16|fp\d+\w*|int\d+|uint\d+|tf32|mxfp\d|nvfp\d|f32|f16)\b)|([A-Za-z_]\w*)(?=\()|(\b[A-Za-z]\w*\b)(?=[^\[\]]*\])|(\b\d[\w.]*)|([^\w]+|\w+)/g;

function coloured(text: string) {
  return [...text.matchAll(TOKENS)].map(([whole, type, func, size, num]) =>
    <span class={type ? "tok-type" : func ? "tok-func" : size ? "tok-size" : num ? "tok-num" : ""}>{whole}</span>);
}

/** A line editor: colours behind the letters, and words that go on with what is typed. */
function LineField({ field, value, change, catalog }: { field: Field; value: string; change: (text: string) => void; catalog: Catalog | null }) {
  const [text, setText] = useState<string | null>(null);
  const [near, setNear] = useState<string[]>([]);
  const area = useRef<HTMLTextAreaElement>(null);
  const shown = text ?? value;
  const typed = (now: string, at: number) => {
    setText(now);
    const word = /[A-Za-z_]\w*$/.exec(now.slice(0, at))?.[0] ?? "";
    const known = [...(catalog?.formats ?? []), ...(catalog?.functions ?? [])];
    setNear(word.length > 1 ? known.filter((each) => each.startsWith(word) && each !== word).slice(0, 8) : []);
  };
  const take = (word: string) => {
    const at = area.current!.selectionStart, before = shown.slice(0, at).replace(/[A-Za-z_]\w*$/, word);
    setText(before + shown.slice(at));
    setNear([]);
    area.current!.focus();
  };
  const done = () => { if (text !== null && text !== value) change(text); setText(null); setNear([]); };
  return (
    <div class="wide"><label for="line-field">{field.label}</label>
      <div class="line"><pre aria-hidden="true">{coloured(shown)}{" "}</pre>
        <textarea id="line-field" ref={area} rows={1} spellcheck={false} value={shown} placeholder={field.hint && `e.g. ${field.hint}`}
          onInput={(e) => typed(e.currentTarget.value, e.currentTarget.selectionStart)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey) { e.preventDefault(); done(); }
            if (e.key === "Tab" && near.length) { e.preventDefault(); take(near[0]); }
          }} onBlur={() => setTimeout(done, 150)} /></div>
      {near.length > 0 && <p class="legend" role="listbox" aria-label="goes on as">{near.map((word) =>
        <button type="button" role="option" aria-selected="false" onMouseDown={(e) => { e.preventDefault(); take(word); }}>{word}</button>)}<small>Tab takes the first</small></p>}
    </div>);
}
