// The connection to /api/stream, one for all tabs of a browser: browsers open six connections to a server, and a stream keeps one of
// them. worker.js runs this in a shared worker; without one, a tab runs it for itself.
//
// Tabs send {join}, {watch} and {unwatch}; they get {joined} and {frames}, each frame [name, data, id] as the server sent it. Events reach
// every tab once and in order: the connection resumes after the last sequence number, and a tab that comes back with an older one is
// told to load its lists again.
//
// Tabs acknowledge what they have processed ({ack}). While one owes too much nothing is read, so that the server waits as well. If that
// takes long, the tab gets nothing until it has caught up, and then it loads its lists again: a slow tab delays the others only for a moment.

const SILENT_MS = 45000;    // the server sends a comment every 15 s: a connection without any for this long is dead
const RETRY_MS = 250;
const RETRY_MOST_MS = 4000;
const DECODED = 3 / 4;      // bytes for a character of base64
const OWED_MOST = 4 << 20;  // characters of frames that a tab has not processed
const PATIENCE_MS = 1000;

const lengthOf = (base64) => base64.length * DECODED - (base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0);

function parseFrame(text) {
	const frame = ["event", "", undefined];
	for (const line of text.split("\n")) {
		if (line.startsWith("event: "))
			frame[0] = line.slice(7);
		else if (line.startsWith("data: "))
			frame[1] += line.slice(6);
		else if (line.startsWith("id: "))
			frame[2] = Number(line.slice(4));
	}
	return frame;
}

// state.link: connecting, connected, disconnected (bailiff serve), login (no valid session); state.daemon: connected, disconnected;
// state.problem: why it is not connected.
export class Upstream {
	constructor({ silentMs = SILENT_MS } = {}) {
		this.silentMs = silentMs;
		this.tabs = new Map();
		this.watches = new Map();       // by tab and number: {tab, number, processId, stream, next, since}
		this.state = { link: "connecting", daemon: "connected", role: "", version: "", problem: "" };
		this.key = undefined;
		this.id = "";
		this.last = undefined;
		this.expired = false;
		this.failures = 0;
		this.run = 0;
		this.requests = new Map();      // by process: what was requested last
		this.lastRequest = 0;
	}

	// tab: {id, send(message)}.
	handle(tab, { join, watch, unwatch, ack }) {
		if (ack)
			this.ack(tab, ack);
		else if (join)
			this.join(tab, join);
		else if (watch)
			this.watch({ tab, ...watch });
		else if (unwatch)
			this.unwatch(tab, unwatch);
	}

	join(tab, { key, after }) {
		const missed = after !== undefined && this.last !== undefined && after < this.last;
		this.tabs.set(tab.id, Object.assign(tab, { owed: 0, stalled: false }));
		this.last ??= after;
		tab.send({ joined: { state: this.state, last: this.last, missed } });
		if (key !== this.key || this.state.link === "login")
			this.start(key);
	}

	leave(tab) {
		this.tabs.delete(tab.id);
		for (const watch of [...this.watches.values()])
			if (watch.tab === tab)
				this.unwatch(tab, watch.number);
		if (!this.tabs.size)
			this.stop();
	}

	stop() {
		this.run++;
		this.abort?.abort();
		this.key = undefined;
		this.id = "";
		this.state = { ...this.state, link: "connecting" };
	}

	set(change) {
		this.state = { ...this.state, ...change };
		this.send([["local", this.state]]);
	}

	send(frames) {
		for (const tab of this.tabs.values())
			this.deliver(tab, frames);
	}

	deliver(tab, frames) {
		if (tab.stalled)
			return;
		const size = frames.reduce((sum, [, data]) => sum + (data.length ?? data.base64?.length ?? 0), 1);
		tab.owed += size;
		tab.send({ frames, size });
	}

	ack(tab, size) {
		tab.owed -= size;
		if (tab.stalled && tab.owed <= 0) {
			tab.stalled = false;
			tab.send({ joined: { state: this.state, last: this.last, missed: true } });
			const watches = [...this.watches.values()].filter((w) => w.tab === tab);
			watches.forEach((w) => (w.since = undefined));
			for (const processId of new Set(watches.map((w) => w.processId)))
				this.request(processId);
		}
		this.wake?.();
	}

	// Waits until no tab owes too much, or marks those that do.
	async wait() {
		const end = Date.now() + PATIENCE_MS;
		for (;;) {
			const slow = [...this.tabs.values()].filter((tab) => !tab.stalled && tab.owed > OWED_MOST);
			const left = end - Date.now();
			if (!slow.length)
				return;
			if (left <= 0) {
				slow.forEach((tab) => (tab.stalled = true));
				return;
			}
			await new Promise((done) => {
				this.wake = done;
				setTimeout(done, left);
			});
		}
	}

	async start(key) {
		this.stop();
		this.key = key;
		this.failures = 0;
		const run = this.run;
		this.set({ link: "connecting", problem: "" });
		while (run === this.run) {
			let problem = "the connection ended";
			this.abort = new AbortController();
			try {
				await this.read(run);
			} catch (e) {
				problem = e.message;
			}
			if (run !== this.run)
				return;
			this.id = "";
			this.failures++;
			this.set({ link: "disconnected", problem });
			await new Promise((done) => setTimeout(done, Math.min(RETRY_MS * 2 ** Math.min(this.failures, 5), RETRY_MOST_MS)));
		}
	}

	// A machine that slept, or a tunnel that is gone, need not close the connection: it is replaced when nothing arrives.
	async read(run) {
		const { abort } = this;
		let timer = 0;
		const heard = () => {
			clearTimeout(timer);
			timer = setTimeout(() => abort.abort(new Error("nothing was received for too long")), this.silentMs);
		};
		try {
			heard();
			await this.readStream(run, heard);
		} finally {
			clearTimeout(timer);
		}
	}

	async readStream(run, heard) {
		const reply = await fetch(this.last === undefined ? "/api/stream" : `/api/stream?after=${this.last}`, {
			headers: { "X-Bailiff": this.key, Accept: "text/event-stream" }, credentials: "same-origin", signal: this.abort.signal });
		if (reply.status === 401) {
			this.stop();
			this.set({ link: "login" });
			return;
		}
		if (!reply.ok)
			throw new Error((await reply.json().catch(() => null))?.error?.message ?? `HTTP status ${reply.status}`);
		const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
		let rest = "";
		for (;;) {
			const { done, value } = await reader.read();
			if (done || run !== this.run)
				return;
			heard();
			const texts = (rest + value).split("\n\n");
			rest = texts.pop();
			this.take(texts.map(parseFrame).filter(([, data]) => data));
			await this.wait();
		}
	}

	take(frames) {
		const shared = [];
		for (const frame of frames) {
			const [name, data, id] = frame;
			if (name === "output") {
				this.takeOutput(frame);
				continue;
			}
			if (name === "event")
				this.last = Math.max(id, this.last ?? 0);
			else if (name === "expired")
				Object.assign(this, { last: undefined, expired: true });
			else if (name === "hello")
				shared.push(...this.greet(JSON.parse(data)));
			else if (name === "state")
				shared.push(...this.setDaemon(JSON.parse(data)));
			if (name === "event" || name === "expired")
				shared.push(frame);
		}
		if (shared.length)
			this.send(shared);
	}

	greet({ stream, seq, role, version }) {
		// What came between an expired sequence number and this one is unknown.
		const frames = this.expired && this.last === undefined ? [["expired", "{}"]] : [];
		this.id = stream;
		this.failures = 0;
		this.expired = false;
		this.last ??= seq;
		this.state = { ...this.state, link: "connected", problem: "", role, version };
		this.requestAll();
		return [...frames, ["local", this.state, this.last]];
	}

	setDaemon({ daemon }) {
		const back = daemon === "connected" && this.state.daemon !== "connected";
		this.state = { ...this.state, daemon };
		if (back)
			this.requestAll();
		return [["local", this.state]];
	}

	// ---- output of processes ----

	watch(watch) {
		this.watches.set(`${watch.tab.id} ${watch.number}`, watch);
		this.request(watch.processId);
	}

	unwatch(tab, number) {
		const key = `${tab.id} ${number}`;
		const processId = this.watches.get(key)?.processId;
		this.watches.delete(key);
		if (processId && !this.watchesOf(processId).length)
			this.request(processId);
	}

	watchesOf(processId) {
		return [...this.watches.values()].filter((w) => w.processId === processId);
	}

	requestAll() {
		for (const processId of new Set([...this.watches.values()].map((w) => w.processId)))
			this.request(processId);
	}

	// Sends all that any tab still needs: the server continues at the offset of the latest request, so they are sent one after the other.
	// A tab skips what it has, and what an earlier request than its first one (`since`) still brings: bytes from further on.
	request(processId) {
		const sent = (this.requests.get(processId) ?? Promise.resolve()).then(() => this.post(processId)).catch(() => {
			// The stream breaks as well, and the next one requests it again.
		}).then(() => this.requests.get(processId) === sent && this.requests.delete(processId));
		this.requests.set(processId, sent);
	}

	async post(processId) {
		const watches = this.watchesOf(processId);
		if (!this.id)
			return;
		const request = ++this.lastRequest;
		watches.forEach((w) => (w.since ??= request));
		const body = { stream: this.id, processId, request, on: watches.length > 0, ...(watches.length && { offset: Math.min(...watches.map((w) => w.next)) }) };
		const reply = await fetch("/api/watch", { method: "POST", credentials: "same-origin", body: JSON.stringify(body),
			headers: { "X-Bailiff": this.key, "Content-Type": "application/json" } });
		// While the daemon is away (503) it is requested again when it is back.
		if (reply.ok || reply.status === 503)
			return;
		const { error } = await reply.json().catch(() => ({}));
		for (const { tab, number } of watches)
			this.deliver(tab, [["watch", { number, status: reply.status, error: typeof error === "string" ? { message: error } : error ?? {} }]]);
	}

	takeOutput([, data]) {
		const { processId, stream, offset, request, data: base64 } = JSON.parse(data);
		const end = offset + lengthOf(base64);
		for (const watch of this.watchesOf(processId)) {
			if (watch.stream !== stream || end <= watch.next || watch.tab.stalled || !(request >= watch.since))
				continue;
			watch.next = end;
			this.deliver(watch.tab, [["output", { number: watch.number, offset, base64 }]]);
		}
	}
}
