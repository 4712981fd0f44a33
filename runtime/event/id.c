#include "runtime/event/id.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/base/random.h"

#include <stdint.h>
#include <string.h>

/*
 * 128 bits, written as 26 digits of 5 bits (the first digit has only 3): 48 bits of time and 80 random ones. The state
 * is the last generated id: in the same millisecond, or when the clock went back, the next id is the last plus one, so
 * that ids of one runtime always ascend. Time and random bits keep ids of different runtimes distinct; nothing relies
 * on them being hard to guess.
 */

static const char *const prefixes[ID_KIND_COUNT] = {
	[ID_KIND_RUNTIME] = "rt_",         [ID_KIND_SESSION] = "sess_", [ID_KIND_THREAD] = "thr_",
	[ID_KIND_TURN] = "turn_",          [ID_KIND_TASK] = "task_",    [ID_KIND_RUN] = "run_",
	[ID_KIND_ATTEMPT] = "att_",        [ID_KIND_STEP] = "step_",    [ID_KIND_TOOL_CALL] = "call_",
	[ID_KIND_ACTION] = "act_",         [ID_KIND_SUBAGENT] = "sub_", [ID_KIND_PROCESS] = "proc_",
	[ID_KIND_OUTPUT] = "out_",         [ID_KIND_JOB] = "job_",      [ID_KIND_JOB_ITEM] = "item_",
	[ID_KIND_CHANNEL] = "chan_",       [ID_KIND_EVENT] = "evt_",    [ID_KIND_EVIDENCE] = "evd_",
	[ID_KIND_ARTIFACT] = "art_",       [ID_KIND_SANDBOX] = "sbx_",  [ID_KIND_CHECKPOINT] = "ckp_",
	[ID_KIND_MODEL_REQUEST] = "mreq_",
};

#define ID_DIGITS 26

struct id_bits {
	uint64_t high; /* 48 bits of milliseconds, 16 random bits */
	uint64_t low;  /* 64 random bits */
};

/* A system call for some ids at a time. */
static void take_random(void *p, size_t n)
{
	static char pool[512];
	static size_t used = sizeof(pool);

	if (n > sizeof(pool) - used) {
		random_bytes(pool, sizeof(pool));
		used = 0;
	}
	memcpy(p, pool + used, n);
	used += n;
}

static struct id_bits id_next(void)
{
	static struct id_bits last;
	uint64_t now = clock_real_us() / 1000;

	if (now > last.high >> 16) {
		struct {
			uint64_t low;
			uint16_t high;
		} random;

		take_random(&random, sizeof(random));
		/* with the top bit clear, counting up within a millisecond cannot overflow into the time */
		last.high = now << 16 | (random.high & 0x7fff);
		last.low = random.low;
	} else if (++last.low == 0) {
		last.high++;
	}
	return last;
}

/* Digits from the right; the value is shifted by five bits each time. */
static void write_id(enum id_kind kind, struct id_bits b, char out[ID_TEXT_MAX])
{
	static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
	const char *prefix = id_prefix(kind);
	size_t n = strlen(prefix);

	memcpy(out, prefix, n);
	for (int i = ID_DIGITS - 1; i >= 0; i--) {
		out[n + (size_t)i] = digits[b.low & 31];
		b.low = b.low >> 5 | b.high << 59;
		b.high >>= 5;
	}
	out[n + ID_DIGITS] = '\0';
}

void id_make(enum id_kind kind, char out[ID_TEXT_MAX]) { write_id(kind, id_next(), out); }

void id_floor(enum id_kind kind, uint64_t ms, char out[ID_TEXT_MAX])
{
	const uint64_t most = (1ull << 48) - 1;

	write_id(kind, (struct id_bits){ .high = (ms < most ? ms : most) << 16 }, out);
}

void id_copy(char dst[ID_SIZE], const char *src)
{
	size_t n = src ? strnlen(src, ID_SIZE - 1) : 0;

	memmove(dst, src ? src : "", n); /* a document's id may be copied onto itself */
	dst[n] = '\0';
}

const char *id_prefix(enum id_kind kind) { return (unsigned)kind < ID_KIND_COUNT ? prefixes[kind] : "id_"; }

/* A table of bits instead of ctype: called for every id of every event. */
bool id_valid(const char *s, size_t n)
{
	/* a bit for each allowed character, for 0x00–0x3f and 0x40–0x7f */
	static const uint64_t allowed[2] = { 0x07ff600000000000ull, 0x07fffffe87fffffeull };

	if (n < 1 || n > ID_GIVEN_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c >= 0x80 || !(allowed[c >> 6] >> (c & 63) & 1))
			return false;
	}
	return true;
}
