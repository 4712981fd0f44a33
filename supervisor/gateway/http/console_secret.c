#include "supervisor/gateway/http/console_secret.h"

#include "runtime/base/mem.h"
#include "supervisor/gateway/http/http_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void console_secret_new(char ret[CONSOLE_SECRET_TEXT])
{
	unsigned char bytes[CONSOLE_SECRET_TEXT / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		abort();
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

const char *console_codes_add(struct console_codes *c, const char *role, const char *principal, uint64_t now)
{
	struct console_code *row = &c->rows[c->next++ % countof(c->rows)];

	console_secret_new(row->text);
	snprintf(row->role, sizeof(row->role), "%s", role);
	snprintf(row->principal, sizeof(row->principal), "%s", principal);
	row->until = now + CONSOLE_CODE_MS;
	return row->text;
}

bool console_codes_take(struct console_codes *c, const char *text, uint64_t now, struct console_code *ret)
{
	bool found = false;

	for (size_t i = 0; i < countof(c->rows); i++) {
		struct console_code *row = &c->rows[i];

		if (!row->text[0] || !http_access_same(text, strlen(text), row->text, strlen(row->text)))
			continue;
		found = now < row->until;
		*ret = *row;
		*row = (struct console_code){ 0 };
	}
	return found;
}

void console_codes_forget(struct console_codes *c, const char *principal)
{
	for (size_t i = 0; i < countof(c->rows); i++)
		if (strcmp(c->rows[i].principal, principal) == 0)
			c->rows[i] = (struct console_code){ 0 };
}
