#include "sandbox/refusing_resolver.h"

#include <ctype.h>

#define HEADER 12u
#define RESPONSE 0x80u
#define OPCODE 0x78u
#define RECURSION_WANTED 0x01u
#define RECURSION_OFFERED 0x80u
#define REFUSED 5u
#define LABEL_MAX 63u

/* Characters of host names, and the underscore of service names; names with others are not shown to people. */
static bool is_plain(unsigned char c) { return isalnum(c) || c == '-' || c == '_'; }

/* Returns the end of the name at `at`; 0 = malformed. Queries do not need compression, so pointers are malformed. */
static size_t read_name(const unsigned char *packet, size_t n, size_t at, char name[RESOLVER_NAME_MAX])
{
	size_t len = 0;
	bool plain = true;

	name[0] = 0;
	for (;;) {
		if (at >= n || packet[at] > LABEL_MAX)
			return 0;
		size_t label = packet[at++];
		if (label == 0)
			break;
		if (label > n - at)
			return 0;
		plain = plain && len + label + 1 < RESOLVER_NAME_MAX;
		for (size_t i = 0; plain && i < label; i++) {
			plain = is_plain(packet[at + i]);
			name[len++] = (char)tolower(packet[at + i]);
		}
		if (plain)
			name[len++] = '.';
		at += label;
	}
	name[plain && len ? len - 1 : 0] = 0;
	return at;
}

size_t refusing_resolver_reply(unsigned char *packet, size_t n, char name[RESOLVER_NAME_MAX])
{
	name[0] = 0;
	if (n < HEADER || (packet[2] & (RESPONSE | OPCODE)) || packet[4] || packet[5] != 1)
		return 0;
	size_t end = read_name(packet, n, HEADER, name);
	if (!end || n - end < 4)
		return 0;
	packet[2] = RESPONSE | (packet[2] & RECURSION_WANTED);
	packet[3] = RECURSION_OFFERED | REFUSED;
	for (size_t i = 6; i < HEADER; i++)
		packet[i] = 0; /* no answers, and nothing after the question */
	return end + 4;
}
