#include "runtime/dialect/headers.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DURATION_MAX_MS (30.0 * 86400 * 1000) /* what is longer is capped */

/* A decimal number without a sign; independent of the locale. */
static bool read_number(const char **at, double *ret)
{
	const char *s = *at;
	double v = 0, place = 0.1;

	if (!isdigit((unsigned char)*s))
		return false;
	for (; isdigit((unsigned char)*s); s++)
		v = v * 10 + (*s - '0');
	if (*s == '.' && isdigit((unsigned char)s[1]))
		for (s++; isdigit((unsigned char)*s); s++, place /= 10)
			v += (*s - '0') * place;
	*ret = v;
	*at = s;
	return true;
}

/* Milliseconds of the unit that the text starts with; 0 if it is none. */
static double read_unit(const char **at)
{
	static const struct {
		const char *word;
		double ms;
	} UNITS[] = { { "ms", 1 },         { "s", 1000 },     { "sec", 1000 },     { "second", 1000 },
		      { "m", 60000 },      { "min", 60000 },  { "minute", 60000 }, { "h", 3600000 },
		      { "hour", 3600000 }, { "d", 86400000 }, { "day", 86400000 } };
	const char *s = *at + (**at == ' ');
	size_t n = 0;

	while (isalpha((unsigned char)s[n]))
		n++;
	for (size_t i = 0; i < countof(UNITS); i++) {
		size_t len = strlen(UNITS[i].word);
		if (strncmp(s, UNITS[i].word, len) == 0 && (n == len || (n == len + 1 && s[len] == 's' && len > 2))) {
			*at = s + n;
			return UNITS[i].ms;
		}
	}
	return 0;
}

bool headers_duration_ms(const char *text, uint64_t *ret_ms)
{
	double total = 0, v;

	if (!isdigit((unsigned char)*text))
		return false;
	while (read_number(&text, &v)) {
		double ms = read_unit(&text);
		total += v * (ms != 0 ? ms : 1000);
		if (ms == 0)
			break;
	}
	if (!(total < DURATION_MAX_MS))
		total = DURATION_MAX_MS;
	*ret_ms = (uint64_t)(total + 0.999);
	return true;
}

/* Seconds since 1970 of a header's date: the three formats of RFC 9110, or RFC 3339 in UTC. */
static bool read_date(const char *text, time_t *ret)
{
	static const char *const FORMATS[] = { "%a, %d %b %Y %H:%M:%S GMT", "%a, %d-%b-%y %H:%M:%S GMT",
					       "%a %b %d %H:%M:%S %Y", "%Y-%m-%dT%H:%M:%S" };
	struct tm tm = { 0 };
	const char *end = NULL;
	size_t i;

	for (i = 0; i < countof(FORMATS) && !end; i++) {
		tm = (struct tm){ 0 };
		end = strptime(text, FORMATS[i], &tm);
	}
	if (end && i == countof(FORMATS)) {
		if (*end == '.')
			for (end++; isdigit((unsigned char)*end);)
				end++;
		if (strcmp(end, "Z") != 0 && strcmp(end, "+00:00") != 0)
			return false;
	}
	if (!end)
		return false;
	*ret = timegm(&tm);
	return true;
}

/* How long after the response a date is. */
static bool until_date(const json_t *headers, const char *text, uint64_t *ret_ms)
{
	time_t then, now;

	if (!read_date(text, &then) || !read_date(json_get_text(headers, "date"), &now))
		return false;
	double ms = then > now ? difftime(then, now) * 1000 : 0;
	*ret_ms = (uint64_t)(ms < DURATION_MAX_MS ? ms : DURATION_MAX_MS);
	return true;
}

uint64_t headers_retry_after_ms(const json_t *headers)
{
	const char *text = json_get_text(headers, "retry-after-ms");
	double v;
	uint64_t ms;

	if (read_number(&text, &v))
		return (uint64_t)(v < DURATION_MAX_MS ? v + 0.999 : DURATION_MAX_MS);
	text = json_get_text(headers, "retry-after");
	return headers_duration_ms(text, &ms) || until_date(headers, text, &ms) ? ms : 0;
}

void headers_copy(char *ret, size_t cap, const char *text)
{
	size_t n = strnlen(text, cap);

	snprintf(ret, cap, "%.*s", (int)(n < cap ? n : text_utf8_cut(text, cap - 1)), text);
}

static const char *get_header(const json_t *headers, const char *before, const char *field, const char *between,
			      const char *after)
{
	char name[160];

	snprintf(name, sizeof(name), "%s%s%s%s", before, field, between, after);
	return json_get_text(headers, name);
}

static void add_limit(const json_t *headers, const char *kind, const char *limit, const char *remaining,
		      const char *reset, json_t *limits)
{
	double most, left;
	uint64_t ms;

	/* Azure sends −1 and 0 where it has no limit. */
	if (!read_number(&limit, &most) || most < 1 || most > 1e15 || !read_number(&remaining, &left) || left > 1e15)
		return;
	json_t *row = json_pack("{s:s, s:I, s:I}", "kind", kind, "limit", (json_int_t)most, "remaining",
				(json_int_t)left);
	if (!row)
		return; /* the kind is not UTF-8 */
	if (until_date(headers, reset, &ms) || headers_duration_ms(reset, &ms))
		json_object_set_new(row, "resetMs", json_integer((json_int_t)ms));
	json_array_append_new(limits, row);
}

json_t *headers_limits(const json_t *headers)
{
	static const char ANTHROPIC[] = "anthropic-ratelimit-", OPENAI[] = "x-ratelimit-";
	json_t *limits = json_array(), *value;
	const char *name;

	json_object_foreach ((json_t *)headers, name, value) {
		size_t n = strlen(name);
		char kind[64];
		if (!json_is_string(value))
			continue;
		const char *limit = json_string_value(value);
		if (n > sizeof(ANTHROPIC) + 6 && strncmp(name, ANTHROPIC, sizeof(ANTHROPIC) - 1) == 0 &&
		    strcmp(name + n - 6, "-limit") == 0) {
			snprintf(kind, sizeof(kind), "%.*s", (int)(n - 6 - (sizeof(ANTHROPIC) - 1)),
				 name + sizeof(ANTHROPIC) - 1);
			add_limit(headers, kind, limit, get_header(headers, ANTHROPIC, kind, "-", "remaining"),
				  get_header(headers, ANTHROPIC, kind, "-", "reset"), limits);
		} else if (strncmp(name, "x-ratelimit-limit-", 18) == 0 && name[18]) {
			snprintf(kind, sizeof(kind), "%s", name + 18);
			add_limit(headers, kind, limit, get_header(headers, OPENAI, "remaining", "-", kind),
				  get_header(headers, OPENAI, "reset", "-", kind), limits);
		}
	}
	if (json_array_size(limits) == 0) {
		json_decref(limits);
		return NULL;
	}
	return limits;
}

void headers_request_id(const json_t *headers, char *ret, size_t cap)
{
	static const char *const NAMES[] = { "request-id", "x-request-id", "x-generation-id", "cf-ray" };

	for (size_t i = 0; i < countof(NAMES); i++) {
		const char *id = json_get_text(headers, NAMES[i]);
		if (*id) {
			headers_copy(ret, cap, id);
			return;
		}
	}
	*ret = '\0';
}
