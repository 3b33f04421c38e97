/* An export: a named block of storage, shared by all workers of all listeners that serve it.
 *
 * The main thread opens and closes it; in between it is constant but for `failed`. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct store;

enum {
	EXPORT_PATH_MAX = 256, /* bytes with the NUL; more than a line of the configuration holds */
};

/* The keys of an [export NAME] section; the key table writes into it. */
struct export_options {
	char path[EXPORT_PATH_MAX]; /* "": none, as for memory and null */
	uint64_t size;              /* bytes; 0: what the file or device has */
	const struct store *store;  /* NULL: auto */
	uint64_t queue_depth;       /* requests in flight of one connection */
	uint64_t threads;           /* of each worker, for the store `threads` */
	bool create, direct, iopoll, read_only, registered, sync_writes;
};

struct export
{
	const char *name;
	const struct export_options *options;
	const struct store *store; /* that opened it */
	uint64_t size;             /* bytes */
	uint32_t align;            /* of offsets, lengths and memory, bytes; 1: anything goes */
	bool read_only;            /* by its options, or because the file or device is */
	bool rotational;
	bool block_device;
	bool holes;   /* zeros that are read may be sent as holes */
	int fd;       /* -1: none */
	void *memory; /* the store's: size bytes, when bytes are served from memory */
	/* errno of the flush that failed: what had been acknowledged may be lost, so every request
	 * fails until the export is opened anew.  0: none did. */
	_Atomic int failed;
	/* The owner's; called once when that happens, on the thread of the worker that found out.
	 * NULL: the owner will see. */
	void (*on_failed)(struct export * e);
};
