/* See reach.h. */
#include "reach.h"

#include <errno.h>
#include <string.h>

#include "field.h"
#include "generator_host.h"
#include "route.h"
#include "sampler.h"
#include "targets.h"

static int told(const char *host, struct target_address *to, int error, const char *source)
{
	bool is_ipv6 = strchr(to->host, ':');

	if (!error) {
		snprintf(to->source, sizeof(to->source), "%s", source);
		return CTL_DONE;
	}
	ctl_warn("%s cannot reach %s%s%s:%s: %s", host, is_ipv6 ? "[" : "", to->host,
		 is_ipv6 ? "]" : "", to->port,
		 error == ETIMEDOUT ? "timed out; a firewall?" : strerror(error));
	return CTL_UNREACHABLE;
}

static int try_here(struct target_address *to)
{
	char source[ROUTE_SOURCE_BYTES] = "";
	int rc = route_try(to->host, to->port, source);

	return told("this host", to, -rc, source);
}

/* Has all of the generator's hosts connect to the listener at the same time. */
static int try_there(struct ctl *ctl, struct target *target)
{
	int rc = CTL_DONE, result = CTL_DONE;

	for (unsigned i = 0; i < ctl->on_count && rc == CTL_DONE; i++)
		rc = ctl_send(&ctl->on[i], "Host.Route",
			      json_pack("{s:s, s:s}", "address", target->addresses[i].host, "port",
					target->addresses[i].port));
	for (unsigned i = 0; i < ctl->on_count && rc == CTL_DONE; i++) {
		json_t *reply = NULL;

		rc = ctl_receive(&ctl->on[i], "Host.Route", &reply);
		if (rc == CTL_DONE &&
		    told(ctl->on[i].target.host, &target->addresses[i],
			 (int)field_uint(reply, "errno"), field_text(reply, "source")) != CTL_DONE)
			result = CTL_UNREACHABLE;
		json_decref(reply);
	}
	return rc == CTL_DONE ? result : rc;
}

int reach_try(struct ctl *ctl, struct target *target)
{
	if (!target->tcp || !*target->addresses[0].host || !*target->addresses[0].port)
		return CTL_DONE;
	if (ctl->on)
		return try_there(ctl, target);
	return ctl->target.host ? try_here(&target->addresses[0]) : CTL_DONE;
}

/* The first host whose command failed or made no request; -1: none did, as far as is known. */
static int idle_host(const struct generator_run *run, bool loaded)
{
	if (run->failed >= 0)
		return run->failed;
	for (unsigned i = 0; i < run->part_count; i++)
		if (run->parts[i].result.requests <= 0 && run->parts[i].result.bytes <= 0)
			return (int)i;
	return run->parts || loaded ? -1 : 0;
}

void reach_tell_denied(const struct ctl *ctl, const struct sampler *s, const struct target *target,
		       const struct generator_run *run)
{
	int host = idle_host(run, s->loaded);
	const char *source = target && host >= 0 ? target->addresses[host].source : "";
	json_t *listener;
	size_t i;

	if (host < 0)
		return;
	json_array_foreach(field_get(sampler_last(s), "listeners"), i, listener) {
		const char *name = field_text(listener, "name");
		const json_t *before = field_named(s->begin, "listeners", name);

		if (field_uint(listener, "connections.refused.denied") <=
		    field_uint(before, "connections.refused.denied"))
			continue;
		if (*source)
			ctl_warn("%s does not allow %s (%s): see `allow`", name, source,
				 ctl->on ? ctl->on[host].target.host : "this host");
		else
			ctl_warn("%s does not allow the generator's address: see `allow`", name);
	}
}
