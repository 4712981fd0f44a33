// The policy in effect: rules with file and line, what a command would get, and what recent denials suggest.

import { call, can, useCall, useLoad } from "./api.js";
import { Field, ruleSource, useAction } from "./lists.js";
import { MODES } from "./sessions.js";
import { Card, Cli, Command, Empty, ErrorBox, Facts, Id, Loading, Page, Status, Table, Tabs, Text, Time, copy,
	formatNumber, html, plain, useEffect, useMemo, useState } from "./parts.js";

const RULE_COLUMNS = [
	{ key: "effect", label: "Effect", width: "90px", render: (r) => html`<${Status} status=${r.effect} />` },
	{ key: "rule", label: "Rule", width: "minmax(120px, 2fr)", render: (r) => html`<code>
		<${Text} text=${r.rule ?? JSON.stringify(r.pattern ?? r)} /></code>` },
	{ key: "layer", label: "Layer", width: "90px", from: 700, render: (r) => plain(r.layer) },
	{ key: "source", label: "Written in", width: "minmax(110px, 1fr)", render: (r) => (r.sessionId
		? html`<${Id} id=${r.sessionId} /> <span class="faint">
		${plain(`${r.list ?? ""} rule ${r.number ?? ""}`)}</span>` : html`<code>
		<${Text} text=${ruleSource(r)} /></code>`) },
	{ key: "why", label: "Justification", width: "minmax(100px, 1fr)", from: 700, render: (r) => html`<${Text}
		text=${r.justification ?? ""} />` },
];

function Rules({ policy, query, setQuery }) {
	const text = (query.filter ?? "").toLowerCase();
	const rows = useMemo(() => policy.rules.map((r, i) => ({ ...r,
		key: String(i) })).filter((r) => (!query.effect || r.effect === query.effect) && (!text || JSON.stringify(r).toLowerCase().includes(text))), [policy, text, query.effect]);
	return html`<div class="toolbar"><label>Filter<input type="search" value=${query.filter ?? ""}
		onInput=${(e) => setQuery({ filter: e.target.value })} placeholder="rule or file" /></label>
			<label>Effect<select value=${query.effect ?? ""} onChange=${(e) => setQuery({ effect: e.target.value })}>
				<option value="">any</option>${["deny", "ask", "allow"].map((v) => html`<option value=${v}
				selected=${v === query.effect}>${v}</option>`)}</select></label>
			<span class="faint">${formatNumber(rows.length)} of ${formatNumber(policy.ruleCount)}; deny takes precedence over ask, ask over allow</span></div>
		<${Table} label="Rules" columns=${RULE_COLUMNS} rows=${rows} rowKey=${(r) => r.key}
			empty="No rules: the mode alone decides." />
		${policy.hooks.length > 0 && html`<h2 class="pad-title">Hooks</h2><ul class="plain">
			${policy.hooks.map((h) => html`<li><code>
			<${Text} text=${`${h.hookPoint ?? h.point ?? h.event ?? ""} ${h.matcher ?? ""} ${h.handler ?? h.command ?? h.url ?? ""}`} /></code> <span class="faint">
			${plain(ruleSource(h))}</span></li>`)}</ul>`}
		${policy.notes.length > 0 && html`<ul class="plain">${policy.notes.map((n) => html`<li class="wait">
			<${Text} text=${typeof n === "string" ? n : n.message ?? JSON.stringify(n)} /></li>`)}</ul>`}`;
}

const Suggested = ({ suggestion }) => html`<div class="suggest">
	${["allow", "deny"].map((k) => (suggestion[k] ?? []).map((rule) => html`<div>
	<span class="faint">permissions.${k}</span> <code><${Text} text=${rule} /></code>
	<button class="quiet small" onClick=${() => copy(JSON.stringify(rule))}
		aria-label=${`Copy the rule ${plain(rule)}`}>Copy</button></div>`))}${suggestion.why && html`<p class="faint">
		<${Text} text=${suggestion.why} /></p>`}</div>`;

const HARM = { catastrophic: "bad", destructive: "bad", risky: "wait" };

function Verdict({ result }) {
	const d = result.permissionDecision;
	const c = result.command;
	const box = result.sandboxProfile;
	return html`<div class="cards top-gap" aria-live="polite"><${Card} title=${html`<${Status} status=${d.decision}
		label=${{ allow: "allowed", deny: "denied", ask: "asks first" }[d.decision]} />`} wide><${Facts} rows=${[
		["Why", html`<${Text} text=${d.decisionReason} />`],
			["Decided by", plain(d.decisionSource.replaceAll("_", " "))],
			["Rules", d.ruleRefs.length > 0 && d.ruleRefs.map((r) => html`<div><${Status} status=${r.effect} /> <code>
			<${Text} text=${r.rule} /></code> <span class="faint">in <${Text} text=${ruleSource(r)} /></span></div>`)],
		["Impact", d.impact && html`<span class="wait"><${Text} text=${d.impact} /></span>`],
			["Advice", d.rollbackAdvice && html`<${Text} text=${d.rollbackAdvice} />`], ["Mode", plain(result.mode)],
			["Suggestion", result.suggestion && html`<${Suggested} suggestion=${result.suggestion} />`],
	]} /><//>
	${c && html`<${Card} title="How it is read"><${Facts} rows=${[["Commands", html`<ol class="plain">
		${c.subcommands.map((s) => html`<li><${Command} text=${s.text} />${s.harm
		&& html` <span class=${HARM[s.harm] ?? ""}>${plain(s.harm)}</span>`}${s.readOnly
		&& html` <span class="faint">read only</span>`}</li>`)}</ol>`],
		["Paths", c.paths.length > 0 && c.paths.map((p) => html`<div><code>
			<${Text} text=${p.path} /></code> ${plain(p.access)}${p.recursive ? ", recursive" : ""}${p.outside
			? html` <span class="wait">outside the workspace</span>` : ""}</div>`)],
		["Network", c.network.length > 0 && c.network.map((n) => html`<div>
			${plain([n.intent, n.host].filter(Boolean).join(" "))}</div>`)],
			["Not known", c.unknown && plain(c.unknown.join(", "))]]} /><//>`}
	${box && html`<${Card} title="Its sandbox"><${Facts} rows=${[["Profile", plain(box.mode)], ["Directory", html`<code>
		<${Text} text=${box.cwd} /></code>`],
		["May write", box.writeRoots?.length ? box.writeRoots.map((p) => html`<div><code>
		<${Text} text=${p} /></code></div>`) : "only its private directories"], ["Network", plain(box.network)],
		["Hidden", `${box.hidden?.length ?? 0} paths`],
			["Protected", box.protected?.length > 0 && box.protected.map((p) => html`<div><code>
			<${Text} text=${p} /></code></div>`)]]} /><//>`}</div>`;
}

function Try({ query, setQuery }) {
	const [line, setLine] = useState(query.cmd ?? "");
	const [result, setResult] = useState(null);
	const [error, setError] = useState(null);
	useEffect(() => setLine(query.cmd ?? ""), [query.cmd]);
	const params = { commandLine: query.cmd, ...(query.cwd ? { cwd: query.cwd } : {}), ...(query.session ? { sessionId: query.session } : {}), ...(query.profile ? { profile: query.profile } : {}) };
	const run = async () => {
		try {
			setResult(await call("evaluate_permission", params));
			setError(null);
		} catch (e) {
			setResult(null);
			setError(e);
		}
	};
	useEffect(() => {
		if (query.cmd)
			run();
	}, [JSON.stringify(params)]);
	return html`<form class="toolbar try" onSubmit=${(e) => {
		e.preventDefault();
		if (line === query.cmd)
			run();
		setQuery({ cmd: line });
	}}><label class="grow">Command<input class="mono grow" type="search" value=${line} spellcheck="false"
		autocomplete="off" placeholder="git push origin main" onInput=${(e) => setLine(e.target.value)} /></label>
		<${Field} label="Profile" value=${query.profile ?? ""} placeholder="default" width="110px"
			onChange=${(profile) => setQuery({ profile })} />
		<button class="primary" disabled=${!line || !can("agent")}>Evaluate</button></form>
		<p class="faint">Nothing runs. ${!can("agent") && "Your role may not evaluate commands."}</p>
		${query.cmd && html`<${Cli} argv=${["policy", "check", "--", "sh", "-c", query.cmd]} />`}<${ErrorBox}
			error=${error} />${result && html`<${Verdict} result=${result} />`}`;
}

const DECISIONS = 1000;     // and ends of processes that are examined

// What was denied lately, with what would allow it.
async function loadDenials(params) {
	const { events } = await call("list_events", { ...params, order: "desc", limit: DECISIONS,
		types: ["permission.evaluated", "process.completed", "process.failed", "process.terminated"] });
	const rows = [];
	for (const e of events) {
		const open = e.payload?.wouldOpen;
		if (e.type === "permission.evaluated") {
			const d = e.payload.permissionDecision;
			if (d && d.decision !== "allow" && !e.payload.dryRun)
				rows.push({ key: String(e.sequence), event: e, decision: d.decision,
					what: e.payload.command?.display ?? e.payload.toolName ?? "", why: d.decisionReason,
					suggestion: e.payload.suggestion });
		} else if (open && [open.writeRoots, open.readRoots, open.allowHosts].some((list) => list?.length)) {
			rows.push({ key: String(e.sequence), event: e, decision: "denied", what: "", why: "by its sandbox",
				options: [...(open.writeRoots ?? []).map((p) => ["--rw", p]), ...(open.readRoots ?? []).map((p) => ["--ro", p]), ...(open.allowHosts ?? []).map((h) => ["--net", "allow", "--allow-host", h])] });
		}
	}
	return rows;
}

function Denials({ query }) {
	const params = query.session ? { sessionId: query.session } : {};
	const { data, error, reload } = useLoad(`denials ${query.session ?? ""}`, () => loadDenials(params), { refreshOn: (e) => e.type === "permission.evaluated" || e.payload?.wouldOpen });
	if (error)
		return html`<${ErrorBox} error=${error} retry=${reload} />`;
	if (!data)
		return html`<${Loading} />`;
	return html`<p class="faint">From the latest ${formatNumber(DECISIONS)} decisions and results, newest first. An option widens one run; a rule in a policy file applies to all.</p>
		${data.length === 0 ? html`<${Empty}>Nothing was denied or asked.<//>` : html`<ul class="plain denials">
			${data.slice(0, 100).map((r) => html`<li key=${r.key}><div><${Status} status=${r.decision} /> <${Id}
			id=${r.event.processId} /> ${r.what && html`<${Command} text=${r.what} />`} <span class="faint">
			<${Text} text=${r.why} /></span> <a class="num faint"
			href=${`#/events?seq=${r.event.sequence}`}>#${r.event.sequence}</a> <${Time}
			at=${r.event.timestamp} /></div>
			${r.options?.map((o) => html`<${Cli} argv=${["run", ...o, "--", "CMD"]} />`)}${r.suggestion
				&& html`<${Suggested} suggestion=${r.suggestion} />`}</li>`)}</ul>`}`;
}

export default function View({ query, setQuery }) {
	const params = { ...(query.session ? { sessionId: query.session } : {}), ...(query.cwd ? { cwd: query.cwd } : {}) };
	const { data: policy, error, reload } = useCall("get_policy", params, { refreshOn: (e) => e.type === "policy.changed",
		keep: true });
	const [run, busy] = useAction();
	const tab = query.tab ?? (query.cmd ? "try" : "rules");
	const cli = ["policy", "show", ...(query.session ? ["--session", query.session] : [])];
	return html`<${Page} title="Policy" cli=${cli} fill actions=${can("operator") && html`<button disabled=${busy}
		title="bailiff policy reload" onClick=${() => run(async () => {
		await call("reload_policy");
		reload();
	}, "Policy files reloaded")}>Reload files</button>`}>
		<div class="toolbar"><${Field} label="Session" value=${query.session ?? ""} placeholder="none"
			width="250px" mono onChange=${(session) => setQuery({ session: session.trim() })} />
			<${Field} label="Directory" value=${query.cwd ?? ""} placeholder="workspace whose files apply"
				width="280px" mono onChange=${(cwd) => setQuery({ cwd: cwd.trim() })} />
			${policy && html`<span>Mode ${query.session && can("operator") ? html`<select aria-label="Permission mode"
				value=${policy.mode} disabled=${busy} onChange=${(e) => run(async () => {
				await call("set_permission_mode", { sessionId: query.session, mode: e.target.value });
				reload();
			}, "Mode changed")}>${MODES.map((m) => html`<option value=${m} selected=${m === policy.mode}>
				${m}</option>`)}</select>` : html`<b>${plain(policy.mode)}</b>`} <span class="faint">
				${plain(policy.modeMeans)}</span></span>`}</div>
		<${ErrorBox} error=${error} retry=${reload} />
		${policy && html`<p class="line faint">From ${policy.sources.length ? policy.sources.map((s, i) => html`${i > 0 && ", "}<code>
			<${Text} text=${ruleSource(s)} /></code> (${plain(s.layer)})`) : "no file"}${policy.strict ? "; strict" : ""}${policy.bypassPermitted ? "; mode bypass is permitted" : ""}</p>`}
		<${Tabs} label="Policy" value=${tab} onChange=${(value) => setQuery({ tab: value })}
			tabs=${[["rules", "Rules", policy?.ruleCount], ["try", "Try a command"],
			["suggestions", "Denials and suggestions"]]} />
		${tab === "rules" && (policy ? html`<${Rules} policy=${policy} query=${query} setQuery=${setQuery} />` : !error
			&& html`<${Loading} />`)}
		${tab === "try" && html`<${Try} query=${query} setQuery=${setQuery} />`}${tab === "suggestions"
			&& html`<${Denials} query=${query} />`}<//>`;
}
