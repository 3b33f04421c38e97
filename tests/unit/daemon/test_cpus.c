/* host/cpus_usable.c: the CPUs that control groups grant, on files as the kernel's. */
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpus.h"
#include "cpus_usable.h"
#include "unit.h"
#include "util.h"

static void write_file(const char *root, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

TEST(the_smallest_limit_of_all_groups_counts)
{
	static const char *const folders[] = { "a", "a/b", "a/b/c" };
	static const struct {
		const char *groups;    /* /proc/self/cgroup */
		const char *limits[3]; /* cpu.max of a, a/b, a/b/c */
		unsigned granted;
	} cases[] = {
		{ "0::/a/b/c\n", { "max 100000", "max 100000", "max 100000" }, 0 },
		{ "0::/a/b/c\n", { "max 100000", "max 100000", "200000 100000" }, 2 },
		{ "0::/a/b/c\n", { "max 100000", "150000 100000", "400000 100000" }, 2 },
		{ "0::/a/b/c\n", { "50000 100000", "150000 100000", "max 100000" }, 1 },
		{ "0::/a\n", { "300000 100000", "100000 100000", "max 100000" }, 3 },
		{ "2:cpu:/a/b\n0::/a\n", { "300000 100000", "100000 100000", "max 100000" }, 3 },
		{ "2:cpu:/a/b\n", { "300000 100000", "100000 100000", "max 100000" }, 0 },
		{ "0::/\n", { "300000 100000", "100000 100000", "max 100000" }, 0 },
		{ "0::/a/b/gone\n", { "300000 100000", "max 100000", "1 100000" }, 3 },
		{ "0::/a\n", { "nonsense", "", "" }, 0 },
		{ "0::/a\n", { "100000 0", "", "" }, 0 },
		{ "", { "100000 100000", "", "" }, 0 },
	};
	char root[] = "/tmp/test_cpus-XXXXXX", path[128];

	assert_non_null(mkdtemp(root));
	for (unsigned i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		for (unsigned k = 0; k < ARRAY_SIZE(folders); k++) {
			snprintf(path, sizeof(path), "%s/cpu.max", folders[k]);
			write_file(root, path, cases[i].limits[k]);
		}
		write_file(root, "groups", cases[i].groups);
		snprintf(path, sizeof(path), "%s/groups", root);
		assert_int_equal(cpus_granted(path, root), cases[i].granted);
	}
	assert_int_equal(cpus_granted("/nonexistent", root), 0);
	assert_int_equal(unlink(path), 0);
	for (unsigned i = ARRAY_SIZE(folders); i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s/cpu.max", root, folders[i]);
		assert_int_equal(unlink(path), 0);
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(rmdir(root), 0);
}

static unsigned host_cpus; /* 0: those of this machine */

/* In place of libc's: the kernel's rule on a machine of many CPUs. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *cpus)
{
	CPU_ZERO_S(bytes, cpus);
	if (!host_cpus)
		return syscall(SYS_sched_getaffinity, thread, bytes, cpus) < 0 ? -1 : 0;
	if (8 * bytes < host_cpus) {
		errno = EINVAL;
		return -1;
	}
	for (unsigned cpu = 0; cpu < host_cpus; cpu++)
		CPU_SET_S(cpu, bytes, cpus);
	return 0;
}

TEST(cpus_beyond_the_set_are_counted)
{
	static const unsigned hosts[] = { 1, 64, 1024, 1025, 2048, 8192 };
	cpu_set_t cpus;

	for (unsigned i = 0; i < ARRAY_SIZE(hosts); i++) {
		host_cpus = hosts[i];
		assert_int_equal(cpus_of(0, &cpus), hosts[i]);
		assert_int_equal(CPU_COUNT(&cpus), MIN(hosts[i], (unsigned)CPU_SETSIZE));
	}
	host_cpus = 0;
}

TEST(at_least_one_cpu_is_usable)
{
	cpu_set_t cpus;

	assert_in_range(cpus_usable(), 1, cpus_of(0, &cpus));
}
