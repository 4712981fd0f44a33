#ifndef BAILIFF_CONTROL_SANDBOX_REQUEST_H
#define BAILIFF_CONTROL_SANDBOX_REQUEST_H

/* The parameters that say which sandbox is meant, of start_process and get_sandbox: profile, cwd, sandbox, limits, cow. */

struct call;
struct err;
struct sandbox_request;

/* The arrays that a request borrows; the strings are the call's. */
struct sandbox_texts {
	const char **read, **write, **hide;
};

int sandbox_request_of(const struct call *c, struct sandbox_texts *t, struct sandbox_request *ret, struct err *e);
void sandbox_texts_done(struct sandbox_texts *t);

#endif
