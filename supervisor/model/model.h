#ifndef BAILIFF_SUPERVISOR_MODEL_MODEL_H
#define BAILIFF_SUPERVISOR_MODEL_MODEL_H

/*
 * bailiff-model: sends one request to a model provider. The runtime starts it for every request, as a process in a
 * sandbox that reaches only the provider's host; ending the process closes the connection.
 *
 *   stdin     a line of JSON (struct model_input), then the body of the request to the end of input
 *   stdout    a line of JSON {"status":200,"headers":{…}}, names in lower case, as soon as the response's head has
 *             arrived; then the body of the response as it arrives
 *   stderr    if the transfer fails, one line of JSON {"category","stage","message","retryable"}
 *   status    0: the response ended, whatever its HTTP status. 1: the transfer failed, before or after the head.
 *             2: invalid input
 *
 * The end of a body proves nothing: a connection that breaks can look like it. The provider's terminal event does.
 *
 * The API key comes from a file or a command. It is in none of the above: what a server echoes of it is replaced
 * (redactor.h). A process forked before the role's sandbox is entered reads it (key_reader.h), again after a 401.
 */

#include <stdbool.h>
#include <stdint.h>

#define MODEL_EXIT_FAILED 1
#define MODEL_EXIT_INPUT 2

/* Where in the transfer it failed. */
#define MODEL_STAGE_INPUT "input"
#define MODEL_STAGE_KEY "key"
#define MODEL_STAGE_CONNECT "connect"   /* name, connection, proxy, TLS */
#define MODEL_STAGE_REQUEST "request"   /* sending it, and waiting for the head of the response */
#define MODEL_STAGE_RESPONSE "response" /* the head has been written */

struct model_failure {
	const char *category; /* connect, tls, timeout, dns, proxy, key, protocol, input; NULL = none */
	const char *stage;
	char message[512];
	bool retryable; /* the same request may succeed later */
};

#endif
