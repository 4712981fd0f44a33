#include "supervisor/fleet/member.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_doc.h"

#include <string.h>

bool fleet_id_valid(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

	return n > 0 && n <= FLEET_ID_MAX && !s[n];
}

json_t *member_object(const char *text, size_t n, size_t max, const char *what, struct err *e)
{
	json_error_t why;
	json_t *root;

	if (n > max) {
		err_set(e, ERR_INVALID, "the %s has %zu bytes; at most %zu are allowed", what, n, max);
		return NULL;
	}
	root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
	if (!root) {
		err_set(e, ERR_INVALID, "the %s is not valid JSON: %s", what, why.text);
		return NULL;
	}
	if (!json_is_object(root)) {
		json_decref(root);
		err_set(e, ERR_INVALID, "the %s is not a JSON object", what);
		return NULL;
	}
	return root;
}

int member_known(const json_t *object, const char *what, const char *const *known, struct err *e)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)object, name, value) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], name) != 0)
			i++;
		if (!known[i])
			return err_field(e, name, "unknown member of the %s", what);
	}
	return 0;
}

int member_version(const json_t *object, struct err *e)
{
	return json_get_uint(object, "v") == 1 ? 0
					       : err_field(e, "v", "must be 1: another version of bailiff wrote it");
}

int member_string(const json_t *object, const char *name, size_t min, size_t max, const char **ret, struct err *e)
{
	const json_t *v = json_object_get(object, name);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return err_field(e, name, "must be a string");
	if (json_string_length(v) < min || json_string_length(v) > max)
		return err_field(e, name, "must have %zu to %zu bytes", min, max);
	*ret = json_string_value(v);
	return 0;
}

int member_uint(const json_t *object, const char *name, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	const json_t *v = json_object_get(object, name);

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) < min ||
	    (uint64_t)json_integer_value(v) > max)
		return err_field(e, name, "must be a number from %llu to %llu", (unsigned long long)min,
				 (unsigned long long)max);
	*ret = (uint64_t)json_integer_value(v);
	return 0;
}

int member_flag(const json_t *object, const char *name, bool *ret, struct err *e)
{
	const json_t *v = json_object_get(object, name);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return err_field(e, name, "must be true or false");
	*ret = json_is_true(v);
	return 0;
}

int member_typed(const json_t *object, const char *name, json_type type, const json_t **ret, struct err *e)
{
	const json_t *v = json_object_get(object, name);

	if (!v)
		return 0;
	if (json_typeof(v) != type)
		return err_field(e, name, "must be %s", type == JSON_ARRAY ? "an array" : "an object");
	*ret = v;
	return 0;
}

#define ID_RULE "must be 1 to 64 letters, digits, '_' and '-'"

int member_id(const json_t *object, const char *name, const char **ret, struct err *e)
{
	const char *id = NULL;

	if (member_string(object, name, 1, FLEET_ID_MAX, &id, e) < 0)
		return -1;
	if (id && !fleet_id_valid(id))
		return err_field(e, name, ID_RULE);
	if (id)
		*ret = id;
	return 0;
}

int member_ids(const json_t *object, const char *name, size_t max, const json_t **ret, struct err *e)
{
	const json_t *list = NULL;
	size_t i;
	json_t *v;

	if (member_typed(object, name, JSON_ARRAY, &list, e) < 0)
		return -1;
	if (json_array_size(list) > max)
		return err_field(e, name, "at most %zu", max);
	json_array_foreach ((json_t *)list, i, v)
		if (!json_is_string(v) || !fleet_id_valid(json_string_value(v)))
			return err_field(e, name, "each " ID_RULE);
	if (list)
		*ret = list;
	return 0;
}

int member_signed(const json_t *object, const char *name, struct fleet_signed *ret, struct err *e)
{
	static const char *const known[] = { "request", "key", "signature", NULL };
	const char *text = NULL, *key = NULL, *signature = NULL;
	const json_t *o = name ? NULL : object;

	if (name && member_typed(object, name, JSON_OBJECT, &o, e) < 0)
		return -1;
	if (!o)
		return 0;
	if (member_known(o, "request", known, e) < 0 ||
	    member_string(o, "request", 2, FLEET_REQUEST_MAX, &text, e) < 0 ||
	    member_string(o, "key", FLEET_KEY_TEXT - 1, FLEET_KEY_TEXT - 1, &key, e) < 0 ||
	    member_string(o, "signature", FLEET_SIGNATURE - 1, FLEET_SIGNATURE - 1, &signature, e) < 0)
		return -1;
	if (!text || !key || !signature)
		return err_field(e, !text ? "request" : !key ? "key" : "signature", "missing");
	ret->text = mem_strdup(text);
	memcpy(ret->key, key, FLEET_KEY_TEXT);
	memcpy(ret->signature, signature, FLEET_SIGNATURE);
	return 0;
}
