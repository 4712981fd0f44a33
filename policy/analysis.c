/* Words of the shell as words of a command: what every file of the analysis needs, so it calls none of them. */

#include "policy/analysis.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

/* ~, $HOME, ${HOME} */
const char *analysis_known_part(const struct analysis *r, const struct shell_part *p)
{
	static const char *const names[] = { "~", "$HOME", "${HOME}" };

	for (size_t i = 0; i < countof(names) && r->o->home && !r->home_changed; i++)
		if (strlen(names[i]) == p->len && memcmp(names[i], p->text, p->len) == 0 &&
		    (i == 0) == (p->kind == SHELL_PART_TILDE))
			return r->o->home;
	return NULL;
}

struct command_word analysis_word(struct analysis *r, const struct shell_word *w)
{
	struct command_word c = {
		.value = w->value,
		.plain = w->plain,
		.unknown = w->unknown,
		.many = w->many,
		.from = w,
	};
	const struct shell_part *first = w->part;
	buf_auto struct buf text = BUF_INIT;
	bool home = false;

	/* The first character is certain, unless a glob begins there: that may expand to anything, including a dash. */
	c.lead = w->value || (w->nparts && first->kind == SHELL_PART_LITERAL && first->len &&
			      (first->quoted || !(w->unknown & SHELL_GLOB) || !strchr("*?[+@!", *first->text)));

	if (w->value)
		return c;
	c.unknown = w->unknown & (SHELL_GLOB | SHELL_BRACES | SHELL_ARRAY);
	c.many = c.unknown != 0;
	for (size_t i = 0; i < w->nparts; i++) {
		const char *known = w->part[i].kind == SHELL_PART_LITERAL ? NULL : analysis_known_part(r, &w->part[i]);

		buf_append(&text, known ? known : w->part[i].text, known ? strlen(known) : w->part[i].len);
		home |= known != NULL;
		c.lead |= i == 0 && known;
		if (w->part[i].kind != SHELL_PART_LITERAL && !known) {
			c.unknown |= w->part[i].unknown;
			c.many |= w->many;
		}
	}
	if (home) {
		c.plain = shell_arena_strndup(r->arena, text.data, text.len);
		c.value = c.unknown ? NULL : c.plain;
	} else {
		c.unknown = w->unknown;
		c.many = w->many;
	}
	return c;
}
