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

void json_value_write(struct jw *w, struct json_value v)
{
	if (v.write)
		v.write(w, v.value, v.n);
	else
		jw_raw(w, v.value, v.n);
}

void json_value_member(struct jw *w, const char *key, struct json_value v)
{
	if (!v.write && !v.value)
		return;
	jw_key(w, key);
	json_value_write(w, v);
}
