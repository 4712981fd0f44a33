// What waits for a person, one at a time: the exact command, why it asks, what it would touch, and the answers.

import { call, can, useCall } from "./api.js";
import { Card, Command, Empty, ErrorBox, Facts, Id, Loading, Page, Status, Text, Time, formatDuration, html, notify, plain, useEffect, useNow, useRef, useState } from "./parts.js";

const CHANGED_MS = 400;     // a key this soon after another question has come up was meant for the one before; so is one that is held down

function Deadline({ at, fallback }) {
	const now = useNow();
	const left = Date.parse(at) - now;
	return html`<span class=${left < 60000 ? "bad num" : "num"}>${left > 0 ? `${formatDuration(left)} left, then ${plain(fallback ?? "deny")}` : "expired"}</span>`;
}

const List = ({ items }) => html`<ul class="paths">${items.map((item) => html`<li><code><${Text} text=${item} /></code></li>`)}</ul>`;

// The text of a command may tell what it does with the network, but not with which host.
const networkUse = ({ host, port, intent }) => [intent, host && (port ? `${host}:${port}` : host)].filter(Boolean).join(" ");
const labelOf = (item) => (typeof item === "string" ? item : item.path ?? item.host ?? item.text ?? JSON.stringify(item));

// What the parser found in the command: the files it names, hosts, what cannot be known.
function Touches({ action, process }) {
	const ids = action.processId ? { processId: action.processId } : { turnId: action.turnId };
	const { data } = useCall("list_events", { ...ids, types: ["permission.evaluated"], limit: 100 });
	const sandbox = useCall("get_sandbox", { profile: process?.sandboxProfile, cwd: process?.cwd }, { skip: !process?.sandboxProfile || Boolean(process.sandboxId) });
	const command = data?.events[data.events.length - 1]?.payload.command;
	const box = sandbox.data?.sandboxProfile;
	const parts = command?.subcommands ?? [];
	return html`<${Facts} rows=${[
		["Runs", parts.length > 1 && html`<${List} items=${parts.map(labelOf)} />`],
		["Names files", command?.paths?.length > 0 && html`<${List} items=${command.paths.map((p) => (typeof p === "string" ? p : `${p.path ?? labelOf(p)}${p.access ? ` (${p.access})` : ""}`))} />`],
		["Uses the network", command?.network?.length > 0 && html`<${List} items=${command.network.map(networkUse)} />`],
		["With variables", command?.environment?.length > 0 && html`<${List} items=${command.environment.map(labelOf)} />`],
		["Unknown", command?.unknown?.length > 0 && html`<span class="wait">${plain(command.unknown.join(", "))}: the text alone does not determine what runs</span>`],
		["Can write", box && html`<${List} items=${box.writeRoots?.length ? box.writeRoots : ["nothing outside its private folders"]} />`],
		["Network", box && plain(box.network)],
		["Runs in sandbox", process?.sandboxId && html`<${Id} id=${process.sandboxId} />`],
	]} />`;
}

// Fields for an answer's schema: an object of plain values gets a form, anything else JSON.
function Answer({ schema, value, onChange }) {
	const fields = Object.entries(schema?.properties ?? {});
	const simple = schema?.type === "object" && fields.length > 0 && fields.every(([, f]) => f.enum || ["string", "integer", "number", "boolean"].includes(f.type));
	const [text, setText] = useState("");
	const [bad, setBad] = useState(false);
	if (!schema || (schema.type === "object" && !fields.length && !schema.required?.length))
		return null;
	if (!simple)
		return html`<label class="block">Answer as JSON<textarea value=${text} aria-invalid=${String(bad)} onInput=${(e) => {
			setText(e.target.value);
			try {
				onChange(e.target.value ? JSON.parse(e.target.value) : undefined);
				setBad(false);
			} catch {
				setBad(true);
			}
		}}></textarea></label>`;
	const set = (name, v) => onChange({ ...value, [name]: v });
	return html`<div class="form">${fields.map(([name, f]) => html`<label for=${`f-${name}`}>${plain(f.title ?? name)}${schema.required?.includes(name) ? " *" : ""}</label>${f.enum
		? html`<select id=${`f-${name}`} onChange=${(e) => set(name, f.enum[e.target.selectedIndex - 1])}><option></option>${f.enum.map((o) => html`<option>${plain(o)}</option>`)}</select>`
		: f.type === "boolean"
			? html`<input id=${`f-${name}`} type="checkbox" onChange=${(e) => set(name, e.target.checked)} />`
			: html`<input id=${`f-${name}`} type=${f.type === "string" ? (f.format === "password" ? "password" : "text") : "number"} title=${plain(f.description ?? "")}
				onInput=${(e) => set(name, f.type === "string" ? e.target.value : e.target.value === "" ? undefined : Number(e.target.value))} />`}`)}</div>`;
}

function Question({ action, onDone }) {
	const [note, setNote] = useState("");
	const [payload, setPayload] = useState(undefined);
	const [error, setError] = useState(null);
	const [busy, setBusy] = useState(false);
	const [armed, setArmed] = useState(false);
	const since = useRef(performance.now());
	const root = useRef();
	const { data: process } = useCall("get_process", { processId: action.processId }, { skip: !action.processId });
	const permission = action.actionType === "permission";
	const policy = action.policy ?? {};
	const always = action.continuation?.always ?? {};
	const canAlways = Boolean(always.allow?.length);

	const answer = async (decision, scope) => {
		if (busy || !can("operator"))
			return;
		setBusy(true);
		setError(null);
		try {
			const reply = await call("respond_action", { actionId: action.actionId, decision, ...(scope && { scope }), ...(note && { note }), ...(payload !== undefined && decision !== "deny" && { payload }) });
			notify(reply.file ? `Saved in ${reply.file}:${reply.line}` : decision === "allow" ? "Allowed" : decision === "deny" ? "Denied" : `Answered: ${decision}`);
			onDone(action.actionId);
		} catch (e) {
			if (e.code === "conflict" || e.code === "invalid_state") {
				notify("It was answered meanwhile, in another window or by another person", "bad");
				onDone(action.actionId);
			} else {
				setError(e);
			}
		}
		setBusy(false);
	};

	const keys = useRef();
	keys.current = (e) => {
		if (!permission || e.repeat || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, dialog") || e.timeStamp - since.current < CHANGED_MS)
			return;
		const scope = { y: "once", s: "session", w: "always" }[e.key];
		if (scope === "always" && !canAlways)
			return;
		if (scope && policy.destructive && armed !== scope) {
			setArmed(scope);
			return;
		}
		if (scope)
			answer("allow", scope);
		else if (e.key === "n")
			answer("deny", "once");
	};
	useEffect(() => {
		const listen = (e) => keys.current(e);
		addEventListener("keydown", listen);
		return () => removeEventListener("keydown", listen);
	}, []);

	const others = (action.decisions ?? []).filter((d) => !permission || (d !== "allow" && d !== "deny"));
	const off = busy || !can("operator");
	return html`<div class="question" role="alertdialog" aria-labelledby="question-title" aria-describedby="question-what" tabindex="-1" ref=${root}>
		<header><h2 id="question-title">${permission ? "Run this command?" : plain(action.actionType)}</h2>${policy.destructive && html`<span class="badge bad">destructive</span>`}
			<span class="grow"></span>${action.expiresAt && html`<${Deadline} at=${action.expiresAt} fallback=${action.defaultDecision} />`}</header>
		<div id="question-what" class="what">${process?.command && !process.commandTruncated ? html`<${Command} argv=${process.commandLine ? undefined : process.command} text=${process.commandLine} lines />` : html`<${Command} text=${action.prompt ?? ""} lines />`}</div>
		<${Facts} rows=${[
			["In folder", process?.cwd && html`<code><${Text} text=${process.cwd} /></code>`],
			["Profile", process?.sandboxProfile && plain(process.sandboxProfile)],
			["Why it asks", policy.decisionReason && html`<${Text} text=${policy.decisionReason} />`],
			["Rules", policy.ruleRefs?.length > 0 && html`<div>${policy.ruleRefs.map((r) => html`<div><code><${Text} text=${r.rule} /></code> <span class="faint">${plain(r.file)}:${r.line}, ${plain(r.layer)} policy</span></div>`)}</div>`],
			["Effect", policy.impact && html`<span class="bad"><${Text} text=${policy.impact} /></span>`],
			["To undo", policy.rollbackAdvice && html`<${Text} text=${policy.rollbackAdvice} />`],
			["Reason given", (action.continuation?.justification ?? action.justification) && html`<${Text} text=${action.continuation?.justification ?? action.justification} />`],
			["Asked", html`<${Time} at=${action.createdAt} /> <span class="faint">by ${plain(action.requestedBy?.role ?? "a client")} uid ${plain(action.requestedBy?.uid ?? action.uid)}${action.requestedBy?.pid ? `, pid ${action.requestedBy.pid}` : ""}</span>`],
			["Belongs to", html`<span class="ids"><${Id} id=${action.sessionId} />${action.processId && html` <${Id} id=${action.processId} />`}${action.taskId && html` <${Id} id=${action.taskId} />`}</span>`],
		]} />
		${permission && html`<${Card} title="What it would touch"><${Touches} action=${action} process=${process} /><//>`}
		<${Answer} schema=${action.schema} value=${payload} onChange=${setPayload} />
		<label class="block">Reason, for the record<input type="text" value=${note} maxlength="1000" onInput=${(e) => setNote(e.target.value)} /></label>
		<${ErrorBox} error=${error} />
		${armed && html`<p class="bad" role="status">This command is destructive. Press ${{ once: "y", session: "s", always: "w" }[armed]} again to allow it.</p>`}
		<div class="answers">${permission && html`<button class="primary" disabled=${off} onClick=${() => answer("allow", "once")}>Allow once <kbd>y</kbd></button>
			<button disabled=${off} onClick=${() => answer("allow", "session")}>For this session <kbd>s</kbd></button>
			<button disabled=${off || !canAlways} title=${canAlways ? `Adds to your policy.json: ${plain(always.allow.join(", "))}` : plain(always.why ?? "")} onClick=${() => answer("allow", "always")}>Always <kbd>w</kbd></button>
			<span class="grow"></span><button class="danger" disabled=${off} onClick=${() => answer("deny", "once")}>Deny <kbd>n</kbd></button>
			${always.deny?.length > 0 && html`<button class="danger" disabled=${off} title=${`Adds to your policy.json: ${plain(always.deny.join(", "))}`} onClick=${() => answer("deny", "always")}>Always deny</button>`}`}
			${others.map((d, i) => html`<button class=${i ? "" : "primary"} disabled=${off} onClick=${() => answer(d)}>${plain(d)}</button>`)}</div>
		${permission && !canAlways && always.why && html`<p class="faint hint">“Always” is not possible: <${Text} text=${always.why} />.</p>`}
		${!can("operator") && html`<p class="wait">Your role may watch, not answer.</p>`}</div>`;
}

function NotifyButton() {
	const [state, set] = useState("Notification" in window ? Notification.permission : "denied");
	return state === "default" && html`<button class="small" onClick=${() => Notification.requestPermission().then(set)}>Notify me on the desktop</button>`;
}

function Answered() {
	const { data } = useCall("list_actions", { limit: 30 }, { refreshOn: (e) => e.type.startsWith("action.") });
	const done = (data?.actions ?? []).filter((a) => a.status !== "pending").slice(0, 12);
	return done.length > 0 && html`<section><h2 class="side-title">Answered</h2><ul class="queue">${done.map((a) => html`<li class="done"><div><${Status} status=${a.status === "resolved" ? (a.decision === "deny" ? "denied" : a.decision === "allow" ? "allowed" : "resolved") : a.status} /> <${Time} at=${a.resolvedAt} /></div>
		<${Command} text=${a.prompt} /></li>`)}</ul></section>`;
}

const short = (action) => (action.prompt ?? action.actionType).replace(/^run in .*?: /s, "");

export default function Approvals({ path, query, setQuery }) {
	const { data, error, reload } = useCall("list_actions", { status: "pending", limit: 1000 }, { refreshOn: (e) => e.type.startsWith("action.") || e.type.startsWith("permission.") });
	const [gone, setGone] = useState(new Set());
	const wanted = query.id ?? path[0];
	if (!data)
		return html`<${Page} title="Approvals" cli=${["pending"]}>${error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
	// Oldest first: the one that has waited longest, and closest to its deadline.
	const pending = data.actions.filter((a) => !gone.has(a.actionId)).reverse();
	const current = pending.find((a) => a.actionId === wanted) ?? (path[0] && !query.id ? undefined : pending[0]);
	const step = (by) => {
		const at = pending.indexOf(current);
		const to = pending[Math.max(0, Math.min(pending.length - 1, at + by))];
		if (to)
			setQuery({ id: to.actionId });
	};
	const done = (id) => {
		const at = pending.findIndex((a) => a.actionId === id);
		setGone((old) => new Set([...old, id]));
		setQuery({ id: pending[at + 1]?.actionId ?? pending[at - 1]?.actionId });
	};
	const cli = current ? ["approve", current.actionId] : ["pending"];
	return html`<${Page} title="Approvals" count=${pending.length} cli=${cli} actions=${html`<${NotifyButton} />`}>
		<${ErrorBox} error=${error} retry=${reload} /><div class="split" onKeyDown=${(e) => {
			if (e.target.closest("input, textarea, select"))
				return;
			const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
			if (by) {
				step(by);
				e.preventDefault();
			}
		}}><div class="side">${pending.length > 0 && html`<h2 class="side-title">Waiting</h2>`}<ul class="queue" aria-label="Waiting for an answer">${pending.map((a) => html`<li><button aria-current=${a === current ? "true" : undefined} onClick=${() => setQuery({ id: a.actionId })}>
			<span class="row"><span class=${a.policy?.destructive ? "bad" : "wait"}>${a.policy?.destructive ? "▲ destructive" : `◆ ${plain(a.actionType)}`}</span><${Time} at=${a.createdAt} /></span><${Command} text=${short(a)} /></button></li>`)}</ul><${Answered} /></div>
		<div class="main">${current ? html`<${Question} key=${current.actionId} action=${current} onDone=${done} />` : html`<${Empty}>${wanted && pending.length ? html`That question has been answered. <a href="#/approvals">Show what waits</a>` : "Nothing waits for an answer."}<//>`}</div></div><//>`;
}
