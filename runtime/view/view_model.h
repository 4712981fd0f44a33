#ifndef BAILIFF_VIEW_MODEL_H
#define BAILIFF_VIEW_MODEL_H

/* Registered models and MCP servers: one document for each name of a uid. */

#include "runtime/view/view_documents.h"

#define VIEW_MODEL_NAME_MAX 48u /* bytes of a name, so that the key fits an id */
void view_model_key(uint32_t uid, const char *name, char ret[ID_SIZE]);

#endif
