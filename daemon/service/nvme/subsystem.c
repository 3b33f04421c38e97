/* Subsystems and their controllers.  See nvme/subsystem.h. */
#include "subsystem.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <systemd/sd-id128.h>

#include "conn.h"

enum { CNTLID_MAX = 0xffef };

struct nvme_subsystem {
	struct nvme_subsystem *next;
	char nqn[NVME_NQN_MAX];
	unsigned references; /* targets and controllers */
	struct nvme_ports ports;
	struct nvme_controller *controllers;
	unsigned controller_count;
	struct tally clients;        /* the controllers of each client */
	struct nvme_member *waiting; /* Connects that wait, see NVME_WAIT */
};

/* All subsystems of this process; a listener and its replacement share one. */
static struct {
	pthread_mutex_t lock;
	struct nvme_subsystem *subsystems;
	uint64_t generation;
	uint16_t cntlid; /* the last one assigned; 0: none */
} nvme = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Keys ---- */

static bool nqn_is_valid(const char *text)
{
	return !strncmp(text, "nqn.", 4) && text[4] != '\0';
}

/* To a host two subsystems with the same NQN are one, and their namespaces are paths to the same
 * disk, so listeners with one NQN must serve the same. */
static const struct key nvme_keys[] = {
	{ "nqn", "auto",
	  "the NVMe Qualified Name of what is served; auto: one of this host and listener",
	  KEY_FIELD(struct nvme_options, nqn), .type = KEY_TEXT, .word = "auto", .unites = true,
	  .valid = nqn_is_valid, .form = "nqn.YYYY-MM.DOMAIN:NAME" },
	{ "block-size", "auto", "least block size of the namespaces, bytes; auto: 4096",
	  KEY_FIELD(struct nvme_options, block_size), .type = KEY_UINT, .min = 512, .max = 4096,
	  .power_of_two = true, .word = "auto", .common = true },
};
const struct key_table nvme_key_table = KEY_TABLE(nvme_keys, struct nvme_options);

/* ---- Calls: on the member's thread.  Functions with _locked expect nvme.lock to be held. ---- */

/* Runs on the worker of the member.  The call is a part of the member, which therefore
 * outlives its connection while a call is posted: `called` says whether nvme_member_leave()
 * or this function frees it. */
static void member_called(struct call *call)
{
	struct nvme_member *m = container_of(call, struct nvme_member, call);
	struct conn *c;

	pthread_mutex_lock(&nvme.lock);
	m->called = false;
	c = m->conn;
	pthread_mutex_unlock(&nvme.lock);
	if (!c)
		free(m);
	else if (!m->worker->turn.stop) /* the worker is stopping: its connections end anyway */
		conn_ready(c);
}

/* Has the member's connection run on its own worker.  A call that is posted and has not run yet is
 * enough: it will see the newest state. */
static void member_call_locked(struct nvme_member *m)
{
	if (m->called)
		return;
	m->called = true;
	m->call.fn = member_called;
	worker_call(m->worker, &m->call);
}

static void call_queues_locked(struct nvme_controller *n)
{
	for (unsigned i = 1; i <= NVME_QUEUES_MAX; i++)
		if (n->queues[i])
			member_call_locked(n->queues[i]);
}

/* ---- Subsystems ---- */

static struct nvme_subsystem *subsystem_get_locked(const char *nqn)
{
	struct nvme_subsystem *s = nvme.subsystems;

	while (s && strcmp(s->nqn, nqn) != 0)
		s = s->next;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s || tally_init(&s->clients) < 0) {
			free(s);
			return NULL;
		}
		strcpy(s->nqn, nqn);
		s->next = nvme.subsystems;
		nvme.subsystems = s;
	}
	s->references++;
	return s;
}

static void subsystem_put_locked(struct nvme_subsystem *s)
{
	struct nvme_subsystem **at = &nvme.subsystems;

	if (--s->references > 0)
		return;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	nvme_ports_free(&s->ports);
	free(s);
}

/* ---- Targets ---- */

/* Makes the default NQN, from the machine's id and the listener's name.  A chroot or an image has
 * no id: what identifies it is chosen once, and another after each start, since two of them may be
 * in one lab and must not be taken for two ways to one disk. */
static int make_nqn(const char *listener, char nqn[static NVME_NQN_MAX], struct reason *reason)
{
	/* An arbitrary constant: systemd hashes it with the machine's
	 * id, which must stay secret. */
	static const sd_id128_t app =
		SD_ID128_MAKE(e1, 2d, 5e, 91, 0b, 5a, 4b, 3c, 9f, 64, 6d, 0b, 54, 2a, 7c, 38);
	static sd_id128_t chosen;
	uint8_t uuid[NVME_UUID];
	sd_id128_t machine;
	int rc = 0;

	if (sd_id128_get_machine_app_specific(app, &machine) < 0) {
		if (sd_id128_is_null(chosen))
			rc = sd_id128_randomize(&chosen);
		if (rc < 0)
			return reason_set(reason, rc,
					  "cannot make an NQN (%s); set `nqn = "
					  "nqn.YYYY-MM.DOMAIN:NAME`",
					  strerror(-rc));
		machine = chosen;
	}
	nvme_id_uuid(machine.bytes, sizeof(machine.bytes), listener, uuid);
	nvme_id_nqn(uuid, nqn);
	return 0;
}

void nvme_target_free(void *target)
{
	struct nvme_target *t = target;

	if (!t)
		return;
	nvme_ports_listen(t, NULL, NULL);
	pthread_mutex_lock(&nvme.lock);
	subsystem_put_locked(t->subsystem);
	pthread_mutex_unlock(&nvme.lock);
	free(t);
}

const char *nvme_target_name(const void *target)
{
	return ((const struct nvme_target *)target)->nqn;
}

static uint32_t transfer_max(const struct worker_options *o)
{
	uint64_t share = o->buffers * o->buffer_size / 16;
	uint32_t bytes = 512 * 1024;

	while (bytes > 64 * 1024 && bytes > share)
		bytes /= 2;
	return bytes;
}

void *nvme_target_new(const struct worker_options *options, const char *listener,
		      struct reason *reason)
{
	const struct nvme_options *o = options_of(options, &nvme_key_table);
	struct nvme_target *t = calloc(1, sizeof(*t));

	reason_set(reason, -ENOMEM, "no memory");
	if (!t || (o->nqn[0] == '\0' && make_nqn(listener, t->nqn, reason) < 0)) {
		free(t);
		return NULL;
	}
	if (o->nqn[0] != '\0')
		strcpy(t->nqn, o->nqn);
	nvme_id_serial(t->nqn, t->serial);
	t->block_size = (uint32_t)o->block_size;
	t->transfer_max = transfer_max(options);
	pthread_mutex_lock(&nvme.lock);
	t->generation = ++nvme.generation;
	t->subsystem = subsystem_get_locked(t->nqn);
	pthread_mutex_unlock(&nvme.lock);
	if (!t->subsystem) {
		free(t);
		return NULL;
	}
	t->ports = &t->subsystem->ports;
	return t;
}

/* ---- Controllers ---- */

static struct nvme_controller *find_locked(const struct nvme_subsystem *s, uint16_t cntlid)
{
	struct nvme_controller *n = s->controllers;

	while (n && n->cntlid != cntlid)
		n = n->next;
	return n;
}

/* A number that no controller of s has; there are more numbers than controllers. */
static uint16_t next_cntlid_locked(const struct nvme_subsystem *s)
{
	if (nvme.cntlid == 0 &&
	    getrandom(&nvme.cntlid, sizeof(nvme.cntlid), GRND_NONBLOCK) != sizeof(nvme.cntlid))
		nvme.cntlid = 1;
	do
		nvme.cntlid = nvme.cntlid >= CNTLID_MAX ? 1 : (uint16_t)(nvme.cntlid + 1);
	while (find_locked(s, nvme.cntlid));
	return nvme.cntlid;
}

static bool is_same_host(const struct nvme_controller *n, const struct nvme_connect *c)
{
	return !memcmp(n->hostid, c->hostid, NVME_HOSTID) && !strcmp(n->hostnqn, c->hostnqn);
}

/* Does a controller of this host end whose queues may still have writes in
 * the stores?  See NVME_WAIT. */
static bool must_wait_locked(const struct nvme_subsystem *s, const struct nvme_connect *c)
{
	for (const struct nvme_controller *n = s->controllers; n; n = n->next)
		if (nvme_state(n) == NVME_DYING && is_same_host(n, c))
			return true;
	return false;
}

static void wait_locked(struct nvme_subsystem *s, struct nvme_member *m)
{
	if (m->queued)
		return;
	m->queued = true;
	m->next_waiting = s->waiting;
	s->waiting = m;
}

static void wait_no_more_locked(struct nvme_subsystem *s, struct nvme_member *m)
{
	struct nvme_member **at = &s->waiting;

	if (!m->queued)
		return;
	while (*at != m)
		at = &(*at)->next_waiting;
	*at = m->next_waiting;
	m->queued = false;
}

/* A controller of this client; NULL: it may have no more, or no memory. */
static struct nvme_controller *controller_new_locked(struct nvme_subsystem *s,
						     const struct in6_addr *client)
{
	struct tally_entry *e = tally_add(&s->clients, client);
	struct nvme_controller *n;

	if (!e)
		return NULL;
	n = e->count <= NVME_CONTROLLERS_MAX - s->controller_count ? calloc(1, sizeof(*n)) : NULL;
	if (!n) {
		tally_drop(&s->clients, e);
		return NULL;
	}
	n->client = e;
	n->subsystem = s;
	n->next = s->controllers;
	s->controllers = n;
	s->controller_count++;
	s->references++;
	return n;
}

static uint16_t begin_locked(const struct nvme_target *target, struct nvme_member *m,
			     const struct nvme_connect *c, const struct in6_addr *client,
			     uint64_t *ret_result)
{
	struct nvme_subsystem *s = target->subsystem;
	struct nvme_controller *n;

	*ret_result = 16 | NVME_IN_DATA;
	if (c->cntlid != NVME_CNTLID_NEW)
		return NVME_CONNECT_INVALID | NVME_DNR;
	if (must_wait_locked(s, c)) {
		wait_locked(s, m);
		return NVME_WAIT;
	}
	n = controller_new_locked(s, client);
	if (!n)
		return NVME_CONNECT_BUSY;
	n->references = 1;
	n->cntlid = next_cntlid_locked(s);
	n->generation = target->generation;
	n->discovery = !strcmp(c->subnqn, NVME_DISCOVERY_NQN);
	memcpy(n->hostid, c->hostid, NVME_HOSTID);
	strcpy(n->hostnqn, c->hostnqn);
	n->granted = NVME_QUEUES_MAX;
	n->queues[0] = m;
	m->controller = n;
	return NVME_SUCCESS;
}

static uint16_t join_locked(const struct nvme_target *target, struct nvme_member *m,
			    const struct nvme_connect *c, uint64_t *ret_result)
{
	struct nvme_controller *n = find_locked(target->subsystem, c->cntlid);

	*ret_result = 16 | NVME_IN_DATA;
	/* A listener that has replaced that of the controller may have other exports under the same
	 * namespace numbers; the host connects again, to a controller of that one. */
	if (!n || !is_same_host(n, c) || n->discovery || n->generation != target->generation)
		return NVME_CONNECT_INVALID;
	if (nvme_state(n) != NVME_ENABLED)
		return NVME_SEQUENCE_ERROR;
	*ret_result = 42 | NVME_IN_SQE;
	if (c->qid > n->granted)
		return NVME_CONNECT_INVALID | NVME_DNR;
	if (n->queues[c->qid]) /* its last connection may still have requests in the stores */
		return NVME_CONNECT_BUSY;
	n->queues[c->qid] = m;
	n->queue_count++;
	n->references++;
	m->qid = c->qid;
	m->controller = n;
	return NVME_SUCCESS;
}

uint16_t nvme_member_connect(struct nvme_target *target, struct nvme_member *member,
			     const struct nvme_connect *connect, struct in6_addr client,
			     uint64_t *ret_result)
{
	struct nvme_subsystem *s = target->subsystem;
	bool discovery = !strcmp(connect->subnqn, NVME_DISCOVERY_NQN);
	uint16_t status;

	if ((strcmp(connect->subnqn, target->nqn) != 0 && !discovery) ||
	    (discovery && connect->qid)) {
		*ret_result = 256 | NVME_IN_DATA;
		return NVME_CONNECT_INVALID;
	}
	pthread_mutex_lock(&nvme.lock);
	if (connect->qid == 0)
		status = begin_locked(target, member, connect, &client, ret_result);
	else
		status = join_locked(target, member, connect, ret_result);
	if (status != NVME_WAIT)
		wait_no_more_locked(s, member);
	pthread_mutex_unlock(&nvme.lock);
	if ((status & ~NVME_DNR) != NVME_CONNECT_INVALID)
		*ret_result = 0;
	return status;
}

/* Called by the admin queue's worker.  I/O queues read the state without the lock: the
 * release store and their acquire load make sure that a queue which sees the new state also
 * sees what was written before. */
void nvme_set_state(struct nvme_controller *controller, enum nvme_state state)
{
	pthread_mutex_lock(&nvme.lock);
	if (state == NVME_STOPPING && controller->queue_count == 0)
		state = NVME_DISABLED;
	atomic_store_explicit(&controller->state, state, memory_order_release);
	if (state >= NVME_STOPPING)
		call_queues_locked(controller);
	pthread_mutex_unlock(&nvme.lock);
}

void nvme_settle(void)
{
	pthread_mutex_lock(&nvme.lock);
	for (struct nvme_subsystem *s = nvme.subsystems; s; s = s->next) {
		if (!nvme_ports_settle(&s->ports))
			continue;
		for (const struct nvme_controller *n = s->controllers; n; n = n->next)
			if (n->discovery && n->queues[0])
				member_call_locked(n->queues[0]);
	}
	pthread_mutex_unlock(&nvme.lock);
}

/* ---- The end ---- */

/* The controller has no queue left, so none of its requests is in a store. */
static void unlink_locked(struct nvme_controller *n)
{
	struct nvme_subsystem *s = n->subsystem;
	struct nvme_controller **at = &s->controllers;

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	s->controller_count--;
	tally_drop(&s->clients, n->client);
	for (struct nvme_member *m = s->waiting; m; m = m->next_waiting)
		member_call_locked(m);
	subsystem_put_locked(s);
	free(n);
}

/* The admin queue leaves first or last: without it the controller is DYING, and its I/O queues run
 * to see that.  The member that leaves last frees the controller. */
static void leave_locked(struct nvme_member *m)
{
	struct nvme_controller *n = m->controller;

	n->queues[m->qid] = NULL;
	if (m->qid != 0) {
		if (--n->queue_count == 0 && nvme_state(n) == NVME_STOPPING)
			atomic_store_explicit(&n->state, NVME_DISABLED, memory_order_release);
	} else {
		atomic_store_explicit(&n->state, NVME_DYING, memory_order_release);
		call_queues_locked(n);
	}
	if (--n->references == 0)
		unlink_locked(n);
}

void nvme_member_leave(struct nvme_member *member)
{
	const struct nvme_target *target = member->worker->shared;
	bool called;

	pthread_mutex_lock(&nvme.lock);
	wait_no_more_locked(target->subsystem, member);
	if (member->controller)
		leave_locked(member);
	member->conn = NULL;
	called = member->called;
	pthread_mutex_unlock(&nvme.lock);
	if (!called)
		free(member);
}
