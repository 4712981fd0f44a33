/*
 * Images in the input of a turn. A client sends the bytes with the request or names an output that is stored already;
 * the runtime opens no file for it. Either way the bytes are stored as an output of the turn in the commit of
 * turn.submitted, and the stored input refers to that: the output of a process may grow, and is removed with it.
 */

#include "runtime/base/hash.h"
#include "runtime/base/image.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/turn/turn_private.h"

#define TOTAL_MAX (12u << 20) /* bytes of the images of one turn */

/* The bytes of an output that the caller may read. */
static int read_output(struct engine *engine, const char *ref, const struct caller *c, struct buf *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct output_doc d;
	int r = view_read_speculative(engine->o.store, &output_schema, ref, &text, &d, e);

	if (r < 0)
		return -1;
	if (r > 0 || (c->uid != 0 && d.uid != c->uid))
		return err_at(e, ERR_NOT_FOUND, "outputRef", "'%.80s' is not known", ref);
	if (store_output_whole(engine->o.store, ref, IMAGE_MAX, ret, e) < 0) {
		if (e->code == ERR_EXHAUSTED)
			return err_field(e, "outputRef", "an image must have at most %u KiB", IMAGE_MAX >> 10);
		snprintf(e->field, sizeof e->field, "outputRef");
		return -1;
	}
	return 0;
}

static int decode_data(const json_t *data, struct buf *ret, struct err *e)
{
	if (json_string_length(data) > (IMAGE_MAX + 2) / 3 * 4)
		return err_field(e, "data", "an image must have at most %u KiB", IMAGE_MAX >> 10);
	if (!json_is_string(data) || text_base64_decode(json_string_value(data), json_string_length(data), ret) < 0)
		return err_field(e, "data", "must be the bytes of the image as base64");
	return 0;
}

json_t *turn_image_check(struct engine *engine, const json_t *part, const struct caller *c, struct turn_images *images,
			 struct err *e)
{
	const json_t *data = json_object_get(part, "data");
	const char *ref = json_string_value(json_object_get(part, "outputRef"));
	buf_auto struct buf bytes = BUF_INIT;
	char hash[HASH_SHA256_TEXT];

	if (!data == !ref) {
		err_field(e, data ? "outputRef" : "data", "give either data, the bytes as base64, or outputRef");
		return NULL;
	}
	if ((ref ? read_output(engine, ref, c, &bytes, e) : decode_data(data, &bytes, e)) < 0)
		return NULL;
	const char *type = image_media_type(buf_cstr(&bytes), bytes.len);
	if (!type) {
		err_field(e, ref ? "outputRef" : "data", "is not an image: expected PNG, JPEG, GIF or WebP");
		return NULL;
	}
	images->bytes += bytes.len;
	if (images->bytes > TOTAL_MAX) {
		err_field(e, ref ? "outputRef" : "data", "the images of a turn must have at most %u MiB in total",
			  TOTAL_MAX >> 20);
		return NULL;
	}
	/* The sum stands for the bytes where a repeated request is recognised. */
	hash_sha256_text(bytes.data, bytes.len, hash);
	json_t *kept = json_pack("{s:s,s:s,s:s}", "type", "image", "mediaType", type, "sha256", hash);
	images->image = mem_realloc(images->image, (images->n + 1) * sizeof *images->image);
	struct turn_image *image = &images->image[images->n++];
	*image = (struct turn_image){ .part = json_incref(kept), .bytes = bytes };
	bytes = (struct buf)BUF_INIT;
	id_make(ID_KIND_OUTPUT, image->ref);
	return kept;
}

void turn_images_name(struct turn_images *images)
{
	for (size_t i = 0; i < images->n; i++)
		json_object_set_new(images->image[i].part, "outputRef", json_string(images->image[i].ref));
}

void turn_images_store(const struct turn_images *images, const struct turn_doc *t, struct transaction *tx)
{
	for (size_t i = 0; i < images->n; i++) {
		const struct turn_image *image = &images->image[i];
		const struct ref_owner owner = turn_ref_owner(
			t, "turn", t->turnId, json_string_value(json_object_get(image->part, "mediaType")));

		ref_store_as(tx, &owner, image->ref, image->bytes.data, image->bytes.len);
	}
}

void turn_images_done(struct turn_images *images)
{
	for (size_t i = 0; i < images->n; i++) {
		json_decref(images->image[i].part);
		buf_done(&images->image[i].bytes);
	}
	free(images->image);
	*images = (struct turn_images){ 0 };
}
