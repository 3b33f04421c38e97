/* The command to try a listener: its service's example with the {names} replaced. */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "listener.h"

/* Prints the address without the port; IPv6 has brackets only in a URI. */
static void print_host(FILE *to, const char *text, bool in_uri)
{
	const char *colon = strrchr(text, ':');
	size_t bytes = colon ? (size_t)(colon - text) : strlen(text);

	if (!strncmp(text, "0.0.0.0:", 8) || !strncmp(text, "[::]:", 5)) {
		fputs("ADDRESS", to); /* any address of this host: the user has to choose one */
		return;
	}
	if (text[0] == '[' && !in_uri) {
		text++;
		bytes -= 2;
	}
	fprintf(to, "%.*s", (int)bytes, text);
}

static void print_one(FILE *to, const struct listener *l, const char *name, size_t bytes,
		      bool in_uri)
{
	const struct service *s = l->config->service;
	const char *at = l->addresses[0].text;

	if (!strncmp(name, "{host}", bytes))
		print_host(to, at, in_uri);
	else if (!strncmp(name, "{port}", bytes))
		fputs(strrchr(at, ':') + 1, to);
	else if (!strncmp(name, "{transport}", bytes))
		fputs(l->config->transport->name, to);
	else if (!strncmp(name, "{name}", bytes) && s->name_of)
		fputs(s->name_of(l->shared), to);
	else
		fprintf(to, "%.*s", (int)bytes, name);
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

bool listener_example(const struct listener *l, char *text, size_t size)
{
	const char *example = example_of(l->config), *at = example;
	FILE *to;

	if (!at || l->state != LISTENER_SERVING || l->address_count == 0)
		return false;
	if (l->config->addresses[0].sa.ss_family == AF_UNIX)
		return false;
	to = fmemopen(text, size, "w");
	if (!to)
		return false;
	while (*at) {
		size_t plain = strcspn(at, "{"), bytes = strcspn(at + plain, "}");

		fprintf(to, "%.*s", (int)plain, at);
		at += plain;
		if (!*at)
			break;
		bytes += at[bytes] != '\0';
		print_one(to, l, at, bytes, at > example && strchr("/:", at[-1]));
		at += bytes;
	}
	fclose(to);
	text[size - 1] = '\0';
	return true;
}
