/* config/config*.c: exports, and the listeners that serve them. */
#include "config_case.h"

#include "store.h"

extern const struct store store_file_threads;

#define DISK   "[listener l]\naddress = 127.0.0.1:1\nservice = nbd\n"
#define FILE_X "[export x]\npath = /x\n"
#define RAM    "[export ram]\nstore = memory\nsize = 1M\n"

/* ---- Exports ---- */

TEST(a_file_needs_a_path_and_memory_a_size)
{
	assert_errors(
		"[export x]\n",
		"f:1: [export x] path: expected an absolute path, got none (store is auto)\n");
	assert_errors(
		"[export x]\nstore = io_uring\npath = none\n",
		"f:3: [export x] path: expected an absolute path, got none (store is io_uring)\n");
	assert_error("[export x]\npath = x\n", "f:2: [export x] path:", "got 'x'");
	assert_errors("[export x]\nstore = null\n",
		      "f:1: [export x] size: expected 1 or more with store = null, got '0'\n");
	assert_errors(FILE_X "create = yes\nsize = 0\n",
		      "f:4: [export x] size: expected 1 or more with create, got '0'\n");
}

TEST(keys_for_files_are_refused_without_one)
{
	assert_errors(
		RAM "path = /x\ncreate = yes\ndirect = yes\nthreads = 1\n",
		"f:4: [export ram] path: requires an export that is a file (store is memory)\n"
		"f:5: [export ram] create: requires an export that is a file (store is memory)\n"
		"f:6: [export ram] direct: requires an export that is a file (store is memory)\n"
		"f:7: [export ram] threads: requires an export that is a file (store is memory)\n");
}

TEST(keys_that_contradict_each_other_are_errors)
{
	assert_errors(FILE_X "size = 1M\ncreate = yes\nread-only = yes\n",
		      "f:4: [export x] create: requires read-only = no (read-only is yes)\n");
}

TEST(a_path_belongs_to_one_export)
{
	assert_error(
		FILE_X "[export y]\npath = /x\n", "f:4: [export y] path:",
		"got '/x' (f:1: already used by [export x]; listeners may share an export, each with its own `store`)");
}

TEST(errors_of_an_export_read_like_those_of_a_listener)
{
	static char text[32 * (CONFIG_EXPORTS_MAX + 1)];

	assert_errors(FILE_X "pth = /y\n", "f:3: [export x] pth: expected a key of [export NAME], "
					   "got 'pth' (did you mean 'path'?)\n");
	assert_error(FILE_X "store = thread\n",
		     "f:3: [export x] store:", "got 'thread' (did you mean 'threads'?)");
	assert_error("[export a/b]\n", "f:1:", "got 'a/b'");
	assert_errors(FILE_X "[export x]\n",
		      "f:3: [export x]: duplicate section, first at line 1\n");
	for (unsigned i = 0; i <= CONFIG_EXPORTS_MAX; i++)
		sprintf(text + strlen(text), "[export e%u]\npath = /%u\n", i, i);
	assert_errors(text, "f:513: [export e256]: expected at most 256 exports, got one more\n");
}

TEST(a_listener_may_have_the_name_of_an_export)
{
	CLEANUP(config_free_p)
	struct config *c = load("[export l]\npath = /x\n" DISK "exports = l\n");

	assert_int_equal(c->listener_count, 1);
	assert_int_equal(c->export_count, 1);
}

/* ---- Listeners ---- */

TEST(a_listener_finds_its_exports_wherever_they_are)
{
	struct config *c = load(DISK "exports = ram, x\nexports = z\n" FILE_X RAM
				     "[export z]\nstore = null\nsize = 1\n");
	const struct listener_config *l = &c->listeners[0];

	assert_int_equal(l->export_count, 3);
	assert_ptr_equal(l->exports[0].config, &c->exports[1]);
	assert_ptr_equal(l->exports[1].config, &c->exports[0]);
	assert_ptr_equal(l->exports[2].config, &c->exports[2]);
	assert_null(l->store);
	config_free(c);
}

TEST(exports_are_given_where_the_service_has_them_and_nowhere_else)
{
	assert_errors(DISK, "f:1: [listener l] exports: expected the NAME of an [export NAME], got "
			    "nothing\n");
	assert_errors(
		GOOD "exports = x, y\nstore = io_uring\n" FILE_X,
		"f:4: [listener a] exports: requires a service with exports (service is echo)\n"
		"f:5: [listener a] store: requires a service with exports (service is echo)\n");
}

TEST(exports_exist_and_come_once)
{
	assert_errors(DISK "exports = rum, x, x\n" FILE_X RAM,
		      "f:4: [listener l] exports: expected the NAME of an [export NAME], got 'rum' "
		      "(did you mean 'ram'?)\n"
		      "f:4: [listener l] exports: expected each export once, got 'x' as well\n");
}

TEST(a_listener_reaches_files_through_a_store_of_its_own)
{
	struct config *c = load(DISK "exports = x\nstore = threads\n" FILE_X "store = io_uring\n");

	assert_ptr_equal(c->listeners[0].store, &store_file_threads);
	config_free(c);
	assert_error(DISK "exports = x, ram\nstore = threads\n" FILE_X RAM,
		     "f:5: [listener l] store:",
		     "got 'threads': export 'ram' is no file (store = memory)");
	assert_error(DISK "exports = x\nstore = memory\n" FILE_X, "f:5: [listener l] store:",
		     "expected export, io_uring, threads or blocking, got 'memory'");
}

/* The errors that follow from one wrong word are not repeated. */
TEST(one_mistake_is_one_error)
{
	assert_errors(
		GOOD "exports = ry\n" RAM,
		"f:4: [listener a] exports: requires a service with exports (service is echo)\n");
	assert_errors(
		GOOD "exports = ram\nstore = io_uring\n" RAM,
		"f:4: [listener a] exports: requires a service with exports (service is echo)\n"
		"f:5: [listener a] store: requires a service with exports (service is echo)\n");
	assert_error("[listener a]\nadress = 127.0.0.1:7008\nservice = echo\n",
		     "f:2: [listener a] adress:", "got 'adress' (did you mean 'address'?)");
	assert_error(DISK "export = ram\n" RAM,
		     "f:4: [listener l] export:", "got 'export' (did you mean 'exports'?)");
	assert_errors("[export x]\npth = /x\n", "f:2: [export x] pth: expected a key of [export "
						"NAME], got 'pth' (did you mean 'path'?)\n");
	assert_error("[export x]\nstore = memory\nsiz = 1M\n",
		     "f:3: [export x] siz:", "got 'siz' (did you mean 'size'?)");
}
