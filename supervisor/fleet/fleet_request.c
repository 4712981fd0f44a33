/* Signed text and requests: see fleet_doc.h. */

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_doc.h"
#include "supervisor/fleet/member.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void fleet_signed_done(struct fleet_signed *s)
{
	free(s->text);
	*s = (struct fleet_signed){ 0 };
}

int fleet_signed_make(const char *seed, const char *text, struct fleet_signed *ret, struct err *e)
{
	struct fleet_signed s = { 0 };

	if (fleet_key_of(seed, s.key, e) < 0 || fleet_key_sign(seed, text, strlen(text), s.signature, e) < 0)
		return -1;
	s.text = mem_strdup(text);
	*ret = s;
	return 0;
}

int fleet_signed_verify(const struct fleet_signed *s, struct err *e)
{
	return fleet_key_verify(s->key, s->text, strlen(s->text), s->signature, e);
}

void fleet_signed_write(const struct fleet_signed *s, struct buf *ret)
{
	struct jw w = jw_on(ret);

	jw_obj(&w);
	jw_kstr(&w, "request", s->text);
	jw_kstr(&w, "key", s->key);
	jw_kstr(&w, "signature", s->signature);
	jw_obj_end(&w);
}

int fleet_signed_parse(const char *text, size_t n, struct fleet_signed *ret, struct err *e)
{
	json_auto_t *root = member_object(text, n, FLEET_REQUEST_MAX * 2, "request", e);

	return root ? member_signed(root, NULL, ret, e) : -1;
}

int fleet_request_parse(const char *text, struct fleet_request *ret, struct err *e)
{
	static const char *const known[] = { "v", "verb", "task", "time", "nonce", "args", NULL };
	struct fleet_request r = { .root = member_object(text, strlen(text), FLEET_REQUEST_MAX, "request", e) };

	if (!r.root)
		return -1;
	if (member_known(r.root, "request", known, e) < 0 || member_version(r.root, e) < 0 ||
	    member_id(r.root, "verb", &r.verb, e) < 0 || member_id(r.root, "task", &r.task, e) < 0 ||
	    member_id(r.root, "nonce", &r.nonce, e) < 0 || member_uint(r.root, "time", 1, 1ull << 53, &r.time, e) < 0 ||
	    member_typed(r.root, "args", JSON_OBJECT, &r.args, e) < 0 ||
	    (!(r.verb && r.task && r.nonce && r.time) && err_field(e,
								   !r.verb    ? "verb"
								   : !r.task  ? "task"
								   : !r.nonce ? "nonce"
									      : "time",
								   "missing"))) {
		json_decref(r.root);
		return -1;
	}
	*ret = r;
	return 0;
}

void fleet_request_done(struct fleet_request *r)
{
	json_decref(r->root);
	*r = (struct fleet_request){ 0 };
}

int fleet_request_make(const char *seed, const char *verb, const char *task, const char *args_or_null,
		       struct fleet_signed *ret, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	struct jw w = jw_on(&text);
	uint64_t random[2];
	char nonce[33];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, errno, "get random bytes");
	snprintf(nonce, sizeof(nonce), "%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
	jw_obj(&w);
	jw_kuint(&w, "v", 1);
	jw_kstr(&w, "verb", verb);
	jw_kstr(&w, "task", task);
	jw_kuint(&w, "time", clock_real_us() / 1000);
	jw_kstr(&w, "nonce", nonce);
	if (args_or_null)
		jw_kraw(&w, "args", args_or_null, strlen(args_or_null));
	jw_obj_end(&w);
	return fleet_signed_make(seed, buf_cstr(&text), ret, e);
}
