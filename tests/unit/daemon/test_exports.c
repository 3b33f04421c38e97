/* export/: who makes the file of an export, and who empties it again. */
#include "config_case.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exports.h"
#include "file_lock.h"
#include "log.h"

static char folder[] = "/tmp/test_exports.XXXXXX";

static char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int make_folder(void **state)
{
	(void)state;
	log_set_level(LOG_CRIT);
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path_of("disk"));
	unlink(path_of("link"));
	return rmdir(folder);
}

/* The size of the file, bytes. */
static long size_of(const char *name)
{
	struct stat st;

	assert_int_equal(stat(path_of(name), &st), 0);
	return (long)st.st_size;
}

/* Listener `a` needs export `first`, the optional listener `b` export `second`. */
static struct config *two_exports(const char *first, const char *second)
{
	char text[2048];

	snprintf(text, sizeof(text),
		 "[listener a]\naddress = 127.0.0.1:0\nservice = nbd\nexports = first\n"
		 "[listener b]\naddress = 127.0.0.1:0\nservice = nbd\nexports = second\n"
		 "optional = yes\n[export first]\nstore = threads\npath = %s/%s\n"
		 "[export second]\nstore = threads\npath = %s/%s\n",
		 folder, first, folder, second);
	return load(text);
}

static void close_all(struct exports *e, struct config *config)
{
	exports_release(e);
	exports_free(e);
	config_free(config);
}

#define MAKES "create = yes\nsize = 1M\n"

/* Two threads open the file at the same time, so that each run may end otherwise. */
TEST_WITH(a_refused_export_leaves_the_file_that_another_one_serves, make_folder, remove_folder,
	  NULL)
{
	for (unsigned i = 0; i < 200; i++) {
		struct config *config = two_exports("disk\n" MAKES, "./disk\n" MAKES);
		struct exports e = { 0 };

		assert_int_equal(exports_open(&e, config), 0);
		assert_int_equal(e.list[0]->error, 0);
		assert_int_equal(e.list[1]->error, -EBUSY);
		assert_int_equal(size_of("disk"), 1 << 20);
		exports_keep(&e);
		close_all(&e, config);
		assert_int_equal(size_of("disk"), 1 << 20);
		unlink(path_of("disk"));
	}
}

TEST_WITH(a_file_that_nobody_served_is_emptied_by_its_last_user, make_folder, remove_folder, NULL)
{
	struct config *config = two_exports("disk\n" MAKES, "./disk\nread-only = yes\n");
	struct exports e = { 0 };

	assert_int_equal(exports_open(&e, config), 0);
	assert_int_equal(e.list[0]->error, 0);
	assert_int_equal(e.list[1]->error,
			 0); /* its file is there, although it names it otherwise */
	e.list[0]->held = false;
	export_put(e.list[0]);
	assert_int_equal(size_of("disk"), 1 << 20);
	close_all(&e, config);
	assert_int_equal(size_of("disk"), 0);
}

/* As when a reload is refused after it has opened its exports. */
TEST_WITH(a_served_file_is_not_emptied_after_a_refused_reload_made_it_again, make_folder,
	  remove_folder, NULL)
{
	struct config *config = two_exports("disk\n" MAKES, "./disk\nread-only = yes\n");
	struct config *refused = two_exports("disk\n" MAKES, "./disk\nread-only = yes\n");
	struct exports served = { 0 }, candidates = { 0 };

	assert_int_equal(exports_open(&served, config), 0);
	exports_keep(&served);
	assert_int_equal(truncate(path_of("disk"), 0), 0);
	assert_int_equal(exports_open(&candidates, refused), 0);
	assert_int_equal(candidates.list[0]->error, 0);
	assert_int_equal(size_of("disk"), 1 << 20);
	close_all(&candidates, refused);
	close_all(&served, config);
	assert_int_equal(size_of("disk"), 1 << 20);
}

TEST_WITH(a_file_that_was_there_is_never_emptied, make_folder, remove_folder, NULL)
{
	struct config *config = two_exports("disk\n" MAKES, "./disk\n" MAKES);
	struct exports e = { 0 };
	FILE *file = fopen(path_of("disk"), "w");

	assert_int_equal(ftruncate(fileno(file), 1 << 20), 0);
	fclose(file);
	assert_int_equal(exports_open(&e, config), 0);
	close_all(&e, config);
	assert_int_equal(size_of("disk"), 1 << 20);
}

/* Another process: shares the lock, and tries to have it alone until its input ends.  Exits with
 * 0 if it never had. */
static void other_user(int in, int out)
{
	struct flock whole = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = open(path_of("disk"), O_RDWR);
	struct pollfd p = { .fd = in, .events = POLLIN };
	bool had = fcntl(fd, F_OFD_SETLK, &whole) < 0;

	whole.l_type = F_WRLCK;
	(void)!write(out, "x", 1);
	while (!had && poll(&p, 1, 0) == 0)
		had = fcntl(fd, F_OFD_SETLK, &whole) == 0;
	_exit(had);
}

TEST_WITH(a_lock_is_held_while_it_becomes_exclusive, make_folder, remove_folder, NULL)
{
	int to[2], from[2], status, fd = open(path_of("disk"), O_RDWR | O_CREAT, 0600);
	int reader = open(path_of("disk"), O_RDONLY);
	struct file_lock *shared, *exclusive;
	struct reason reason;
	pid_t pid;
	char c;

	assert_true(fd >= 0 && reader >= 0 && pipe(to) == 0 && pipe(from) == 0);
	assert_int_equal(file_lock_get(reader, "disk", false, &shared, &reason), 0);
	pid = fork();
	if (pid == 0)
		close(to[1]), other_user(to[0], from[1]);
	assert_int_equal(read(from[0], &c, 1), 1);
	assert_int_equal(file_lock_get(fd, "disk", true, &exclusive, &reason), -EBUSY);
	assert_has(reason.text, "is in use");
	close(to[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0); /* the shared lock was never given up */
	assert_int_equal(file_lock_get(fd, "disk", true, &exclusive, &reason), 0);
	assert_ptr_equal(exclusive, shared);
	file_lock_put(exclusive, true);
	file_lock_put(shared, false);
	close(to[0]), close(from[0]), close(from[1]), close(fd), close(reader);
}
