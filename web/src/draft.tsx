// A field whose text stays as it is being typed, whatever is drawn meanwhile; it counts when it is left or entered.
import { useState } from "preact/hooks";

interface Given {
  value: string; done: (text: string) => void; inputMode?: "decimal"; "aria-label"?: string; list?: string; placeholder?: string; size?: number;
  spellcheck?: boolean; autocomplete?: "off";
}

export function Draft({ value, done, ...rest }: Given) {
  const [text, setText] = useState<string | null>(null);
  return <input type="text" {...rest} value={text ?? value} onInput={(e) => setText(e.currentTarget.value)}
    onKeyDown={(e) => { if (e.key === "Escape") setText(null); }} onChange={(e) => { done(e.currentTarget.value); setText(null); }} onBlur={() => setText(null)} />;
}
