/* A word as a list of parts, and the word that results from them. */

#include "policy/shell/parser.h"

#include <ctype.h>

void word_parts_add(struct parser *p, struct word_parts *w, struct shell_part part)
{
	w->part = shell_arena_grow(p->arena, w->part, w->count, sizeof(*w->part));
	w->part[w->count++] = part;
	w->unknown |= part.unknown;
	w->quoted |= part.quoted;
}

void word_parts_add_literal(struct parser *p, struct word_parts *w, const char *s, size_t n, bool quoted)
{
	word_parts_add(p, w, (struct shell_part){ .kind = SHELL_PART_LITERAL, .quoted = quoted, .text = s, .len = n });
	p->subscript |= quoted && n >= 3 && (memmem(s, n, "[$(", 3) || memmem(s, n, "[`", 2));
}

/* of=~/x: for bash a word in the form of an assignment, where ~ is expanded; the first part is split there. */
static struct word_parts with_tilde(struct parser *p, const struct word_parts *w)
{
	const struct shell_part *first = w->part;
	size_t n = 0;

	if (p->dialect != SHELL_BASH || !w->count || first->kind != SHELL_PART_LITERAL || first->quoted)
		return *w;
	while (n < first->len && parser_is_name(first->text[n]))
		n++;
	if (n == first->len && w->count > 1 && w->part[1].len > 2 &&
	    memcmp(w->part[1].text, "+=", 2) == 0) { /* += as a part of its own */
		struct word_parts appends = *w;

		appends.unknown |= memchr(w->part[1].text, '~', w->part[1].len) ? SHELL_TILDE : 0;
		p->script->bashisms |= appends.unknown != w->unknown;
		return appends;
	}
	if (!n || n + 1 >= first->len || first->text[n] != '=' || isdigit((unsigned char)*first->text))
		return *w;
	struct word_parts made = *w;
	if (memmem(first->text, first->len, ":~", 2))
		made.unknown |= SHELL_TILDE;
	if (first->text[n + 1] != '~')
		return made;
	p->script->bashisms = true;
	made.unknown |= SHELL_TILDE;
	if (n + 2 < first->len ? first->text[n + 2] != '/' : w->count > 1)
		return made; /* ~name, or the text after it is unknown */
	made.part = shell_arena_alloc(p->arena, (w->count + 2) * sizeof(*made.part));
	made.part[0] = made.part[2] = *first;
	made.part[0].len = n + 1;
	made.part[1] = (struct shell_part){ .kind = SHELL_PART_TILDE, .unknown = SHELL_TILDE, .text = "~", .len = 1 };
	made.part[2].text += n + 2;
	made.part[2].len -= n + 2;
	memcpy(made.part + 3, w->part + 1, (w->count - 1) * sizeof(*made.part));
	made.count += 2;
	return made;
}

void word_parts_finish(struct parser *p, const struct word_parts *written, struct shell_word *ret)
{
	const struct word_parts made = with_tilde(p, written), *w = &made;
	size_t n = 0;

	for (size_t i = 0; i < w->count; i++)
		n += w->part[i].len;
	char *plain = shell_arena_alloc(p->arena, n + 1);
	n = 0;
	for (size_t i = 0; i < w->count; i++) {
		memcpy(plain + n, w->part[i].text, w->part[i].len);
		n += w->part[i].len;
	}
	*ret = (struct shell_word){
		.plain = plain,
		.unknown = w->unknown | (w->glob ? SHELL_GLOB : 0),
		.quoted = w->quoted,
		.many = w->many || w->glob,
		.part = w->part,
		.nparts = w->count,
		.offset = w->offset,
	};
	ret->value = ret->unknown ? NULL : plain;
}
