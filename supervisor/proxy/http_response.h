#ifndef BAILIFF_SUPERVISOR_PROXY_HTTP_ANSWER_H
#define BAILIFF_SUPERVISOR_PROXY_HTTP_ANSWER_H

/*
 * The head of a server's response. It is relayed unchanged except for one header, Connection: close. The proxy asks the
 * server to close after this response, but not every server says so in its response; a client that does not see the
 * header would send its next request into a closing connection and get no response. Pure: bytes in, bytes out.
 */

#include "supervisor/proxy/connect_target.h"

struct buf;

/*
 * PARSED_OK: the first *ret_len bytes are a head; *ret_interim: another head follows (100 Continue and similar).
 * PARSED_BAD: not HTTP/1, or a head that is too long; relay it unchanged.
 */
enum parsed http_response_parse(const char *p, size_t n, size_t *ret_len, bool *ret_interim);
/* Appends the same head with Connection: close. */
void http_response_forward(const char *p, size_t len, struct buf *out);

#endif
