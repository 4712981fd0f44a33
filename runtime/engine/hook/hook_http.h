#ifndef BAILIFF_ENGINE_HOOK_HTTP_H
#define BAILIFF_ENGINE_HOOK_HTTP_H

/* What bailiff-webhook (supervisor/webhook) is told of a hook of type "http", in its environment: no fact has values of
 * that. */

#define HOOK_HTTP_PREFIX "BAILIFF_HOOK_"
#define HOOK_HTTP_URL HOOK_HTTP_PREFIX "URL"
#define HOOK_HTTP_HEADERS HOOK_HTTP_PREFIX "HEADERS" /* {"Name":"value, with $VARIABLES or ${VARIABLES}"} */
#define HOOK_HTTP_ENV HOOK_HTTP_PREFIX "ENV"         /* which may be read, with commas between them */

#endif
