#ifndef BAILIFF_MCP_SCHEMA_H
#define BAILIFF_MCP_SCHEMA_H

/*
 * Whether a value is what a JSON schema asks for, as far as our own schemas go: type, enum, const, required, properties,
 * additionalProperties, items, minimum, maximum, minLength, maxLength, minItems, maxItems, anyOf, oneOf. Anything else in a
 * schema is not looked at.
 */

#include <jansson.h>

struct err;

/* −1 with the path of what is wrong as the field. */
int mcp_schema_check(const json_t *schema, const json_t *value, struct err *e);

/* Whole numbers that came as 3.0, as integers: what a value that was checked is read as. Only of its own members. */
void mcp_schema_settle(const json_t *schema, json_t *value);

#endif
