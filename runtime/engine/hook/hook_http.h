#ifndef BAILIFF_ENGINE_HOOK_HTTP_H
#define BAILIFF_ENGINE_HOOK_HTTP_H

/*
 * The environment of bailiff-webhook (supervisor/webhook), which sends hooks of type "http". Events never contain
 * these values.
 */

#define HOOK_HTTP_PREFIX "BAILIFF_HOOK_"
#define HOOK_HTTP_URL HOOK_HTTP_PREFIX "URL"
#define HOOK_HTTP_HEADERS HOOK_HTTP_PREFIX "HEADERS" /* {"Name":"value, with $VARIABLES or ${VARIABLES}"} */
#define HOOK_HTTP_ENV HOOK_HTTP_PREFIX "ENV"         /* comma-separated names of variables that the headers may use */

#endif
