#ifndef BAILIFF_BASE_IMAGE_H
#define BAILIFF_BASE_IMAGE_H

/* Images that are attached to turns: PNG, JPEG, GIF and WebP, which every provider of models accepts. */

#include <stddef.h>

#define IMAGE_MAX (3840u << 10) /* bytes; 5 MiB as base64, the limit of a provider */

/* "image/png" and so on, by the first bytes; NULL = not one of these formats. */
const char *image_media_type(const void *p, size_t n);

#endif
