/* lib/base/energy.c, bench/host/host.c: what packages have used, on files as the kernel's. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "energy.h"
#include "host.h"
#include "unit.h"
#include "util.h"

CLEANUP_OF(json_t *, json_decref)

static char tree[] = "/tmp/test_energy-XXXXXX";

static char *path_of(const char *zone, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s/%s", tree, zone, file);
	return path;
}

static void write_file(const char *zone, const char *file, const char *text)
{
	FILE *to;

	mkdir(path_of(zone, ""), 0755);
	to = fopen(path_of(zone, file), "we");
	assert_non_null(to);
	fputs(text, to);
	assert_int_equal(fclose(to), 0);
}

static void set_zone(const char *zone, const char *name, const char *uj, const char *range_uj)
{
	write_file(zone, "name", name);
	write_file(zone, "energy_uj", uj);
	write_file(zone, "max_energy_range_uj", range_uj);
}

static void remove_zone(const char *zone)
{
	unlink(path_of(zone, "name"));
	unlink(path_of(zone, "energy_uj"));
	unlink(path_of(zone, "max_energy_range_uj"));
	rmdir(path_of(zone, ""));
}

static int make_tree(void **state)
{
	(void)state;
	return mkdtemp(tree) && chmod(tree, 0755) == 0 ? 0 : -1;
}

static int remove_tree(void **state)
{
	static const char *const zones[] = { "intel-rapl:0:0", "intel-rapl:0", "intel-rapl:1",
					     "intel-rapl:2", "intel-rapl-mmio:0" };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(zones); i++)
		remove_zone(zones[i]);
	return rmdir(tree);
}

ALL_TESTS_WITH(make_tree, remove_tree)

/* What each package has used, "package-0 5 package-1 7"; "": not known. */
static const char *spent(const json_t *before, const json_t *after)
{
	CLEANUP(json_decref_p) json_t *of = host_energy_spent(before, after);
	static char text[128];
	const char *name;
	json_t *uj;

	*text = '\0';
	json_object_foreach(json_object_get(of, "uj"), name, uj)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %lld",
			 *text ? " " : "", name, (long long)json_integer_value(uj));
	return text;
}

static json_t *must_read(void)
{
	json_t *reading = energy_read(tree);

	assert_non_null(reading);
	return reading;
}

TEST(a_host_without_packages_does_not_count)
{
	assert_null(energy_read("/nonexistent"));
	assert_int_equal(errno, ENOENT);
	set_zone("intel-rapl:2", "psys\n", "1\n", "100\n");
	assert_null(energy_read(tree));
	assert_int_equal(errno, ENOENT);
	assert_string_equal(spent(NULL, NULL), "");
}

TEST(packages_alone_are_read_and_each_once)
{
	CLEANUP(json_decref_p) json_t *before = NULL, *after = NULL;

	set_zone("intel-rapl:0", "package-0\n", "1000\n", "262143328850\n");
	set_zone("intel-rapl:0:0", "core\n", "10\n", "262143328850\n");
	set_zone("intel-rapl:1", "package-1\n", "7000000000\n", "262143328850\n");
	set_zone("intel-rapl-mmio:0", "package-0\n", "5\n", "262143328850\n");
	before = must_read();
	set_zone("intel-rapl:0", "package-0\n", "1500\n", "262143328850\n");
	set_zone("intel-rapl:0:0", "core\n", "400\n", "262143328850\n");
	set_zone("intel-rapl:1", "package-1\n", "9000000000\n", "262143328850\n");
	after = must_read();
	assert_string_equal(spent(before, after), "package-0 500 package-1 2000000000");
}

TEST(a_counter_begins_anew_behind_its_range)
{
	CLEANUP(json_decref_p) json_t *before = NULL, *after = NULL, *no_range = NULL;

	set_zone("intel-rapl:0", "package-0\n", "262143328800\n", "262143328850\n");
	before = must_read();
	set_zone("intel-rapl:0", "package-0\n", "30\n", "262143328850\n");
	set_zone("intel-rapl:1", "package-1\n", "9000000001\n", "262143328850\n");
	after = must_read();
	assert_string_equal(spent(before, after), "package-0 80 package-1 1");
	set_zone("intel-rapl:0", "package-0\n", "30\n", "0\n");
	no_range = must_read();
	assert_string_equal(spent(before, no_range), "");
}

TEST(a_counter_that_does_not_move_is_not_known)
{
	CLEANUP(json_decref_p) json_t *before = must_read(), *after = NULL;

	write_file("intel-rapl:1", "energy_uj", "9000000002\n"); /* package-0 stays */
	after = must_read();
	assert_string_equal(spent(before, after), "");
}

TEST(a_package_that_comes_or_goes_is_not_known)
{
	CLEANUP(json_decref_p) json_t *both = must_read(), *one = NULL;

	remove_zone("intel-rapl:1");
	write_file("intel-rapl:0", "energy_uj", "100\n");
	one = must_read();
	assert_string_equal(spent(both, one), "");
	assert_string_equal(spent(one, both), "");
	assert_string_equal(spent(NULL, one), "");
	assert_string_equal(spent(one, NULL), "");
}

TEST(a_zone_without_a_number_is_an_error)
{
	static const char *const texts[] = { "", "\n", "none\n", "12 J\n", "-1\n" };

	for (unsigned i = 0; i < ARRAY_SIZE(texts); i++) {
		write_file("intel-rapl:0", "energy_uj", texts[i]);
		assert_null(energy_read(tree));
		assert_int_equal(errno, ENODATA);
	}
	unlink(path_of("intel-rapl:0", "energy_uj"));
	assert_null(energy_read(tree));
	assert_int_equal(errno, ENOENT);
}

TEST(who_may_not_read_is_told_so)
{
	bool root = geteuid() == 0;

	set_zone("intel-rapl:0", "package-0\n", "1000\n", "262143328850\n");
	assert_int_equal(chmod(path_of("intel-rapl:0", "energy_uj"), root ? 0400 : 0), 0);
	assert_int_equal(root ? seteuid(65534) : 0, 0);
	assert_null(energy_read(tree));
	assert_int_equal(errno, EACCES);
	assert_int_equal(root ? seteuid(0) : 0, 0);
}
