// The page's side of /api/: calls, the tab's one event stream, and hooks for both.
//
// All data comes from the daemon through the gateway. A call is one POST; everything live arrives on one stream per tab, which
// resumes after the last sequence number seen. Events are delivered once and in order, also across restarts of the daemon.

import { useCallback, useEffect, useRef, useState } from "./vendor/preact.js";

// Cookies are sent to every port of a host, so a server on another port can read the session's. The key is known to this origin only.
const KEY = "bailiff-console-key";
const headers = () => ({ "X-Bailiff": localStorage.getItem(KEY) || "1" });

// An error of a call. `code` is a word (not_found, invalid_params, unavailable …), `hint` says what to do, if the daemon does.
export class CallError extends Error {
	constructor(error, status) {
		super(error.message || "the request failed");
		this.code = error.data?.category || String(error.code || status || "failed");
		this.hint = error.data?.advice || error.hint || "";
		this.data = error.data;
		this.status = status;
	}
}

export async function post(path, body) {
	let reply;
	try {
		reply = await fetch(path, {
			method: "POST",
			headers: { ...headers(), "Content-Type": "application/json" },
			body: JSON.stringify(body ?? {}),
			credentials: "same-origin",
		});
	} catch {
		throw new CallError({ code: "offline", message: "bailiff serve does not answer", hint: "start it again with: bailiff console" });
	}
	const text = await reply.text();
	let value = null;
	try {
		value = text ? JSON.parse(text) : null;
	} catch {
		value = null;
	}
	if (reply.status === 401)
		stream.expire();
	if (value?.error)
		throw new CallError(typeof value.error === "string" ? { message: value.error } : value.error, reply.status);
	if (!reply.ok)
		throw new CallError({ code: reply.status, message: text.slice(0, 500) || `HTTP status ${reply.status}` }, reply.status);
	return value;
}

// A method of the control socket (docs/control.md).
export async function call(method, params = {}) {
	return (await post("/api/call", { method, params })).result;
}

// GET of JSON: /api/series.
export async function get(path) {
	const reply = await fetch(path, { headers: headers(), credentials: "same-origin" });
	if (reply.status === 401)
		stream.expire();
	if (!reply.ok)
		throw new CallError({ code: reply.status, message: `${path}: HTTP status ${reply.status}` }, reply.status);
	return reply.json();
}

export async function login(code) {
	localStorage.removeItem(KEY);
	localStorage.setItem(KEY, (await post("/api/login", { code })).key);
}

export async function logout() {
	await post("/api/logout").catch(() => {});
	localStorage.removeItem(KEY);
	stream.expire();
}

const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

// A watched process: every byte once per output stream, also when the connection was replaced in between.
class Watch {
	constructor(processId, fn, offset) {
		this.processId = processId;
		this.fn = fn;
		this.start = offset;
		this.next = {};
	}

	get offset() {
		const known = Object.values(this.next);
		return known.length ? Math.min(...known) : this.start;
	}

	take({ stream: name, offset, data }) {
		let bytes = bytesOf(data);
		const next = this.next[name];
		if (next !== undefined && offset < next) {
			if (offset + bytes.length <= next)
				return;
			bytes = bytes.subarray(next - offset);
			offset = next;
		}
		this.next[name] = offset + bytes.length;
		this.fn({ stream: name, offset, data: bytes, gap: next !== undefined && offset > next ? offset - next : 0 });
	}
}

// state.link: connecting, connected, disconnected (bailiff serve), login (no valid session); state.daemon: connected, disconnected.
class Stream {
	constructor() {
		this.state = { link: "connecting", daemon: "connected", role: "", version: "", sequence: 0 };
		this.listeners = new Set();
		this.stateListeners = new Set();
		this.watches = new Set();
		this.id = "";
		this.last = undefined;
		this.failures = 0;
		this.running = false;
	}

	// fn(event) for every event; for lists that must be loaded again, fn({type: "reset"}).
	on(fn) {
		this.listeners.add(fn);
		return () => this.listeners.delete(fn);
	}

	onState(fn) {
		this.stateListeners.add(fn);
		return () => this.stateListeners.delete(fn);
	}

	set(change) {
		this.state = { ...this.state, ...change };
		for (const fn of [...this.stateListeners])
			fn(this.state);
	}

	emit(event) {
		for (const fn of [...this.listeners]) {
			try {
				fn(event);
			} catch (e) {
				console.error(e);
			}
		}
	}

	expire() {
		this.running = false;
		this.abort?.abort();
		this.set({ link: "login" });
	}

	async start() {
		if (this.running)
			return;
		this.running = true;
		while (this.running) {
			this.abort = new AbortController();
			try {
				await this.read();
			} catch {
				// The connection ended; the next one resumes.
			}
			this.id = "";
			if (!this.running)
				break;
			this.set({ link: "disconnected" });
			this.failures++;
			await new Promise((done) => setTimeout(done, Math.min(250 * 2 ** Math.min(this.failures, 5), 4000)));
		}
	}

	async read() {
		const path = this.last === undefined ? "/api/stream" : `/api/stream?after=${this.last}`;
		const reply = await fetch(path, { headers: { ...headers(), Accept: "text/event-stream" }, credentials: "same-origin", signal: this.abort.signal });
		if (reply.status === 401)
			return this.expire();
		if (!reply.ok)
			throw new Error(`HTTP status ${reply.status}`);
		const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = "";
		for (;;) {
			const { done, value } = await reader.read();
			if (done)
				return;
			const frames = (rest + value).split("\n\n");
			rest = frames.pop();
			for (const frame of frames)
				this.frame(frame);
		}
	}

	frame(text) {
		let name = "event";
		let data = "";
		for (const line of text.split("\n")) {
			if (line.startsWith("event: "))
				name = line.slice(7);
			else if (line.startsWith("data: "))
				data += line.slice(6);
		}
		if (data)
			this.dispatch(name, JSON.parse(data));
	}

	dispatch(name, data) {
		if (name === "event") {
			if (this.last !== undefined && data.sequence <= this.last && !data.type.startsWith("item."))
				return;
			this.last = data.sequence;
			this.state.sequence = data.sequence;
			this.emit(data);
		} else if (name === "hello") {
			this.id = data.stream;
			this.failures = 0;
			this.last ??= data.seq;
			this.set({ link: "connected", role: data.role, version: data.version, sequence: this.last });
			for (const watch of this.watches)
				this.send(watch, true);
		} else if (name === "state") {
			this.set({ daemon: data.daemon });
		} else if (name === "expired") {
			this.last = undefined;
			this.emit({ type: "reset" });
		} else if (name === "output") {
			for (const watch of [...this.watches])
				if (watch.processId === data.processId)
					watch.take(data);
		}
	}

	send(watch, on) {
		if (!this.id)
			return;
		const body = { stream: this.id, processId: watch.processId, on };
		if (on && watch.offset !== undefined)
			body.offset = watch.offset;
		post("/api/watch", body).catch((error) => on && watch.fn({ error }));
	}
}

export const stream = new Stream();

// Live output of a process: fn({stream, offset, data: Uint8Array, gap}) from `offset` on (default: from now on), until the returned
// function is called. fn({error}) if it cannot be watched.
export function watchOutput(processId, fn, offset) {
	const watch = new Watch(processId, fn, offset);
	stream.watches.add(watch);
	stream.send(watch, true);
	return () => {
		stream.watches.delete(watch);
		if (![...stream.watches].some((other) => other.processId === processId))
			stream.send(watch, false);
	};
}

// The state of the stream, as a hook.
export function useStream() {
	const [state, set] = useState(stream.state);
	useEffect(() => {
		set(stream.state);
		return stream.onState(set);
	}, []);
	return state;
}

const RANK = { observer: 0, agent: 1, operator: 2 };

// Whether this session's role suffices. The daemon decides; this only disables what it would reject.
export const can = (role) => (RANK[stream.state.role] ?? 0) >= RANK[role];

// Calls fn for each event that the predicate accepts; both may be new functions at every render.
export function useEvents(predicate, fn) {
	const latest = useRef();
	latest.current = [predicate, fn];
	useEffect(() => stream.on((event) => {
		const [accepts, handle] = latest.current;
		if (event.type !== "reset" && accepts(event))
			handle(event);
	}), []);
}

const REFRESH_MS = 250;     // events that arrive together cause one call

// Calls a method and again when an event says so: refreshOn(event) → bool, or every `every` ms while the tab is visible. With
// skip: true nothing is called. While it is called again `data` stays; with other parameters only if `keep` is true.
export function useCall(method, params, { refreshOn, every, skip, keep } = {}) {
	return useLoad(JSON.stringify([method, params]), () => call(method, params), { refreshOn, every, skip, keep });
}

// The same for any function that returns a promise; `key` names what it loads.
export function useLoad(key, load, { refreshOn, every, skip, keep } = {}) {
	const [state, set] = useState({ key: null, data: null, error: null });
	const latest = useRef();
	const run = useRef({ key: null, busy: false, again: false, timer: 0 });
	latest.current = { key, load, refreshOn };

	const reload = useCallback(async () => {
		const now = run.current;
		if (now.busy && now.key === latest.current.key) {
			now.again = true;
			return;
		}
		const mine = (run.current = { ...now, key: latest.current.key, busy: true, again: false });
		try {
			const data = await latest.current.load();
			if (run.current === mine)
				set({ key: mine.key, data, error: null });
		} catch (error) {
			if (run.current === mine)
				set((old) => ({ key: mine.key, data: old.key === mine.key ? old.data : null, error }));
		}
		if (run.current !== mine)
			return;
		mine.busy = false;
		if (mine.again)
			refresh();
	}, []);

	const refresh = useCallback(() => {
		const now = run.current;
		if (!now.timer && !now.ended)
			now.timer = setTimeout(() => {
				run.current.timer = 0;
				now.timer = 0;
				if (document.hidden)
					document.addEventListener("visibilitychange", reload, { once: true });
				else
					reload();
			}, REFRESH_MS);
	}, []);

	useEffect(() => {
		if (!skip)
			reload();
	}, [key, skip]);
	useEffect(() => stream.on((event) => {
		if (event.type === "reset" || latest.current.refreshOn?.(event))
			refresh();
	}), []);
	useEffect(() => {
		if (!every || skip)
			return undefined;
		const timer = setInterval(() => document.hidden || stream.state.link !== "connected" || reload(), every);
		return () => clearInterval(timer);
	}, [every, skip]);
	// A call that failed while the daemon or the gateway was away is made again when it is back.
	useEffect(() => {
		let was = true;
		return stream.onState(({ link, daemon }) => {
			const up = link === "connected" && daemon === "connected";
			if (up && !was)
				refresh();
			was = up;
		});
	}, []);
	useEffect(() => () => {
		clearTimeout(run.current.timer);
		run.current = { ended: true };
	}, []);

	const current = state.key === key || keep;
	return { data: current ? state.data : null, error: current ? state.error : null, loading: state.key !== key && !skip, reload };
}
