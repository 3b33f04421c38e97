/* State of engine `epoll` for all transports: a worker's engine_state begins with it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "conn.h"
#include "worker.h"

struct epoll {
	int fd;
	bool polls_nic; /* EPIOCSPARAMS is set: a wait that may sleep polls the NIC's queue first */
	bool on_nic;    /* a connection has arrived through such a queue */
	struct epoll_event events[WORKER_TURN_MAX];
};

/* Creates the epoll set and makes e w's engine_state, which the caller owns.  0, or -errno with the
 * reason.  The caller closes e->fd. */
int epoll_start(struct epoll *e, struct worker *w, struct reason *reason);

/* Has the kernel (Linux 6.9), if `busy-poll` says so, poll the network card's queue when a wait of
 * e would sleep. */
void epoll_poll_nic(struct epoll *e, struct worker *w);

/* epoll_ctl(2): op->done() runs for `events` of fd.  0 or -errno. */
int epoll_change(struct worker *w, int operation, int fd, uint32_t events, struct op *op);

/* Functions of struct engine. */
int epoll_watch(struct worker *w, int fd, struct op *op);
void epoll_wait_turn(struct worker *w, bool block);
