#include "supervisor/cli/step_check.h"

#include "runtime/base/did_you_mean.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

json_t *step_parameters(struct cli *c, struct err *e)
{
	request_auto struct request q = REQUEST_INIT(q);
	json_t *method, *found = NULL;
	size_t i;

	if (request_read(c, &q, "list_methods") < 0) {
		*e = q.e;
		return NULL;
	}
	json_auto_t *reply = json_loadb(q.result.text, q.result.len, 0, NULL);
	json_array_foreach (json_object_get(reply, "methods"), i, method) {
		const char *name = json_string_value(json_object_get(method, "name"));

		if (name && strcmp(name, "start_process") == 0)
			found = json_incref(json_object_get(method, "parameters"));
	}
	if (!found)
		err_set(e, ERR_INTERNAL, "the daemon does not describe start_process");
	return found;
}

/* NULL if the value has the type, otherwise what it must be. A type that is not named here is left to the daemon. */
static const char *expected(const char *type, const json_t *v)
{
	static const struct {
		const char *type, *must;
	} texts[] = { { "string", "a text" }, { "path", "a path" }, { "id", "an id" }, { "enum", "a text" } };
	const json_t *item;
	size_t i;

	for (i = 0; i < countof(texts); i++)
		if (strcmp(type, texts[i].type) == 0)
			return json_is_string(v) ? NULL : texts[i].must;
	if (strcmp(type, "bool") == 0)
		return json_is_boolean(v) ? NULL : "true or false";
	if (strcmp(type, "uint") == 0)
		return json_is_integer(v) && json_integer_value(v) >= 0 ? NULL : "a whole number, 0 or more";
	if (strcmp(type, "number") == 0)
		return json_is_number(v) ? NULL : "a number";
	if (strcmp(type, "object") == 0 || strcmp(type, "env") == 0)
		return json_is_object(v) ? NULL : "an object";
	if (strcmp(type, "strings") == 0) {
		json_array_foreach (v, i, item)
			if (!json_is_string(item))
				return "an array of texts";
		return json_is_array(v) ? NULL : "an array of texts";
	}
	return NULL;
}

static int check_enum(const json_t *parameter, const char *path, const json_t *v, struct err *e)
{
	const json_t *words = json_object_get(parameter, "enum"), *word;
	buf_auto struct buf all = BUF_INIT;
	size_t i;

	json_array_foreach (words, i, word) {
		if (strcmp(json_string_value(word), json_string_value(v)) == 0)
			return 0;
		buf_printf(&all, "%s%s",
			   !i                                ? ""
			   : i + 1 == json_array_size(words) ? " or "
							     : ", ",
			   json_string_value(word));
	}
	return json_array_size(words) ? err_set(e, ERR_INVALID, "%s: must be %s", path, buf_cstr(&all)) : 0;
}

static const json_t *find_parameter(const json_t *parameters, const char *name, struct did_you_mean *near)
{
	const json_t *p;
	size_t i;

	json_array_foreach (parameters, i, p) {
		const char *its = json_string_value(json_object_get(p, "name"));

		if (its && strcmp(its, name) == 0)
			return p;
		if (its)
			did_you_mean_try(near, its);
	}
	return NULL;
}

static bool is_own(const char *const *own, const char *key)
{
	for (; own && *own; own++)
		if (strcmp(*own, key) == 0)
			return true;
	return false;
}

/* `in` is the path of the object, with a dot at its end. */
static int check_members(const json_t *parameters, json_t *object, const char *in, const char *const *own,
			 struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach (object, key, v) {
		struct did_you_mean near = did_you_mean_for(key);
		const json_t *p = is_own(own, key) ? NULL : find_parameter(parameters, key, &near);
		mem_auto char *path = mem_printf("%s%.64s", in, key);

		if (is_own(own, key))
			continue;
		if (!p && near.best)
			return err_set(e, ERR_INVALID, "unknown key \"%s\" (did you mean \"%s\"?)", path, near.best);
		if (!p)
			return err_set(e, ERR_INVALID,
				       "unknown key \"%s\"; docs/control.md lists the parameters of start_process",
				       path);
		const char *type = json_string_value(json_object_get(p, "type")), *must = expected(type ? type : "", v);
		if (must)
			return err_set(e, ERR_INVALID, "%s: must be %s", path, must);
		if (json_is_string(v) && check_enum(p, path, v, e) < 0)
			return -1;
		mem_auto char *inside = mem_printf("%s.", path);
		if (json_object_get(p, "members") &&
		    check_members(json_object_get(p, "members"), v, inside, NULL, e) < 0)
			return -1;
	}
	return 0;
}

int step_check(const json_t *parameters, const json_t *step, const char *const *own, struct err *e)
{
	return check_members(parameters, (json_t *)step, "", own, e);
}
