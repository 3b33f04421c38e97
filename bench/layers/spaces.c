/* The kernel's functions, and those of a process by its map.  See symbols.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "must.h"
#include "symbols.h"
#include "text.h"

enum { FILES_MAX = 256, RANGES_MAX = 256 };

/* A program or a library. */
struct file {
	dev_t device;
	ino_t inode;
	char *owner; /* "[libc.so.6]" */
	bool own;
	struct symbols symbols;
	struct symbol unknown; /* for addresses without a function */
};

/* Executable memory of the process. */
struct range {
	uint64_t start, end, offset;
	const struct file *file;
};

struct spaces {
	struct symbols kernel;
	struct file *files[FILES_MAX]; /* of all processes */
	unsigned file_count;
	struct range ranges[RANGES_MAX]; /* of the current one */
	unsigned range_count;
};

static const struct symbol unknown_kernel = {
	.name = "[kernel]", .owner = "", .layer = LAYER_NONE, .kernel = true
};
static const struct symbol unknown_user = { .name = "[unknown]", .owner = "", .layer = LAYER_NONE };

struct spaces *spaces_new(void)
{
	return must(calloc(1, sizeof(struct spaces)));
}

void spaces_free(struct spaces *s)
{
	symbols_free(&s->kernel);
	for (unsigned i = 0; i < s->file_count; i++) {
		symbols_free(&s->files[i]->symbols);
		free(s->files[i]->owner);
		free(s->files[i]);
	}
	free(s);
}

/* All of a file of /proc, whose size is not known before; NULL: it cannot be read. */
static char *read_all(const char *path)
{
	FILE *from = fopen(path, "re"), *to;
	char *text = NULL, part[16384];
	size_t bytes;

	if (!from)
		return NULL;
	to = text_open(&text);
	while ((bytes = fread(part, 1, sizeof(part), from)) > 0)
		fwrite(part, 1, bytes, to);
	fclose(from);
	fclose(to);
	return text;
}

int spaces_read_kernel(struct spaces *s, struct reason *reason)
{
	char *text = read_all("/proc/kallsyms");
	int rc;

	if (!text)
		return reason_set(reason, -errno,
				  "the kernel does not tell its functions: /proc/kallsyms: %s; it "
				  "needs CONFIG_KALLSYMS",
				  strerror(errno));
	rc = symbols_kernel(&s->kernel, text);
	if (rc < 0)
		return reason_set(reason, rc,
				  "the kernel hides the addresses of its functions: run it as "
				  "root, or with CAP_SYSLOG after `sysctl kernel.kptr_restrict=1`");
	return 0;
}

/* ---- Files ---- */

static void read_symbols(struct file *file, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *image;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
		image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (image != MAP_FAILED) {
			symbols_elf(&file->symbols, image, (size_t)st.st_size, file->own,
				    file->owner);
			munmap(image, (size_t)st.st_size);
		}
	}
	if (fd >= 0)
		close(fd);
}

static char *owner_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return text_new(*path == '[' ? "%s" : "[%s]", slash ? slash + 1 : path);
}

/* Takes ownership of owner.  NULL: there are too many files. */
static const struct file *add_file(struct spaces *s, const struct stat *st, char *owner, bool own,
				   const char *path)
{
	struct file *file = s->file_count < FILES_MAX ? calloc(1, sizeof(*file)) : NULL;

	if (!file) {
		free(owner);
		return NULL;
	}
	*file = (struct file){
		.device = st->st_dev,
		.inode = st->st_ino,
		.owner = owner,
		.own = own,
		.unknown = { .name = owner,
			     .owner = owner,
			     .layer = own ? LAYER_CORE : layer_of_function("", owner) },
	};
	if (st->st_ino)
		read_symbols(file, path);
	s->files[s->file_count++] = file;
	return file;
}

/* The file that is mapped there.  path: as the process sees it.  Mappings without a file, such as
 * [vdso], have inode 0. */
static const struct file *file_of(struct spaces *s, pid_t pid, const char *path,
				  const struct stat *program)
{
	char *owner = owner_of(path), link[PATH_MAX + 32];
	struct stat st = { 0 };

	snprintf(link, sizeof(link), "/proc/%d/root%s", (int)pid, path);
	if (*path == '/' && stat(link, &st) < 0)
		st = (struct stat){ 0 }; /* deleted, or replaced by a package's upgrade */
	for (unsigned i = 0; i < s->file_count; i++) {
		const struct file *file = s->files[i];

		if (file->inode == st.st_ino && file->device == st.st_dev &&
		    (st.st_ino || !strcmp(file->owner, owner))) {
			free(owner);
			return file;
		}
	}
	return add_file(s, &st, owner, st.st_ino == program->st_ino && st.st_dev == program->st_dev,
			link);
}

/* ---- The map of a process: proc_pid_maps(5) ---- */

static void read_range(struct spaces *s, pid_t pid, char *line, const struct stat *program)
{
	struct range *r = &s->ranges[s->range_count];
	char mode[8];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &r->start, &r->end,
		   mode, &r->offset, &path) != 4 ||
	    !path || !strchr(mode, 'x') || (line[path] != '/' && line[path] != '['))
		return;
	r->file = file_of(s, pid, line + path, program);
	s->range_count += r->file != NULL;
}

int spaces_read_process(struct spaces *s, pid_t pid, struct reason *reason)
{
	struct stat program;
	char path[64], *text, *line, *next;

	s->range_count = 0;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &program) < 0)
		return reason_set(reason, -errno, "%s: %s: run it as root or as the daemon's user",
				  path, strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	text = read_all(path);
	if (!text)
		return reason_set(reason, -errno, "%s: %s: run it as root or as the daemon's user",
				  path, strerror(errno));
	for (line = strtok_r(text, "\n", &next); line && s->range_count < RANGES_MAX;
	     line = strtok_r(NULL, "\n", &next))
		read_range(s, pid, line, &program);
	free(text);
	return 0;
}

/* ---- Addresses ---- */

const struct symbol *spaces_kernel(const struct spaces *s, uint64_t address)
{
	const struct symbol *found = symbols_find(&s->kernel, address);

	return found ? found : &unknown_kernel;
}

const struct symbol *spaces_user(const struct spaces *s, uint64_t address)
{
	for (unsigned i = 0; i < s->range_count; i++) {
		const struct range *r = &s->ranges[i];
		const struct symbol *found;

		if (address < r->start || address >= r->end)
			continue;
		found = symbols_find(&r->file->symbols, address - r->start + r->offset);
		return found ? found : &r->file->unknown;
	}
	return &unknown_user;
}

bool spaces_has_own(const struct spaces *s)
{
	for (unsigned i = 0; i < s->range_count; i++)
		if (s->ranges[i].file->own)
			return s->ranges[i].file->symbols.count > 0;
	return false;
}
