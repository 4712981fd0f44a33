#ifndef BAILIFF_SUPERVISOR_MODEL_MODEL_INPUT_H
#define BAILIFF_SUPERVISOR_MODEL_MODEL_INPUT_H

/*
 * The first line of bailiff-model's input:
 *
 *   {"url", "method"?: POST, GET or DELETE, "headers":{NAME:VALUE}, "keyHeader"?, "keyPrefix"?, "keyFile"? or
 * "keyCommand"?, "caFile"?, "direct"?, "timeouts"?:{"connectMs", "firstByteMs", "idleMs", "silentMs", "totalMs"}}
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define MODEL_INPUT_LINE_MAX (256u << 10)
#define MODEL_INPUT_BODY_MAX (64u << 20)
#define MODEL_INPUT_HEADERS_MAX 64

struct model_input {
	char *url, *method;                    /* NULL = POST */
	char *header[MODEL_INPUT_HEADERS_MAX]; /* in libcurl's syntax */
	size_t nheaders;
	char *key_header, *key_prefix; /* NULL without a key */
	char *key_file, *key_command;  /* at most one */
	char *ca_file;                 /* replaces the system's authorities; NULL = those */
	bool direct;                   /* not through the sandbox's proxy (tests) */
	struct {
		uint64_t connect_ms;
		uint64_t first_byte_ms; /* from the last byte that was sent to the head of the response */
		uint64_t idle_ms;       /* between two bytes of the response */
		uint64_t silent_ms;     /* between two bytes that are not keep-alives; default: 3 × idle_ms */
		uint64_t total_ms;
	} timeouts;
};

/* The line without its line feed. On failure the error names the member, and *ret must still be given to _done. */
int model_input_parse(const char *line, size_t len, struct model_input *ret, struct err *e);
void model_input_done(struct model_input *in);

#endif
