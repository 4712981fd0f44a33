#include "supervisor/proxy/client_hello.h"

#include <string.h>

#define RECORD_HANDSHAKE 22
#define RECORD_MAX (16u * 1024 + 256)
#define HANDSHAKE_CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0
#define EXTENSION_ECH 0xfe0d
#define EXTENSION_ECH_OLD 0xffce /* its predecessor, "encrypted server name" */

/* The bytes left to read; a read past the end sets `bad`. */
struct hello_reader {
	const uint8_t *p;
	size_t n;
	bool bad;
};

static const uint8_t *read_bytes(struct hello_reader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (r->bad || n > r->n) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	r->n -= n;
	return p;
}

static uint32_t read_number(struct hello_reader *r, size_t bytes)
{
	const uint8_t *p = read_bytes(r, bytes);
	uint32_t v = 0;

	for (size_t i = 0; p && i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/* Reads a vector that is preceded by its length in length_bytes bytes. */
static struct hello_reader read_vector(struct hello_reader *r, size_t length_bytes)
{
	size_t n = read_number(r, length_bytes);
	const uint8_t *p = read_bytes(r, n);

	return (struct hello_reader){ .p = p, .n = p ? n : 0, .bad = r->bad };
}

static bool server_name(struct hello_reader ext, struct client_hello *ret)
{
	struct hello_reader list = read_vector(&ext, 2);
	bool found = false;

	while (!list.bad && list.n) {
		uint32_t type = read_number(&list, 1);
		struct hello_reader name = read_vector(&list, 2);

		if (list.bad || type != 0 || found)
			return false; /* exactly one host name: the RFC defines no other type */
		found = host_name_clean((const char *)name.p, name.n, ret->name);
		if (!found)
			return false;
	}
	return !list.bad && found && ext.n == 0;
}

static bool parse_extensions(struct hello_reader r, struct client_hello *ret)
{
	bool named = false;

	while (!r.bad && r.n) {
		uint32_t type = read_number(&r, 2);
		struct hello_reader ext = read_vector(&r, 2);

		if (r.bad)
			return false;
		if (type == EXTENSION_ECH || type == EXTENSION_ECH_OLD)
			ret->encrypted = true;
		if (type != EXTENSION_SERVER_NAME)
			continue;
		/* A second server name is rejected: servers differ in which of two they use. */
		if (named || !server_name(ext, ret))
			return false;
		named = true;
	}
	return !r.bad;
}

static bool parse_hello(struct hello_reader r, struct client_hello *ret)
{
	read_bytes(&r, 2 + 32); /* version, random */
	read_vector(&r, 1);     /* session */
	read_vector(&r, 2);     /* ciphers */
	read_vector(&r, 1);     /* compression */
	if (r.bad)
		return false;
	if (r.n == 0)
		return true; /* SSL 3: no extensions */
	struct hello_reader ext = read_vector(&r, 2);
	return !r.bad && r.n == 0 && parse_extensions(ext, ret);
}

enum parsed client_hello_parse(const uint8_t *p, size_t n, struct client_hello *ret)
{
	static const size_t head = 4;
	uint8_t message[CLIENT_HELLO_MAX];
	size_t have = 0, want = head;
	struct hello_reader r = { .p = p, .n = n };

	while (have < want) {
		if (r.n && r.p[0] != RECORD_HANDSHAKE)
			return PARSED_BAD;
		if (r.n > 1 && r.p[1] != 3)
			return PARSED_BAD;
		if (r.n < 5)
			return n >= CLIENT_HELLO_MAX ? PARSED_BAD : PARSED_MORE;
		size_t part = (size_t)r.p[3] << 8 | r.p[4];
		/* Empty records are rejected: any number of them could precede the message. */
		if (part == 0 || part > RECORD_MAX)
			return PARSED_BAD;
		read_bytes(&r, 5);
		size_t there = part < r.n ? part : r.n;
		if (have + there > sizeof message)
			return PARSED_BAD;
		memcpy(message + have, read_bytes(&r, there), there);
		have += there;
		if (have >= 1 && message[0] != HANDSHAKE_CLIENT_HELLO)
			return PARSED_BAD;
		if (have >= head)
			want = head + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
		if (want > sizeof message)
			return PARSED_BAD;
		if (there < part)
			break;
	}
	/*
	 * More than twice the limit arrived, split into tiny records with a header each: no regular client does that.
	 */
	if (have < want)
		return n >= 2 * CLIENT_HELLO_MAX ? PARSED_BAD : PARSED_MORE;
	struct client_hello found = { 0 };
	if (!parse_hello((struct hello_reader){ .p = message + head, .n = want - head }, &found))
		return PARSED_BAD;
	*ret = found;
	return PARSED_OK;
}
