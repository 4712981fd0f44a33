// Hooks and small parts that the views of lists share.

import { call, useLoad } from "./api.js";
import { Text, html, notify, plain, useCallback, useEffect, useMemo, useRef, useState } from "./parts.js";

export const PAGE_ROWS = 500;
const READS = 20;
const RELOAD_PAGES = 10;    // of a list that was read further, only as many pages are kept up to date

// The rows of a list method that were loaded so far, in its order. They are loaded again when refreshOn(event) says so; more() loads the
// next page, if there is one. member: the list in the result; idOf(row): its key.
export function usePages(method, params, member, idOf, { refreshOn, skip, least = 1, cursorName = "cursor",
	nextName = "nextCursor" } = {}) {
	const key = JSON.stringify([method, params]);
	const pages = useRef({ key, count: 1 });
	if (pages.current.key !== key)
		pages.current = { key, count: 1 };
	const readOne = (cursor) => call(method, { limit: PAGE_ROWS, ...params, ...(cursor ? { [cursorName]: cursor } : {}) });
	// A search may return a page with few rows although there are more: it continues until `least` are found, for a bounded number of calls.
	const read = async (cursor) => {
		const page = await readOne(cursor);
		const rows = page[member] ?? [];
		let next = page[nextName];
		for (let i = 0; next && rows.length < least && i < READS; i++) {
			const further = await readOne(next);
			rows.push(...(further[member] ?? []));
			next = further[nextName];
		}
		return { [member]: rows, [nextName]: next };
	};
	const first = useLoad(key, async () => {
		const rows = [];
		let cursor = null;
		for (let i = 0; i < Math.min(pages.current.count, RELOAD_PAGES); i++) {
			const page = await read(cursor);
			rows.push(...(page[member] ?? []));
			cursor = page[nextName] ?? null;
			if (!cursor)
				break;
		}
		return { key, rows, cursor };
	}, { refreshOn, skip });
	const [state, set] = useState({ key, rows: [], cursor: null });
	const [moreError, setMoreError] = useState(null);
	const busy = useRef(false);
	useEffect(() => {
		const loaded = first.data;
		if (!loaded || loaded.key !== key)
			return;
		set((old) => {
			if (old.key !== key || pages.current.count <= RELOAD_PAGES)
				return loaded;
			const fresh = new Set(loaded.rows.map(idOf));
			return { key, rows: [...loaded.rows, ...old.rows.filter((row) => !fresh.has(idOf(row)))],
				cursor: old.cursor };
		});
	}, [first.data]);
	const now = state.key === key ? state : { rows: [], cursor: null };
	const more = async () => {
		if (busy.current || !now.cursor)
			return;
		busy.current = true;
		try {
			const page = await read(now.cursor);
			pages.current.count++;
			set((old) => {
				if (old.key !== key)
					return old;
				const known = new Set(old.rows.map(idOf));
				return { key, rows: [...old.rows, ...(page[member] ?? []).filter((row) => !known.has(idOf(row)))],
					cursor: page[nextName] ?? null };
			});
			setMoreError(null);
		} catch (error) {
			setMoreError(error);
		}
		busy.current = false;
	};
	return { rows: now.rows, error: first.error ?? moreError, loading: first.loading && !now.rows.length, more,
		hasMore: Boolean(now.cursor), reload: first.reload };
}

// An action of a button: fn() with the result announced. Returns [run, busy].
export function useAction() {
	const [busy, set] = useState(false);
	const run = useCallback(async (fn, done) => {
		set(true);
		try {
			const result = await fn();
			if (done)
				notify(typeof done === "function" ? done(result) : done);
			return result;
		} catch (error) {
			notify(`${error.message}${error.hint ? `: ${error.hint}` : ""}`, "bad");
			return undefined;
		} finally {
			set(false);
		}
	}, []);
	return [run, busy];
}

// A text that becomes a parameter when Enter is pressed or the field is left, so that not every letter is a request.
export function Field({ label, value = "", onChange, type = "text", width, placeholder, list, mono }) {
	const [text, set] = useState(value);
	useEffect(() => set(value), [value]);
	const commit = () => text !== value && onChange(text);
	return html`<label>${label}<input type=${type} value=${text} list=${list} placeholder=${placeholder}
		class=${mono ? "mono" : ""} style=${width ? { width } : undefined} spellcheck="false" autocomplete="off"
		onInput=${(e) => set(e.target.value)} onBlur=${commit}
			onKeyDown=${(e) => e.key === "Enter" && commit()} /></label>`;
}

// options: texts, or [value, label].
export const Choice = ({ label, value = "", options, onChange, disabled }) => html`<label>
	${label}<select value=${value} disabled=${disabled} onChange=${(e) => onChange(e.target.value)}>
	${options.map((o) => {
	const [v, text] = Array.isArray(o) ? o : [o, o];
	return html`<option value=${v} selected=${v === value}>${text}</option>`;
})}</select></label>`;

export const Check = ({ label, value, onChange }) => html`<label><input type="checkbox" checked=${Boolean(value)}
	onChange=${(e) => onChange(e.target.checked)} />${label}</label>`;

// A text that does something when clicked, as a link does; rows of tables open with Enter as well.
export const Act = ({ onClick, children, title }) => html`<button class="link" tabindex="-1" title=${title}
	onClick=${onClick}>${children}</button>`;

// JSON as text, with characters that do not show made visible.
export function Json({ value, label }) {
	const text = useMemo(() => JSON.stringify(value, null, 2), [value]);
	return html`<pre class="json" tabindex="0" role="region" aria-label=${label ?? "JSON"}>
		<${Text} text=${text} lines /></pre>`;
}

// The text of an output, as it was recorded, in pieces of 64 KiB.
const PIECE = 65536;
export function Output({ outputRef, preview, label = "Output", bytes, auto, button = "Show the output" }) {
	const [state, set] = useState({ text: preview ?? "", offset: 0, end: false, started: false, busy: false,
		error: "" });
	const load = async () => {
		set((old) => ({ ...old, busy: true }));
		try {
			const part = await call("read_output", { outputRef, offset: state.offset, length: PIECE });
			const text = part.encoding === "base64" ? new TextDecoder().decode(Uint8Array.from(atob(part.data), (c) => c.charCodeAt(0))) : part.data;
			set((old) => ({ text: (old.started ? old.text : "") + text, offset: part.nextOffset,
				end: part.eof || part.nextOffset === old.offset, started: true, busy: false, error: "" }));
		} catch (error) {
			set((old) => ({ ...old, busy: false, error: error.message }));
		}
	};
	useEffect(() => {
		if (auto)
			load();
	}, []);
	const text = state.started ? state.text : preview ?? "";
	const more = outputRef && (state.started ? !state.end : bytes === undefined || bytes > new TextEncoder().encode(text).length);
	return html`<div class="output-box">${text !== "" && html`<pre class="output" tabindex="0" role="region"
		aria-label=${label}><${Text} text=${text} lines /></pre>`}
		${state.started && !auto && text === "" && html`<p class="faint">no output</p>`}${state.error
			&& html`<p class="bad">${plain(state.error)}</p>`}
		${more && html`<button class="quiet small" disabled=${state.busy} onClick=${load}>
			${state.started ? "Load more" : text ? "Load all of it" : button}</button>`}</div>`;
}

// Where a rule is written, as file:line or its session.
export function ruleSource(rule) {
	if (rule.file)
		return `${rule.file}${rule.line ? `:${rule.line}` : ""}`;
	if (rule.sessionId)
		return `session …${rule.sessionId.slice(-6)}`;
	return rule.layer ?? "built in";
}

// The latest events of these types: reads the log backwards in windows until `want` are found or `span` sequence numbers were read.
export async function latestEvents({ types, want = 200, span = 20000, before, params = {} }) {
	const probe = await call("list_events", { limit: 1 });
	let end = before ?? probe.lastSequence + 1;
	const first = probe.firstSequence || 1;
	const floor = Math.max(first, end - span);
	let size = 2000;
	let found = [];
	while (end > floor && found.length < want) {
		const start = Math.max(floor, end - size);
		let after = start - 1;
		const part = [];
		for (;;) {
			const page = await call("list_events", { ...params, types, afterSequence: after, beforeSequence: end,
				limit: 1000 });
			part.push(...page.events);
			if (!page.hasMore || !page.events.length)
				break;
			after = page.events[page.events.length - 1].sequence;
		}
		found = [...part, ...found];
		end = start;
		size *= 2;
	}
	return { events: found, from: end, first, complete: end <= first };
}
