/*
 * Comparisons that are not reported to libFuzzer (the linker's --wrap calls these functions instead of its own). Each
 * report costs as much as some lines of the program, and UBSan's checks of pointers are comparisons, too: together they
 * took up to half of the time. libFuzzer uses comparisons to find values to insert, and for that only those of four and
 * eight bytes (without -use_value_profile, which is not used here); zero is no such value.
 */

#include <stdint.h>

#ifdef __clang__
#define UNTRACED __attribute__((no_sanitize("coverage")))
#else
#define UNTRACED /* is compiled, but not linked */
#endif

#define IGNORE(name, type)                          \
	void __wrap_##name(type a, type b);         \
	UNTRACED void __wrap_##name(type a, type b) \
	{                                           \
		(void)a;                            \
		(void)b;                            \
	}

/* The first argument is the constant. */
#define IGNORE_ZERO(name, type)                     \
	void __wrap_##name(type a, type b);         \
	void __real_##name(type a, type b);         \
	UNTRACED void __wrap_##name(type a, type b) \
	{                                           \
		if (a)                              \
			__real_##name(a, b);        \
	}

IGNORE(__sanitizer_cov_trace_cmp1, uint8_t)
IGNORE(__sanitizer_cov_trace_cmp2, uint16_t)
IGNORE(__sanitizer_cov_trace_const_cmp1, uint8_t)
IGNORE(__sanitizer_cov_trace_const_cmp2, uint16_t)
IGNORE_ZERO(__sanitizer_cov_trace_const_cmp4, uint32_t)
IGNORE_ZERO(__sanitizer_cov_trace_const_cmp8, uint64_t)

void __wrap___sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b);
void __real___sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b);

/* Two addresses of the same region: UBSan's check that adding to a pointer does not overflow. */
UNTRACED void __wrap___sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b)
{
	if (!(a >> 32) || a >> 32 != b >> 32)
		__real___sanitizer_cov_trace_cmp8(a, b);
}
