/* State of engine `epoll` for all transports: a worker's engine_state begins with it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "worker.h"

struct epoll {
	int fd;
	struct epoll_event events[WORKER_TURN_MAX];
};

/* 0 or -errno with the reason; e is w's engine_state then, and e->fd is the caller's to close. */
int epoll_start(struct epoll *e, struct worker *w, struct reason *reason);

/* epoll_ctl(2): what op is told of fd.  0 or -errno. */
int epoll_change(struct worker *w, int operation, int fd, uint32_t events, struct op *op);

/* engine->watch and engine->wait. */
int epoll_watch(struct worker *w, int fd, struct op *op);
void epoll_wait_turn(struct worker *w, bool block);
