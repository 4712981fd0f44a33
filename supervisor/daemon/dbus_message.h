#ifndef BAILIFF_SUPERVISOR_DAEMON_DBUS_MESSAGE_H
#define BAILIFF_SUPERVISOR_DAEMON_DBUS_MESSAGE_H

/*
 * D-Bus messages, little-endian: the part of the format that a few calls of systemd's manager need. Bodies are written
 * value by value; alignment counts from the start of the buffer. Received messages are checked against their length
 * before they are used.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DBUS_HEAD_SIZE 16           /* enough of a message to determine its length */
#define DBUS_MESSAGE_MAX (64 << 10) /* longer messages are rejected; expected ones have a few hundred bytes */

enum dbus_type { DBUS_CALL = 1, DBUS_RETURN = 2, DBUS_ERROR = 3, DBUS_SIGNAL = 4 };

struct dbus_call {
	const char *destination, *path, *interface, *member;
	const char *signature; /* of the body; "" = no body */
};

/* Values of a body. */
void dbus_put_align(struct buf *b, size_t to);
void dbus_put_u32(struct buf *b, uint32_t v);
void dbus_put_u64(struct buf *b, uint64_t v);
void dbus_put_str(struct buf *b, const char *s); /* also object paths */
void dbus_put_signature(struct buf *b, const char *s);
/* Begins an array of structures; returns the offset of its length, for dbus_end_array. */
size_t dbus_put_array(struct buf *b);
void dbus_end_array(struct buf *b, size_t at);

/* Appends a complete call. It does not permit interactive authorisation, so no password prompt can appear. */
void dbus_put_call(struct buf *out, const struct dbus_call *c, uint32_t serial, const struct buf *body);

struct dbus_message {
	enum dbus_type type;
	uint32_t reply_serial;       /* 0 = none */
	char member[64], error[128]; /* "" = none; truncated */
	char signature[64];
	const uint8_t *body;
	size_t body_len;
};

/* The length of the message that starts with this head; −1 if it is not supported. */
ptrdiff_t dbus_message_size(const uint8_t head[DBUS_HEAD_SIZE]);
/* Parses a complete message; *ret points into `data`. −1: malformed. */
int dbus_message_read(const void *data, size_t len, struct dbus_message *ret);

/* Reads a body from its start; false when it ends too early. */
struct dbus_reader {
	const uint8_t *p;
	size_t len, at;
};
bool dbus_get_u32(struct dbus_reader *r, uint32_t *ret);
bool dbus_get_str(struct dbus_reader *r, char *ret, size_t cap); /* also object paths; truncated */

#endif
