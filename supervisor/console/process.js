// One process: live terminal or output, events, sandbox, denials.

import { call, can, useCall, useEvents, watchOutput } from "./api.js";
import { Bytes, Card, Command, Confirm, Dialog, Duration, Empty, ErrorBox, Facts, Id, Loading, Page, Table, Tabs, Text, Time, Cli, formatBytes, formatNumber, html, notify, plain, useEffect, useLayoutEffect, useRef, useState } from "./parts.js";
import { Outcome, textOf } from "./processes.js";

const TAIL_BYTES = 1 << 20;     // of an output, shown at first
const READ_BYTES = 1 << 19;     // by one call
const SIGNALS = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "STOP", "CONT", "KILL"];

const bytesOf = (reply) => (reply.encoding === "base64" ? Uint8Array.from(atob(reply.data), (c) => c.charCodeAt(0)) : new TextEncoder().encode(reply.data));

// ---- the two kinds of output ----

// Search in a terminal's contents.
function Search({ view }) {
	const [text, setText] = useState("");
	const [found, setFound] = useState(null);
	useEffect(() => {
		const sub = view?.onMatches((r) => setFound(r));
		return () => sub?.dispose();
	}, [view]);
	const find = (value, back) => view?.find(value, back) || setFound(value ? { resultCount: 0 } : null);
	return html`<div class="search"><input type="search" placeholder="Search the output" aria-label="Search the output" value=${text} onInput=${(e) => {
		setText(e.target.value);
		find(e.target.value);
	}} onKeyDown=${(e) => e.key === "Enter" && (e.preventDefault(), find(text, e.shiftKey))} />
	<span class="num faint matches" role="status">${text ? (found?.resultCount ? `${found.resultIndex >= 0 ? found.resultIndex + 1 : "…"} of ${formatNumber(found.resultCount)}` : "no match") : ""}</span>
	<button class="small" aria-label="Previous match" disabled=${!text} onClick=${() => find(text, true)}>↑</button><button class="small" aria-label="Next match" disabled=${!text} onClick=${() => find(text)}>↓</button></div>`;
}

// A terminal of xterm.js in the document; make(View) gives one, start(view) → stop fills it.
function useTerminal(options, start, deps) {
	const box = useRef();
	const [view, setView] = useState(null);
	useLayoutEffect(() => {
		let stop = () => {};
		let live = true;
		let made = null;
		import("./terminal.js").then(({ View }) => {
			if (!live)
				return;
			made = new View(box.current, options);
			setView(made);
			stop = start(made) ?? stop;
		});
		return () => {
			live = false;
			stop();
			made?.dispose();
			setView(null);
		};
	}, deps);
	return [box, view];
}

const Download = ({ processId, stream }) => html`<a class="button small" href=${`/api/output?processId=${encodeURIComponent(processId)}&stream=${stream}`} download>Download</a>`;

// What a program wrote to a pipe: the last MiB and what follows.
function PipeOutput({ process, stream }) {
	const output = process.outputs[stream];
	const [error, setError] = useState(null);
	const [from, setFrom] = useState(Math.max(0, output.bytes - TAIL_BYTES));
	const live = useRef();
	live.current = process.status === "running";
	const [box, view] = useTerminal({ pipe: true }, (made) => {
		let ended = false;
		let stop = () => {};
		const observer = new ResizeObserver(() => made.fit());
		observer.observe(box.current);
		made.fit();
		(async () => {
			let at = from;
			for (;;) {
				const reply = await call("read_output", { outputRef: output.outputRef, offset: at, length: READ_BYTES, encoding: "base64" });
				const bytes = bytesOf(reply);
				if (ended)
					return;
				if (bytes.length)
					made.write(bytes);
				if (reply.nextOffset === at || (reply.nextOffset >= reply.totalBytes)) {
					at = reply.nextOffset;
					break;
				}
				at = reply.nextOffset;
			}
			if (live.current)
				stop = watchOutput(process.processId, stream, at, (frame) => frame.error ? setError(frame.error) : made.write(frame.data));
		})().catch(setError);
		return () => {
			ended = true;
			stop();
			observer.disconnect();
		};
	}, [process.processId, stream, from]);
	return html`<div class="terminal-tools"><${Search} view=${view} />${from > 0 && html`<button class="small" onClick=${() => setFrom(0)}>Show from the beginning (${formatBytes(output.bytes)})</button>`}
		${output.truncated && html`<span class="wait">The middle was not stored: the output exceeded its limit.</span>`}
		<span class="grow"></span><${Download} processId=${process.processId} stream=${stream} /></div><${ErrorBox} error=${error} />
		<div class="screen pipe" ref=${box} role="log" aria-label=${`Output on ${stream}`}></div>`;
}

// Keys in the order typed: one request at a time, what is typed meanwhile goes with the next.
class Keys {
	constructor(processId, failed) {
		this.processId = processId;
		this.failed = failed;
		this.waiting = "";
		this.busy = false;
	}

	async type(text) {
		this.waiting += text;
		if (this.busy)
			return;
		this.busy = true;
		while (this.waiting) {
			const data = this.waiting;
			this.waiting = "";
			try {
				await call("write_process_stdin", { processId: this.processId, data });
			} catch (e) {
				this.waiting = "";
				this.failed(e);
			}
		}
		this.busy = false;
	}
}

// A live terminal: watched at its own size, or taken over, when keys go to the program and the window's size becomes the terminal's.
function LiveTerminal({ process }) {
	const [driving, setDriving] = useState(false);
	const [size, setSize] = useState("");
	const [error, setError] = useState(null);
	const state = useRef({});
	const { processId } = process;
	const running = process.status === "running";
	state.current.driving = driving && running;

	const [box, view] = useTerminal({ onInput: (text) => state.current.keys?.type(text) }, (made) => {
		let stop = () => {};
		let ended = false;
		const keys = new Keys(processId, setError);
		const show = async () => {
			const screen = await call("get_screen", { processId, format: "ansi", modes: true, scrollback: 2000 });
			if (ended)
				return;
			stop();
			made.reset();
			made.term.resize(screen.cols, screen.rows);
			setSize(`${screen.cols} × ${screen.rows}`);
			made.write(screen.ansi);
			if (!screen.ended)
				stop = watchOutput(processId, "terminal", screen.resumeOffset ?? screen.offset, (frame) => frame.error ? setError(frame.error) : frame.gap ? show().catch(setError) : made.write(frame.data));
		};
		const fit = async () => {
			const at = made.fitter.proposeDimensions();
			if (!state.current.driving || !at || (at.cols === made.term.cols && at.rows === made.term.rows))
				return;
			await call("resize_process", { processId, rows: at.rows, cols: at.cols }).catch(setError);
		};
		let timer = 0;
		const observer = new ResizeObserver(() => {
			clearTimeout(timer);
			timer = setTimeout(fit, 100);
		});
		observer.observe(box.current);
		Object.assign(state.current, { keys, fit, made });
		show().catch(setError);
		return () => {
			ended = true;
			clearTimeout(timer);
			stop();
			observer.disconnect();
		};
	}, [processId]);
	useEvents((e) => e.processId === processId && e.type === "process.input" && e.payload.kind === "resize", (e) => {
		view?.term.resize(e.payload.cols, e.payload.rows);
		setSize(`${e.payload.cols} × ${e.payload.rows}`);
	});
	useEffect(() => {
		if (!view)
			return;
		view.input(driving && running);
		if (driving && running) {
			state.current.fit();
			view.term.focus();
		}
	}, [view, driving, running]);
	return html`<div class="terminal-tools"><${Search} view=${view} /><span class="faint num">${size}</span><span class="grow"></span>
		${running && html`<button class=${driving ? "primary small" : "small"} aria-pressed=${String(driving)} disabled=${!can("agent")} onClick=${() => setDriving(!driving)}>${driving ? "Stop typing" : "Take over"}</button>`}
		<${Download} processId=${processId} stream="terminal" /></div><${ErrorBox} error=${error} />
		<div class=${`screen ${driving && running ? "driving" : ""}`} ref=${box} role="group" aria-label="Terminal"></div>
		<p class="faint hint">${running ? (driving ? "Keys go to the program. Ctrl+Alt+Esc leaves the terminal." : "You are watching; the program gets no keys from here.") : "The last screen of the terminal."}</p>`;
}

function Output({ process, query, setQuery }) {
	if (process.tty && process.outputs?.pty)
		return html`<${LiveTerminal} process=${process} />`;
	const names = Object.keys(process.outputs ?? {});
	if (!names.length)
		return html`<${Empty}>${process.status === "waiting_permission" ? "It waits for an approval and has not run." : "It has no output."}<//>`;
	const chosen = names.includes(query.stream) ? query.stream : names.find((n) => process.outputs[n].bytes > 0) ?? names[0];
	return html`<div class="segments" role="group" aria-label="Stream">${names.map((name) => html`<button class="small" aria-pressed=${String(name === chosen)} onClick=${() => setQuery({ stream: name })}>${name} <span class="faint num">${formatBytes(process.outputs[name].bytes)}</span></button>`)}</div>
		<${PipeOutput} key=${chosen} process=${process} stream=${chosen} />`;
}

// ---- events, sandbox, denials ----

const summary = (payload) => JSON.stringify(payload ?? {}).slice(0, 400);

function Events({ processId }) {
	const { data, error, reload } = useCall("list_events", { processId, limit: 1000 }, { refreshOn: (e) => e.processId === processId });
	const [open, setOpen] = useState(null);
	if (!data)
		return error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`;
	return html`<${Table} label="Events" rows=${data.events} rowKey=${(e) => String(e.sequence)} onOpen=${setOpen} columns=${[
		{ key: "sequence", label: "Seq", width: "70px", align: "right", render: (e) => html`<a class="num" href=${`#/events?seq=${e.sequence}`}>${e.sequence}</a>` },
		{ key: "time", label: "Time", width: "150px", render: (e) => html`<${Time} at=${e.timestamp} abs />` },
		{ key: "type", label: "Type", width: "190px", render: (e) => html`<button class="sort" tabindex="-1" onClick=${() => setOpen(e)}>${plain(e.type)}</button>` },
		{ key: "payload", label: "Payload", render: (e) => html`<code class="command faint">${plain(summary(e.payload))}</code>` },
	]} />${data.hasMore && html`<p class="faint">The first ${formatNumber(data.events.length)} events; <a href=${`#/events?process=${processId}`}>all of them</a></p>`}
	${open && html`<${Dialog} title=${`${plain(open.type)} ${open.sequence}`} onClose=${() => setOpen(null)}><pre class="json"><${Text} lines text=${JSON.stringify(open, null, 2)} /></pre>
		<div class="dialog-actions"><button autofocus onClick=${() => setOpen(null)}>Close</button></div><//>`}`;
}

const Paths = ({ list, none = "nothing" }) => list?.length ? html`<ul class="paths">${list.map((p) => html`<li><code><${Text} text=${p} /></code></li>`)}</ul>` : html`<span class="faint">${none}</span>`;

const NETWORK = { none: "none", host: "the host's network, without restriction", allow: "only the hosts below, through the proxy" };

function Sandbox({ process }) {
	const { data, error, reload } = useCall("list_events", { processId: process.processId, types: ["sandbox.applied"], limit: 10 }, { refreshOn: (e) => e.processId === process.processId && e.type === "sandbox.applied" });
	const wanted = useCall("get_sandbox", { profile: process.sandboxProfile, cwd: process.cwd }, { skip: !data || data.events.length > 0 || !process.sandboxProfile });
	if (!data)
		return error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`;
	const applied = data.events[data.events.length - 1]?.payload;
	const box = applied?.sandboxProfile ?? wanted.data?.sandboxProfile;
	if (!box)
		return html`<${Empty}>${process.sandboxId ? html`It runs in the session sandbox <${Id} id=${process.sandboxId} />.` : "It never ran, so it has no sandbox."}<//>`;
	const limits = Object.entries(box.processLimits ?? {}).map(([k, v]) => `${k} ${/Bytes/.test(k) ? formatBytes(v) : formatNumber(v)}`);
	return html`${!applied && html`<p class="wait">It has not run: this is the sandbox that it would get.</p>`}<div class="cards">
		<${Card} title="May write"><${Paths} list=${box.writeRoots} /><h3>but not</h3><${Paths} list=${box.protected} />${box.copyOnWrite && html`<p>Writes go to a copy; see <a href=${`#/changes/${process.sandboxId ?? process.processId}`}>Changes</a>.</p>`}<//>
		<${Card} title="May reach"><p>${NETWORK[box.network] ?? plain(box.network)}</p><${Paths} list=${box.allowHosts} none="" /><//>
		<${Card} title="May read"><${Paths} list=${box.readRoots} /><//>
		<${Card} title="Hidden"><${Paths} list=${[...(box.hidden ?? []), ...(box.private ?? []).map((p) => `${p} (private, empty)`)]} /><//>
		<${Card} title="Enforced by"><${Facts} rows=${[["Profile", plain(box.mode)], ...Object.entries(applied?.layers ?? {}).map(([k, v]) => [k, html`<span class=${v === "enforced" ? "good" : "wait"}>${plain(v)}</span>`]), ["Limits", limits.join(", ")], ["Variables", plain((box.environment ?? []).join(" "))]]} /><//></div>`;
}

// The end of a process names what would have allowed what was blocked.
const openers = (would) => [...(would?.writeRoots ?? []).map((p) => ["--rw", p]), ...(would?.readRoots ?? []).map((p) => ["--ro", p]), ...(would?.allowHosts?.length ? [["--net", "allow"]] : []), ...(would?.allowHosts ?? []).map((h) => ["--allow-host", h])];

const target = (v) => v.path ?? (v.host ? `${v.host}${v.port ? `:${v.port}` : ""}` : undefined) ?? v.address ?? v.syscall ?? "";

// The option that would allow this one denial, if there is one.
function opener(v, would) {
	if (v.path) {
		const root = [...(would?.writeRoots ?? []).map((p) => ["--rw", p]), ...(would?.readRoots ?? []).map((p) => ["--ro", p])].find(([, p]) => v.path === p || v.path.startsWith(p === "/" ? p : `${p}/`));
		return root;
	}
	return v.host && would?.allowHosts?.some((h) => h.split(":")[0] === v.host) ? ["--net", "allow", "--allow-host", v.host] : undefined;
}

function Denials({ process }) {
	const ends = useCall("list_events", { processId: process.processId, types: ["process.completed", "process.failed", "process.terminated", "permission.evaluated"], limit: 100 }, { refreshOn: (e) => e.processId === process.processId && e.type.startsWith("process.") });
	const events = ends.data?.events ?? [];
	const would = events.map((e) => e.payload.wouldOpen).find(Boolean);
	const rules = events.filter((e) => e.type === "permission.evaluated" && e.payload.permissionDecision.decision !== "allow");
	const argv = openers(would).flat();
	const violations = process.violations ?? [];
	if (!violations.length && !rules.length)
		return html`<${Empty}>Nothing was denied.<//>`;
	return html`<${ErrorBox} error=${ends.error} />${rules.map(({ payload: { permissionDecision: d, suggestion } }) => html`<${Card} wide title=${d.decision === "deny" ? "Denied by policy" : "Policy asked"}><${Facts} rows=${[
		["Why", html`<${Text} text=${d.decisionReason} />`], ["Rule", d.ruleRefs?.map((r) => html`<div><code><${Text} text=${r.rule} /></code> <span class="faint">${plain(r.file)}:${r.line}, ${r.layer}</span></div>`)],
		["Would allow it", suggestion?.allow?.length ? html`<${Paths} list=${suggestion.allow} />` : html`only another version of this rule <span class="faint"><${Text} text=${suggestion?.why ?? ""} /></span>`]]} /><//>`)}
	${violations.length > 0 && html`<${Card} wide title="Blocked by the sandbox"><table class="grid"><thead><tr><th>Operation</th><th>Target</th><th>Why</th><th>Times</th><th>Confidence</th><th>Would allow it</th></tr></thead>
		<tbody>${violations.map((v) => html`<tr><td>${plain(v.kind)} ${plain(v.operation)}</td><td><code><${Text} text=${target(v)} /></code></td><td><${Text} text=${v.reason ?? v.errnoName} />${v.evidence && html`<div class="faint"><${Text} text=${v.evidence} /></div>`}</td>
		<td class="num">${v.count}</td><td>${v.confidence === "hint" ? "guess from its output" : plain(v.confidence)}</td><td>${opener(v, would) ? html`<code><${Text} text=${opener(v, would).join(" ")} /></code>` : html`<span class="faint">nothing; it is protected or not yours</span>`}</td></tr>`)}</tbody></table>
		${argv.length > 0 && html`<p class="hint">To run it with all of that:</p><${Cli} argv=${["run", ...argv, "--", ...(process.command ?? [])]} />`}<//>`}`;
}

// ---- the page ----

const Signal = ({ processId }) => html`<select aria-label="Send a signal" value="" disabled=${!can("agent")} onChange=${(e) => {
	const signal = e.target.value;
	e.target.value = "";
	call("signal_process", { processId, signal }).then(() => notify(`SIG${signal} sent`), (error) => notify(error.message, "bad"));
}}><option value="">Signal…</option>${SIGNALS.map((s) => html`<option value=${s}>${s}</option>`)}</select>`;

const TABS = [["output", "Output"], ["events", "Events"], ["sandbox", "Sandbox"], ["denials", "Denials"], ["details", "Details"]];

export default function Process({ path: [processId], query, setQuery }) {
	const { data: process, error, reload } = useCall("get_process", { processId }, { refreshOn: (e) => e.processId === processId && (e.type !== "process.output" && e.type !== "process.input") });
	const live = useCall("list_processes", { match: processId, usage: true, limit: 1 }, { every: 2000, skip: process?.status !== "running" });
	if (!process)
		return html`<${Page} title="Process" cli=${["ps", "--all"]}>${error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
	const tab = TABS.some(([key]) => key === query.tab) ? query.tab : "output";
	const usage = live.data?.processes[0]?.usage ?? process.usage;
	const denied = (process.violations?.length ?? 0) + (process.category === "permission" ? 1 : 0);
	const running = process.status === "running";
	const cli = { output: process.tty && running ? ["attach", processId] : ["logs", ...(running ? ["-f"] : []), processId], events: ["events", "--process", processId], sandbox: ["sandbox", "show", processId], denials: ["policy", "suggest", processId], details: ["call", "get_process", JSON.stringify({ processId })] }[tab];
	return html`<${Page} fill title=${html`<${Command} text=${textOf(process)} />`} cli=${cli} actions=${running && html`<${Signal} processId=${processId} /><${Confirm} label="Terminate" question="Terminate this process?" disabled=${!can("agent")}
			detail=${html`<${Command} text=${textOf(process)} lines /><p class="faint">It gets a signal and, after the grace time, its whole process tree is killed.</p>`} onConfirm=${() => call("terminate_process", { processId }).then(() => notify("Terminated"))} />`}>
		<div class="strip"><span><${Outcome} process=${process} /></span>${process.actionId && process.status === "waiting_permission" && html`<a href=${`#/approvals?id=${process.actionId}`}>answer</a>`}
			${process.startedAt && html`<span><span class="faint">started</span> <${Time} at=${process.startedAt} /></span><span><span class="faint">for</span> <${Duration} ms=${process.durationMs} since=${running ? process.startedAt : undefined} /></span>`}
			${usage && html`<span><span class="faint">memory</span> <${Bytes} n=${usage.memoryBytes ?? usage.maxRssBytes} /></span>${usage.tasks !== undefined && html`<span><span class="faint">tasks</span> <span class="num">${usage.tasks}</span></span>`}
				<span><span class="faint">CPU time</span> <${Duration} ms=${usage.cpuUs !== undefined ? usage.cpuUs / 1000 : usage.userMs + usage.systemMs} /></span>`}
			<span><span class="faint">in</span> <code><${Text} text=${process.cwd} /></code></span><span><span class="faint">session</span> <${Id} id=${process.sessionId} /></span>${process.sandboxId && html`<span><span class="faint">sandbox</span> <${Id} id=${process.sandboxId} /></span>`}</div>
		${process.message && html`<p class="bad"><${Text} text=${process.message} /></p>`}
		<${Tabs} label="Process" value=${tab} onChange=${(t) => setQuery({ tab: t === "output" ? undefined : t })} tabs=${TABS.map(([key, label]) => [key, key === "output" && process.tty ? "Terminal" : label, key === "denials" && denied ? denied : undefined])} />
		<div class="tab" role="tabpanel" tabindex="0" aria-labelledby=${`tab-${tab}`}>${tab === "output" && html`<${Output} process=${process} query=${query} setQuery=${setQuery} />`}${tab === "events" && html`<${Events} processId=${processId} />`}
			${tab === "sandbox" && html`<${Sandbox} process=${process} />`}${tab === "denials" && html`<${Denials} process=${process} />`}${tab === "details" && html`<pre class="json" tabindex="0"><${Text} lines text=${JSON.stringify(process, null, 2)} /></pre>`}</div><//>`;
}
