/* An engine without a kernel: connections are made, fed and drained by the test, one turn at a
 * time.
 *
 * The worker is a real one, on its own thread, which sleeps in the fake's wait() while the test
 * looks at it and changes it: so what the test does happens "inside wait()", as with a real engine.
 * Every function here belongs to the test's thread. */
#pragma once
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn.h"
#include "worker.h"

enum { FAKE_PEERS_MAX = 64, FAKE_TURNS_MAX = 10000 };

/* One client.  Outlives its connection. */
struct fake_peer {
	struct conn *conn; /* NULL: freed */
	uint8_t *out;      /* the bytes sent to it; out_bytes of them */
	size_t out_bytes, out_max;
	size_t room;     /* bytes it still takes; SIZE_MAX: any */
	size_t send_max; /* most bytes that one send takes; 0: any number */
	bool receiving;  /* input is not paused by the engine's recv() */
	unsigned pauses; /* number of times that its input was paused */
	unsigned closes; /* calls of the engine's close() */
	/* A value that the service's close() leaves, for the test's services. */
	unsigned service_end;
	bool sending;   /* completion mode: a send is in flight */
	uint32_t extra; /* operations in flight that the test started with fake_hold() */
};

struct fake {
	struct worker worker;
	sem_t go, parked;
	bool stopping;
	bool completion; /* sends complete in a later turn, as with io_uring */
	bool slept;      /* the last wait() would have blocked */
	size_t room;     /* of the next peers */
	int admit;       /* the result of the owner's admit() */
	uint32_t kept;   /* chunks that the service may keep for itself; 0: one for w->constant */
	unsigned admitted, released, drained;
	/* Open connections and free chunks when the last connection was released. */
	uint64_t open_then, free_then;
	struct op *watched;
	struct fake_peer peers[FAKE_PEERS_MAX];
	unsigned peer_count;
};

/* A worker with one pool of `chunks` of `chunk_size` bytes, parked in its first wait(). */
struct fake *fake_start(const struct service *service, uint32_t chunks, uint32_t chunk_size,
			uint64_t idle_timeout_ns);

/* Ends all connections, checks that no chunk and no view is missing, and stops the worker. */
void fake_stop(struct fake *f);

/* Connects a peer.  If it was refused the peer has no connection. */
struct fake_peer *fake_connect(struct fake *f);

/* Lets the worker make one turn. */
void fake_turn(struct fake *f);

/* Makes turns until the worker would sleep; returns their number.  Fails if that never happens. */
unsigned fake_settle(struct fake *f);

/* The peer sends: at most a chunk, in one receive.  Returns the bytes received: 0 when input is
 * paused or the pool is empty (then the connection starves). */
size_t fake_send(struct fake *f, struct fake_peer *peer, const void *data, size_t bytes);

/* Feeds all of it, settling after each piece of at most `piece` bytes; returns the bytes
 * received. */
size_t fake_send_all(struct fake *f, struct fake_peer *peer, const void *data, size_t bytes,
		     size_t piece);

/* The peer takes `bytes` more from now on; a blocked tx continues. */
void fake_take(struct fake *f, struct fake_peer *peer, size_t bytes);

void fake_eof(struct fake *f, struct fake_peer *peer);
void fake_reset(struct fake *f, struct fake_peer *peer);

/* Another operation in flight that names the connection, and its end. */
void fake_hold(struct fake_peer *peer);
void fake_unhold(struct fake_peer *peer);

/* Chunks that are not on the pool's free list. */
static inline uint32_t fake_chunks_used(const struct fake *f)
{
	return f->worker.pool.chunk_count - f->worker.pool.free_count;
}
