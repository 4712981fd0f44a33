#include "supervisor/fleet/nats_connection.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/fleet/fleet_creds.h"
#include "supervisor/fleet/fleet_port.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TRIES 8

/* The next step, unless one has failed. */
#define TRY(s, call)                  \
	do {                          \
		if ((s) == NATS_OK)   \
			(s) = (call); \
	} while (0)

int nats_fail(struct err *e, natsStatus s, const char *what)
{
	const char *why = nats_GetLastError(NULL);

	return err_set(e, ERR_UNAVAILABLE, "fleet: %s: %s%s%s", what, natsStatus_GetText(s), why && why[0] ? ": " : "",
		       why && why[0] ? why : "");
}

static natsStatus set_servers(natsOptions *o, const char *url)
{
	mem_auto char *copy = mem_strdup(url);
	const char *list[16];
	int n = 0;

	for (char *save, *s = strtok_r(copy, ", ", &save); s && n < (int)countof(list); s = strtok_r(NULL, ", ", &save))
		list[n++] = s;
	return natsOptions_SetServers(o, list, n);
}

/* Whether any of the servers, or a file for TLS, asks for it: then no connection is made without. */
static bool wants_tls(const struct fleet_nats_options *f)
{
	static const char separators[] = ", ";

	for (const char *at = f->url; *at; at += strcspn(at, separators)) {
		at += strspn(at, separators);
		if (strncasecmp(at, "tls://", 6) == 0)
			return true;
	}
	return f->tls_ca || f->tls_cert || f->tls_key;
}

/*
 * Signs the server's nonce, with the same code that signs tasks.
 *
 * libnats 3.4.1 leaves the signature out of CONNECT if its first byte is 0; other zero bytes are sent (both measured
 * with a server that prints CONNECT). The server then rejects the connection, one in 256, and libnats closes a
 * connection for good that was rejected twice in a row. So such a signature fails here: the next attempt has another
 * nonce.
 */
static natsStatus sign_nonce(char **ret_message, unsigned char **ret, int *ret_len, const char *nonce, void *creds)
{
	struct fleet_creds *c = creds;
	struct buf buf_auto raw = BUF_INIT;
	char signature[FLEET_SIGNATURE];
	struct err e = ERR_INIT;
	/* A server that does not ask for authentication sends no nonce: whatever it gets, it does not check. */
	const bool checked = nonce != NULL;

	if (!checked)
		nonce = "";
	if (fleet_key_sign(c->seed, nonce, strlen(nonce), signature, &e) < 0 ||
	    text_base64_decode(signature, strlen(signature), &raw) < 0) {
		*ret_message = mem_strdup(e.message);
		return NATS_ERR;
	}
	c->unsendable = checked && raw.len && raw.data[0] == '\0';
	if (c->unsendable) {
		*ret_message = mem_strdup("libnats cannot send this signature");
		return NATS_ERR;
	}
	*ret_len = (int)raw.len;
	*ret = (unsigned char *)buf_take(&raw); /* freed by libnats */
	return NATS_OK;
}

static natsStatus give_jwt(char **ret, char **ret_message, void *creds)
{
	*ret = mem_strdup(((const struct fleet_creds *)creds)->jwt); /* freed by libnats */
	return NATS_OK;
}

static natsStatus set_credentials(natsOptions *o, const char *path, struct fleet_creds *c, struct err *e)
{
	char prefix[sizeof(FLEET_INBOX) + FLEET_KEY_TEXT];

	if (fleet_creds_read(path, c, e) < 0)
		return NATS_INVALID_ARG;
	natsStatus s = c->jwt ? natsOptions_SetUserCredentialsCallbacks(o, give_jwt, c, sign_nonce, c)
			      : natsOptions_SetNKey(o, c->key, sign_nonce, c);
	snprintf(prefix, sizeof(prefix), FLEET_INBOX "%s", c->key);
	TRY(s, natsOptions_SetCustomInboxPrefix(o, prefix));
	return s;
}

natsStatus nats_connection_inbox(const struct fleet_creds *creds, char ret[FLEET_INBOX_TEXT])
{
	natsInbox *made = NULL;
	natsStatus s = natsInbox_Create(&made); /* not below the connection's own prefix */

	if (s != NATS_OK)
		return s;
	snprintf(ret, FLEET_INBOX_TEXT, FLEET_INBOX "%s%s%s", creds->key, creds->key[0] ? "." : "",
		 made + strlen(FLEET_INBOX));
	natsInbox_Destroy(made);
	return NATS_OK;
}

/* What a user may not do fails as a request without an answer; the reason is the connection's last error. */
static void on_error(natsConnection *nc, natsSubscription *sub, natsStatus s, void *ctx) {}

bool nats_connection_denied(natsConnection *nc, struct err *e)
{
	const char *why = NULL;

	if (natsConnection_GetLastError(nc, &why) != NATS_NOT_PERMITTED)
		return false;
	err_set(e, ERR_NOT_ALLOWED, "fleet: %s", why ? why : "not permitted");
	return true;
}

static natsStatus set_options(natsOptions *o, const struct fleet_nats_options *f, struct fleet_creds *creds,
			      struct err *e)
{
	natsStatus s = set_servers(o, f->url);

	TRY(s, natsOptions_SetName(o, f->name));
	TRY(s, natsOptions_SetTimeout(o, FLEET_NATS_WAIT_MS));
	TRY(s, natsOptions_SetMaxReconnect(o, -1));
	TRY(s, natsOptions_SetReconnectWait(o, 250));
	TRY(s, natsOptions_SetReconnectJitter(o, 250, 250));
	TRY(s, natsOptions_SetPingInterval(o, 2000));
	TRY(s, natsOptions_SetMaxPingsOut(o, 2));
	TRY(s, natsOptions_SetSendAsap(o, true));
	/* What could not be sent must not arrive later: it would be about a state that has passed. */
	TRY(s, natsOptions_SetReconnectBufSize(o, 1));
	TRY(s, natsOptions_SetFailRequestsOnDisconnect(o, true));
	TRY(s, natsOptions_SetWriteDeadline(o, FLEET_NATS_WAIT_MS));
	TRY(s, natsOptions_SetErrorHandler(o, on_error, NULL));
	if (f->creds)
		TRY(s, set_credentials(o, f->creds, creds, e));
	if (wants_tls(f))
		TRY(s, natsOptions_SetSecure(o, true));
	if (f->tls_ca)
		TRY(s, natsOptions_LoadCATrustedCertificates(o, f->tls_ca));
	if (f->tls_cert && f->tls_key)
		TRY(s, natsOptions_LoadCertificatesChain(o, f->tls_cert, f->tls_key));
	return s;
}

int nats_connection_open(const struct fleet_nats_options *f, struct fleet_creds *creds, natsConnection **ret,
			 struct err *e)
{
	natsOptions *o = NULL;
	natsStatus s = natsOptions_Create(&o);

	TRY(s, set_options(o, f, creds, e));
	for (int i = 0; s == NATS_OK && i < TRIES; i++) {
		creds->unsendable = false;
		s = natsConnection_Connect(ret, o);
		if (s == NATS_OK || !creds->unsendable || i == TRIES - 1)
			break;
		s = NATS_OK;
	}
	natsOptions_Destroy(o);
	return s == NATS_OK ? 0 : e->code ? -1 : nats_fail(e, s, f->url);
}
