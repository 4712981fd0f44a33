#ifndef BAILIFF_BASE_JSON_SCHEMA_H
#define BAILIFF_BASE_JSON_SCHEMA_H

/*
 * Validates values against a JSON schema. Supported are: true and false as schemas, type, enum, const,
 * properties, required, additionalProperties, items (one schema for all), minItems, maxItems, minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, minLength, maxLength, anyOf, oneOf, allOf, not. Every other keyword is ignored
 * ($ref, pattern, format, if …). Call json_schema_verify on a schema from outside and report the ignored keywords to
 * its author.
 */

#include <jansson.h>

struct err;

#define JSON_SCHEMA_DEPTH 32

/*
 * Checks the schema itself. −1 with the path of the problem as the field, also if it is nested deeper than
 * JSON_SCHEMA_DEPTH. The names of ignored keywords that would restrict values are added once each to the array
 * `unchecked`, unless it is NULL.
 */
int json_schema_verify(const json_t *schema, json_t *unchecked, struct err *e);

/* −1 with the path of the first invalid value as the field. */
int json_schema_check(const json_t *schema, const json_t *value, struct err *e);

/* Replaces whole numbers written as 3.0 by integers where the schema says integer. Top-level members only. */
void json_schema_normalise_integers(const json_t *schema, json_t *value);

#endif
