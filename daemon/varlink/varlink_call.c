/* A call and its answer: for handlers, on the main thread.  See varlink.h. */
#include <assert.h>

#include "util.h"
#include "varlink_internal.h"

/* Sends one message of the answer, unless the client wants none. */
static void call_send(struct varlink_call *call, json_t *message)
{
	if (call->request.oneway)
		json_decref(message);
	else
		varlink_client_send(call->client, message);
	varlink_client_kick(call->client);
}

/* Ends a call with its only or last message.  The client may then handle its next call, from the
 * event loop and not within this handler. */
static void call_finish(struct varlink_call *call, json_t *message)
{
	assert(call->method);
	call_send(call, message);
	varlink_request_free(&call->request);
	call->method = NULL;
	call->userdata = call->state = NULL;
	call->cancel = NULL;
}

void *varlink_call_userdata(const struct varlink_call *call)
{
	return call->userdata;
}

const struct unix_peer *varlink_call_peer(const struct varlink_call *call)
{
	return &call->client->peer;
}

bool varlink_call_more(const struct varlink_call *call)
{
	return call->request.more && call->method->more;
}

/* A call without cancel() is not deferred: see call_send(). */
void varlink_defer(struct varlink_call *call,
		   void (*cancel)(struct varlink_call *call, void *state), void *state)
{
	call->cancel = cancel;
	call->state = state;
}

void varlink_reply(struct varlink_call *call, json_t *parameters)
{
	call_finish(call, json_pack("{s:o}", "parameters", parameters));
}

void varlink_error(struct varlink_call *call, const char *error, json_t *parameters)
{
	call_finish(call, json_pack("{s:s, s:o}", "error", error, "parameters", parameters));
}

void varlink_notify(struct varlink_call *call, json_t *parameters)
{
	assert(varlink_call_more(call) && call->cancel);
	call_send(call, json_pack("{s:o, s:b}", "parameters", parameters, "continues", 1));
}

bool varlink_can_notify(const struct varlink_call *call)
{
	const struct varlink_client *c = call->client;

	return !c->dropped && !varlink_client_owed(c) && varlink_client_has_share(c);
}

void varlink_charge(const struct varlink_call *call, uint64_t begin_ns)
{
	varlink_client_charge(call->client->user, begin_ns);
}

void varlink_charge_wait(const struct varlink_call *call, uint64_t since_ns)
{
	struct varlink_client *c = call->client;
	uint64_t now_ns = clock_ns();

	if (!varlink_user_is_trusted(&c->varlink->users, c->peer.uid))
		varlink_user_charge(c->user, now_ns / NS_PER_US, now_ns - since_ns);
}
