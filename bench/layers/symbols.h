/* Functions by address: of the kernel, and of the programs and libraries of a process. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "layers_table.h"
#include "reason.h"

struct symbol {
	uint64_t start, end;
	const char *name;
	const char *owner; /* see layer_of_function() and, of nbserved, layer_of_own() */
	enum layer layer;  /* LAYER_NONE: that of its caller */
	bool kernel;
	bool layered; /* the layer is known */
};

struct symbols {
	struct symbol *list; /* by address */
	size_t count;
	char *text; /* has the names */
	bool own;   /* of nbserved */
};

/* Takes ownership of text, that of /proc/kallsyms, from malloc(): 0, or -EACCES: it has no
 * addresses.  symbols_free() in any case.  Pure. */
int symbols_kernel(struct symbols *ret, char *text);
/* The functions of an ELF file of this machine's class, by their offset in the file.  Names are
 * copied.  own: it is nbserved, else `owner` is its owner, borrowed.  0, -EINVAL: it is no such
 * file, or -ENODATA: it has no functions, as when it was stripped.  Pure. */
int symbols_elf(struct symbols *ret, const void *bytes, size_t size, bool own, const char *owner);
void symbols_free(struct symbols *s);
/* The function at the address; NULL: there is none.  Its layer is looked up when it is first found:
 * of the kernel's 100,000 functions and more a run meets some hundreds. */
const struct symbol *symbols_find(const struct symbols *s, uint64_t address);

/* The functions of all processes seen, each file read once. */
struct spaces;
struct spaces *spaces_new(void);
void spaces_free(struct spaces *s);
/* Reads the kernel's functions: 0, or -errno with the reason. */
int spaces_read_kernel(struct spaces *s, struct reason *reason);
/* Reads the map of a process, whose own program is nbserved, in place of the one before: 0 or
 * -errno with the reason. */
int spaces_read_process(struct spaces *s, pid_t pid, struct reason *reason);
/* Never NULL; valid until spaces_free(). */
const struct symbol *spaces_kernel(const struct spaces *s, uint64_t address);
const struct symbol *spaces_user(const struct spaces *s, uint64_t address);
/* Does the program of the process have names of functions? */
bool spaces_has_own(const struct spaces *s);
