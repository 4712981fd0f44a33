#include "supervisor/model/redactor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BACKSLASHES_MAX 7

enum match { MATCH_NONE, MATCH_PART, MATCH_FULL };

void redactor_done(struct redactor *r) { buf_done(&r->held); }

void redactor_add(struct redactor *r, const char *key)
{
	if (!key || strlen(key) < REDACTOR_KEY_MIN)
		return;
	for (size_t i = 0; i < r->nkeys; i++)
		if (strcmp(r->key[i], key) == 0)
			return;
	assert(r->nkeys < REDACTOR_KEYS);
	r->key[r->nkeys++] = key;
}

/* The length of one character of the key at p, as itself or escaped. 0 = another character, −1 = not complete. */
static int match_char(const char *p, size_t n, char c)
{
	char hex[6];
	size_t at = 0;

	if (n && p[0] == c)
		return 1;
	/* Text in JSON in JSON has several backslashes. */
	while (at < n && at < BACKSLASHES_MAX && p[at] == '\\')
		at++;
	if (at == n)
		return -1;
	if (!at)
		return 0;
	if (p[at] == c && strchr("/\"\\", c))
		return (int)at + 1;
	snprintf(hex, sizeof hex, "u%04x", (unsigned char)c);
	if (strncasecmp(p + at, hex, n - at < 5 ? n - at : 5) != 0)
		return 0;
	return n - at < 5 ? -1 : (int)at + 5;
}

static enum match match_key(const char *key, const char *p, size_t n, size_t *ret_len)
{
	size_t at = 0;

	for (; *key; key++) {
		int len = match_char(p + at, n - at, *key);

		if (len <= 0)
			return len < 0 ? MATCH_PART : MATCH_NONE;
		at += (size_t)len;
	}
	*ret_len = at;
	return MATCH_FULL;
}

static enum match match_any(const struct redactor *r, const char *p, size_t n, size_t *ret_len)
{
	enum match best = MATCH_NONE;

	for (size_t i = 0; i < r->nkeys && best != MATCH_FULL; i++) {
		enum match m = match_key(r->key[i], p, n, ret_len);

		best = m > best ? m : best;
	}
	return best;
}

void redactor_feed(struct redactor *r, const void *p, size_t n, bool end, struct buf *out)
{
	size_t at = 0, passed = 0, len = 0;

	if (!r->nkeys) {
		buf_append(out, p, n);
		return;
	}
	buf_append(&r->held, p, n);
	while (at < r->held.len) {
		enum match m = match_any(r, r->held.data + at, r->held.len - at, &len);

		if (m == MATCH_PART && !end)
			break;
		if (m != MATCH_FULL) {
			at++;
			continue;
		}
		buf_append(out, r->held.data + passed, at - passed);
		buf_str(out, REDACTED);
		passed = at += len;
	}
	if (at > passed)
		buf_append(out, r->held.data + passed, at - passed);
	buf_consume(&r->held, at);
}
