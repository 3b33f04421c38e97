/* State of engine `epoll` for all transports: a worker's engine_state begins with it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "conn.h"
#include "worker.h"

/* How the engine asks for events; all but EPOLL_LEVEL are for comparison, see epoll_modes.c. */
enum epoll_mode { EPOLL_LEVEL, EPOLL_EDGE, EPOLL_ONESHOT, EPOLL_PER_OPERATION };

struct epoll {
	int fd;
	enum epoll_mode mode;
	bool polls_nic; /* EPIOCSPARAMS is set: a wait that may sleep polls the NIC's queue first */
	bool on_nic;    /* and a connection has come through such a queue */
	struct conn *touched; /* epoll_modes.c: linked by conn.engine_state */
	struct epoll_event events[WORKER_TURN_MAX];
};

/* Creates the epoll set and makes e w's engine_state, which the caller owns.  0, or -errno with the
 * reason.  The caller closes e->fd. */
int epoll_start(struct epoll *e, struct worker *w, struct reason *reason);

/* epoll_ctl(2): op->done() runs for `events` of fd.  0 or -errno. */
int epoll_change(struct worker *w, int operation, int fd, uint32_t events, struct op *op);

/* Functions of struct engine. */
int epoll_init(struct worker *w, struct reason *reason);
void epoll_fini(struct worker *w);
void epoll_listen(struct worker *w, struct acceptor *a, bool on);
int epoll_watch(struct worker *w, int fd, struct op *op);
void epoll_wait_turn(struct worker *w, bool block);
int epoll_open(struct conn *c);

/* What the modes of the engine over TCP share. */
#define EPOLL_ENGINE                                                                               \
	.name = "epoll", .transport = &transport_tcp, .sample_turns = 8,                           \
	.features = FEATURE_BIT(busy_poll) | FEATURE_BIT(socket_busy_poll) |                       \
		    FEATURE_BIT(rcvlowat) | FEATURE_BIT(drop) | FEATURE_BIT(epoll_busy_poll),      \
	.init = epoll_init, .fini = epoll_fini, .listen = epoll_listen, .watch = epoll_watch

/* The mode that the key `epoll-mode` chooses. */
enum epoll_mode epoll_mode(const struct worker_options *options);

/* conn.flags: the socket is not in the epoll set. */
enum { EPOLL_LEFT = CONN_ENGINE << 0 };

/* Removes c's socket from the epoll set until there is interest again. */
void epoll_leave(struct conn *c);
/* c's peer has disconnected while input is off. */
void epoll_gone(struct conn *c);
