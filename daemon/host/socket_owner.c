/* Looking for a socket or file in /proc.  See socket_owner.h. */
#include "socket_owner.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parse.h"
#include "sockaddr.h"
#include "text.h"
#include "util.h"

/* ---- Processes ---- */

/* Does `name` in a directory /proc/PID/fd lead to the object looked for? */
typedef bool owner_match(int folder, const char *name, const void *wanted);

static bool is_socket(int folder, const char *name, const void *wanted)
{
	char link[64];
	ssize_t n = readlinkat(folder, name, link, sizeof(link) - 1);

	link[MAX(n, 0)] = '\0';
	return !strcmp(link, wanted);
}

/* Does the fdinfo of this descriptor have a `lock:` line (proc(5)) of
 * another kind than flock(2)'s? */
static bool has_lock(int folder, const char *name)
{
	char path[64], line[256];
	bool has = false;
	FILE *file;
	int fd;

	snprintf(path, sizeof(path), "../fdinfo/%.20s", name);
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	while (file && !has && fgets(line, sizeof(line), file))
		has = !strncmp(line, "lock:", 5) && !strstr(line, "FLOCK");
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return has;
}

static bool is_locked(int folder, const char *name, const void *wanted)
{
	char link[2];
	struct stat st;

	if (readlinkat(folder, name, link, sizeof(link)) <= 0 || link[0] != '/' ||
	    fstatat(folder, name, &st, 0) < 0)
		return false;
	if (S_ISBLK(st.st_mode)) {
		st.st_ino = st.st_rdev;
		st.st_dev = 0;
	}
	return file_id_is(wanted, &st) && has_lock(folder, name);
}

static bool process_has(const char *pid, owner_match *match, const void *wanted)
{
	struct dirent *entry;
	char path[32];
	bool has = false;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%.10s/fd", pid);
	folder = opendir(path);
	while (folder && !has && (entry = readdir(folder)))
		has = isdigit((unsigned char)entry->d_name[0]) &&
		      match(dirfd(folder), entry->d_name, wanted);
	if (folder)
		closedir(folder);
	return has;
}

static void name_process(const char *pid, char name[static 16])
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%.10s/comm", pid);
	if (!file_line(path, name, 16))
		name[0] = '\0';
}

/* skip: a process to leave out; 0: none. */
static bool find_process(owner_match *match, const void *wanted, pid_t skip, struct socket_owner *h)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	while (proc && h->by != HELD_BY_PROCESS && (entry = readdir(proc))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (pid == 0 || pid == skip || !process_has(entry->d_name, match, wanted))
			continue;
		h->by = HELD_BY_PROCESS;
		h->pid = pid;
		name_process(entry->d_name, h->name);
	}
	if (proc)
		closedir(proc);
	return h->by == HELD_BY_PROCESS;
}

/* ---- Sockets ---- */

/* proc_net(5): listening TCP sockets come first and have state 0A; unconnected
 * UDP sockets have state 07. */
static bool find_port(const char *table, unsigned wanted, unsigned port, unsigned long *ret_inode)
{
	unsigned at, state = wanted, uid;
	bool found = false;
	unsigned long inode;
	char line[256];
	FILE *file = fopen(table, "re");

	if (!file)
		return false;
	while (!found && (state == wanted || wanted != 0x0A) && fgets(line, sizeof(line), file))
		found = sscanf(line,
			       " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %u %*u %lu",
			       &at, &state, &uid, &inode) == 4 &&
			at == port && state == wanted && uid == geteuid();
	fclose(file);
	if (found)
		*ret_inode = inode;
	return found;
}

/* /proc/net/unix does not show the user: the owner of the socket's file stands in for it. */
static bool find_unix(const struct sockaddr_storage *address, unsigned long *ret_inode)
{
	char wanted[ADDRESS_TEXT_MAX], line[512], path[ADDRESS_TEXT_MAX];
	FILE *file = fopen("/proc/net/unix", "re");
	unsigned long inode;
	bool found = false;
	struct stat st;

	format_sockaddr(address, wanted);
	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%*x: %*x %*x %*x %*x %*x %lu %127[^\n]", &inode, path) == 2 &&
			!strcmp(path, wanted + strlen("unix:"));
	if (file)
		fclose(file);
	if (!found || (path[0] == '/' && (lstat(path, &st) < 0 || st.st_uid != geteuid())))
		return false;
	*ret_inode = inode;
	return true;
}

static bool find_ip(unsigned port, int type, unsigned long *ret_inode)
{
	if (type == SOCK_DGRAM)
		return find_port("/proc/net/udp", 0x07, port, ret_inode) ||
		       find_port("/proc/net/udp6", 0x07, port, ret_inode);
	return find_port("/proc/net/tcp", 0x0A, port, ret_inode) ||
	       find_port("/proc/net/tcp6", 0x0A, port, ret_inode);
}

void owner_of_address(const struct sockaddr_storage *address, int type,
		      struct socket_owner *ret_owner)
{
	unsigned port = sockaddr_port(address);
	unsigned long inode;
	char link[64];

	*ret_owner = (struct socket_owner){ .by = HELD_UNKNOWN };
	if (address->ss_family == AF_UNIX ? !find_unix(address, &inode)
					  : !find_ip(port, type, &inode))
		return;
	snprintf(link, sizeof(link), "socket:[%lu]", inode);
	if (!find_process(is_socket, link, 0, ret_owner))
		ret_owner->by = HELD_BY_NONE;
}

/* ---- Files ---- */

void owner_of_lock(const struct file_id *file, struct socket_owner *ret_owner)
{
	*ret_owner = (struct socket_owner){ .by = HELD_UNKNOWN };
	find_process(is_locked, file, getpid(), ret_owner);
}

const char *owner_text(const struct socket_owner *owner, char text[static HOLDER_TEXT_MAX])
{
	text[0] = '\0';
	if (owner->by == HELD_BY_PROCESS)
		snprintf(text, HOLDER_TEXT_MAX, ": process %d (%s) has it", (int)owner->pid,
			 owner->name);
	return text;
}
