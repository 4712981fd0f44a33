#ifndef BAILIFF_SUPERVISOR_DAEMON_DBUS_MESSAGE_H
#define BAILIFF_SUPERVISOR_DAEMON_DBUS_MESSAGE_H

/*
 * Messages of D-Bus, little-endian: as much of the format as a few calls of systemd's manager take. Bodies are written
 * value by value, with the alignment that the format asks for counted from the start of the buffer; what is read is
 * checked against its length before it is used.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DBUS_HEAD_SIZE 16           /* what has to be read to know a message's length */
#define DBUS_MESSAGE_MAX (64 << 10) /* longer ones are refused: ours have some hundred bytes */

enum dbus_type { DBUS_CALL = 1, DBUS_RETURN = 2, DBUS_ERROR = 3, DBUS_SIGNAL = 4 };

struct dbus_call {
	const char *destination, *path, *interface, *member;
	const char *signature; /* of the body; "" = it has none */
};

/* Values of a body. */
void dbus_put_align(struct buf *b, size_t to);
void dbus_put_u32(struct buf *b, uint32_t v);
void dbus_put_u64(struct buf *b, uint64_t v);
void dbus_put_str(struct buf *b, const char *s); /* also object paths */
void dbus_put_signature(struct buf *b, const char *s);
/* An array of structures: the place of its length, for dbus_end_array. */
size_t dbus_put_array(struct buf *b);
void dbus_end_array(struct buf *b, size_t at);

/* Appends a whole call. It does not permit the callee to ask somebody for a password. */
void dbus_put_call(struct buf *out, const struct dbus_call *c, uint32_t serial, const struct buf *body);

struct dbus_message {
	enum dbus_type type;
	uint32_t reply_serial;       /* 0 = none */
	char member[64], error[128]; /* "" = none; cut where they are longer */
	char signature[64];
	const uint8_t *body;
	size_t body_len;
};

/* How long the message is that begins like this; −1 if it is none that we read. */
ptrdiff_t dbus_message_size(const uint8_t head[DBUS_HEAD_SIZE]);
/* The whole message; *ret points into it. */
int dbus_message_read(const void *data, size_t len, struct dbus_message *ret);

/* Reads a body from its start; false when it ends too early. */
struct dbus_reader {
	const uint8_t *p;
	size_t len, at;
};
bool dbus_get_u32(struct dbus_reader *r, uint32_t *ret);
bool dbus_get_str(struct dbus_reader *r, char *ret, size_t cap); /* also object paths; cut where it is longer */

#endif
