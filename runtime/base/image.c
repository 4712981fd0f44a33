#include "runtime/base/image.h"

#include "runtime/base/mem.h"

#include <string.h>

const char *image_media_type(const void *p, size_t n)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *media_type;
	} formats[] = {
		{ "\x89PNG\r\n\x1a\n", 8, "image/png" },
		{ "\xff\xd8\xff", 3, "image/jpeg" },
		{ "GIF87a", 6, "image/gif" },
		{ "GIF89a", 6, "image/gif" },
	};

	for (size_t i = 0; i < countof(formats); i++)
		if (n >= formats[i].len && memcmp(p, formats[i].magic, formats[i].len) == 0)
			return formats[i].media_type;
	/* A RIFF container: its length is between the two words. */
	if (n >= 12 && memcmp(p, "RIFF", 4) == 0 && memcmp((const char *)p + 8, "WEBP", 4) == 0)
		return "image/webp";
	return NULL;
}
