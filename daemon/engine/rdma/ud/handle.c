/* Engine `rdma`, datagrams: makes address handles.  See ud.h.
 *
 * The worker owns all queues and gives its helper thread one client at a time, by a semaphore; an
 * eventfd tells the worker that the helper is done.  So the two share no lock. */
#include "ud.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "grh.h"
#include "parse.h"
#include "sockaddr.h"
#include "worker.h"

/* A client whose handle is to be made, and what it has sent. */
struct rdma_ud_job {
	struct rdma_ud_job *next;
	struct rdma_ud *ud;
	struct rdma_ud_queue *queue;
	struct rdma_ud_client client;
	struct rdma_ud_held {
		struct chunk *chunk;
		uint32_t bytes;
	} held[RDMA_UD_HELD_EACH];
	unsigned count;
	/* The helper's. */
	struct ibv_wc wc;
	struct ibv_grh grh;
	struct ibv_ah *ah;
};

struct rdma_ud_queue {
	struct rdma_ud_job *first, **tail;
	unsigned held, held_max; /* datagrams */
	unsigned each;           /* of one client */
};

/* The times at which addresses were last seen; a table in which a later address
 * may replace another one. */
struct rdma_ud_memory {
	struct in6_addr address[RDMA_UD_KNOWN];
	uint64_t seen_ns[RDMA_UD_KNOWN]; /* 0: never */
};

struct rdma_ud_handles {
	struct worker *worker;
	pthread_t helper;
	sem_t wanted; /* the helper has `job`, or is to stop */
	int made_fd;  /* eventfd: it is done with `job` */
	struct op made_op;
	struct rdma_ud_job *job; /* NULL: the helper has none */
	_Atomic bool stop;
	struct rdma_ud_queue asked, others;
	struct siphash_key secret;
	struct rdma_ud_memory askers, failures;
};

static struct rdma_ud_handles *rdma_ud_handles_of(const struct worker *w)
{
	const struct rdma *e = w->engine_state;

	return e->handles;
}

/* ---- Times at which addresses were seen ---- */

static unsigned rdma_ud_place(const struct rdma_ud_handles *h, const struct in6_addr *address)
{
	uint64_t words[2];

	memcpy(words, address, sizeof(words));
	return siphash(&h->secret, words, ARRAY_SIZE(words)) % RDMA_UD_KNOWN;
}

/* When it was seen; 0: not known. */
static uint64_t rdma_ud_seen(const struct rdma_ud_handles *h, const struct rdma_ud_memory *memory,
			     const struct sockaddr_storage *address)
{
	struct in6_addr ip = sockaddr_mapped(address);
	unsigned at = rdma_ud_place(h, &ip);

	return IN6_ARE_ADDR_EQUAL(&memory->address[at], &ip) ? memory->seen_ns[at] : 0;
}

/* now_ns 0: forgets it. */
static void rdma_ud_remember(const struct rdma_ud_handles *h, struct rdma_ud_memory *memory,
			     const struct sockaddr_storage *address, uint64_t now_ns)
{
	struct in6_addr ip = sockaddr_mapped(address);
	unsigned at = rdma_ud_place(h, &ip);

	if (now_ns == 0 && rdma_ud_seen(h, memory, address) == 0)
		return;
	memory->address[at] = ip;
	memory->seen_ns[at] = now_ns;
}

void rdma_ud_handles_asked(struct worker *w, const struct sockaddr_storage *address)
{
	struct rdma_ud_handles *h = rdma_ud_handles_of(w);

	rdma_ud_remember(h, &h->askers, address, clock_coarse_ns());
	rdma_ud_remember(h, &h->failures, address, 0);
}

static bool rdma_ud_has_failed(const struct rdma_ud_handles *h,
			       const struct sockaddr_storage *address)
{
	uint64_t failed_ns = rdma_ud_seen(h, &h->failures, address);

	return failed_ns > 0 && clock_coarse_ns() - failed_ns < RDMA_UD_FAILED_NS;
}

/* ---- Clients that wait ---- */

/* Frees the job; what it still holds was dropped. */
static void rdma_ud_job_free(struct rdma_ud_job *job)
{
	struct worker *w = job->ud->device->worker;

	for (unsigned i = 0; i < job->count; i++)
		chunk_put(&w->pool, job->held[i].chunk);
	job->queue->held -= job->count;
	job->ud->users--;
	job->ud->device->users--;
	free(job);
}

static void rdma_ud_job_drop(struct rdma_ud_job *job)
{
	stat_add(job->ud->device->worker->stats.datagrams_dropped, job->count);
	if (job->ah)
		ibv_destroy_ah(job->ah);
	rdma_ud_job_free(job);
}

static struct rdma_ud_job *rdma_ud_queue_take(struct rdma_ud_queue *q)
{
	struct rdma_ud_job *job = q->first;

	if (!job)
		return NULL;
	q->first = job->next;
	if (!q->first)
		q->tail = &q->first;
	return job;
}

static bool rdma_ud_job_is_void(const struct rdma_ud_handles *h, const struct rdma_ud_job *job)
{
	return h->worker->drain.on || h->worker->turn.stop || job->ud->state == RDMA_UD_DEAD ||
	       rdma_ud_has_failed(h, &job->client.address);
}

/* Gives the helper another client, if there is one. */
static void rdma_ud_handles_next(struct rdma_ud_handles *h)
{
	struct rdma_ud_job *job;

	while (!h->job &&
	       ((job = rdma_ud_queue_take(&h->asked)) || (job = rdma_ud_queue_take(&h->others)))) {
		if (rdma_ud_job_is_void(h, job)) {
			rdma_ud_job_drop(job);
			continue;
		}
		h->job = job;
		sem_post(&h->wanted);
	}
}

static struct rdma_ud_job *rdma_ud_queue_find(const struct rdma_ud_queue *q,
					      const struct peer_key *key)
{
	struct rdma_ud_job *job = q->first;

	while (job && memcmp(&job->client.key, key, sizeof(*key)) != 0)
		job = job->next;
	return job;
}

static struct rdma_ud_job *rdma_ud_job_find(const struct rdma_ud_handles *h, struct rdma_ud *ud,
					    const struct peer_key *key)
{
	struct rdma_ud_job *job = h->job;

	if (!job || memcmp(&job->client.key, key, sizeof(*key)) != 0)
		job = rdma_ud_queue_find(&h->asked, key);
	if (!job)
		job = rdma_ud_queue_find(&h->others, key);
	return job && job->ud == ud ? job : NULL;
}

static struct rdma_ud_job *rdma_ud_job_new(struct rdma_ud_queue *q, struct rdma_ud *ud,
					   const struct rdma_ud_client *client,
					   const struct chunk *k, const struct ibv_wc *wc)
{
	struct rdma_ud_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->queue = q;
	job->ud = ud;
	job->client = *client;
	job->wc = *wc;
	memcpy(&job->grh, k->base, sizeof(job->grh));
	ud->users++;
	ud->device->users++;
	*q->tail = job;
	q->tail = &job->next;
	return job;
}

bool rdma_ud_hold(struct rdma_ud *ud, const struct rdma_ud_client *client, struct chunk *k,
		  const struct ibv_wc *wc)
{
	struct rdma_ud_handles *h = rdma_ud_handles_of(ud->device->worker);
	struct rdma_ud_job *job = rdma_ud_job_find(h, ud, &client->key);
	struct rdma_ud_queue *q =
		rdma_ud_seen(h, &h->askers, &client->address) ? &h->asked : &h->others;
	unsigned each;

	if (job)
		q = job->queue;
	/* The sender to a group knows no queue pair that it could have asked for. */
	if (grh_is_to_group(k->base))
		each = MIN(q->held_max, (unsigned)RDMA_UD_HELD_EACH);
	else
		each = q->each;
	if (q->held >= q->held_max || (job && job->count >= each))
		return false;
	if (!job && (h->worker->drain.on || h->worker->turn.stop ||
		     rdma_ud_has_failed(h, &client->address)))
		return false;
	if (!job)
		job = rdma_ud_job_new(q, ud, client, k, wc);
	if (!job)
		return false;
	k->refs++;
	job->held[job->count++] = (struct rdma_ud_held){ k, wc->byte_len };
	q->held++;
	rdma_ud_handles_next(h);
	return true;
}

/* ---- The helper ---- */

/* The library looks for the local address that the datagram was sent to.  The address of a group is
 * none of ours, so for datagrams to groups our own is given. */
static struct ibv_ah *rdma_ud_handle_make(struct rdma_ud_job *job)
{
	const struct rdma_ud *ud = job->ud;
	struct in6_addr to = sockaddr_mapped(&job->client.address);
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = (uint8_t)ud->port,
				    .grh = { .sgid_index = ud->group_gid, .hop_limit = 255 } };

	if (!(job->wc.wc_flags & IBV_WC_GRH) || !grh_is_to_group((const uint8_t *)&job->grh))
		return ibv_create_ah_from_wc(ud->device->pd, &job->wc, &job->grh,
					     (uint8_t)ud->port);
	memcpy(&attr.grh.dgid, &to, sizeof(to));
	return ibv_create_ah(ud->device->pd, &attr);
}

static void *rdma_ud_helper(void *context)
{
	struct rdma_ud_handles *h = context;
	uint64_t one = 1;

	for (;;) {
		struct rdma_ud_job *job;

		while (sem_wait(&h->wanted) < 0)
			continue;
		sem_taken(&h->wanted);
		job = h->job;
		if (atomic_load(&h->stop))
			return NULL;
		job->ah = rdma_ud_handle_make(job);
		if (write(h->made_fd, &one, sizeof(one)) < 0)
			return NULL;
	}
}

/* The client begins, and gets what was held of it. */
static void rdma_ud_job_done(struct rdma_ud_job *job)
{
	struct rdma_peer *peer = rdma_ud_begin(job->ud, &job->client, job->ah);

	job->ah = NULL; /* the client's, or destroyed */
	if (!peer) {
		rdma_ud_job_drop(job);
		return;
	}
	for (unsigned i = 0; i < job->count; i++)
		rdma_ud_input(peer, job->held[i].chunk, job->held[i].bytes);
	rdma_ud_job_free(job);
}

static void rdma_ud_made(struct op *op, int res, uint32_t flags)
{
	struct rdma_ud_handles *h = container_of(op, struct rdma_ud_handles, made_op);
	struct rdma_ud_job *job = h->job;
	uint64_t times;

	(void)res, (void)flags;
	stat_add(h->worker->stats.sys_other, 1);
	if (read(h->made_fd, &times, sizeof(times)) < 0)
		return;
	h->job = NULL;
	if (!job->ah) {
		rdma_ud_remember(h, &h->askers, &job->client.address, 0);
		rdma_ud_remember(h, &h->failures, &job->client.address, clock_coarse_ns());
	}
	if (!job->ah || rdma_ud_job_is_void(h, job))
		rdma_ud_job_drop(job);
	else
		rdma_ud_job_done(job);
	rdma_ud_handles_next(h);
}

/* ---- Setup and teardown ---- */

static void rdma_ud_queue_init(struct rdma_ud_queue *q, const struct pool *p, unsigned most,
			       unsigned each)
{
	q->tail = &q->first;
	q->held_max = MAX(MIN(p->chunk_count / 8, most), 1U);
	q->each = each;
}

static void rdma_ud_handles_free(struct rdma_ud_handles *h)
{
	if (h->made_fd >= 0)
		close(h->made_fd);
	sem_destroy(&h->wanted);
	free(h);
}

int rdma_ud_handles_open(struct worker *w, struct reason *reason)
{
	struct rdma *e = w->engine_state;
	struct rdma_ud_handles *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return reason_set(reason, -ENOMEM, "rdma: no memory");
	h->worker = w;
	rdma_ud_queue_init(&h->asked, &w->pool, RDMA_UD_HELD, RDMA_UD_HELD_EACH);
	rdma_ud_queue_init(&h->others, &w->pool, RDMA_UD_HELD_OTHERS, 1);
	sem_init(&h->wanted, 0, 0);
	h->made_op.done = rdma_ud_made;
	h->made_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = h->made_fd < 0 ? -errno : siphash_key_init(&h->secret);
	if (rc == 0)
		rc = rdma_watch(w, h->made_fd, &h->made_op);
	if (rc == 0)
		rc = -pthread_create(&h->helper, NULL, rdma_ud_helper, h);
	if (rc < 0) {
		rdma_ud_handles_free(h);
		return reason_set(reason, rc, "rdma: no thread for address handles: %s",
				  strerror(-rc));
	}
	pthread_setname_np(h->helper, "rdma handles");
	e->handles = h;
	return 0;
}

void rdma_ud_handles_close(struct worker *w)
{
	struct rdma *e = w->engine_state;
	struct rdma_ud_handles *h = e->handles;
	struct rdma_ud_job *job;

	if (!h)
		return;
	atomic_store(&h->stop, true);
	sem_post(&h->wanted);
	pthread_join(h->helper, NULL);
	if (h->job)
		rdma_ud_job_drop(h->job);
	while ((job = rdma_ud_queue_take(&h->asked)) || (job = rdma_ud_queue_take(&h->others)))
		rdma_ud_job_drop(job);
	rdma_ud_handles_free(h);
	e->handles = NULL;
}
