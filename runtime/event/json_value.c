#include "runtime/event/json_value.h"

void json_write_string(struct jw *w, const void *text, size_t n) { jw_str(w, text); }

void json_write_strings(struct jw *w, const void *strv, size_t n)
{
	const char *const *at = strv;

	jw_arr(w);
	for (size_t i = 0; i < n; i++)
		jw_str(w, at[i]);
	jw_arr_end(w);
}

void json_write_uint(struct jw *w, const void *number, size_t n) { jw_uint(w, *(const uint64_t *)number); }

void json_write_real(struct jw *w, const void *number, size_t n) { jw_real(w, *(const double *)number); }

void json_value_member(struct jw *w, const char *key, const struct json_value *v)
{
	if (v->write) {
		jw_key(w, key);
		v->write(w, v->value, v->n);
	} else if (v->value) {
		jw_kraw(w, key, v->value, v->n);
	}
}
