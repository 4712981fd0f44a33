/*
 * The codec's tables, generated from documents.def: one row per field, in the order in which members are written. The
 * structs come from the same rows (view_documents.h), so a field cannot be in one and not in the other.
 */

#include "runtime/view/view_documents.h"

#include "runtime/base/mem.h"

#define ROW(name, member, text, ...) { text, offsetof(struct name##_doc, member), sizeof(text) - 1, __VA_ARGS__ },
#define KEY(name, member, field) ROW(name, member, #member, VIEW_STRING, FILL_ID, ID_##field)
#define ID(name, member, field) ROW(name, member, #member, VIEW_STRING, FILL_ID, ID_##field)
#define STRING(name, member) ROW(name, member, #member, VIEW_STRING)
#define STRING_INIT(name, member, text) ROW(name, member, #member, VIEW_STRING, FILL_TEXT, .initial = text)
#define UINT(name, member) ROW(name, member, #member, VIEW_UINT)
#define COUNT(name, member) ROW(name, member, #member, VIEW_UINT, FILL_ZERO)
#define UID(name) ROW(name, uid, "uid", VIEW_UINT, FILL_UID)
#define TIME(name, member) ROW(name, member, #member, VIEW_TIME)
#define CREATED(name, member) ROW(name, member, #member, VIEW_TIME, FILL_CREATED)
#define UPDATED(name, member) ROW(name, member, #member, VIEW_TIME, FILL_UPDATED)
#define FLAG(name, member) ROW(name, member, #member, VIEW_FLAG)
#define JSON(name, member) ROW(name, member, #member, VIEW_JSON)
#define JSON_AS(name, member, text) ROW(name, member, text, VIEW_JSON)
#define BEGIN(name, KIND, is_speculative)                                           \
	enum { name##_kind = VIEW_##KIND, name##_is_speculative = is_speculative }; \
	static const struct view_field name##_fields[] = {
#define DOCUMENT(name, KIND) BEGIN(name, KIND, true)
#define DOCUMENT_COMMITTED(name, KIND) BEGIN(name, KIND, false)
#define DOCUMENT_END(name)                                                                          \
	}                                                                                           \
	;                                                                                           \
	const struct view_schema name##_schema = { { sizeof(struct name##_doc), view_encode_form }, \
						   (enum view_kind)name##_kind,                     \
						   name##_is_speculative,                           \
						   name##_fields,                                   \
						   countof(name##_fields) };
#include "runtime/view/documents.def"
