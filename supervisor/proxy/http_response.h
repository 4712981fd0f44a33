#ifndef BAILIFF_SUPERVISOR_PROXY_HTTP_ANSWER_H
#define BAILIFF_SUPERVISOR_PROXY_HTTP_ANSWER_H

/*
 * The head of a server's answer. It is the server's and goes through as it is, but for one thing: the connection ends
 * with this answer, because the server was asked for that, and not every server tells the client. One that was not told
 * sends its next request into the end of the connection, and gets no answer. Pure: bytes in, bytes out.
 */

#include "supervisor/proxy/connect_target.h"

struct buf;

/*
 * PARSED_OK: the first *ret_len bytes are a head; *ret_interim: and not the last of this answer (100 Continue and the
 * like). PARSED_BAD: no HTTP/1, or a head without an end: not ours to change.
 */
enum parsed http_response_parse(const char *p, size_t n, size_t *ret_len, bool *ret_interim);
/* The same head, with the word that the connection ends. */
void http_response_forward(const char *p, size_t len, struct buf *out);

#endif
