/* An export: a named block of storage, shared by all workers of all listeners that serve it.
 *
 * The main thread opens and closes it; in between it is constant but for `failed`. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct store;

enum {
	/* Bytes with the NUL; longer than a line of the configuration can be. */
	EXPORT_PATH_MAX = 256,
};

/* The keys of an [export NAME] section; the key table writes into it. */
struct export_options {
	char path[EXPORT_PATH_MAX]; /* "": none, for the stores memory and null */
	uint64_t size;              /* bytes; 0: the size of the file or device */
	const struct store *store;  /* NULL: auto */
	uint64_t queue_depth;       /* requests that one connection may have in flight */
	uint64_t threads;           /* threads of each worker, for the store `threads` */
	enum {
		EXPORT_CACHED,
		EXPORT_DIRECT,
		EXPORT_POLLED
	} direct; /* the page cache is bypassed */
	bool create, fill, read_only;
};

struct export
{
	const char *name;
	const struct export_options *options;
	const struct store *store; /* the store that opened it */
	uint64_t size;             /* bytes */
	/* bytes: required alignment of offsets, lengths and memory; 1: none. */
	uint32_t align;
	bool read_only; /* as configured, or because the file or device is read-only */
	bool rotational;
	bool block_device;
	bool in_memory; /* a file of tmpfs or ramfs: no device is behind it */
	bool holes;     /* zeros that are read are likely holes: counted as zero_reads */
	int fd;         /* owned; -1: none */
	void *memory;   /* `size` bytes; owned by the store `memory`, NULL with others */
	/* errno of a failed flush: acknowledged writes may be lost, so every request fails until
	 * the export is reopened.  0: no flush failed. */
	_Atomic int failed;
	/* Set by the owner; called once, on the thread of the worker that sets `failed`.  NULL: the
	 * owner checks `failed` by itself. */
	void (*on_failed)(struct export * e);
};
