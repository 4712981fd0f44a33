#ifndef BAILIFF_BASE_JSON_SCHEMA_H
#define BAILIFF_BASE_JSON_SCHEMA_H

/*
 * Whether a value is what a JSON schema asks for. Checked are: true and false as schemas, type, enum, const,
 * properties, required, additionalProperties, items (one schema for all), minItems, maxItems, minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, minLength, maxLength, anyOf, oneOf, allOf, not. Every other keyword is ignored:
 * $ref, pattern, format, if … . Whoever takes a schema from outside calls json_schema_verify and tells its author which
 * keywords have no effect.
 */

#include <jansson.h>

struct err;

#define JSON_SCHEMA_DEPTH 32

/*
 * Is it a schema? −1 with the path of what is wrong as the field, also where it is nested more than JSON_SCHEMA_DEPTH
 * deep. The names of keywords that are ignored and do restrict values are added to `unchecked`, an array, each once;
 * NULL = not wanted.
 */
int json_schema_verify(const json_t *schema, json_t *unchecked, struct err *e);

/* −1 with the path of what is wrong as the field. */
int json_schema_check(const json_t *schema, const json_t *value, struct err *e);

/* Whole numbers that came as 3.0, as integers: what a value that was checked is read as. Only of its own members. */
void json_schema_normalise_integers(const json_t *schema, json_t *value);

#endif
