/* Untrusted texts: the form for people and terminals is clean, and base64 round-trips. */

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto char *text = mem_dup(data, size);
	mem_auto char *word = mem_strndup((const char *)data, size);
	buf_auto struct buf clean = BUF_INIT, json = BUF_INIT, base64 = BUF_INIT, back = BUF_INIT;
	struct jw w = jw_on(&json);
	uint64_t number;

	text_sanitize(text, size, &clean);
	for (size_t i = 0; i < clean.len; i++)
		if ((unsigned char)clean.data[i] < 0x20 && clean.data[i] != '\t' && clean.data[i] != '\n')
			abort();
	if (memmem(buf_cstr(&clean), clean.len, "\xe2\x80\xae", 3))
		abort();
	buf_reset(&back);
	text_sanitize_line(text, size, &back);
	for (size_t i = 0; i < back.len; i++)
		if ((unsigned char)back.data[i] < 0x20)
			abort();
	buf_reset(&back);
	jw_strn(&w, text, size);
	if (!text_utf8_valid(buf_cstr(&clean), clean.len) || !text_utf8_valid(json.data, json.len))
		abort();
	text_base64_encode(text, size, &base64);
	if (text_base64_decode(buf_cstr(&base64), base64.len, &back) < 0 || back.len != size ||
	    memcmp(back.data, text, size) != 0)
		abort();
	buf_reset(&back);
	if (text_base64_decode(text, size, &back) == 0) { /* only one text stands for some bytes */
		buf_reset(&base64);
		text_base64_encode(back.data, back.len, &base64);
		if (base64.len != size || memcmp(base64.data, text, size) != 0)
			abort();
	}
	if (text_utf8_cut(text, size) > size)
		abort();
	text_duration_ms(word, &number, NULL);
	text_size_bytes(word, &number, NULL);
	text_signal_number(word);
	clock_parse(word, &number);
	if (!text_glob("*", word))
		abort();
	return 0;
}
