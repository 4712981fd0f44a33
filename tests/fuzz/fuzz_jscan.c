/*
 * jscan against jansson, in both directions. A document that jansson accepts has the same types, strings and numbers in
 * the same places for jscan, and is the same again after jw has written it. A document that jscan can iterate to its
 * end is accepted by jansson, unless it has something that jscan lets pass by design (see is_strict).
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Without JSON_ALLOW_NUL there is no U+0000 in keys either, which jansson cannot represent. */
#define FLAGS (JSON_DECODE_ANY)

static const char *skip_spaces(const char *p, const char *end)
{
	while (p < end && strchr(" \t\r\n", *p) && *p)
		p++;
	return p;
}

/* ---- the tree as jscan reads it ---- */

static json_t *number_of(struct jval v)
{
	mem_auto char *text = mem_strndup(v.text, v.len);

	if (strpbrk(text, ".eE"))
		return json_real(strtod(text, NULL));
	/* An integer that fits is never the fallback value for both. */
	if (jval_int(v, 1) != jval_int(v, 2))
		return NULL;
	if (v.text[0] != '-' && jval_uint(v, 0) != (uint64_t)jval_int(v, 1))
		abort();
	return json_integer(jval_int(v, 0));
}

static json_t *string_of(struct jval v)
{
	buf_auto struct buf b = BUF_INIT;
	char small[5];

	jval_str_buf(v, &b);
	if (jval_str(v, small, sizeof(small)) != b.len || strncmp(small, buf_cstr(&b), strlen(small)) != 0)
		abort();
	if (!memchr(buf_cstr(&b), 0, b.len) && !jval_is_str(v, buf_cstr(&b)))
		abort();
	return json_stringn(buf_cstr(&b), b.len);
}

static json_t *tree_of(struct jval v);

/* NULL: malformed inside. */
static json_t *container_of(struct jval v)
{
	json_t *tree = v.type == JT_OBJECT ? json_object() : json_array();
	struct jiter it = jiter_on(v);

	while (jiter_next(&it)) {
		json_t *value = tree_of(it.value);

		if (!value)
			break;
		if (v.type == JT_ARRAY) {
			json_array_append_new(tree, value);
			continue;
		}
		mem_auto char *key = jval_strdup(it.key);
		if (strlen(key) == jval_str(it.key, NULL, 0) && jval_get(v, key).type == JT_NONE)
			abort();
		/* Of equal keys, jansson takes the last. */
		if (json_object_set_new(tree, key, value) < 0)
			break;
	}
	if (!it.p || it.p != v.text + v.len) {
		json_decref(tree);
		return NULL;
	}
	return tree;
}

static json_t *tree_of(struct jval v)
{
	switch (v.type) {
	case JT_OBJECT:
	case JT_ARRAY: return container_of(v);
	case JT_STRING: return string_of(v);
	case JT_NUMBER: return number_of(v);
	case JT_TRUE: return json_true();
	case JT_FALSE: return json_false();
	case JT_NULL: return json_null();
	default: return NULL;
	}
}

/* ---- what jscan accepts and jansson rejects ---- */

/* Escapes that JSON does not have, unpaired surrogates, U+0000, and bytes that are not UTF-8. */
static bool is_strict_string(struct jval v)
{
	const char *p = v.text + 1, *end = v.text + v.len - 1;

	if (!text_utf8_valid(p, (size_t)(end - p)))
		return false;
	for (; p < end; p++) {
		unsigned high, low;
		char hex[5] = { 0 };

		if (*p != '\\')
			continue;
		if (!*++p || !strchr("\"\\/bfnrtu", *p))
			return false;
		if (*p != 'u')
			continue;
		if (end - p < 5 || strspn(memcpy(hex, p + 1, 4), "0123456789abcdefABCDEF") != 4)
			return false;
		high = (unsigned)strtoul(hex, NULL, 16);
		p += 4;
		if (high == 0 || (high >= 0xdc00 && high <= 0xdfff))
			return false;
		if (high < 0xd800 || high > 0xdfff)
			continue;
		if (end - p < 7 || p[1] != '\\' || p[2] != 'u' ||
		    strspn(memcpy(hex, p + 3, 4), "0123456789abcdefABCDEF") != 4)
			return false;
		low = (unsigned)strtoul(hex, NULL, 16);
		if (low < 0xdc00 || low > 0xdfff)
			return false;
		p += 6;
	}
	return true;
}

/* Leading zeroes, and numbers that do not fit. */
static bool is_strict_number(struct jval v)
{
	mem_auto char *text = mem_strndup(v.text, v.len);
	const char *digits = text + (*text == '-');

	if (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9')
		return false;
	return strpbrk(text, ".eE") ? isfinite(strtod(text, NULL)) : jval_int(v, 1) == jval_int(v, 2);
}

static bool is_strict(struct jval v)
{
	if (v.type == JT_STRING)
		return is_strict_string(v);
	if (v.type == JT_NUMBER)
		return is_strict_number(v);
	for (struct jiter it = jiter_on(v); jiter_next(&it);)
		if ((it.object && !is_strict_string(it.key)) || !is_strict(it.value))
			return false;
	return true;
}

/* ---- writing ---- */

/* As json_equal, except that jw writes a real number without a fraction as an integer. */
static bool same(const json_t *a, const json_t *b)
{
	if (json_is_number(a) && json_is_number(b))
		return json_is_real(a) ? json_real_value(a) == json_number_value(b) : json_equal(a, b);
	if (json_typeof(a) != json_typeof(b) || json_array_size(a) != json_array_size(b) ||
	    json_object_size(a) != json_object_size(b))
		return false;
	if (!json_is_object(a) && !json_is_array(a))
		return json_equal(a, b);
	for (size_t i = 0; i < json_array_size(a); i++)
		if (!same(json_array_get(a, i), json_array_get(b, i)))
			return false;
	for (void *it = json_object_iter((json_t *)a); it; it = json_object_iter_next((json_t *)a, it)) {
		const json_t *other = json_object_get(b, json_object_iter_key(it));

		if (!other || !same(json_object_iter_value(it), other))
			return false;
	}
	return true;
}

static void write_tree(struct jw *w, const json_t *t)
{
	const char *key;
	const json_t *value;

	switch (json_typeof(t)) {
	case JSON_OBJECT:
		jw_obj(w);
		for (void *it = json_object_iter((json_t *)t); it; it = json_object_iter_next((json_t *)t, it)) {
			key = json_object_iter_key(it);
			value = json_object_iter_value(it);
			jw_key(w, key);
			write_tree(w, value);
		}
		jw_obj_end(w);
		return;
	case JSON_ARRAY:
		jw_arr(w);
		for (size_t i = 0; i < json_array_size(t); i++)
			write_tree(w, json_array_get(t, i));
		jw_arr_end(w);
		return;
	case JSON_STRING: jw_strn(w, json_string_value(t), json_string_length(t)); return;
	case JSON_INTEGER: jw_int(w, json_integer_value(t)); return;
	case JSON_REAL: jw_real(w, json_real_value(t)); return;
	case JSON_NULL: jw_null(w); return;
	default: jw_bool(w, json_is_true(t)); return;
	}
}

static void check_written(const json_t *tree)
{
	buf_auto struct buf b = BUF_INIT;
	struct jw w = jw_on(&b);

	write_tree(&w, tree);
	json_auto_t *again = json_loadb(buf_cstr(&b), b.len, FLAGS, NULL);
	json_auto_t *scanned = tree_of(jval_of(buf_cstr(&b), b.len));
	if (!again || !same(tree, again) || !scanned || !same(tree, scanned))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* an exact copy, so that a sanitizer sees every byte read too far */
	mem_auto char *text = mem_dup(data, size);
	struct jval v = jval_of(text, size);
	json_auto_t *scanned = tree_of(v);
	json_auto_t *parsed = json_loadb(text, size, FLAGS, NULL);
	bool to_end = scanned && skip_spaces(v.text + v.len, text + size) == text + size;

	jval_path(v, "a.b.c");
	if (parsed ? v.type != JT_NONE && !(scanned && json_equal(parsed, scanned)) : to_end && is_strict(v))
		abort();
	/* Only a container that is too deep is not found at all. */
	if (parsed && v.type == JT_NONE && memchr(text, '[', size) == NULL && memchr(text, '{', size) == NULL)
		abort();
	if (parsed && scanned)
		check_written(parsed);
	return 0;
}
