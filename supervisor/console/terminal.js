// A terminal for bytes that nobody vouches for: xterm.js, without everything by which output could act on the page, the clipboard
// or the program that wrote it.

import { Terminal } from "./vendor/xterm.js";
import { FitAddon } from "./vendor/xterm-fit.js";
import { SearchAddon } from "./vendor/xterm-search.js";

// xterm creates style elements, which need the nonce of the content security policy, and style attributes, which it does not
// allow; properties of the same effect it does.
const nonce = document.querySelector("meta[name=bailiff-nonce]").content;
const createElement = document.createElement.bind(document);
document.createElement = (name, options) => {
	const element = createElement(name, options);
	if (String(name).toLowerCase() === "style")
		element.nonce = nonce;
	return element;
};
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
	if (name === "style" && this.style)
		this.style.cssText = value;
	else
		setAttribute.call(this, name, value);
};

// Dark in both themes: programs choose colours for a dark background.
const THEME = {
	background: "#0f1318", foreground: "#d8dee8", cursor: "#d8dee8", selectionBackground: "#3a4f70",
	black: "#20262e", red: "#ff8a80", green: "#7bd88f", yellow: "#f2c063", blue: "#82b1ff", magenta: "#d6a2ff", cyan: "#70d6e0", white: "#d8dee8",
	brightBlack: "#8b95a5", brightRed: "#ffaaa2", brightGreen: "#a0ebb0", brightYellow: "#ffd98a", brightBlue: "#a9caff", brightMagenta: "#e5c3ff", brightCyan: "#9ae8ef", brightWhite: "#ffffff",
};
const MATCHES = { decorations: { matchBackground: "#5c4a12", activeMatchBackground: "#b98b00", matchOverviewRuler: "#b98b00", activeMatchColorOverviewRuler: "#ffd98a" } };

// Characters that change the order in which others are shown.
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Sequences that make a terminal answer, write to the clipboard, or show a link under another text. The daemon answers the queries
// of programs itself.
function disarm(term) {
	const drop = () => true;
	term.parser.registerOscHandler(52, drop);
	term.parser.registerOscHandler(8, drop);
	for (const id of [4, 10, 11, 12])
		term.parser.registerOscHandler(id, (data) => data.includes("?"));
	for (const prefix of [undefined, ">", "=", "?"]) {
		term.parser.registerCsiHandler({ prefix, final: "c" }, drop);
		term.parser.registerCsiHandler({ prefix, final: "n" }, drop);
		term.parser.registerCsiHandler({ prefix, final: "t" }, drop);
		term.parser.registerCsiHandler({ prefix, intermediates: "$", final: "p" }, drop);
	}
	term.parser.registerCsiHandler({ prefix: ">", final: "q" }, drop);
	term.parser.registerDcsHandler({ intermediates: "$", final: "q" }, drop);
	term.parser.registerDcsHandler({ intermediates: "+", final: "q" }, drop);
}

// Output of a pipe: colours stay, every other control character is shown, so that nothing can hide or overwrite text.
const SGR = /^\x1b\[[0-9;:]*m/;

function shown(c) {
	const code = c.codePointAt(0);
	return `\x1b[7m${code < 0x100 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16)}\x1b[27m`;
}

export function sanitize(text) {
	if (!/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(text))
		return text;
	let out = "";
	for (let i = 0; i < text.length; i++) {
		const c = text[i];
		if (c === "\x1b") {
			const found = SGR.exec(text.slice(i, i + 40));
			out += found ? found[0] : shown(c);
			i += found ? found[0].length - 1 : 0;
		} else if (c === "\r") {
			out += text[i + 1] === "\n" ? "" : "\n";
		} else if (/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(c)) {
			out += shown(c);
		} else {
			out += c;
		}
	}
	return out;
}

// A terminal in `parent`. pipe: true for output of a pipe. write(bytes | text) → a promise, until it is drawn; find(text, back), onMatches(fn), and xterm itself.
export class View {
	constructor(parent, { pipe = false, rows = 24, cols = 80, onInput } = {}) {
		this.pipe = pipe;
		this.decoder = new TextDecoder();
		this.pending = "";
		this.term = new Terminal({
			rows, cols, convertEol: pipe, disableStdin: true, scrollback: pipe ? 100000 : 5000, allowProposedApi: true, fontSize: 12, lineHeight: 1.2,
			fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), theme: THEME, cursorBlink: false, screenReaderMode: true, linkHandler: null, minimumContrastRatio: 4.5,
			cursorInactiveStyle: pipe ? "none" : "outline",
		});
		disarm(this.term);
		this.fitter = new FitAddon();
		this.search = new SearchAddon();
		this.term.loadAddon(this.fitter);
		this.term.loadAddon(this.search);
		this.term.open(parent);
		this.term.textarea.setAttribute("aria-label", pipe ? "Output" : "Terminal");
		if (onInput)
			this.term.onData(onInput);
		// Keys of the page's own: leave the terminal.
		this.term.attachCustomKeyEventHandler((e) => !(e.key === "Escape" && e.ctrlKey && e.altKey) || (this.term.blur(), document.getElementById("main").focus(), false));
	}

	write(data) {
		let text = typeof data === "string" ? data : this.decoder.decode(data, { stream: true });
		if (this.pipe) {
			// An escape sequence or a line ending may continue in the next piece.
			text = this.pending + text;
			const cut = /(\x1b\[?[0-9;:]{0,30}|\r)$/.exec(text);
			this.pending = cut ? cut[0] : "";
			text = sanitize(cut ? text.slice(0, cut.index) : text);
		}
		return new Promise((shown) => this.term.write(text.replace(BIDI, "\ufffd"), shown));
	}

	// What was begun and not completed is forgotten, too.
	reset() {
		this.decoder = new TextDecoder();
		this.pending = "";
		this.term.reset();
	}

	fit() {
		this.fitter.fit();
	}

	input(on) {
		this.term.options.disableStdin = !on;
		this.term.options.cursorBlink = on;
	}

	find(text, back) {
		return text ? (back ? this.search.findPrevious(text, MATCHES) : this.search.findNext(text, MATCHES)) : (this.search.clearDecorations(), false);
	}

	onMatches(fn) {
		return this.search.onDidChangeResults(fn);
	}

	dispose() {
		this.term.dispose();
	}
}
