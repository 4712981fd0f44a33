#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_OUTPUT_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_OUTPUT_H

/*
 * GET /api/output?processId=…&stream=stdout|stderr|terminal: all stored bytes of a stream as an attachment, so that a
 * browser never interprets them. Read from the daemon in pieces, not faster than the client takes them. Of a running
 * process: what it has printed so far. If a piece cannot be read, the connection breaks off, so that the client does
 * not take the file for complete.
 */

struct console_session;
struct http_exchange;

void console_output_send(struct console_session *s, struct http_exchange *x);
/* Breaks off all downloads of a session that ends. */
void console_output_stop_all(struct console_session *s);

#endif
