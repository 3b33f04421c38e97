/* A server for operations that no service does yet: a worker with engine rdma and a service that
 * answers the message by which a client names its memory (as rping's) with a write that tells the
 * client: the immediate value is the number of bytes.
 *
 *   remote_server ADDRESS
 *       Prints the port, ends with standard input. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/daemon/worker_stop.h"
#include "conn.h"
#include "registry.h"
#include "remote.h"
#include "rping/proto.h"

struct telling {
	struct remote write;
	bool busy;
};

static void telling_done(struct remote *remote, int result)
{
	struct telling *t = container_of(remote, struct telling, write);

	(void)result;
	t->busy = false;
	bufq_drop(&remote->conn->worker->pool, &remote->data, remote->data.bytes);
}

static void telling_run(struct conn *c)
{
	struct telling *t = c->state;
	struct rping_buffer buffer;
	uint8_t n = 0;

	if (!c->rx.head || t->busy)
		return;
	if (rping_parse(c->rx.head->data, &buffer) < 0 ||
	    remote_room(c->worker, &t->write.data, buffer.size) < 0) {
		conn_close(c, CONN_END_PROTOCOL);
		return;
	}
	for (struct view *v = t->write.data.head; v; v = v->next)
		for (uint32_t i = 0; i < v->len; i++)
			v->data[i] = n++;
	bufq_drop(&c->worker->pool, &c->rx, RPING_MESSAGE);
	t->busy = true;
	t->write.address = buffer.address;
	t->write.key = buffer.key;
	t->write.immediate = buffer.size;
	remote_submit(&t->write);
}

static int telling_open(struct conn *c)
{
	struct telling *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->write =
		(struct remote){ .done = telling_done, .conn = c, .kind = REMOTE_WRITE_IMMEDIATE };
	c->state = t;
	return 0;
}

static void telling_close(struct conn *c)
{
	free(c->state);
}

static const struct service service_telling = {
	.name = "telling",
	.operations = { "write" },
	.flags = SERVICE_MESSAGES | SERVICE_REMOTE,
	.open = telling_open,
	.run = telling_run,
	.close = telling_close,
};

static int admit(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	(void)w, (void)fd, (void)peer;
	return 0;
}

static void release(struct worker *w)
{
	(void)w;
}

static const struct worker_owner owner = { .admit = admit, .release = release };

int main(int argc, char **argv)
{
	static struct worker worker __attribute__((aligned(CACHE_LINE)));
	struct sockaddr_storage address = { .ss_family = AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&address;
	struct reason reason;

	if (argc != 2 || inet_pton(AF_INET, argv[1], &in->sin_addr) != 1)
		return 2;
	worker.service = &service_telling;
	worker.engine = registry_engine("rdma");
	worker.options = (struct worker_options){ .buffer_size = 16384, .buffers = 256 };
	worker.owner = &owner;
	worker.listener = "test";
	strcpy(worker.name, "test");
	worker.accept.endpoints = &address;
	worker.accept.endpoint_count = 1;
	worker.team.workers = &worker;
	worker.team.count = 1;
	if (worker_start_and_wait(&worker, NULL, 0, &reason) < 0) {
		fprintf(stderr, "%s\n", reason.text);
		return 1;
	}
	worker_request(&worker, REQUEST_SERVE, 0);
	printf("%u\n", ntohs(in->sin_port));
	fflush(stdout);
	while (getchar() != EOF)
		;
	worker_stop_and_wait(&worker);
	return 0;
}
