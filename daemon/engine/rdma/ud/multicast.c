/* Engine `rdma`, datagrams: multicast groups (`groups`).
 *
 * A queue pair receives what is sent to those groups whose interface has the address of one of its
 * port's GIDs.  An identifier of the connection manager joins for it: the manager tells the
 * network, and the library attaches the queue pair when the manager says that it was joined.  Only
 * the first worker has groups, so each datagram is answered once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"
#include "log.h"
#include "parse.h"
#include "sockaddr.h"
#include "ud.h"
#include "worker.h"

struct rdma_ud_group {
	struct rdma_ud_group *next; /* of the queue pair */
	struct rdma_ud *ud;
	const struct worker_group *of;
	struct rdma_cm_id *id;
};

/* The group's address without the interface, which is in sin_zero: the
 * library compares all bytes. */
static struct sockaddr_storage group_address(const struct worker_group *of)
{
	struct sockaddr_storage sa = of->group;

	if (sa.ss_family == AF_INET)
		sockaddr_set_interface(&sa, 0);
	return sa;
}

static void group_log(const struct worker *w, const struct worker_group *of, int error)
{
	char text[ADDRESS_TEXT_MAX];

	log_write(LOG_WARNING, w->listener, "listener '%s': group %s: cannot be joined: %s",
		  w->listener, format_sockaddr(&of->group, text), strerror(error));
}

static void group_free(struct rdma_ud_group *g)
{
	struct sockaddr_storage group = group_address(g->of);

	if (g->id) {
		rdma_leave_multicast(g->id, (struct sockaddr *)&group);
		g->id->qp = NULL;
		rdma_destroy_id(g->id);
	}
	free(g);
}

/* 0 or -errno. */
static int group_join(struct rdma_ud_group *g)
{
	struct sockaddr_storage group = group_address(g->of), local = g->of->local;
	int rc = rdma_cm_identify(g->ud->device->worker, g, true, &g->id);

	if (rc < 0)
		return rc;
	if (rdma_bind_addr(g->id, (struct sockaddr *)&local) < 0)
		return -errno;
	g->id->qp = g->ud->qp;
	return rdma_join_multicast(g->id, (struct sockaddr *)&group, NULL) < 0 ? -errno : 0;
}

void rdma_ud_groups_join(struct rdma_ud *ud)
{
	struct worker *w = ud->device->worker;

	for (unsigned i = 0; i < w->accept.group_count; i++) {
		const struct worker_group *of = &w->accept.groups[i];
		struct in6_addr local = sockaddr_mapped(&of->local);
		struct rdma_ud_group *g;
		struct ibv_gid_entry entry;
		int rc;

		if (!rdma_gid_find(ud->device->verbs, ud->port, &local, &entry))
			continue;
		ud->group_gid = (uint8_t)entry.gid_index;
		g = calloc(1, sizeof(*g));
		if (!g) {
			group_log(w, of, ENOMEM);
			continue;
		}
		*g = (struct rdma_ud_group){ .next = ud->groups, .ud = ud, .of = of };
		rc = group_join(g);
		if (rc < 0) {
			group_log(w, of, -rc);
			group_free(g);
			continue;
		}
		ud->groups = g;
	}
}

void rdma_ud_groups_leave(struct rdma_ud *ud)
{
	while (ud->groups) {
		struct rdma_ud_group *g = ud->groups;

		ud->groups = g->next;
		group_free(g);
	}
}

static bool group_is_joined(const struct rdma *e, const struct worker_group *of)
{
	for (const struct rdma_device *d = e->devices; d; d = d->next)
		for (const struct rdma_ud *ud = d->uds; ud; ud = ud->next)
			for (const struct rdma_ud_group *g = ud->groups; g; g = g->next)
				if (g->of == of)
					return true;
	return false;
}

int rdma_ud_groups_check(const struct worker *w, struct reason *reason)
{
	for (unsigned i = 0; i < w->accept.group_count; i++) {
		const struct worker_group *of = &w->accept.groups[i];
		char text[ADDRESS_TEXT_MAX], local[ADDRESS_TEXT_MAX];

		if (!group_is_joined(w->engine_state, of))
			return reason_set(reason, -EADDRNOTAVAIL,
					  "group %s: no RDMA device with datagrams has the address "
					  "%s of its interface, or it cannot be joined",
					  format_sockaddr(&of->group, text),
					  format_sockaddr(&of->local, local));
	}
	return 0;
}

void rdma_ud_group_event(void *context, enum rdma_cm_event_type type)
{
	const struct rdma_ud_group *g = context;

	if (type == RDMA_CM_EVENT_MULTICAST_ERROR)
		group_log(g->ud->device->worker, g->of, EIO);
}
