/* config/config.c: nbserved.ini and its drop-ins. */
#include "config_case.h"
#include "registry.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

static char folder[] = "/tmp/test_config.XXXXXX";

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	return mkdtemp(folder) && mkdir(path_of("conf.d"), 0700) == 0 ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_folder(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct config *load_files(void)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;

	if (config_load(path_of("main.ini"), &config, &errors))
		fail_msg("%s", join(&errors));
	return config;
}

/* Their errors, with the folder left out. */
static const char *errors_of_files(const char *name)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;
	char *at;

	assert_int_equal(config_load(path_of(name), &config, &errors), -EINVAL);
	join(&errors);
	config_errors_free(&errors);
	while ((at = strstr(joined, folder)))
		memmove(at, at + strlen(folder) + 1, strlen(at + strlen(folder)));
	return joined;
}

TEST_WITH(a_list_in_a_drop_in_replaces_the_whole_list, make_folder, remove_folder, NULL)
{
	CLEANUP(config_free_p) struct config *c;

	write_file("main.ini", GOOD "address = 127.0.0.1:1\nallow = ::1\n");
	write_file("conf.d/a.ini", "[listener a]\naddress = 127.0.0.1:2\naddress = 127.0.0.1:3\n"
				   "address = 127.0.0.1:4\nallow = any\n");
	c = load_files();
	assert_int_equal(c->listeners[0].address_count, 3);
	assert_int_equal(c->listeners[0].addresses[0].port_first, 2);
	assert_int_equal(c->listeners[0].allow_count, 0);
}

TEST_WITH(only_visible_ini_files_are_drop_ins, make_folder, remove_folder, NULL)
{
	CLEANUP(config_free_p) struct config *c;

	write_file("main.ini", GOOD);
	write_file("conf.d/.hidden.ini", "junk\n");
	write_file("conf.d/a.ini~", "junk\n");
	write_file("conf.d/a.conf", "junk\n");
	write_file("conf.d/.ini", "junk\n");
	c = load_files();
	assert_int_equal(c->file_count, 1);
}

TEST_WITH(errors_of_all_files_come_in_their_order, make_folder, remove_folder, NULL)
{
	write_file("main.ini", "[listener a]\naddress = 127.0.0.1:1\n[server]\nx = 1\n");
	write_file("conf.d/1.ini", "[listener a]\nworkers = 0\n[listener a]\n");
	write_file("conf.d/2.ini", "[listener b]\nservice = echo\naddress = 127.0.0.1:1\n");
	assert_string_equal(
		errors_of_files("main.ini"),
		"main.ini:1: [listener a] service: expected " SERVICES ", got nothing\n"
		"main.ini:4: [server] x: expected a key of [server], got 'x'\n"
		"conf.d/1.ini:2: [listener a] workers: expected a number from 1 to 64 or auto, got '0'\n"
		"conf.d/1.ini:3: [listener a]: duplicate section, first at line 1\n"
		"conf.d/2.ini:3: [listener b] address: '127.0.0.1:1' is already used by [listener a] (main.ini:2: 127.0.0.1:1)\n");
}

TEST_WITH(a_file_that_cannot_be_read_is_an_error, make_folder, remove_folder, NULL)
{
	assert_string_equal(errors_of_files("none.ini"), "none.ini: No such file or directory\n");
	assert_string_equal(errors_of_files("conf.d"), "conf.d: Is a directory\n");
	write_file("main.ini", GOOD);
	assert_int_equal(mkdir(path_of("conf.d/a.ini"), 0700), 0);
	assert_int_equal(symlink("nowhere", path_of("conf.d/b.ini")), 0);
	assert_string_equal(errors_of_files("main.ini"),
			    "conf.d/a.ini: Is a directory\n"
			    "conf.d/b.ini: No such file or directory\n");
	assert_int_equal(truncate(path_of("main.ini"), 1 << 20), 0);
	assert_has(errors_of_files("main.ini"), "main.ini: File too large\n");
}
