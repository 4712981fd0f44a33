#include "runtime/base/buf.h"
#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/event/id.h"
#include "supervisor/control/control.h"
#include "supervisor/control/method_params.h"

#include <limits.h>
#include <string.h>

/*
 * Checks parameters against their declarations. Handlers rely on it: every declared parameter has its type, and there
 * are no undeclared ones. Each type has a function below that describes a wrong value.
 *
 * An unknown parameter is an error and not ignored: with a misspelled limit or sandbox option a command would run with
 * less protection than its client believes. null is not "absent" either, except where a type says so (PARAM_ENV).
 */

static const char *type_name(const json_t *v)
{
	static const char *const names[] = {
		"an object", "an array", "a string", "an integer", "a number with a fraction", "true", "false", "null"
	};
	return names[json_typeof(v)];
}

static int wrong_type(const char *field, const char *expected, const json_t *v, struct err *e)
{
	return err_field(e, field, "expected %s, got %s", expected, type_name(v));
}

/* NUL is rejected unless declared: handlers pass strings on as C strings, which would silently end there. */
static int check_text(const json_t *v, const char *field, unsigned flags, const char *expected, struct err *e)
{
	if (!json_is_string(v))
		return wrong_type(field, expected, v, e);
	if (!(flags & PARAM_NUL) && strlen(json_string_value(v)) != json_string_length(v))
		return err_field(e, field, "expected %s without \\u0000", expected);
	return 0;
}

static int check_string(const struct param *p, json_t *v, const char *field, struct err *e)
{
	return check_text(v, field, p->flags, "a string", e);
}

static int check_id(const struct param *p, json_t *v, const char *field, struct err *e)
{
	if (check_text(v, field, 0, "an id", e) < 0)
		return -1;
	if (!id_valid(json_string_value(v), json_string_length(v)))
		return err_field(e, field, "expected an id: 1 to %d of A-Z a-z 0-9 _ - . :", ID_GIVEN_MAX);
	return 0;
}

static int check_path(const struct param *p, json_t *v, const char *field, struct err *e)
{
	if (check_text(v, field, 0, "an absolute path", e) < 0)
		return -1;
	if (json_string_value(v)[0] != '/')
		return err_field(e, field, "expected an absolute path, one that starts with /");
	if (json_string_length(v) >= PATH_MAX)
		return err_field(e, field, "expected a path shorter than %d bytes", PATH_MAX);
	return 0;
}

static int check_uint(const struct param *p, json_t *v, const char *field, struct err *e)
{
	if (!json_is_integer(v))
		return wrong_type(field, "a whole number, 0 or more", v, e);
	if (json_integer_value(v) < 0)
		return err_field(e, field, "expected a whole number, 0 or more, got %lld",
				 (long long)json_integer_value(v));
	return 0;
}

static int check_int(const struct param *p, json_t *v, const char *field, struct err *e)
{
	return json_is_integer(v) ? 0 : wrong_type(field, "a whole number", v, e);
}

static int check_number(const struct param *p, json_t *v, const char *field, struct err *e)
{
	return json_is_number(v) ? 0 : wrong_type(field, "a number", v, e);
}

static int check_bool(const struct param *p, json_t *v, const char *field, struct err *e)
{
	return json_is_boolean(v) ? 0 : wrong_type(field, "true or false", v, e);
}

/* The strings in a value that is not declared further are passed on as C strings, too. */
static int check_strings_inside(json_t *v, const char *field, struct err *e)
{
	const char *key;
	json_t *item;
	size_t i;

	if (json_is_string(v))
		return check_text(v, field, 0, "strings", e);
	json_array_foreach (v, i, item)
		if (check_strings_inside(item, field, e) < 0)
			return -1;
	json_object_foreach (v, key, item)
		if (check_strings_inside(item, field, e) < 0)
			return -1;
	return 0;
}

static int check_inside(json_t *v, const char *field, struct err *e)
{
	if (json_is_deeper(v, JSCAN_VALUE_DEPTH))
		return err_field(e, field, "expected at most %d levels of arrays and objects", JSCAN_VALUE_DEPTH);
	return check_strings_inside(v, field, e);
}

static int check_object(const struct param *p, json_t *v, const char *field, struct err *e)
{
	if (!json_is_object(v))
		return wrong_type(field, "an object", v, e);
	return p->members ? params_check(p->members(), v, field, e) : check_inside(v, field, e);
}

static int check_array(const struct param *p, json_t *v, const char *field, struct err *e)
{
	return json_is_array(v) ? check_inside(v, field, e) : wrong_type(field, "an array", v, e);
}

static int check_strings(const struct param *p, json_t *v, const char *field, struct err *e)
{
	if (!json_is_array(v))
		return wrong_type(field, "an array of strings", v, e);
	size_t i;
	json_t *item;
	json_array_foreach (v, i, item) {
		if (check_text(item, field, p->flags, "a string", NULL) == 0)
			continue;
		mem_auto char *name = mem_printf("%s[%zu]", field, i);
		return check_text(item, name, p->flags, "a string", e);
	}
	return 0;
}

/* null removes a variable that the command would otherwise get. */
static int check_env(const struct param *p, json_t *v, const char *field, struct err *e)
{
	if (!json_is_object(v))
		return wrong_type(field, "an object of strings", v, e);
	const char *key;
	json_t *item;
	json_object_foreach (v, key, item) {
		mem_auto char *name = mem_printf("%s.%s", field, key);
		if (!*key || strchr(key, '='))
			return err_field(e, name, "expected a variable's name: not empty, without =");
		if (!json_is_null(item) && check_text(item, name, 0, "a string, or null to remove the variable", e) < 0)
			return -1;
	}
	return 0;
}

/* `detail` has the words, separated by |. */
static int check_enum(const struct param *p, json_t *v, const char *field, struct err *e)
{
	if (json_is_string(v)) {
		const char *text = json_string_value(v);
		size_t n = json_string_length(v);
		for (const char *word = p->detail; word && *word;) {
			size_t len = strcspn(word, "|");
			if (len == n && memcmp(word, text, n) == 0)
				return 0;
			word += len;
			word += *word == '|';
		}
		return err_field(e, field, "expected one of %s, got \"%.40s\"", p->detail, text);
	}
	return err_field(e, field, "expected one of %s, got %s", p->detail, type_name(v));
}

static int check_any(const struct param *p, json_t *v, const char *field, struct err *e)
{
	return check_inside(v, field, e);
}

static int (*const checks[])(const struct param *p, json_t *v, const char *field, struct err *e) = {
	[PARAM_STRING] = check_string, [PARAM_ID] = check_id,           [PARAM_UINT] = check_uint,
	[PARAM_INT] = check_int,       [PARAM_NUMBER] = check_number,   [PARAM_BOOL] = check_bool,
	[PARAM_OBJECT] = check_object, [PARAM_STRINGS] = check_strings, [PARAM_ENV] = check_env,
	[PARAM_ARRAY] = check_array,   [PARAM_ENUM] = check_enum,       [PARAM_PATH] = check_path,
	[PARAM_ANY] = check_any,
};

static char *field_name(const char *prefix, const char *name)
{
	if (!*name)
		name = "\"\""; /* so that the message shows an empty name */
	return prefix && *prefix ? mem_printf("%s.%s", prefix, name) : mem_strdup(name);
}

/* Whether the name suggests that the value is a key, not a reference to one. */
static bool names_secret(const char *key)
{
	static const char *const words[] = { "key", "token", "secret", "password", "credential" };

	if (strcasestr(key, "file") || strcasestr(key, "command"))
		return false;
	for (size_t i = 0; i < countof(words); i++)
		if (strcasestr(key, words[i]))
			return true;
	return false;
}

/* A misspelled name gets the nearest one; otherwise all names are listed. */
static int reject_unknown(const struct param *params, const char *prefix, const char *key, struct err *e)
{
	struct did_you_mean near = did_you_mean_for(key);
	struct buf buf_auto known = BUF_INIT;
	for (const struct param *p = params; p->name; p++) {
		if (strcmp(p->name, "keyFile") == 0 && names_secret(key))
			return err_field(e, key,
					 "a key is never part of a request: put it in a file with mode 0600 and give "
					 "keyFile, or give keyCommand, a command that prints it");
		did_you_mean_try(&near, p->name);
		buf_printf(&known, "%s%s", known.len ? ", " : "", p->name);
	}
	mem_auto char *field = field_name(prefix, key);
	if (near.best)
		return err_field(e, field, "unknown parameter; did you mean %s?", near.best);
	if (!known.len)
		return err_field(e, field, "unknown parameter; none is taken here");
	return err_field(e, field, "unknown parameter; expected %s", buf_cstr(&known));
}

/* Given members first, then missing ones: a misspelled required parameter is reported as misspelled, not as missing. */
int params_check(const struct param *params, json_t *value, const char *prefix, struct err *e)
{
	const char *key;
	json_t *item;
	json_object_foreach (value, key, item) {
		const struct param *p = params;
		while (p->name && strcmp(p->name, key) != 0)
			p++;
		if (!p->name)
			return reject_unknown(params, prefix, key, e);
		mem_auto char *field = prefix && *prefix ? field_name(prefix, key) : NULL;
		if (checks[p->type](p, item, field ? field : key, e) < 0)
			return -1;
	}
	for (const struct param *p = params; p->name; p++) {
		if (!(p->flags & PARAM_REQUIRED) || json_object_get(value, p->name))
			continue;
		mem_auto char *field = field_name(prefix, p->name);
		return err_field(e, field, "missing; %s", p->summary);
	}
	return 0;
}

/* ---- the handler's struct ---- */

static void fill_struct(const struct param *params, json_t *value, char *ret);

/* After the check every value has its type. */
static void fill_member(const struct param *p, json_t *v, void *ret)
{
	switch (p->type) {
	case PARAM_STRING:
	case PARAM_ID:
	case PARAM_ENUM:
	case PARAM_PATH: *(const char **)ret = json_string_value(v); break;
	case PARAM_UINT:
		*(struct param_uint *)ret = (struct param_uint){ true, (uint64_t)json_integer_value(v) };
		break;
	case PARAM_INT: *(struct param_int *)ret = (struct param_int){ true, json_integer_value(v) }; break;
	case PARAM_NUMBER: *(struct param_number *)ret = (struct param_number){ true, json_number_value(v) }; break;
	case PARAM_BOOL: *(struct param_bool *)ret = (struct param_bool){ true, json_is_true(v) }; break;
	case PARAM_OBJECT:
		*(json_t **)ret = v; /* also the first member of a struct of members */
		if (p->members)
			fill_struct(p->members(), v, ret);
		break;
	case PARAM_STRINGS:
	case PARAM_ENV:
	case PARAM_ARRAY:
	case PARAM_ANY: *(json_t **)ret = v; break;
	}
}

static void fill_struct(const struct param *params, json_t *value, char *ret)
{
	for (const struct param *p = params; p->name; p++) {
		json_t *v = json_object_get(value, p->name);

		if (v)
			fill_member(p, v, ret + p->offset);
	}
}

int params_parse(const struct param *params, json_t *value, void *ret, struct err *e)
{
	if (params_check(params, value, "", e) < 0)
		return -1;
	fill_struct(params, value, ret);
	return 0;
}

/* ---- further checks of handlers ---- */

int param_length(const char *field, const char *s, size_t least, size_t most, struct err *e)
{
	if (!s || (strlen(s) >= least && strlen(s) <= most))
		return 0;
	if (least)
		return err_field(e, field, "must have %zu to %zu bytes", least, most);
	return err_field(e, field, "must have at most %zu bytes", most);
}

char *param_json_text(const char *field, const json_t *v, size_t most, struct err *e)
{
	char *text = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	if (!text || strlen(text) <= most)
		return text;
	err_field(e, field, "must have at most %zu bytes as JSON", most);
	free(text);
	return NULL;
}
