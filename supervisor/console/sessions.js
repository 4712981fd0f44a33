// Sessions, and one session with its threads, tasks and subagents.

import { call, can, useCall } from "./api.js";
import { Choice, Field, useAction, usePages } from "./lists.js";
import { Card, Confirm, Empty, ErrorBox, Facts, Id, Loading, Page, Status, Table, Text, Time, formatNumber, formatUsd,
	html, plain, useMemo } from "./parts.js";

export const MODES = ["default", "untrusted", "on_request", "on_failure", "never", "plan", "bypass", "auto"];

// A session without a title is shown by what it did last.
function Latest({ session }) {
	const { data } = useCall("get_session", { sessionId: session.sessionId, window: { limit: 1 } },
		{ refreshOn: (e) => e.type === "turn.submitted" && e.sessionId === session.sessionId });
	const turns = (data?.threads ?? []).flatMap((t) => t.turns ?? []).filter((t) => t.source !== "system" && t.preview);
	const last = turns.reduce((a, b) => (a && a.submittedAt > b.submittedAt ? a : b), null);
	return html`<span class="faint"><${Text} text=${last?.preview ?? ""} /></span>`;
}

const COLUMNS = [
	{ key: "id", label: "Session", width: "105px", render: (s) => html`<${Id} id=${s.sessionId} />` },
	{ key: "title", label: "Title or latest turn", width: "minmax(160px, 2fr)", render: (s) => (s.title
		? html`<${Text} text=${s.title} />` : html`<${Latest} key=${s.sessionId} session=${s} />`) },
	{ key: "kind", label: "Kind", width: "80px", from: 700, render: (s) => html`<span class="faint">
		${plain(s.kind)}${s.archived ? ", archived" : ""}</span>` },
	{ key: "turns", label: "Turns", width: "60px", align: "right", render: (s) => html`<span class="num">
		${formatNumber(s.turns)}</span>` },
	{ key: "user", label: "User", width: "70px", from: 700, render: (s) => html`<span class="num">
		${plain(s.user ?? s.uid)}</span>` },
	{ key: "created", label: "Created", width: "90px", from: 900, render: (s) => html`<${Time} at=${s.createdAt} />` },
	{ key: "updated", label: "Updated", width: "90px", from: 560, render: (s) => html`<${Time} at=${s.updatedAt} />` },
];

const changesSessions = (e) => e.type.startsWith("session.") || e.type === "turn.submitted" || e.type === "turn.completed" || e.type === "turn.failed";

function List({ query, setQuery }) {
	const { rows, error, loading, more, onView, hasMore, reload } = usePages("list_sessions", {}, "sessions", (s) => s.sessionId, { refreshOn: changesSessions });
	const text = (query.filter ?? "").toLowerCase();
	const shown = useMemo(() => rows.filter((s) => (query.archived || !s.archived) && (!text || `${s.title ?? ""} ${s.sessionId} ${s.kind}`.toLowerCase().includes(text))), [rows, text, query.archived]);
	return html`<${Page} title="Sessions" count=${`${formatNumber(shown.length)}${hasMore ? "+" : ""}`}
		cli=${["session", "list"]} fill>
		<div class="toolbar"><label>Filter<input type="search" value=${query.filter ?? ""}
			onInput=${(e) => setQuery({ filter: e.target.value })} placeholder="title or id" /></label>
			<label><input type="checkbox" checked=${Boolean(query.archived)}
				onChange=${(e) => setQuery({ archived: e.target.checked ? "1" : undefined })} />Archived</label></div>
		<${ErrorBox} error=${error} retry=${reload} />
		${loading ? html`<${Loading} />` : html`<${Table} label="Sessions" columns=${COLUMNS} rows=${shown}
			rowKey=${(s) => s.sessionId} onEnd=${more} onView=${onView}
			onOpen=${(s) => (location.hash = `#/sessions/${s.sessionId}`)}
				empty="No session. A command, a task or an agent creates one." />`}<//>`;
}

const THREAD_COLUMNS = [
	{ key: "id", label: "Thread", width: "110px", render: (t) => html`<${Id} id=${t.threadId} />` },
	{ key: "status", label: "Status", width: "150px", render: (t) => html`<${Status}
		status=${t.phase === "waiting_permission" ? t.phase : t.status} />` },
	{ key: "last", label: "Latest turn", width: "minmax(140px, 2fr)", render: (t) => {
		const turns = (t.turns ?? []).filter((turn) => turn.source !== "system");
		return html`<${Text} text=${turns[turns.length - 1]?.preview ?? ""} />`;
	} },
	{ key: "turns", label: "Turns", width: "60px", from: 560, align: "right", render: (t) => html`<span class="num">
		${formatNumber((t.turns ?? []).filter((turn) => turn.source !== "system").length)}</span>` },
	{ key: "asks", label: "Asks", width: "60px", from: 560, align: "right",
		render: (t) => html`<span class=${`num ${t.pendingRequests?.length ? "wait" : "faint"}`}>
		${t.pendingRequests?.length ?? 0}</span>` },
	{ key: "queued", label: "Queued", width: "65px", from: 800, align: "right", render: (t) => html`<span class="num">
		${t.queuedTurns?.length ?? 0}</span>` },
	{ key: "cost", label: "Cost", width: "80px", from: 700, align: "right", render: (t) => html`<span class="num">
		${t.costState ? formatUsd(t.costState.amount) : "–"}</span>` },
	{ key: "created", label: "Created", width: "90px", from: 700, render: (t) => html`<${Time} at=${t.createdAt} />` },
];

function One({ id, query, setQuery }) {
	const { data: s, error, reload } = useCall("get_session", { sessionId: id,
		window: { limit: 50, ...(query.before ? { before: query.before } : {}) } }, {
		refreshOn: (e) => e.sessionId === id && /^(turn|session|thread|task|action|subagent|queue|job)\./.test(e.type),
	});
	const { data: policy, reload: reloadPolicy } = useCall("get_policy", { sessionId: id },
		{ refreshOn: (e) => e.type === "policy.changed" && (!e.sessionId || e.sessionId === id) });
	const [run, busy] = useAction();
	if (error && !s)
		return html`<${Page} title="Session" cli=${["session", "show", id]}>
			<${ErrorBox} error=${error} retry=${reload} /><//>`;
	if (!s)
		return html`<${Page} title="Session" cli=${["session", "show", id]}><${Loading} /><//>`;
	const cost = s.routingLimitSummary?.costState;
	const update = (params, done) => run(async () => {
		await call("update_session", { sessionId: id, ...params });
		reload();
	}, done);
	return html`<${Page} title=${html`<${Text} text=${s.title || "Session"} />`} cli=${["session", "show", id]} fill
		actions=${html`${can("agent") && html`<button disabled=${busy}
			onClick=${() => update({ archived: !s.archived }, s.archived ? "Restored from the archive" : "Archived")}>
			${s.archived ? "Unarchive" : "Archive"}</button>`}
			${can("agent") && (s.activeThreadIds ?? []).length > 0 && html`<${Confirm} label="Interrupt"
				question="Interrupt the active turns of this session?" onConfirm=${async () => {
				for (const threadId of s.activeThreadIds)
					await call("interrupt_turn", { threadId, reason: "console" });
				reload();
			}} />`}`}>
		<${ErrorBox} error=${error} retry=${reload} />
		<div class="cards pad"><${Card} title="Session"><${Facts} rows=${[
			["Id", html`<${Id} id=${id} full />`], ["Kind", plain(s.kind)],
				["Created", html`<${Time} at=${s.createdAt} abs />`],
			["By", s.createdBy && plain(`uid ${s.createdBy.uid}, pid ${s.createdBy.pid}, ${s.createdBy.role}`)],
			["Mode", policy && html`<${Choice} label=${html`<span class="hidden-label">Permission mode</span>`}
				value=${policy.mode} options=${MODES} disabled=${!can("operator") || busy}
				onChange=${(mode) => run(async () => {
					await call("set_permission_mode", { sessionId: id, mode });
					reloadPolicy();
				}, `Mode: ${mode}`)} /> <span class="faint">${plain(policy.modeMeans)}</span>`],
			["Rules", s.permissions && html`<a href=${`#/policy?session=${encodeURIComponent(id)}`}>
				${["deny", "ask", "allow"].map((k) => s.permissions[k]?.length && `${s.permissions[k].length} ${k}`).filter(Boolean).join(", ") || "own rules"}</a>`],
		]} />${can("agent") && html`<div class="toolbar top-gap"><${Field} label="Title" value=${s.title ?? ""}
			width="260px" onChange=${(title) => update({ title }, "Title saved")} /></div>`}<//>
		<${Card} title="Cost and work"><${Facts} rows=${[
			["Cost", cost && `${formatUsd(cost.amount)} in ${formatNumber(cost.requests)} requests`],
			["Tokens", cost && `${formatNumber(cost.inputTokens)} in (${formatNumber(cost.cachedTokens)} cached), ${formatNumber(cost.outputTokens)} out`],
			["Model", plain(s.routingLimitSummary?.modelRouting?.routingDecision?.selectedModel ?? "")],
			["Tasks", s.taskSummary && html`<a href=${`#/tasks?session=${encodeURIComponent(id)}`}>
				${formatNumber(s.tasks?.length ?? 0)}</a>`],
			["Subagents", s.subagentJobSummary?.subagents?.length ? s.subagentJobSummary.subagents.map((a) => html`<div>
				<${Id} id=${a.threadId ?? a.subagentId} /> ${plain(a.role)} <${Status}
				status=${a.status} /></div>`) : undefined],
			["Files", s.artifactRefs?.length ? s.artifactRefs.slice(0, 8).map((a) => html`<div><code>
				<${Text} text=${a.path} /></code></div>`) : undefined],
			["Processes", html`<a href=${`#/processes?session=${encodeURIComponent(id)}`}>all</a>`],
			["Events", html`<a href=${`#/events?session=${encodeURIComponent(id)}`}>all</a>`],
		]} /><//></div>
		<h2 class="pad-title">Threads</h2>
		${(s.threads ?? []).length === 0 ? html`<${Empty}>No thread.<//>` : html`<${Table} label="Threads"
			columns=${THREAD_COLUMNS} rows=${s.threads} rowKey=${(t) => t.threadId}
			onOpen=${(t) => (location.hash = `#/threads/${t.threadId}`)} />`}
		<div class="toolbar top-gap">${query.before
			&& html`<button onClick=${() => setQuery({ before: undefined })}>Newest threads</button>`}
			${s.historyCursor && html`<button onClick=${() => setQuery({ before: s.historyCursor })}>Older threads</button>`}</div><//>`;
}

export default function View({ path, query, setQuery }) {
	return path[0] ? html`<${One} id=${path[0]} query=${query} setQuery=${setQuery} />` : html`<${List} query=${query}
		setQuery=${setQuery} />`;
}
