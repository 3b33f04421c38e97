/* The command to try a listener: its service's example with the {names} replaced. */
#include <stdio.h>
#include <string.h>

#include "brace.h"
#include "config.h"
#include "listener.h"

struct filling {
	const struct listener *listener;
	const char *example;
	/* The address without the port; IPv6 has brackets only in a URI. */
	char host[ADDRESS_TEXT_MAX], host_in_uri[ADDRESS_TEXT_MAX];
};

static void fill_hosts(struct filling *f)
{
	const char *at = f->listener->addresses[0].text;
	int bytes = (int)(strrchr(at, ':') - at), bracket = at[0] == '[';

	if (!strncmp(at, "0.0.0.0:", 8) || !strncmp(at, "[::]:", 5)) {
		at = "ADDRESS"; /* any address of this host: the user has to choose one */
		bytes = (int)strlen(at);
		bracket = 0;
	}
	snprintf(f->host_in_uri, sizeof(f->host_in_uri), "%.*s", bytes, at);
	snprintf(f->host, sizeof(f->host), "%.*s", bytes - 2 * bracket, at + bracket);
}

static const char *value_of(const void *context, const struct brace *b)
{
	const struct filling *f = context;
	const struct listener *l = f->listener;
	const struct service *s = l->config->service;

	if (brace_is(b, "host"))
		return b->text > f->example && strchr("/:", b->text[-1]) ? f->host_in_uri : f->host;
	if (brace_is(b, "port"))
		return strrchr(l->addresses[0].text, ':') + 1;
	if (brace_is(b, "transport"))
		return l->config->transport->name;
	return brace_is(b, "name") && s->name_of ? s->name_of(l->shared) : NULL;
}

static const char *psk_example(const struct service *s)
{
	return s->example_psk
		       ? s->example_psk
		       : "openssl s_client -connect {host}:{port} -psk_identity NAME -psk HEX";
}

static const char *example_of(const struct listener_config *c)
{
	const struct service *s = c->service;
	const char *other = c->transport->datagrams ? s->example_udp
			    : c->transport->verbs   ? s->example_rdma
			    : c->tls.psk_file[0]    ? psk_example(s)
			    : c->tls.mode           ? s->example_tls
						    : NULL;

	return other ? other : s->example;
}

char *listener_example(const struct listener *l)
{
	struct filling f = { .listener = l, .example = example_of(l->config) };

	if (!f.example || l->state != LISTENER_SERVING || l->address_count == 0 ||
	    l->config->addresses[0].sa.ss_family == AF_UNIX)
		return NULL;
	fill_hosts(&f);
	return brace_fill(f.example, value_of, &f, true);
}
