/* The stores without a network: FILES files of SIZE bytes, each read or written whole, over and
 * over, all of them at once, by one worker.
 *
 *   store STORE ENGINE read|write DIRECTORY FILES SIZE SECONDS
 *
 * Prints operations and CPU nanoseconds of the process (with the kernel's threads in it).  The
 * files are made where they are missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../unit/daemon/worker_stop.h"
#include "registry.h"
#include "store.h"
#include "util.h"
#include "worker.h"

/* One file, and the request that is always in flight for it. */
struct loop {
	struct export_options options;
	struct export export;
	struct io io;
	struct bench *bench;
	uint8_t *memory;
};

struct bench {
	struct call start;
	struct worker *worker;
	struct loop *loops;
	unsigned count, running;
	uint64_t size, end_ns, done;
	enum io_kind kind;
	bool failed;
	_Atomic bool ended;
};

static void loop_submit(struct loop *l);

static void loop_done(struct io *io, int result)
{
	struct loop *l = container_of(io, struct loop, io);
	struct bench *b = l->bench;

	b->done += result == 0;
	b->failed |= result < 0;
	if (result == 0 && clock_ns() < b->end_ns)
		loop_submit(l);
	else if (--b->running == 0)
		atomic_store(&b->ended, true);
}

static void loop_submit(struct loop *l)
{
	struct bench *b = l->bench;

	l->io.kind = (uint8_t)b->kind;
	l->io.offset = 0;
	l->io.length = b->size;
	l->io.iov_count = 1;
	l->io.iov[0] = (struct iovec){ l->memory, b->size };
	io_submit(&l->io);
}

static void bench_start(struct call *call)
{
	struct bench *b = container_of(call, struct bench, start);

	b->running = b->count;
	for (unsigned i = 0; i < b->count; i++)
		loop_submit(&b->loops[i]);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "store: %s: %s\n", what, why);
	exit(1);
}

/* The file of number i, and the worker's mount of it. */
static void loop_init(struct bench *b, unsigned i, const struct store *store, const char *directory)
{
	struct loop *l = &b->loops[i];
	struct reason reason;

	l->bench = b;
	l->options = (struct export_options){ .size = b->size, .create = true, .threads = 16 };
	snprintf(l->options.path, sizeof(l->options.path), "%s/f%u", directory, i);
	l->export =
		(struct export){ .name = "f", .options = &l->options, .store = store, .fd = -1 };
	if (store->open(&l->export, &reason) < 0 ||
	    (store->prepare && store->prepare(&l->export, &(bool){ 0 }, &reason) < 0))
		die("open", reason.text);
	b->worker->mounts[i] = (struct mount){ .export = &l->export, .store = store };
	l->io.done = loop_done;
	l->io.mount = &b->worker->mounts[i];
}

int main(int argc, char **argv)
{
	const struct timespec look = { .tv_nsec = NS_PER_MS };
	struct worker *w = aligned_alloc(CACHE_LINE, sizeof(*w));
	struct bench b = { .start.fn = bench_start, .worker = w };
	const struct store *store;
	struct reason reason;
	uint64_t before;

	if (argc != 8 || !w)
		die("arguments", "STORE ENGINE read|write DIRECTORY FILES SIZE SECONDS");
	memset(w, 0, sizeof(*w));
	store = registry_store(argv[1]);
	w->engine = registry_engine(argv[2]);
	if (!store || !store->file || !w->engine)
		die(argv[1], "no such store for files, or engine");
	b.kind = !strcmp(argv[3], "read") ? IO_read : IO_write;
	b.count = (unsigned)strtoul(argv[5], NULL, 10);
	b.size = strtoull(argv[6], NULL, 10);
	b.loops = calloc(b.count, sizeof(*b.loops));
	w->mounts = calloc(b.count, sizeof(*w->mounts));
	if (!b.loops || !w->mounts)
		die("memory", "there is none");
	w->mount_count = b.count;
	w->options.buffer_size = b.size;
	w->options.buffers = b.count * 4; /* an engine may lend most of them */
	w->listener = "bench";
	strcpy(w->name, "bench");
	for (unsigned i = 0; i < b.count; i++)
		loop_init(&b, i, store, argv[4]);
	if (worker_start_and_wait(w, NULL, 0, &reason) < 0)
		die("start", reason.text);
	/* The pool's memory, as a service has it, in chunks as large as a file; the worker sleeps.
	 */
	for (unsigned i = 0; i < b.count; i++)
		b.loops[i].memory = chunk_get(&w->pool)->base;
	b.end_ns = clock_ns() + (uint64_t)(strtod(argv[7], NULL) * NS_PER_S);
	before = cpu_ns();
	worker_call(w, &b.start);
	while (!atomic_load(&b.ended))
		nanosleep(&look, NULL);
	printf("%llu %llu\n", (unsigned long long)b.done, (unsigned long long)(cpu_ns() - before));
	worker_stop_and_wait(w);
	for (unsigned i = 0; i < b.count; i++)
		store->close(&b.loops[i].export);
	free(w->mounts);
	free(w);
	free(b.loops);
	return b.failed;
}
