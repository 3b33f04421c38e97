/* A disk whose requests end when the fuzzer's input says so, in any order; clients whose input,
 * output and memory come as it says; and a model of what they must read.  Shared by the fuzz
 * targets of NBD and NVMe, which know how a request is written and a message is read.
 *
 * No request in flight overlaps with a write, so each answer is known.  When a client is cut off,
 * each block of its writes in flight has been written, or has not. */
#pragma once
#include "../unit/daemon/by_hand.h"
#include "block_part.h"
#include "fuzz.h"
#include "pressure.h"
#include "store.h"
#include "util.h"

enum {
	DISK_SIZE = 1024 * 1024,
	DISK_BLOCK = 4096,
	DISK_TAGS = 8, /* requests of a client in flight */
	DISK_CLIENTS = 2,
	DISK_STREAM = 2 * DISK_SIZE, /* bytes on their way from or to a client */
	DISK_CHUNKS = 96,
	DISK_CHUNK = 16384,
};

struct fuzz_input {
	const uint8_t *data;
	size_t bytes;
};

/* A number below `below` that the input chooses; 0 once it is used up. */
static inline uint32_t choose(struct fuzz_input *in, uint32_t below)
{
	uint32_t value = 0;

	assert(below > 0);
	for (uint32_t most = below - 1; most > 0 && in->bytes > 0; most >>= 8, in->bytes--)
		value = value << 8 | *in->data++;
	return value % below;
}

/* A request in flight. */
struct asked {
	bool flying;
	uint8_t kind; /* enum io_kind */
	uint32_t offset, length;
	uint32_t serial; /* of a write: its data follows from it */
	uint32_t heard;  /* bytes of a read that have come */
};

struct stream {
	uint8_t data[DISK_STREAM];
	size_t begin, end;
};

struct client {
	struct conn *conn; /* NULL: it has ended */
	struct asked asked[DISK_TAGS];
	struct stream says, hears; /* not yet received by the service; not yet understood */
	size_t room;               /* bytes of output that it takes now */
	bool paused;               /* its input, by the service */
	bool cut;                  /* by the test */
	unsigned settled;          /* messages of the handshake that have come */
};

struct disk {
	struct worker worker;
	struct mount mount;
	struct export export;
	struct export_options options;
	struct fuzz_input *in;
	struct client clients[DISK_CLIENTS];
	struct io *pending[DISK_CLIENTS * DISK_TAGS];
	unsigned pending_count;
	struct chunk *taken[DISK_CHUNKS]; /* from the pool, by others */
	unsigned taken_count;
	uint32_t serial;
	uint8_t content[DISK_SIZE], model[DISK_SIZE];
};

/* What differs between protocols. */
static void protocol_ask(struct disk *d, struct client *c, unsigned tag);
/* Understands one message at the begin of c->hears; returns its bytes, 0: it is incomplete. */
static size_t protocol_hear(struct disk *d, struct client *c, const uint8_t *data, size_t bytes);

/* ---- The disk ---- */

/* Writes bytes `from` to `end` of what the disk contains after a. */
static inline void disk_write(uint8_t *disk, const struct asked *a, uint32_t from, uint32_t end)
{
	static uint8_t noise[DISK_SIZE + 65536]; /* each write's data begins elsewhere in it */
	static uint64_t state = 1;

	for (size_t i = 0; noise[0] == 0 && i < sizeof(noise); i++) {
		state = state * 6364136223846793005U + 1442695040888963407U;
		noise[sizeof(noise) - 1 - i] = (uint8_t)(state >> 56 | 1);
	}
	if (a->kind == IO_write)
		memcpy(disk + from, noise + a->serial * 4099 % 65536 + from, end - from);
	else
		memset(disk + from, 0, end - from);
}

static inline void disk_carry_out(struct disk *d, struct io *io)
{
	uint8_t *at = d->content + io->offset;

	assert(io->offset + io->length <= DISK_SIZE);
	if (io->kind == IO_trim || io->kind == IO_write_zeroes)
		memset(at, 0, (size_t)io->length);
	if (io->kind == IO_block_status) {
		io->extents[0] = (struct io_extent){ .length = io->length };
		io->extent_count = 1;
	}
	if (io->kind == IO_read || io->kind == IO_write)
		for (unsigned i = 0; i < io->iov_count; at += io->iov[i++].iov_len) {
			void *to = io->kind == IO_read ? io->iov[i].iov_base : at;

			memcpy(to, io->kind == IO_read ? at : io->iov[i].iov_base,
			       io->iov[i].iov_len);
		}
	io_finish(io, 0);
}

static inline struct disk *disk_of(struct worker *w)
{
	return container_of(w, struct disk, worker);
}

static inline void disk_submit(struct io *io)
{
	struct disk *d = disk_of(io->mount->worker);

	if (choose(d->in, 4) == 1)
		disk_carry_out(d, io);
	else
		d->pending[d->pending_count++] = io;
}

static const struct store disk_store = { .name = "late", .submit = disk_submit };

static inline void disk_finish_one(struct disk *d)
{
	unsigned i;
	struct io *io;

	if (d->pending_count == 0)
		return;
	i = choose(d->in, d->pending_count);
	io = d->pending[i];
	d->pending[i] = d->pending[--d->pending_count];
	disk_carry_out(d, io);
}

/* ---- Clients ---- */

static inline struct client *client_of(const struct conn *conn)
{
	struct disk *d = disk_of(conn->worker);

	for (unsigned i = 0; i < DISK_CLIENTS; i++)
		if (d->clients[i].conn == conn)
			return &d->clients[i];
	return NULL;
}

static inline void stream_put(struct stream *s, const void *data, size_t bytes)
{
	if (s->begin > DISK_STREAM / 2) {
		memmove(s->data, s->data + s->begin, s->end - s->begin);
		s->end -= s->begin;
		s->begin = 0;
	}
	assert(s->end + bytes <= sizeof(s->data));
	memcpy(s->data + s->end, data, bytes);
	s->end += bytes;
}

static inline void client_recv(struct conn *conn, bool on)
{
	struct client *c = client_of(conn);

	if (c)
		c->paused = !on;
}

static inline void client_flush(struct conn *conn)
{
	struct client *c = client_of(conn);

	while (conn->tx.bytes && (!c || c->room)) {
		struct view *v = conn->tx.head;
		size_t n = c ? MIN(v->len, c->room) : v->len, used;

		if (c) {
			stream_put(&c->hears, v->data, n);
			c->room -= n;
		}
		conn_sent(conn, &conn->tx, n, 0);
		for (; c; c->hears.begin += used) {
			used = protocol_hear(disk_of(conn->worker), c,
					     c->hears.data + c->hears.begin,
					     c->hears.end - c->hears.begin);
			if (!used)
				break;
		}
	}
}

static inline void client_release(struct conn *conn)
{
	struct client *c = client_of(conn);

	assert(!c || c->cut);
	if (c)
		c->conn = NULL;
}

static const struct engine disk_engine = {
	.name = "fuzz",
	.open = by_hand_open,
	.recv = client_recv,
	.flush = client_flush,
	.close = by_hand_close,
	.release = client_release,
};

/* ---- What a client does ---- */

/* Does a request in flight of any client stand in the way of a? */
static inline bool disk_is_taken(const struct disk *d, const struct asked *a)
{
	for (unsigned i = 0; i < DISK_CLIENTS * DISK_TAGS; i++) {
		const struct asked *b = &d->clients[i / DISK_TAGS].asked[i % DISK_TAGS];
		bool writes = a->kind != IO_read || b->kind != IO_read;

		if (b->flying && writes && a->offset < b->offset + b->length &&
		    b->offset < a->offset + a->length)
			return true;
	}
	return false;
}

/* Asks for something, in units of `unit` bytes, `longest` of them at most. */
static inline void client_ask(struct disk *d, struct client *c, uint32_t unit, uint32_t longest)
{
	static const uint8_t kinds[] = { IO_read,  IO_read,  IO_read,         IO_write,
					 IO_write, IO_write, IO_write_zeroes, IO_trim };
	static const uint32_t sizes[] = { 512, 8192, 65536, 200000, 700000 };
	struct asked a = { .flying = true, .kind = kinds[choose(d->in, ARRAY_SIZE(kinds))] };
	uint32_t size = sizes[choose(d->in, ARRAY_SIZE(sizes))], most = MIN(size, longest) / unit;
	unsigned tag = 0;

	while (tag < DISK_TAGS && c->asked[tag].flying)
		tag++;
	a.length = (1 + choose(d->in, MAX(most, 1U))) * unit;
	a.offset = choose(d->in, (DISK_SIZE - a.length) / unit + 1) * unit;
	if (tag == DISK_TAGS || c->says.end - c->says.begin > DISK_STREAM / 4 ||
	    disk_is_taken(d, &a))
		return;
	a.serial = ++d->serial;
	c->asked[tag] = a;
	protocol_ask(d, c, tag);
}

/* The answer to a request has come, without an error. */
static inline void client_answered(struct disk *d, struct client *c, unsigned tag)
{
	struct asked *a = &c->asked[tag];

	assert(tag < DISK_TAGS && a->flying);
	if (a->kind == IO_read)
		assert(a->heard == a->length);
	else
		disk_write(d->model, a, a->offset, a->offset + a->length);
	a->flying = false;
}

/* Data of a read, for byte `offset` of the disk on. */
static inline void client_heard(struct disk *d, struct client *c, unsigned tag, uint64_t offset,
				const uint8_t *data, uint32_t bytes)
{
	struct asked *a = &c->asked[tag];

	assert(tag < DISK_TAGS && a->flying && a->kind == IO_read);
	assert(offset == a->offset + a->heard && bytes <= a->length - a->heard);
	assert(memcmp(data, d->model + offset, bytes) == 0);
	a->heard += bytes;
}

static inline void client_say(struct disk *d, struct client *c, size_t most)
{
	size_t n = MIN(most, c->says.end - c->says.begin);

	if (c->conn && n > 0 && !c->paused && d->worker.pool.free_count > 4)
		c->says.begin += by_hand_input(c->conn, c->says.data + c->says.begin, n);
}

/* Bytes from to end, in one block, of the write a, which may not have been carried out: the disk
 * has the old ones, or the new ones. */
static inline void disk_settle_part(struct disk *d, const struct asked *a, uint32_t from,
				    uint32_t end)
{
	static uint8_t new[DISK_SIZE];
	uint32_t bytes = end - from;

	disk_write(new, a, from, end);
	assert(!memcmp(d->content + from, d->model + from, bytes) ||
	       !memcmp(d->content + from, new + from, bytes));
	memcpy(d->model + from, d->content + from, bytes);
}

static inline void disk_settle(struct disk *d, struct asked *a)
{
	uint32_t end = a->offset + a->length, next;

	for (uint32_t at = a->offset; a->flying && a->kind != IO_read && at < end; at = next) {
		next = MIN(at / DISK_BLOCK * DISK_BLOCK + DISK_BLOCK, end);
		disk_settle_part(d, a, at, next);
	}
	a->flying = false;
}

/* ---- The scene ---- */

static inline void disk_feed(struct disk *d)
{
	for (unsigned i = 0; i < DISK_CLIENTS; i++) {
		struct conn *conn = d->clients[i].conn;

		if (conn && (conn->flags & CONN_NO_MEMORY)) {
			pressure_end_wait(conn);
			conn_ready(conn);
		}
	}
}

static inline void disk_give_back(struct disk *d)
{
	while (d->taken_count > 0)
		chunk_put(&d->worker.pool, d->taken[--d->taken_count]);
}

/* Others take chunks, or give them all back. */
static inline void disk_press(struct disk *d)
{
	unsigned count = choose(d->in, DISK_CHUNKS);

	disk_give_back(d);
	while (d->taken_count < count && d->worker.pool.free_count > 8)
		d->taken[d->taken_count++] = chunk_get(&d->worker.pool);
}

static inline void disk_init(struct disk *d, struct fuzz_input *in, const struct service *service)
{
	struct worker *w = &d->worker;

	memset(d, 0, offsetof(struct disk, clients));
	for (unsigned i = 0; i < DISK_CLIENTS; i++) {
		memset(&d->clients[i], 0, offsetof(struct client, says));
		d->clients[i].says.begin = d->clients[i].says.end = 0;
		d->clients[i].hears.begin = d->clients[i].hears.end = 0;
		d->clients[i].room = SIZE_MAX;
		d->clients[i].paused = d->clients[i].cut = false;
		d->clients[i].settled = 0;
	}
	d->pending_count = d->taken_count = d->serial = 0;
	memset(d->content, 0, sizeof(d->content));
	memset(d->model, 0, sizeof(d->model));
	d->in = in;
	d->options = (struct export_options){ .size = DISK_SIZE, .queue_depth = DISK_TAGS };
	d->export = (struct export){
		.name = "one", .options = &d->options, .size = DISK_SIZE, .align = 1, .fd = -1
	};
	d->mount = (struct mount){ .export = &d->export, .store = &disk_store, .worker = w };
	by_hand_init(w, service, &disk_engine, DISK_CHUNKS, DISK_CHUNK);
	w->mounts = &d->mount;
	w->mount_count = 1;
	pressure_check_init(w);
	w->limits.held_limit = BLOCK_HELD_MAX;
	pressure_set_held_max(w);
}

/* The service has answered all, once nothing holds it up any more. */
static inline void disk_drain(struct disk *d)
{
	disk_give_back(d);
	for (unsigned round = 0;; round++) {
		bool busy = d->pending_count > 0;

		assert(round < 10000); /* else a request is never answered */

		for (unsigned i = 0; i < DISK_CLIENTS; i++) {
			struct client *c = &d->clients[i];

			if (!c->conn)
				continue;
			c->room = SIZE_MAX;
			conn_ready(c->conn);
			client_say(d, c, DISK_CHUNK);
			for (unsigned tag = 0; tag < DISK_TAGS; tag++)
				busy |= c->asked[tag].flying;
		}
		if (!busy)
			return;
		while (d->pending_count > 0)
			disk_finish_one(d);
		disk_feed(d);
		by_hand_turns(&d->worker);
	}
}

/* Cuts the client off; what it has in flight is settled when the store has ended it. */
static inline void client_cut(struct disk *d, struct client *c)
{
	if (!c->conn)
		return;
	c->cut = true;
	conn_close(c->conn, CONN_END_PEER);
	by_hand_turns(&d->worker);
	while (c->conn && d->pending_count > 0) {
		disk_finish_one(d);
		by_hand_turns(&d->worker);
	}
	assert(!c->conn);
	for (unsigned tag = 0; tag < DISK_TAGS; tag++)
		disk_settle(d, &c->asked[tag]);
}

static inline void disk_fini(struct disk *d)
{
	struct worker *w = &d->worker;

	for (unsigned i = 0; i < DISK_CLIENTS; i++)
		client_cut(d, &d->clients[i]);
	assert(memcmp(d->content, d->model, DISK_SIZE) == 0);
	assert(d->mount.in_flight == 0);
	disk_give_back(d);
	by_hand_fini(w);
}

/* One action of the world, which the input chooses. */
static inline void disk_step(struct disk *d, uint32_t unit, uint32_t longest)
{
	struct client *c = &d->clients[choose(d->in, DISK_CLIENTS)];

	switch (choose(d->in, 16)) {
	case 0:
		c->room = choose(d->in, 2) ? SIZE_MAX : choose(d->in, DISK_SIZE);
		if (c->conn)
			conn_ready(c->conn);
		break;
	case 1:
		disk_press(d);
		break;
	case 2:
		disk_feed(d);
		break;
	case 3:
		if (choose(d->in, 8) == 1)
			client_cut(d, c);
		break;
	case 4:
	case 5:
	case 6:
		disk_finish_one(d);
		break;
	case 7:
		client_say(d, c, 1 + choose(d->in, DISK_CHUNK));
		break;
	case 8:
	case 9:
	case 10:
		client_say(d, c, DISK_CHUNK);
		break;
	default:
		if (c->conn)
			client_ask(d, c, unit, longest);
		break;
	}
	by_hand_turns(&d->worker);
}
