// The events of a turn as the items of a conversation. One function for what was read from the log and for what arrives live.

export const TYPES = ["turn.*", "model.requested", "model.delta", "model.completed", "model.failed", "reasoning.delta",
	"tool.started", "tool.args", "tool.progress", "tool.result", "tool.failed", "action.*", "artifact.changed",
	"cost.recorded",
	"context.compaction.*", "plan.updated", "process.started", "process.completed", "process.failed",
		"process.terminated", "sandbox.violation", "subagent.spawned", "routing.fallback.applied", "routing.not_possible"];

const ENDS = { "process.completed": "completed", "process.failed": "failed", "process.terminated": "terminated" };

export function fold(events) {
	const items = [];
	const byKey = new Map();
	const state = { items, cost: 0, priced: false, requests: 0, tokens: null, end: null };
	const add = (key, item) => {
		if (!byKey.has(key)) {
			byKey.set(key, item);
			items.push(item);
		}
		return byKey.get(key);
	};
	for (const e of events) {
		const p = e.payload ?? {};
		const request = e.modelRequestId && byKey.get(e.modelRequestId);
		const tool = e.toolCallId && byKey.get(e.toolCallId);
		const process = e.processId && byKey.get(e.processId);
		switch (e.type) {
		case "turn.submitted":
			add(e.eventId, { kind: "user", id: e.eventId, at: e.timestamp, text: p.preview ?? "", ref: p.inputRef,
				bytes: p.inputBytes, sequence: e.sequence });
			break;
		case "turn.steered":
			add(e.eventId, { kind: "user", steered: true, id: e.eventId, at: e.timestamp, text: p.preview ?? "",
				ref: p.inputRef, bytes: p.inputBytes, sequence: e.sequence });
			break;
		case "model.requested":
			add(e.modelRequestId, { kind: "request", id: e.modelRequestId, model: p.model, attempt: p.attempt,
				purpose: p.purpose, processId: p.processId, at: e.timestamp, status: "running", text: "",
				reasoning: "", sequence: e.sequence });
			if (p.processId)
				byKey.set(p.processId, { kind: "hidden" });
			state.requests++;
			break;
		case "model.delta":
			if (request)
				request.text += p.text ?? "";
			break;
		case "reasoning.delta":
			if (request)
				request.reasoning += p.text ?? "";
			break;
		case "model.completed":
			if (request)
				Object.assign(request, { status: "completed", end: e.timestamp, usage: p.usage, latencyMs: p.latencyMs,
					firstMs: p.timeToFirstTokenMs, stop: p.stopReason, responseRef: p.responseRef,
					text: request.text || (p.preview ?? "") });
			if (p.usage)
				state.tokens = (p.usage.inputTokens ?? 0) + (p.usage.outputTokens ?? 0);
			break;
		case "model.failed":
			if (request)
				Object.assign(request, { status: "failed", end: e.timestamp, error: p.message ?? p.category,
					retryable: p.retryable });
			break;
		case "cost.recorded":
			state.cost += p.amount ?? 0;
			state.priced ||= p.basis !== "unpriced";
			if (request)
				Object.assign(request, { cost: p.amount, basis: p.basis });
			break;
		case "tool.started":
			add(e.toolCallId, { kind: "tool", id: e.toolCallId, name: p.toolName, at: e.timestamp, status: "running",
				files: [], sequence: e.sequence });
			break;
		case "tool.args":
			if (tool)
				Object.assign(tool, { args: p.safeArgs ?? tool.args,
					argsRef: p.updatedInputRef ?? p.inputRef ?? tool.argsRef });
			break;
		case "tool.progress":
			if (tool && tool.status === "running")
				Object.assign(tool, { preview: p.preview ?? tool.preview, ref: p.outputRef ?? tool.ref });
			break;
		case "tool.result":
		case "tool.failed":
			if (tool)
				Object.assign(tool, { status: e.type === "tool.result" ? "completed" : e.status ?? "failed",
					end: e.timestamp, ref: p.rawOutputRef, errorRef: p.errorRef, preview: p.displayPreview,
					exitCode: p.exitCode, error: e.type === "tool.failed" ? p.message : undefined, advice: p.advice,
					processId: e.processId ?? tool.processId });
			break;
		case "process.started":
			if (tool)
				tool.processId = e.processId;
			else if (p.owner?.kind === "tool" && byKey.get(p.owner.id)?.kind === "tool")
				byKey.get(p.owner.id).processId = e.processId;
			else if (!process && !p.owner)
				add(e.processId, { kind: "command", id: e.processId, at: e.timestamp, status: "running",
					argv: p.commandLine ? undefined : p.command, line: p.commandLine, outputs: p.outputRefs ?? [],
					sequence: e.sequence });
			break;
		case "process.completed":
		case "process.failed":
		case "process.terminated":
			if (process?.kind === "command")
				Object.assign(process, { status: ENDS[e.type], end: e.timestamp, exitCode: p.exitCode,
					error: p.message, outputs: Object.entries(p.outputs ?? {}).map(([stream, o]) => ({ stream, ...o })) });
			else if (!process && !tool && e.type === "process.failed" && p.command && !p.owner)
				add(e.processId, { kind: "command", id: e.processId, at: e.timestamp, end: e.timestamp,
					status: "failed", argv: p.commandLine ? undefined : p.command, line: p.commandLine, outputs: [],
					error: p.message, sequence: e.sequence });
			break;
		case "artifact.changed":
			if (tool && p.path)
				tool.files.push({ path: p.path, change: p.change, bytes: p.bytes, diffRef: p.diffRef });
			else if (p.change === "summary" && p.kept !== false && e.processId)
				add(`changes ${e.processId}`, { kind: "changes", id: `changes ${e.processId}`, processId: e.processId,
					counts: p.counts, at: e.timestamp, sequence: e.sequence });
			break;
		case "action.required":
			add(e.actionId, { ...p, kind: "action", id: e.actionId, at: e.timestamp, status: "pending",
				processId: e.processId, sequence: e.sequence });
			break;
		case "action.resolved":
			if (byKey.has(e.actionId))
				Object.assign(byKey.get(e.actionId), { status: "resolved", end: e.timestamp, decision: p.decision,
					source: p.source, note: p.note, resolver: p.resolver });
			break;
		case "plan.updated":
			add("plan", { kind: "plan", id: "plan", at: e.timestamp, sequence: e.sequence });
			Object.assign(byKey.get("plan"), { steps: p.steps, explanation: p.explanation });
			break;
		case "sandbox.violation":
			if (tool)
				(tool.denials ??= []).push(p);
			else if (process?.kind === "command")
				(process.denials ??= []).push(p);
			break;
		case "subagent.spawned":
			if (tool)
				tool.threadId = p.childThreadId;
			else
				add(e.eventId, { kind: "note", id: e.eventId, at: e.timestamp,
					text: `subagent ${p.nickname ?? p.role ?? ""}`, href: p.childThreadId, sequence: e.sequence });
			break;
		case "routing.fallback.applied":
		case "routing.not_possible":
		case "context.compaction.started":
		case "context.compaction.completed":
		case "context.compaction.failed":
			add(e.eventId, { kind: "note", id: e.eventId, at: e.timestamp,
				text: { "routing.fallback.applied": `another model: ${p.reason ?? ""}`, "routing.not_possible": "no model can be used", "context.compaction.started": `the conversation is being summarised (${p.trigger})`,
				"context.compaction.completed": `summarised${p.tokensAfter ? ` to ${p.tokensAfter} tokens` : ""}: ${p.preview ?? ""}`, "context.compaction.failed": `the summary failed: ${p.reason ?? ""}` }[e.type],
					tone: /failed|not_possible/.test(e.type) ? "bad" : "", sequence: e.sequence });
			break;
		case "turn.completed":
		case "turn.failed":
			state.end = { at: e.timestamp, status: e.status ?? (e.type === "turn.failed" ? "failed" : "completed"),
				outcome: p.outcome, message: p.message ?? e.statusReason, category: p.category, usage: p.usage,
				sequence: e.sequence };
			break;
		default:
		}
	}
	return state;
}

const lines = (mark, text) => String(text ?? "").replace(/\n$/, "").split("\n").map((line) => mark + line);

// The change that a file tool was asked to make, as a unified diff without context; null for other tools.
export function diffOf(name, args) {
	if (!args)
		return null;
	if (name === "edit_file" && args.oldText !== undefined)
		return [`--- a/${args.path}`, `+++ b/${args.path}`, "@@", ...lines("-", args.oldText), ...lines("+", args.newText)].join("\n");
	if (name === "write_file" && args.content !== undefined)
		return ["--- (content before)", `+++ b/${args.path}`, "@@", ...lines("+", args.content)].join("\n");
	if (name === "apply_patch" && args.patch)
		return args.patch;
	return null;
}
