#include "runtime/base/sha256_cpu.h"

#include <string.h>

#if defined(__aarch64__) && !defined(__clang__)

#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#define HAS_SHA2 1
#define WITH_SHA2 __attribute__((target("+crypto")))

#elif defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define HAS_SHA2 1
#define WITH_SHA2 __attribute__((target("sha,sse4.1")))

#endif

#ifdef HAS_SHA2

#define BLOCK 64

static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#if defined(__aarch64__)

static bool is_available(void) { return getauxval(AT_HWCAP) & HWCAP_SHA2; }

WITH_SHA2 static void add_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
	uint32x4_t a = vld1q_u32(state), b = vld1q_u32(state + 4);

	for (; blocks; blocks--, p += BLOCK) {
		const uint32x4_t before_a = a, before_b = b;
		uint32x4_t w[4];

		for (size_t i = 0; i < 4; i++)
			w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 16 * i)));
#pragma GCC unroll 16
		for (size_t i = 0; i < 16; i++) {
			const uint32x4_t sum = vaddq_u32(w[i % 4], vld1q_u32(constants + 4 * i)), old = a;

			if (i < 12)
				w[i % 4] = vsha256su1q_u32(vsha256su0q_u32(w[i % 4], w[(i + 1) % 4]), w[(i + 2) % 4],
							   w[(i + 3) % 4]);
			a = vsha256hq_u32(a, b, sum);
			b = vsha256h2q_u32(b, old, sum);
		}
		a = vaddq_u32(a, before_a);
		b = vaddq_u32(b, before_b);
	}
	vst1q_u32(state, a);
	vst1q_u32(state + 4, b);
}

#else

static bool is_available(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
	       (b & bit_SHA);
}

/* The instructions want the state as the halves ABEF and CDGH, with the first word in the highest place. */
WITH_SHA2 static void add_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
	const __m128i swap_bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
	const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

	for (; blocks; blocks--, p += BLOCK) {
		const __m128i before_abef = abef, before_cdgh = cdgh;
		__m128i w[4];

		for (size_t i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i)), swap_bytes);
#pragma GCC unroll 16
		for (size_t i = 0; i < 16; i++) {
			const __m128i last = w[(i + 3) % 4];
			__m128i sum = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(constants + 4 * i)));

			if (i < 12)
				w[i % 4] = _mm_sha256msg2_epu32(
					_mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]),
						      _mm_alignr_epi8(last, w[(i + 2) % 4], 4)),
					last);
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
			sum = _mm_shuffle_epi32(sum, 0x0e);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
		}
		abef = _mm_add_epi32(abef, before_abef);
		cdgh = _mm_add_epi32(cdgh, before_cdgh);
	}
	const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

static void hash_all(const uint8_t *p, size_t n, uint8_t out[32])
{
	uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	uint8_t tail[2 * BLOCK] = { 0 };
	const size_t rest = n % BLOCK, end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
	const uint64_t bits = __builtin_bswap64((uint64_t)n * 8);

	if (rest)
		memcpy(tail, p + (n - rest), rest);
	tail[rest] = 0x80;
	memcpy(tail + end - sizeof(bits), &bits, sizeof(bits));
	add_blocks(state, p, n / BLOCK);
	add_blocks(state, tail, end / BLOCK);
	for (size_t i = 0; i < 8; i++) {
		const uint32_t word = __builtin_bswap32(state[i]);

		memcpy(out + 4 * i, &word, sizeof(word));
	}
}

bool sha256_cpu(const void *p, size_t n, uint8_t out[32])
{
	static _Atomic int available = -1; /* asked once: cpuid traps in a virtual machine */

	if (available < 0)
		available = is_available();
	if (!available)
		return false;
	hash_all(p, n, out);
	return true;
}

#else

bool sha256_cpu(const void *p, size_t n, uint8_t out[32]) { return false; }

#endif
