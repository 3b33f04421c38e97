/* Tests of clients in the log.  See test_log.h. */
#include "test_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "conn.h"
#include "log.h"

enum { FIGURES_TEXT_MAX = 256 };

/* `; client: 1048576 bytes sent, 0 received, 3 retransmits, 0.010 s, CPU 12.3 %`. */
static const char *figures_text(const char *side, const struct test_figures *f,
				char text[static FIGURES_TEXT_MAX])
{
	const struct {
		uint64_t count; /* 0: left out */
		const char *what;
	} counts[] = { { f->transactions, "transactions" },
		       { f->packets, "datagrams" },
		       { f->lost, "lost" },
		       { f->jitter_ns, "ns jitter" },
		       { f->retransmits, "retransmits" } };
	int at = snprintf(text, FIGURES_TEXT_MAX,
			  "; %s: %" PRIu64 " bytes sent, %" PRIu64 " received", side, f->sent_bytes,
			  f->received_bytes);

	for (unsigned i = 0; i < ARRAY_SIZE(counts); i++)
		if (counts[i].count)
			at += snprintf(text + at, FIGURES_TEXT_MAX - (size_t)at, ", %" PRIu64 " %s",
				       counts[i].count, counts[i].what);
	snprintf(text + at, FIGURES_TEXT_MAX - (size_t)at, ", %.3f s, CPU %.1f %%",
		 (double)f->duration_ns / NS_PER_S, f->cpu_percent);
	return text;
}

struct test_record *test_log_begin(const struct conn *c)
{
	struct test_record *r = calloc(1, sizeof(*r));

	if (r)
		conn_peer(c, r->peer);
	return r;
}

void test_log_end(const struct conn *c, struct test_record **record)
{
	static struct log_limit limit;
	char client[FIGURES_TEXT_MAX], server[FIGURES_TEXT_MAX];
	struct test_record *r = *record;
	const struct worker *w = c->worker;
	unsigned missed;

	*record = NULL;
	if (r && log_limited(&limit, &missed))
		log_connection(LOG_INFO, w->listener, c->id, r->peer,
			       "listener '%s': test of %s from %s%s: %s%s%s", w->listener,
			       w->service->name, r->peer, r->complete ? "" : " was broken off",
			       r->options,
			       r->has_client ? figures_text("client", &r->client, client) : "",
			       r->complete ? figures_text("server", &r->server, server) : "");
	free(r);
}
