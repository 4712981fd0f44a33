// The page's side of /api/: calls, the tab's one event stream, and hooks for both.
//
// All data comes from the daemon through the gateway. A call is one POST; everything live arrives on one stream, which resumes after the
// last sequence number seen. Events are delivered once and in order, also across restarts of the daemon.

import { Upstream } from "./upstream.js";
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

// A watched output of a process: every byte once, also when the connection was replaced in between.
class Watch {
	constructor(processId, name, fn, offset) {
		this.number = Watch.count = (Watch.count ?? 0) + 1;
		this.processId = processId;
		this.name = name;
		this.fn = fn;
		this.next = offset;
		this.ended = new Promise((end) => (this.end = end));
	}

	get request() {
		return { watch: { number: this.number, processId: this.processId, stream: this.name, next: this.next } };
	}

	take({ offset, base64 }) {
		const bytes = bytesOf(base64);
		const known = Math.max(0, this.next - offset);
		if (known >= bytes.length)
			return undefined;
		const gap = Math.max(0, offset - this.next);
		this.next = offset + bytes.length;
		return Promise.race([this.fn({ offset: offset + known, data: bytes.subarray(known), gap }), this.ended]);
	}
}

// A shared worker needs the name of its script as a trusted one; the policy accepts this one only.
const WORKER = "/ui/worker.js";
const scripts = window.trustedTypes?.createPolicy("bailiff", { createScriptURL: (url) => {
	if (url !== WORKER)
		throw new TypeError("not a script of the console");
	return url;
} }) ?? { createScriptURL: (url) => url };

let alone = !window.SharedWorker || !navigator.locks;

// What the tab sends to and gets from upstream.js: through a worker that all tabs share or, where there is none, directly. `ended` is
// called if the worker ends or cannot run.
async function connect(take, ended) {
	if (alone) {
		const upstream = new Upstream();
		const tab = { id: "only", send: take };
		return (message) => upstream.handle(tab, message);
	}
	const lock = `bailiff tab ${crypto.randomUUID()}`;
	await new Promise((ready) => navigator.locks.request(lock, () => (ready(), new Promise(() => {}))));
	// The name is another one when the messages change: a worker of older tabs may still run.
	const worker = new SharedWorker(scripts.createScriptURL(WORKER), { type: "module", name: "bailiff 1" });
	const { port } = worker;
	worker.onerror = () => {
		alone = true;
		ended();
	};
	port.onmessage = ({ data }) => {
		if (data.worker)
			navigator.locks.request(data.worker, { mode: "shared" }, ended);
		else
			take(data);
	};
	return (message) => port.postMessage(message.join ? { join: { ...message.join, lock } } : message);
}

// The tab's view of the stream. state: see upstream.js.
class Stream {
	constructor() {
		this.state = { link: "connecting", daemon: "connected", role: "", version: "", problem: "" };
		this.listeners = new Set();
		this.stateListeners = new Set();
		this.watches = new Set();
		this.last = undefined;
		this.send = null;
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
		this.ended = true;
		this.set({ link: "login" });
	}

	async start() {
		this.send = await connect((message) => this.ended || this.take(message), () => this.ended || this.start());
		this.send({ join: { key: localStorage.getItem(KEY) || "1", after: this.last } });
		for (const watch of this.watches)
			this.send(watch.request);
	}

	take({ joined, frames = [], size }) {
		if (joined) {
			if (joined.missed)
				this.reset();
			this.last ??= joined.last;
			this.set(joined.state);
		}
		const done = frames.map(([name, data, id]) => this.dispatch(name, data, id));
		if (size)
			Promise.allSettled(done).then(() => this.send({ ack: size }));
	}

	reset() {
		this.last = undefined;
		this.emit({ type: "reset" });
	}

	// For output: a promise, until the bytes are shown.
	dispatch(name, data, id) {
		if (name === "event") {
			if (this.last !== undefined && id <= this.last)
				return undefined;
			this.last = id;
			this.emit(JSON.parse(data));
		} else if (name === "local") {
			this.last ??= id;
			this.set(data);
		} else if (name === "expired") {
			this.reset();
		} else {
			const watch = [...this.watches].find((w) => w.number === data.number);
			if (name === "output")
				return watch?.take(data);
			watch?.fn({ error: new CallError(data.error, data.status) });
		}
		return undefined;
	}
}

export const stream = new Stream();

// Live output of a process, of its stdout, stderr or terminal: fn({offset, data: Uint8Array, gap}) from `offset` on, until the returned
// function is called. gap: bytes before it that were not stored. fn may return a promise: more is sent when it is fulfilled. fn({error}) if
// it cannot be watched.
export function watchOutput(processId, name, offset, fn) {
	const watch = new Watch(processId, name, fn, offset);
	stream.watches.add(watch);
	stream.send?.(watch.request);
	return () => {
		stream.watches.delete(watch);
		watch.end();
		stream.send?.({ unwatch: watch.number });
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
		const isUp = ({ link, daemon }) => link === "connected" && daemon === "connected";
		let was = isUp(stream.state);
		return stream.onState((state) => {
			const up = isUp(state);
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
