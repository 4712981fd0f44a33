/*
 * The compression function of SHA-256 by the CPU's own instructions (ARMv8 SHA2, x86 SHA-NI): about five times as fast
 * as portable code. Each start hashes several kilobytes: its plan and what a permission is bound to.
 */

#include "runtime/base/sha256_blocks.h"

#include <stdlib.h>

#if defined(__aarch64__) || defined(__x86_64__)
static const uint32_t k256[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
#endif

#if defined(__aarch64__)

#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

bool sha256_blocks_supported(void) { return getauxval(AT_HWCAP) & HWCAP_SHA2; }

__attribute__((target("+crypto"))) void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
	uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);

	for (; blocks; blocks--, p += 64) {
		const uint32x4_t abcd_before = abcd, efgh_before = efgh;
		uint32x4_t w[4];

		for (int i = 0; i < 4; i++)
			w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(p + 16 * i)));
		for (int i = 0; i < 16; i++) {
			const uint32x4_t sum = vaddq_u32(w[i % 4], vld1q_u32(k256 + 4 * i)), was = abcd;

			abcd = vsha256hq_u32(abcd, efgh, sum);
			efgh = vsha256h2q_u32(efgh, was, sum);
			if (i < 12)
				w[i % 4] = vsha256su1q_u32(vsha256su0q_u32(w[i % 4], w[(i + 1) % 4]), w[(i + 2) % 4],
							   w[(i + 3) % 4]);
		}
		abcd = vaddq_u32(abcd, abcd_before);
		efgh = vaddq_u32(efgh, efgh_before);
	}
	vst1q_u32(state, abcd);
	vst1q_u32(state + 4, efgh);
}

#elif defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

/* Asked once: in a virtual machine CPUID leaves the guest. */
bool sha256_blocks_supported(void)
{
	static _Atomic int known; /* 1 = yes, −1 = no */
	unsigned a, b, c, d;

	if (!known)
		known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29 && __builtin_cpu_supports("sse4.1")
				? 1
				: -1;
	return known > 0;
}

/* The instructions take the state as two vectors, abef and cdgh. */
__attribute__((target("sha,sse4.1"))) void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t blocks)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
	__m128i abcd = _mm_loadu_si128((const __m128i *)state), efgh = _mm_loadu_si128((const __m128i *)(state + 4));
	const __m128i badc = _mm_shuffle_epi32(abcd, 0xb1), hgfe = _mm_shuffle_epi32(efgh, 0x1b);
	__m128i abef = _mm_alignr_epi8(badc, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);

	for (; blocks; blocks--, p += 64) {
		const __m128i abef_before = abef, cdgh_before = cdgh;
		__m128i w[4];

		for (int i = 0; i < 4; i++)
			w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(p + 16 * i)), swap);
		for (int i = 0; i < 16; i++) {
			__m128i sum = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(k256 + 4 * i)));

			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
			if (i < 12) {
				const __m128i last = w[(i + 3) % 4];
				__m128i next = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);

				next = _mm_add_epi32(next, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
				w[i % 4] = _mm_sha256msg2_epu32(next, last);
			}
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool sha256_blocks_supported(void) { return false; }

void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t blocks) { abort(); }

#endif
