/* bench/layers: the layers of functions and chains, tables of symbols, sums of samples,
 * groups, the page. */
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layers_group.h"
#include "measure_case.h"
#include "perf.h"
#include "print.h"
#include "symbols.h"
#include "util.h"
#include "weights.h"

/* ---- The table ---- */

enum { CHAIN_MAX = 40 };

/* A chain of the kernel's functions as perf(1) prints it, the innermost first. */
static enum layer layer_of_chain(const char *chain)
{
	static struct symbol symbols[CHAIN_MAX];
	const struct symbol *frames[CHAIN_MAX];
	char *text = strdup(chain), *rest;
	unsigned count = 0;
	enum layer layer;

	for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
		assert_true(count < CHAIN_MAX);
		symbols[count] =
			(struct symbol){ .name = name, .layer = layer_of_function(name, "") };
		frames[count] = &symbols[count];
		count++;
	}
	layer = weights_layer(frames, count);
	free(text);
	return layer;
}

/* Written by hand: those of sockets and rings after chains that were sampled on Linux 6.18, and
 * shortened; those of files, block devices and netfilter from the names of the functions alone. */
TEST(chains_belong_to_the_innermost_layer)
{
	static const struct {
		enum layer layer;
		const char *chain;
	} cases[] = {
		{ LAYER_SCHEDULER,
		  "finish_task_switch.isra.0 __schedule schedule io_cqring_wait "
		  "__do_sys_io_uring_enter do_syscall_64 entry_SYSCALL_64_after_hwframe" },
		{ LAYER_SCHEDULER,
		  "_raw_spin_unlock_irqrestore try_to_wake_up ep_autoremove_wake_function "
		  "__wake_up_common __wake_up ep_poll_callback __wake_up_sync_key "
		  "sock_def_readable tcp_data_ready tcp_rcv_established tcp_v4_do_rcv" },
		{ LAYER_TCP_IP,
		  "_raw_spin_lock_bh tcp_ack tcp_rcv_established tcp_v4_do_rcv tcp_v4_rcv "
		  "ip_protocol_deliver_rcu process_backlog __napi_poll net_rx_action" },
		{ LAYER_TCP_IP, "read_tsc ktime_get tcp_mstamp_refresh tcp_write_xmit" },
		{ LAYER_DEVICE,
		  "process_backlog __napi_poll net_rx_action handle_softirqs do_softirq.part.0 "
		  "__local_bh_enable_ip __dev_queue_xmit ip_finish_output2" },
		{ LAYER_DEVICE, "loopback_xmit dev_hard_start_xmit __dev_queue_xmit" },
		{ LAYER_COPY,
		  "rep_movs_alternative _copy_to_iter __skb_datagram_iter skb_copy_datagram_iter "
		  "tcp_recvmsg_locked tcp_recvmsg inet_recvmsg sock_recvmsg" },
		{ LAYER_MEMORY, "kmem_cache_alloc_node_noprof __alloc_skb tcp_stream_alloc_skb" },
		{ LAYER_SOCKETS, "__alloc_skb tcp_stream_alloc_skb tcp_sendmsg_locked" },
		{ LAYER_SOCKETS, "__sys_sendto __x64_sys_sendto do_syscall_64" },
		{ LAYER_SYSCALL, "entry_SYSRETQ_unsafe_stack" },
		{ LAYER_SYSCALL, "do_syscall_64 entry_SYSCALL_64_after_hwframe" },
		{ LAYER_EPOLL, "ep_send_events do_epoll_wait __x64_sys_epoll_wait do_syscall_64" },
		{ LAYER_EPOLL, "__get_user_8 do_epoll_wait" },
		{ LAYER_IO_URING, "__io_run_local_work io_cqring_wait __do_sys_io_uring_enter" },
		{ LAYER_FILES, "xas_load filemap_get_entry shmem_get_folio_gfp" },
		{ LAYER_FILES, "rw_verify_area vfs_read ksys_pread64 __x64_sys_pread64" },
		{ LAYER_BLOCK, "sbitmap_get blk_mq_get_tag blk_mq_submit_bio submit_bio_noacct" },
		{ LAYER_NETFILTER, "nf_hook_slow ip_local_deliver ip_rcv" },
		{ LAYER_OTHER,
		  "sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt tcp_ack" },
		{ LAYER_OTHER, "handle_softirqs" },
		{ LAYER_OTHER, "" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		if (layer_of_chain(cases[i].chain) != cases[i].layer)
			fail_msg("%s: %s", cases[i].chain,
				 layer_infos[layer_of_chain(cases[i].chain)].name);
}

TEST(owners)
{
	assert_int_equal(layer_of_function("anything", "[ext4]"), LAYER_FILES);
	assert_int_equal(layer_of_function("anything", "[nf_conntrack]"), LAYER_NETFILTER);
	assert_int_equal(layer_of_function("rxe_post_send", "[rdma_rxe]"), LAYER_RDMA);
	assert_int_equal(layer_of_function("", "[vdso]"), LAYER_CORE);
	assert_int_equal(layer_of_function("io_uring_submit", "[liburing.so.2]"), LAYER_IO_URING);
	assert_int_equal(layer_of_function("__memmove_avx_unaligned_erms", "[libc.so.6]"),
			 LAYER_COPY);
	assert_int_equal(layer_of_function("", "[libc.so.6]"), LAYER_COPY);
	assert_int_equal(layer_of_function("anything", ""), LAYER_NONE);
}

TEST(our_own_functions_by_the_tree)
{
	static const struct {
		const char *name, *file;
		enum layer layer;
	} cases[] = {
		{ "echo_run", "echo.c", LAYER_SERVICE }, { "set", "http.c", LAYER_SERVICE },
		{ "nbd_read", "", LAYER_SERVICE },       { "readiness_send", "", LAYER_ENGINE },
		{ "udp_recv", "", LAYER_ENGINE },        { "ring_wait", "", LAYER_ENGINE },
		{ "poll_wait", "poll.c", LAYER_CORE },   { "wait", "uring_poll.c", LAYER_ENGINE },
		{ "rdma_poll", "", LAYER_ENGINE },       { "conn_run", "conn.c", LAYER_CORE },
		{ "worker_turn", "", LAYER_CORE },       { "main", "", LAYER_CORE },
		{ "control_start", "", LAYER_CORE },     { "run", "file_threads.c", LAYER_STORE },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		if (layer_of_own(cases[i].name, cases[i].file) != cases[i].layer)
			fail_msg("%s of '%s': %s", cases[i].name, cases[i].file,
				 layer_infos[layer_of_own(cases[i].name, cases[i].file)].name);
}

/* ---- Symbols ---- */

TEST(kallsyms)
{
	struct symbols s;

	assert_int_equal(symbols_kernel(&s, strdup("ffffffff81000200 T tcp_ack\n"
						   "ffffffff81000100 t __schedule\n"
						   "ffffffff81000180 D not_code\n"
						   "garbage\n\n"
						   "ffffffffc0000000 t ext4_iget\t[ext4]")),
			 0);
	assert_int_equal(s.count, 3);
	assert_null(symbols_find(&s, 0xffffffff810000ff));
	assert_string_equal(symbols_find(&s, 0xffffffff81000100)->name, "__schedule");
	assert_string_equal(symbols_find(&s, 0xffffffff810001ff)->name, "__schedule");
	assert_int_equal(symbols_find(&s, 0xffffffff81000208)->layer, LAYER_TCP_IP);
	assert_string_equal(symbols_find(&s, 0xffffffffc0000010)->owner, "[ext4]");
	symbols_free(&s);
	assert_int_equal(symbols_kernel(&s, strdup("0000000000000000 T tcp_ack\n")), -EACCES);
	symbols_free(&s);
}

TEST(our_own_program)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	unsigned char *image;
	struct symbols s;
	struct stat st;
	bool found = false;

	assert_int_equal(fstat(fd, &st), 0);
	image = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_true(image != MAP_FAILED);
	assert_int_equal(symbols_elf(&s, image, (size_t)st.st_size, true, ""), 0);
	for (size_t i = 0; i < s.count; i++)
		if (!strcmp(s.list[i].name, "our_own_program")) {
			found = true;
			assert_string_equal(s.list[i].owner, "test_layers.c");
			assert_ptr_equal(symbols_find(&s, s.list[i].start + 1), &s.list[i]);
		}
	assert_true(found);
	symbols_free(&s);
	/* Cut off anywhere it is refused, or has what is there. */
	for (size_t bytes = 0; bytes < (size_t)st.st_size; bytes += 4093) {
		symbols_elf(&s, image, bytes, true, "");
		symbols_free(&s);
	}
	image[0] = 'X';
	assert_int_equal(symbols_elf(&s, image, (size_t)st.st_size, true, ""), -EINVAL);
	munmap(image, (size_t)st.st_size);
	close(fd);
}

/* A process of which all is known: this one. */
TEST(addresses_of_a_process)
{
	struct spaces *s = spaces_new();
	struct reason reason;

	assert_int_equal(spaces_read_process(s, getpid(), &reason), 0);
	assert_true(spaces_has_own(s));
	assert_string_equal(spaces_user(s, (uintptr_t)addresses_of_a_process + 1)->name,
			    "addresses_of_a_process");
	assert_string_equal(spaces_user(s, 1)->name, "[unknown]");
	assert_string_equal(spaces_kernel(s, 1)->name, "[kernel]");
	spaces_free(s);
}

TEST(a_sample)
{
	uint64_t body[] = { 0, 5000, 1001001, 2, 0xffffffff81000000, 0xffffffff82000000 };
	uint32_t ids[] = { 7, 8 };
	struct perf_sample sample;

	memcpy(&body[0], ids, sizeof(ids));
	assert_true(perf_sample_parse(body, sizeof(body), &sample));
	assert_int_equal(sample.tid, 8);
	assert_int_equal(sample.time_ns, 5000);
	assert_int_equal(sample.weight, 1001001);
	assert_int_equal(sample.count, 2);
	assert_int_equal(sample.chain[1], 0xffffffff82000000);
	assert_false(perf_sample_parse(body, sizeof(body) - 1, &sample));
	assert_false(perf_sample_parse(body, 31, &sample));
	body[3] = UINT64_MAX;
	assert_false(perf_sample_parse(body, sizeof(body), &sample));
}

/* ---- Sums ---- */

TEST(samples_wait_until_they_count)
{
	static const struct symbol tcp = { .name = "tcp_ack", .layer = LAYER_TCP_IP },
				   lock = { .name = "lock", .layer = LAYER_NONE };
	const struct symbol *frames[] = { &lock, &tcp };
	struct weights w = { 0 };

	weights_add(&w, frames, 2, 5);
	weights_drop(&w);
	assert_int_equal(w.samples, 0);
	weights_add(&w, frames, 2, 7);
	weights_add(&w, frames, 1, 1);
	weights_commit(&w);
	weights_add(&w, frames, 2, 100);
	assert_int_equal(w.ns[LAYER_TCP_IP], 7);
	assert_int_equal(w.ns[LAYER_OTHER], 1);
	assert_int_equal(w.samples, 2);
	assert_int_equal(w.other_count, 1);
	assert_ptr_equal(w.other[0].function, &lock);
	assert_int_equal(w.other[0].ns, 1);
}

/* Of more functions than are kept the layer still has all the time. */
TEST(more_functions_than_are_kept)
{
	enum { MANY = 2 * WEIGHTS_OTHER_MAX };
	static struct symbol symbols[MANY];
	struct weights w = { 0 };

	for (unsigned i = 0; i < MANY; i++) {
		const struct symbol *frames[] = { &symbols[i] };

		symbols[i] = (struct symbol){ .name = "lock", .layer = LAYER_NONE };
		weights_add(&w, frames, 1, 1);
	}
	weights_commit(&w);
	assert_int_equal(w.ns[LAYER_OTHER], MANY);
	assert_int_equal(w.other_count, WEIGHTS_OTHER_MAX);
}

/* ---- Groups ---- */

/* A visit of 1000 operations at cpu_us each; NULL: not sampled. */
static void add_visit(struct measures *m, const char *listener, int round, int cpu_us,
		      json_t *layers)
{
	json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:{s:s, s:i, s:s, s:s}, s:i}",
				"listener", listener, "service", "echo", "operation", "echo",
				"count", 1000, "listener_count", 1000, "cpu_ns",
				(json_int_t)cpu_us * 1000 * 1000, "visit", "run", "r", "round",
				round, "setup", "s", "build", "b", "schema", MEASURE_SCHEMA);

	assert_non_null(row);
	if (layers)
		json_object_set_new(row, "layers", layers);
	assert_int_equal(measures_add_json(m, row), 0);
	json_decref(row);
}

static json_t *sampled(int service, int tcp)
{
	return json_pack("{s:s, s:i, s:i, s:{s:i, s:i}, s:{s:i}}", "event", "cpu-clock", "samples",
			 service + tcp, "lost", 1, "weights", "service", service, "tcp_ip", tcp,
			 "other", "odd", 3);
}

TEST(layers_are_parts_of_the_cost)
{
	enum { ROUNDS = 21 };
	CLEANUP(measures_free) struct measures m = { 0 };
	const struct layers_group *l;
	CLEANUP(result_free_p) struct result *r;

	for (int round = 1; round <= ROUNDS; round++) {
		/* Saved rows of earlier releases have rounds without samples. */
		bool with = round % 3 != 0;

		add_visit(&m, "a", round, 10, with ? sampled(20, 80) : NULL);
		add_visit(&m, "b", round, 20, with ? sampled(10, 90) : NULL);
	}
	measures_merge(&m);
	r = judged(&m);
	assert_int_equal(r->group_count, 1);
	l = r->groups[0].layers;
	assert_non_null(l);
	assert_true(l->shown[LAYER_SERVICE] && l->shown[LAYER_TCP_IP] && !l->shown[LAYER_EPOLL]);
	assert_true(fabs(l->rows[0].ns[LAYER_SERVICE] - 2000) < 1);
	assert_true(fabs(l->rows[0].ns[LAYER_TCP_IP] - 8000) < 1);
	assert_true(fabs(l->rows[1].ns[LAYER_TCP_IP] - 18000) < 1);
	assert_int_equal(l->rows[1].verdicts[LAYER_TCP_IP].is, VERDICT_MORE);
	assert_true(fabs(l->rows[1].verdicts[LAYER_TCP_IP].change - 10000) < 1);
	assert_int_equal(l->rows[1].verdicts[LAYER_SERVICE].is, VERDICT_SAME);
	assert_int_equal(l->rows[1].verdicts[LAYER_SERVICE].rounds, 14);
	assert_int_equal(l->rows[0].samples, 1400);
	assert_int_equal(l->rows[0].lost, 14);
	assert_int_equal(json_object_size(l->rows[0].other), 1);
	assert_true(json_is_real(json_object_get(l->rows[0].other, "odd")));
}

TEST(without_samples_there_are_no_layers)
{
	CLEANUP(measures_free) struct measures m = { 0 };
	CLEANUP(result_free_p) struct result *r;

	add_visit(&m, "a", 1, 10, NULL);
	add_visit(&m, "b", 1, 10, NULL);
	r = judged(&m);
	assert_null(r->groups[0].layers);
	assert_null(print_layers_json(r));
}

TEST(layers_are_on_the_page)
{
	static const char *const said[] = {
		": CPU per operation by layer</h3>",
		"<title>TCP, UDP, IP: 3.00 \xc2\xb5s, 30 %</title>",
		"<td class=\"left plain\">TCP, UDP, IP</td><td class=\"right plain\">3.00</td>",
	};
	CLEANUP(measures_free) struct measures m = { 0 };
	const char *page;

	for (int round = 1; round <= 9; round++) {
		add_visit(&m, "a", round, 10, sampled(70, 30));
		add_visit(&m, "b", round, 10, sampled(70, 30));
	}
	measures_merge(&m);
	page = page_of(&m);
	for (unsigned i = 0; i < ARRAY_SIZE(said); i++)
		assert_has(page, said[i]);
}
