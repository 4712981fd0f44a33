// supervisor/console/upstream.js without a browser: node upstream.mjs FILE. The server is a fake fetch; the events of a log are numbered.

import assert from "node:assert";
import { readFileSync } from "node:fs";

const { Upstream } = await import(`data:text/javascript,${encodeURIComponent(readFileSync(process.argv[2], "utf8"))}`);

const frame = (name, data, id) => `event: ${name}\n${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(data)}\n\n`;
const asked = [];

// The first connection goes silent after an event, without an end; the second one continues.
globalThis.fetch = async (path, { signal }) => {
	asked.push(path);
	const seq = asked.length === 1 ? 4 : 5;
	return new Response(new ReadableStream({
		start(stream) {
			signal.addEventListener("abort", () => stream.error(signal.reason));
			stream.enqueue(new TextEncoder().encode(frame("hello", { stream: `s${asked.length}`, seq, role: "operator", version: "1" })
				+ frame("event", { type: "process.started", sequence: seq + 1 }, seq + 1)));
		},
	}));
};

const upstream = new Upstream({ silentMs: 1000 });
const links = [], events = [];
const done = new Promise((resolve) => {
	upstream.handle({ id: "tab", send: ({ frames = [] }) => {
		for (const [name, data, id] of frames) {
			if (name === "local" && links.at(-1)?.[0] !== data.link)
				links.push([data.link, data.problem]);
			if (name === "event")
				events.push(id);
		}
		if (events.length === 2)
			resolve();
	} }, { join: { key: "k" } });
});
await done;
upstream.stop();
assert.deepEqual(asked.slice(0, 2), ["/api/stream", "/api/stream?after=5"]);
assert.deepEqual(events, [5, 6]);
assert.deepEqual(links.map(([link]) => link), ["connecting", "connected", "disconnected", "connected"]);
assert.match(links[2][1], /nothing was received/);
