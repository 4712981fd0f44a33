// A thread: its turns as a conversation, what they cost, the timeline, and the ways to intervene.

import { call, can, useCall, useEvents, useLoad } from "./api.js";
import { Json, Output, useAction } from "./lists.js";
import { Card, Command, Confirm, Diff, Duration, Empty, ErrorBox, Facts, Id, Link, Loading, Meter, Page, Status, Text,
	Time, formatDuration, formatNumber, formatUsd, html, notify, plain, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./parts.js";
import { Timeline } from "./timeline.js";
import { TYPES, diffOf, fold } from "./turn_fold.js";

const TURNS = 20;
const PREVIEW_CHARS = 1500;  // a shorter preview is all there is
const EVENTS_MAX = 20000;   // of one turn; beyond that the log has to be read in the view of events
const ACTIVE = ["running", "accepted", "queued", "waiting_permission", "waiting_input", "ending", "stalled", "blocked"];

// ---- the events of a turn, read and live ----

async function readEvents(turnId) {
	const found = [];
	for (;;) {
		const page = await call("list_events", { turnId, types: TYPES,
			limit: 1000, ...(found.length ? { afterSequence: found[found.length - 1].sequence } : {}) });
		found.push(...page.events);
		if (!page.hasMore || !page.events.length || found.length >= EVENTS_MAX)
			return { events: found, cut: page.hasMore };
	}
}

const wanted = (type) => TYPES.some((t) => (t.endsWith("*") ? type.startsWith(t.slice(0, -1)) : t === type));

function useTurnEvents(turnId) {
	const live = useRef([]);
	const timer = useRef(0);
	const [version, bump] = useState(0);
	useEvents((e) => e.turnId === turnId && wanted(e.type), (e) => {
		live.current.push(e);
		timer.current ||= setTimeout(() => {
			timer.current = 0;
			bump((n) => n + 1);
		}, 60);
	});
	useEffect(() => () => clearTimeout(timer.current), []);
	const { data, error, reload } = useLoad(`events ${turnId}`, () => readEvents(turnId));
	const state = useMemo(() => {
		if (!data)
			return null;
		const last = data.events.length ? data.events[data.events.length - 1].sequence : 0;
		live.current = live.current.filter((e) => e.sequence > last);
		return { ...fold([...data.events, ...live.current]), cut: data.cut };
	}, [data, version]);
	return { state, error, reload };
}

// ---- items ----

// Text of a model: paragraphs and code blocks are kept as they are; only http(s) addresses become links, with the address as their text.
const ADDRESS = /(https?:\/\/[^\s<>"'`)\]]+)/g;
function Prose({ text }) {
	return html`<div class="prose">${String(text).split(/^```.*$/m).map((part, i) => (i % 2
		? html`<pre class="code" tabindex="0"><${Text} text=${part.replace(/^\n|\n$/g, "")} lines /></pre>`
		: part.trim() && html`<p>${part.trim().split(ADDRESS).map((piece, j) => (j % 2
			? html`<${Link} href=${piece} />` : html`<${Text} text=${piece} lines />`))}</p>`))}</div>`;
}

function UserItem({ item }) {
	const [full, setFull] = useState(null);
	const [run, busy] = useAction();
	const load = () => run(async () => {
		const part = await call("read_output", { outputRef: item.ref, length: 1048576 });
		try {
			const parts = JSON.parse(part.data);
			setFull(Array.isArray(parts) ? parts.map((p) => p.text ?? (p.type === "image" ? "[image]" : p.commandLine ?? JSON.stringify(p))).join("\n") : part.data);
		} catch {
			setFull(part.data);
		}
	});
	const more = full === null && item.ref && item.bytes > new TextEncoder().encode(item.text).length + 60;
	return html`<article class="item user"><header><b>${item.steered ? "Steered" : "Prompt"}</b>
		<${Time} at=${item.at} /></header><${Prose} text=${full ?? item.text} />${more
		&& html`<button class="quiet small" disabled=${busy} onClick=${load}>Show all of it</button>`}</article>`;
}

function RequestItem({ item }) {
	const usage = item.usage ?? {};
	return html`<article class=${`item request ${item.status}`}><header><b>${plain(item.model)}</b>${item.attempt > 1
		&& html`<span class="wait">attempt ${item.attempt}</span>`}${item.purpose && item.purpose !== "turn"
		&& html`<span class="faint">${plain(item.purpose)}</span>`}
			${item.status !== "completed" && html`<${Status} status=${item.status} />`}<span class="grow"></span>
			<span class="faint num">
				${item.usage && `${formatNumber(usage.inputTokens)} → ${formatNumber(usage.outputTokens)} tokens`}${usage.cachedTokens ? `, ${Math.round((100 * usage.cachedTokens) / Math.max(1, usage.inputTokens))} % cached` : ""}${item.cost ? `, ${formatUsd(item.cost)}` : ""}${item.firstMs ? `, first after ${formatDuration(item.firstMs)}` : ""}</span>
			<${Duration} since=${item.at} until=${item.end} /></header>
		${item.reasoning && html`<details class="reasoning"><summary>Reasoning <span class="faint">
			${formatNumber(item.reasoning.length)} characters</span></summary>
			<${Prose} text=${item.reasoning} /></details>`}
		${item.status === "failed" ? html`<p class="bad"><${Text} text=${item.error ?? "failed"} />
			${item.text && " (what had arrived was discarded)"}</p>` : item.text
			&& html`<${Prose} text=${item.text} />`}</article>`;
}

// What a call does, in one line.
function argsLine(name, args) {
	if (!args)
		return "";
	if (args.command)
		return html`<${Command} text=${Array.isArray(args.command) ? args.command.join(" ") : args.command} lines />`;
	const main = args.path ?? args.pattern ?? args.query ?? args.prompt ?? args.question;
	return main !== undefined ? html`<code><${Text} text=${String(main)} /></code>` : name === "apply_patch" ? ""
		: html`<code class="faint"><${Text} text=${JSON.stringify(args).slice(0, 200)} /></code>`;
}

// A file tool's result is JSON; what it read is shown as text.
function resultText(item) {
	if (item.name === "shell" || !item.preview)
		return item.preview;
	try {
		const value = JSON.parse(item.preview);
		return value.content ?? value.text ?? JSON.stringify(value, null, 2);
	} catch {
		return item.preview;
	}
}

function Denials({ list }) {
	return list?.length > 0 && html`<ul class="plain">
		${list.slice(0, 10).map((d) => html`<li class="wait">denied: ${plain(d.operation ?? d.kind)} <code>
		<${Text} text=${d.path ?? d.host ?? ""} /></code> <span class="faint">
		<${Text} text=${d.reason ?? ""} /></span></li>`)}</ul>`;
}

function ToolItem({ item, open }) {
	const [args, setArgs] = useState(null);
	const [run, busy] = useAction();
	const known = item.args ?? args;
	const diff = diffOf(item.name, known);
	const isEdit = ["edit_file", "write_file", "apply_patch"].includes(item.name);
	const shows = isEdit ? diff : item.preview || item.ref;
	return html`<article class=${`item tool ${item.status}`}>
		<details open=${open || item.status === "failed" || item.status === "running" || (isEdit && Boolean(diff))}>
		<summary><b>${plain(item.name)}</b> ${argsLine(item.name, known)}<span class="grow"></span>
			<${Status} status=${item.status} label=${item.exitCode ? `exit ${item.exitCode}` : undefined} />
				<${Duration} since=${item.at} until=${item.end} /></summary>
		${item.files.length > 0 && html`<p class="files-line">${item.files.map((f) => html`<span>
			<b class=${f.change === "created" ? "good" : f.change === "deleted" ? "bad" : "live"}>
			${plain(f.change)}</b> <code><${Text} text=${f.path} /></code></span> `)}</p>`}
		${diff && html`<${Diff} text=${diff} limit=${200} label=${`Change by ${item.name} ${item.id.slice(-6)}`} />`}
		${!known && item.argsRef && html`<button class="quiet small" disabled=${busy}
			onClick=${() => run(async () => setArgs(JSON.parse((await call("read_output", { outputRef: item.argsRef,
			length: 1048576 })).data)))}>Show the arguments</button>`}
		${!isEdit && shows && html`<${Output} outputRef=${item.ref}
			preview=${item.name === "shell" ? item.preview : resultText(item)}
			label=${`Output of ${plain(item.name)} ${item.id.slice(-6)}`}
			bytes=${(item.preview ?? "").length < PREVIEW_CHARS && item.status !== "running" ? 0 : undefined} />`}
		${item.errorRef && item.errorRef !== item.ref && html`<${Output} outputRef=${item.errorRef}
			label=${`Error output of ${plain(item.name)} ${item.id.slice(-6)}`} button="Show the error output"
			auto=${item.status === "failed"} />`}
		${item.error && html`<p class="bad"><${Text} text=${item.error} />${item.advice && html` <span class="faint">
			<${Text} text=${item.advice} /></span>`}</p>`}<${Denials} list=${item.denials} />
		${known && !diff && item.name !== "shell" && html`<details><summary class="faint">Arguments</summary>
			<${Json} value=${known} label=${`Arguments of ${item.id.slice(-6)}`} /></details>`}</details>
			${(item.processId ?? item.threadId) && html`<span class="corner">
			<${Id} id=${item.threadId ?? item.processId} /></span>`}</article>`;
}

function CommandItem({ item }) {
	return html`<article class=${`item tool ${item.status}`}><details open=${item.status !== "completed"}><summary>
		<b>command</b> <${Command} argv=${item.argv} text=${item.line} lines /><span class="grow"></span>
		<${Status} status=${item.status} label=${item.exitCode ? `exit ${item.exitCode}` : undefined} />
		<${Duration} since=${item.at} until=${item.end} /></summary>
		${item.error && html`<p class="bad">
			<${Text} text=${item.error} /></p>`}${item.outputs.filter((o) => o.bytes).map((o) => html`<${Output}
			key=${o.outputRef} outputRef=${o.outputRef} preview=${o.preview}
			label=${`${plain(o.stream)} of ${item.id.slice(-6)}`} />`)}<${Denials} list=${item.denials} /></details>
			<span class="corner"><${Id} id=${item.id} /></span></article>`;
}

// A question, answered in place. The daemon accepts one answer: a second one from another window is reported.
function ActionItem({ item }) {
	const [note, setNote] = useState("");
	const [error, setError] = useState(null);
	const [busy, setBusy] = useState(false);
	const { data: process } = useCall("get_process", { processId: item.processId },
		{ skip: !item.processId || item.status !== "pending" });
	const pending = item.status === "pending";
	const always = item.continuation?.always ?? {};
	const isPermission = item.actionType === "permission";
	const answer = async (decision, scope) => {
		setBusy(true);
		setError(null);
		try {
			const reply = await call("respond_action", { actionId: item.id, decision, ...(scope ? { scope } : {}), ...(note ? { note } : {}) });
			notify(reply.file ? `Saved in ${reply.file}:${reply.line}` : `Answered: ${decision}`);
		} catch (e) {
			setError(e.code === "conflict" || e.code === "invalid_state" ? { message: "It was answered meanwhile, in another window or by another person" } : e);
		}
		setBusy(false);
	};
	if (!pending)
		return html`<article class="item note">
			<${Status} status=${item.decision === "allow" ? "allowed" : item.decision === "deny" ? "denied" : "resolved"}
			label=${`${plain(item.actionType)}: ${plain(item.decision ?? "")}`} /> <${Command}
			text=${item.prompt ?? ""} />
			${item.note && html`<span>“<${Text} text=${item.note} />”</span>`} <span class="faint">
				${plain(item.source ?? "")}</span> <${Time} at=${item.end} /></article>`;
	const off = busy || !can("operator");
	const policy = item.policy ?? {};
	return html`<section class="item ask"
		aria-label=${`Waiting for an answer: ${plain(item.prompt ?? item.actionType).slice(0, 80)}`}><header>
		<${Status} status="waiting_permission" label=${isPermission ? "Run this command?" : plain(item.actionType)} />
		${policy.destructive && html`<span class="badge bad">destructive</span>`}<span class="grow"></span>
		<a href=${`#/approvals/${encodeURIComponent(item.id)}`}>details</a></header>
		<div class="what">${process?.command && !process.commandTruncated
			? html`<${Command} argv=${process.commandLine ? undefined : process.command}
			text=${process.commandLine} lines />` : html`<${Command} text=${item.prompt ?? ""} lines />`}</div>
		<${Facts} rows=${[["In", process?.cwd && html`<code><${Text} text=${process.cwd} /></code>`],
			["Why it asks", policy.decisionReason && html`<${Text} text=${policy.decisionReason} />`],
			["Effect", policy.impact && html`<span class="bad"><${Text} text=${policy.impact} /></span>`]]} />
		${item.schema ? html`<p>
			<a href=${`#/approvals/${encodeURIComponent(item.id)}`}>This question needs a form: answer it there.</a></p>`
			: html`<div class="toolbar">${isPermission ? html`<button class="primary" disabled=${off}
			onClick=${() => answer("allow", "once")}>Allow once</button>
			<button disabled=${off} onClick=${() => answer("allow", "session")}>For this session</button>
			<button disabled=${off || !always.allow?.length}
				title=${always.allow?.length ? `Adds to your policy.json: ${plain(always.allow.join(", "))}` : plain(always.why ?? "")}
				onClick=${() => answer("allow", "always")}>Always</button><button class="danger" disabled=${off}
				onClick=${() => answer("deny", "once")}>Deny</button>`
			: (item.decisions ?? ["allow", "deny"]).map((d) => html`<button disabled=${off} onClick=${() => answer(d)}>
				${plain(d)}</button>`)}
			<label class="grow"><span class="hidden-label">Reason, for the record</span><input class="grow" type="text"
				placeholder="reason, for the record" maxlength="1000" value=${note}
				onInput=${(e) => setNote(e.target.value)} /></label></div>`}
		<${ErrorBox} error=${error} />${!can("operator")
			&& html`<p class="wait">Your role may watch, not answer.</p>`}</section>`;
}

const PLAN = { completed: "good", in_progress: "live", pending: "off" };
const ITEMS = {
	user: UserItem, request: RequestItem, tool: ToolItem, command: CommandItem, action: ActionItem,
	plan: ({ item }) => html`<article class="item note"><b>Plan</b>${item.explanation
		&& html` <${Text} text=${item.explanation} />`}<ul class="plain">
		${(item.steps ?? []).map((s) => html`<li class=${PLAN[s.status] ?? ""}>
		${{ completed: "✓", in_progress: "▶" }[s.status] ?? "·"} <${Text}
		text=${s.step ?? s.title ?? String(s)} /></li>`)}</ul></article>`,
	changes: ({ item }) => html`<article class="item note">
		<a href=${`#/changes/${encodeURIComponent(item.processId)}`}>Review the changes</a> <span class="faint">
		${plain(Object.entries(item.counts ?? {}).filter(([, n]) => n).map(([k, n]) => `${n} ${k}`).join(", "))}</span></article>`,
	note: ({ item }) => html`<article class=${`item note ${item.tone ?? ""}`}><${Text} text=${item.text} /> ${item.href
		&& html`<${Id} id=${item.href} />`} <${Time} at=${item.at} /></article>`,
};

// ---- a turn ----

const STEPS_SHOWN = 200;

function TurnBody({ turn, onState }) {
	const { state, error, reload } = useTurnEvents(turn.turnId);
	const [all, setAll] = useState(false);
	useEffect(() => state && onState?.(state), [state]);
	// A reader at the end of the page stays there while the turn continues.
	const atEnd = useRef(false);
	useEffect(() => {
		const page = document.getElementById("main");
		const note = () => (atEnd.current = page.scrollTop > 0 && page.scrollHeight - page.scrollTop - page.clientHeight < 60);
		page.addEventListener("scroll", note, { passive: true });
		return () => page.removeEventListener("scroll", note);
	}, []);
	useLayoutEffect(() => {
		const page = document.getElementById("main");
		if (atEnd.current && ACTIVE.includes(turn.status))
			page.scrollTop = page.scrollHeight;
	}, [state]);
	if (error)
		return html`<${ErrorBox} error=${error} retry=${reload} />`;
	if (!state)
		return html`<${Loading} />`;
	// In a very long turn the beginning is left out until it is asked for.
	const hidden = all ? 0 : Math.max(0, state.items.length - STEPS_SHOWN);
	return html`<div class="items" role="log" aria-label="Conversation"
		aria-live=${ACTIVE.includes(turn.status) ? "polite" : "off"}>${hidden > 0
		&& html`<button onClick=${() => setAll(true)}>Show ${formatNumber(hidden)} earlier steps</button>`}
		${state.items.slice(hidden).map((item) => ITEMS[item.kind] && html`<${ITEMS[item.kind]} key=${item.id}
			item=${item} />`)}
		${state.cut && html`<p class="faint">Only the first ${formatNumber(EVENTS_MAX)} events are shown. <a href=${`#/events?turn=${encodeURIComponent(turn.turnId)}`}>All events</a></p>`}
		${state.end && html`<p class=${`turn-end ${state.end.status === "completed" ? "" : "bad"}`}>
			<${Status} status=${state.end.status}
			label=${plain(state.end.outcome ?? state.end.status)} /> ${state.end.message
			&& html`<${Text} text=${state.end.message} />`}
			<span class="faint num">
				${state.requests > 0 && `${formatNumber(state.requests)} requests, `}${state.priced ? formatUsd(state.cost) : state.requests > 0 ? "price unknown" : ""}</span> <${Time}
				at=${state.end.at} /> <a class="num faint"
				href=${`#/events?seq=${state.end.sequence}&turn=${encodeURIComponent(turn.turnId)}`}>#${state.end.sequence}</a></p>`}</div>`;
}

function Turn({ turn, open, onToggle, onState, number }) {
	const active = ACTIVE.includes(turn.status);
	return html`<section class="turn" id=${turn.turnId} aria-label=${`Turn ${number}`}><header class="turn-head">
		<button class="quiet" aria-expanded=${String(open)} onClick=${onToggle}><span aria-hidden="true">
		${open ? "▾" : "▸"}</span> Turn ${number}</button><${Status} status=${turn.status} />
			${!open && html`<span class="turn-preview">
				<${Text} text=${turn.preview ?? (turn.processes?.length ? "commands" : "")} /></span>`}<span class="grow"></span>
			${turn.costState?.requests > 0 && html`<span class="faint num">
				${formatNumber(turn.costState.inputTokens + turn.costState.outputTokens)} tokens${turn.costState.amount ? `, ${formatUsd(turn.costState.amount)}` : ""}</span>`}<${Duration}
				since=${turn.startedAt ?? turn.submittedAt}
				until=${active ? undefined : turn.completedAt ?? turn.submittedAt} />
				<${Id} id=${turn.turnId} /></header>
		${open && html`<${TurnBody} turn=${turn} onState=${onState} />`}</section>`;
}

const ms = (at) => (at ? Date.parse(at) : undefined);

// All that the read model has of the shown turns, as spans.
function spansOf(turns) {
	const spans = [];
	for (const turn of turns) {
		const start = ms(turn.startedAt ?? turn.submittedAt);
		spans.push({ id: turn.turnId, row: "turn", label: turn.preview ?? "turn", status: turn.status, start,
			end: ACTIVE.includes(turn.status) ? undefined : ms(turn.completedAt) ?? start,
			href: `#/turns/${turn.turnId}` });
		for (const s of turn.steps ?? []) {
			if (!s.startedAt || !["model", "tool", "command"].includes(s.kind))
				continue;
			const row = s.kind === "model" ? "request" : s.toolCallId ? "tool" : null;
			if (row)
				spans.push({ id: s.stepId, row, label: s.title ?? s.kind, status: s.status, start: ms(s.startedAt),
					end: s.status === "running" ? undefined : ms(s.endedAt) ?? ms(s.startedAt),
					href: s.processId && `#/processes/${s.processId}` });
		}
		for (const p of turn.processes ?? [])
			if (p.startedAt)
				spans.push({ id: p.processId, row: "process",
					label: p.exitCode ? `exit ${p.exitCode}` : `…${p.processId.slice(-6)}`, status: p.exitCode ? "failed" : p.status,
					start: ms(p.startedAt), end: p.status === "running" ? undefined : ms(p.endedAt) ?? ms(p.startedAt),
					href: `#/processes/${p.processId}` });
	}
	return spans;
}

// ---- the thread ----

// A prompt for the next turn, or text for the one that runs.
function Composer({ thread, active, reload }) {
	const [text, setText] = useState("");
	const [run, busy] = useAction();
	const steers = active?.driver === "loop";
	if (!can("agent"))
		return null;
	const send = () => text.trim() && run(async () => {
		if (steers)
			await call("steer_turn", { turnId: active.turnId, input: text });
		else
			await call("submit_turn", { threadId: thread.threadId, driver: "loop",
				input: [{ type: "text", text }], ...(thread.executionEnvironment?.cwd ? { options: { cwd: thread.executionEnvironment.cwd } } : {}) });
		setText("");
		reload();
		return true;
	}, steers ? "Sent with the next request" : "Submitted");
	return html`<form class="composer" onSubmit=${(e) => {
		e.preventDefault();
		send();
	}}><label><span class="hidden-label">${steers ? "Text for the running turn" : "Prompt for the next turn"}</span>
		<textarea rows="2" value=${text}
		placeholder=${steers ? "Steer the running turn: sent with its next request" : "Continue the conversation: a new turn, driven by the default model"}
		onInput=${(e) => setText(e.target.value)}
		onKeyDown=${(e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && send()}></textarea></label>
		<button class="primary" disabled=${busy || !text.trim()}>
			${steers ? "Steer" : "Submit"} <kbd>Ctrl ↵</kbd></button></form>`;
}

function ContextMeter({ thread, tokens }) {
	const cost = thread.costState;
	const model = thread.modelRouting?.routingDecision?.selectedModel;
	const { data: models } = useCall("list_models", {}, { skip: !can("operator") || !model });
	const name = models?.models.find((m) => m.model === model)?.name;
	const { data: known } = useCall("get_model", { name }, { skip: !name });
	if (!cost)
		return null;
	const size = known?.contextTokens ?? known?.price?.contextTokens ?? known?.context?.tokens;
	return html`<span class="context"><span class="faint">Cost</span> <b class="num">
		${cost.amount ? formatUsd(cost.amount) : "no known price"}</b> <span class="faint num">
		${formatNumber(cost.requests)} requests, ${formatNumber(cost.inputTokens)} tokens in${cost.cachedTokens ? ` (${Math.round((100 * cost.cachedTokens) / Math.max(1, cost.inputTokens))} % cached)` : ""}, ${formatNumber(cost.outputTokens)} out</span>
		${tokens > 0 && html` <span class="faint">Context</span> ${size ? html`<${Meter} value=${tokens} max=${size}
			label="Context used" text=${`${formatNumber(tokens)} of ${formatNumber(size)}`} />` : html`<b class="num">
			${formatNumber(tokens)}</b> <span class="faint">tokens${model ? `, ${plain(model)}` : ""}</span>`}`}</span>`;
}

function Thread({ threadId, turnId, query, setQuery }) {
	const count = Math.min(1000, Number(query.turns) || TURNS);
	const { data: thread, error, reload } = useCall("get_thread_read", { threadId, window: { limit: count } }, {
		refreshOn: (e) => e.threadId === threadId && /^(turn|action|queue|thread|tool\.(started|result|failed)|model\.(requested|completed|failed)|process\.(started|completed|failed|terminated))/.test(e.type),
		keep: true,
	});
	const [tokens, setTokens] = useState(0);
	const turns = useMemo(() => [...(thread?.turns ?? [])].sort((a, b) => (a.submittedAt < b.submittedAt ? -1 : 1)).filter((t) => t.source !== "system"), [thread]);
	const spans = useMemo(() => spansOf(turns), [turns]);
	const range = useMemo(() => {
		const parts = (query.range ?? "").split("~").map(Number);
		return parts.length === 2 && parts.every(Number.isFinite) && parts[1] > parts[0] ? parts : null;
	}, [query.range]);
	const scrolled = useRef(false);
	const shown = useRef(new Set());
	useEffect(() => {
		if (turnId && turns.length && !scrolled.current) {
			scrolled.current = true;
			document.getElementById(turnId)?.scrollIntoView();
		}
	}, [turns]);
	// The same elements while only the timeline moves: a long conversation is not compared again. Open are: the turn in the address, the
	// newest one, those that were newest or active during this visit, and what the address says (open=…, closed=…).
	const list = useMemo(() => {
		const opened = new Set((query.open ?? "").split(",").filter(Boolean));
		const closed = new Set((query.closed ?? "").split(",").filter(Boolean));
		for (const id of [turnId, turns[turns.length - 1]?.turnId, thread?.activeTurnId])
			shown.current.add(id);
		const isOpen = (t) => opened.has(t.turnId) || (!closed.has(t.turnId) && shown.current.has(t.turnId));
		const toggle = (t) => {
			const was = isOpen(t);
			opened.delete(t.turnId);
			closed.delete(t.turnId);
			(was ? closed : opened).add(t.turnId);
			setQuery({ open: [...opened].join(",") || undefined, closed: [...closed].join(",") || undefined });
		};
		return turns.map((t, i) => html`<${Turn} key=${t.turnId} turn=${t}
			number=${(thread.historyCursor ? "…" : "") + (i + 1)} open=${isOpen(t)} onToggle=${() => toggle(t)}
			onState=${t === turns[turns.length - 1] ? (s) => s.tokens && setTokens(s.tokens) : undefined} />`);
	}, [turns, query.open, query.closed]);
	if (!thread)
		return html`<${Page} title="Thread" cli=${["thread", "show", threadId]}>${error
			? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
	const active = turns.find((t) => t.turnId === thread.activeTurnId);
	const queued = thread.queuedTurns ?? [];
	const paused = thread.status === "paused" || thread.phase === "paused" || thread.reason === "restart";
	return html`<${Page} title=${html`Thread <${Status}
		status=${thread.phase && active ? (active.status ?? thread.phase) : thread.status} />`}
		cli=${["thread", "show", threadId]}
		actions=${can("agent") && html`${active && html`<${Confirm} label="Interrupt"
			question="Interrupt the running turn?" confirm="Interrupt"
			detail=${html`<p>Its request is aborted and everything that it runs is ended.</p>
			<p class="faint mono">bailiff turn interrupt ${plain(active.turnId)}</p>`} onConfirm=${async () => {
			await call("interrupt_turn", { turnId: active.turnId, reason: "console" });
			reload();
		}} />`}${(paused || (queued.length > 0 && !active)) && html`<button class="primary"
			onClick=${() => call("resume_thread", { threadId }).then(() => (notify("The queue continues"), reload()), (e) => notify(e.message, "bad"))}>Resume the queue</button>`}`}>
		<${ErrorBox} error=${error} retry=${reload} />
		<p class="line"><span class="faint">Session</span> <${Id}
			id=${thread.sessionId} /> ${thread.executionEnvironment?.cwd && html`<span class="faint">in</span> <code>
			<${Text} text=${thread.executionEnvironment.cwd} /></code>`} <${ContextMeter} thread=${thread}
			tokens=${tokens} /></p>
		${thread.subagents?.length > 0 && html`<p class="line">
			<span class="faint">Subagents</span> ${thread.subagents.map((a) => html`<span class="subagent">
			<${Id} id=${a.threadId ?? a.subagentId} /> <${Text} text=${a.nickname ?? a.role ?? ""} /> <${Status}
			status=${a.status} /></span> `)}</p>`}
		${spans.length > 0 && html`<${Timeline} spans=${spans} range=${range}
			onRange=${(r) => setQuery({ range: r ? `${r[0].toFixed(2)}~${r[1].toFixed(2)}` : undefined })}
			selected=${query.span} onSelect=${(span) => setQuery({ span })} />`}
		${thread.historyCursor && html`<div class="toolbar">
			<button onClick=${() => setQuery({ turns: String(count * 2) })}>Older turns</button></div>`}
		<div class="turns">${list}</div>
		${turns.length === 0 && html`<${Empty}>No turn yet.<//>`}
		${queued.length > 0 && html`<${Card} title="Queued turns"><ul class="plain rows">${queued.map((q) => html`<li>
			<${Id} id=${q.turnId ?? q.queuedTurnId} /> <${Text} text=${q.preview ?? ""} /><span class="grow"></span>
			${can("agent") && html`<button class="small"
			onClick=${() => call("promote_queued_turn", { turnId: q.turnId ?? q.queuedTurnId }).then(reload, (e) => notify(e.message, "bad"))}>First</button>
			<button class="small" onClick=${() => call("remove_queued_turn", { turnId: q.turnId ?? q.queuedTurnId,
				reason: "console" }).then(reload, (e) => notify(e.message, "bad"))}>Remove</button>`}</li>`)}</ul><//>`}
		${thread.origin !== "job" && html`<${Composer} thread=${thread} active=${active} reload=${reload} />`}<//>`;
}

// #/threads/ID, or #/turns/ID: the thread of that turn, with it open.
export default function View({ name, path, query, setQuery }) {
	const byTurn = name === "turns";
	const { data, error } = useCall("list_events", { turnId: path[0], limit: 1 }, { skip: !byTurn });
	if (!path[0])
		return html`<${Page} title="Thread">
			<${Empty}>No thread is named in the address. <a href="#/sessions">Sessions</a><//><//>`;
	if (!byTurn)
		return html`<${Thread} threadId=${path[0]} query=${query} setQuery=${setQuery} />`;
	const threadId = data?.events[0]?.threadId;
	if (threadId)
		return html`<${Thread} threadId=${threadId} turnId=${path[0]} query=${query} setQuery=${setQuery} />`;
	return html`<${Page} title="Turn">
		<${ErrorBox} error=${error ?? (data && { message: `There is no turn ${path[0]}`, hint: "It belongs to another user, or was removed with old events." })} />
		${!data && !error && html`<${Loading} />`}<//>`;
}
