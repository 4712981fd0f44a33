#ifndef BAILIFF_SUPERVISOR_PROXY_HTTP_ANSWER_H
#define BAILIFF_SUPERVISOR_PROXY_HTTP_ANSWER_H

/*
 * The head of a server's response. It passes unchanged except for one header: the connection ends with this response,
 * because the request asked for that, and not every server tells the client. A client that is not told sends its next
 * request into a closing connection and gets no response. Pure: bytes in, bytes out.
 */

#include "supervisor/proxy/connect_target.h"

struct buf;

/*
 * PARSED_OK: the first *ret_len bytes are a head; *ret_interim: another head follows (100 Continue and similar).
 * PARSED_BAD: not HTTP/1, or a head without an end: pass it on unchanged.
 */
enum parsed http_response_parse(const char *p, size_t n, size_t *ret_len, bool *ret_interim);
/* Appends the same head with Connection: close. */
void http_response_forward(const char *p, size_t len, struct buf *out);

#endif
