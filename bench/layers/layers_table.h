/* Which layer a function belongs to: one table of names of the kernel's and the libraries'
 * functions, and the source tree for our own.  Pure. */
#pragma once

enum layer {
	LAYER_SERVICE,
	LAYER_ENGINE,
	LAYER_STORE,
	LAYER_CORE,
	LAYER_SYSCALL,
	LAYER_IO_URING,
	LAYER_EPOLL,
	LAYER_SOCKETS,
	LAYER_TCP_IP,
	LAYER_NETFILTER,
	LAYER_DEVICE,
	LAYER_COPY,
	LAYER_MEMORY,
	LAYER_FILES,
	LAYER_BLOCK,
	LAYER_RDMA,
	LAYER_SCHEDULER,
	LAYER_OTHER,
	LAYER_COUNT,
	LAYER_NONE = LAYER_COUNT /* the function belongs to the layer of its caller */
};

/* name: of JSON; words: for people. */
extern const struct layer_info {
	const char *name, *words;
} layer_infos[LAYER_COUNT];

/* The layer of a function of the kernel or of a library.  owner: the kernel's module, "[ext4]", or
 * a library's file; "": the kernel itself. */
enum layer layer_of_function(const char *name, const char *owner);

/* The layer of a function of nbserved.  file: the source file's name, "echo.c", known of static
 * functions; "": unknown.  Of all others the name begins with that of their file or folder. */
enum layer layer_of_own(const char *name, const char *file);
