// second_opinion.js MODULES posix|bash FILE…: the simple commands of shell scripts as the npm package mvdan-sh sees them, one a
// line: its first word ("?" if that is not constant, "=" for assignments alone), and in plain sh the number of words.
'use strict';
const fs = require('fs');
const { syntax } = require(process.argv[2] + '/mvdan-sh');
const posix = process.argv[3] === 'posix';

function constant(word) {
	let text = '';
	for (const part of word.Parts) {
		const kind = syntax.NodeType(part);
		if (kind === 'Lit')
			text += part.Value.replace(/\\\n/g, '').replace(/\\(.)/gs, '$1');
		else if (kind === 'SglQuoted' && !part.Dollar)
			text += part.Value;
		else if (kind === 'DblQuoted' && !part.Dollar && part.Parts.every((p) => syntax.NodeType(p) === 'Lit'))
			text += part.Parts.map((p) => p.Value.replace(/\\\n/g, '').replace(/\\([$`"\\])/g, '$1')).join('');
		else
			return '?';
	}
	if (/[*?]|\[.*\]|^~/.test(word.Parts.map((p) => (syntax.NodeType(p) === 'Lit' ? p.Value : '')).join('')))
		return '?';
	return text;
}

for (const path of process.argv.slice(4)) {
	const lines = [];
	const say = (name, words) => lines.push(posix ? `${name} ${words}` : name);
	process.stdout.write(`F ${path}\n`);
	try {
		const parser = syntax.NewParser(syntax.Variant(posix ? syntax.LangPOSIX : syntax.LangBash));
		syntax.Walk(parser.Parse(fs.readFileSync(path, 'latin1'), path), (node) => {
			const kind = node ? syntax.NodeType(node) : '';
			if (kind === 'CallExpr' && node.Args.length)
				say(constant(node.Args[0]), node.Args.length);
			else if (kind === 'CallExpr')
				say('=', 0);
			else if (kind === 'DeclClause')
				say(node.Variant.Value, 1 + node.Args.length);
			else if (kind === 'LetClause')
				say('let', 1 + node.Exprs.length);
			return true;
		});
	} catch (e) {
		process.stdout.write(`E ${String(e.message || e).replace(/\n/g, ' ')}\n`);
		continue;
	}
	for (const line of lines.sort())
		process.stdout.write(Buffer.from(`${line}\n`, 'latin1'));
}
