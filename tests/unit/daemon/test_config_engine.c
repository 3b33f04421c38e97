/* config/config_check.c: what keys of engines need. */
#include "config_case.h"
#include "ring_keys.h"

#define RING GOOD "engine = io_uring\n"

TEST(zero_copy_receive_needs_the_ring_of_its_engine)
{
	config_free(load(RING "zero-copy-receive = copy\nbuffers = 16\n"));
	config_free(load(GOOD "engine = epoll\nzero-copy-receive = no\n"));
	assert_errors(GOOD "zero-copy-receive = copy\n",
		      "f:4: [listener a] zero-copy-receive: requires engine = io_uring (engine is "
		      "auto)\n");
	assert_errors(GOOD "engine = epoll\nzero-copy-receive = copy\n",
		      "f:5: [listener a] zero-copy-receive: requires engine = io_uring (engine is "
		      "epoll)\n");
	assert_errors(GOOD "engine = none\nzero-copy-receive = copy\n",
		      "f:4: [listener a] engine: expected auto, rdma, af_xdp, epoll, io_uring-poll "
		      "or io_uring, got 'none'\n");
	assert_errors(RING "sqpoll = yes\nzero-copy-receive = copy\n",
		      "f:6: [listener a] zero-copy-receive: requires sqpoll = no\n");
	assert_errors(
		RING "features = -defer_taskrun\nzero-copy-receive = copy\n",
		"f:6: [listener a] zero-copy-receive: requires single_issuer and defer_taskrun "
		"(features switches them off)\n");
	assert_errors(
		RING "zero-copy-receive = copy\naddress = unix:@x\n",
		"f:5: [listener a] zero-copy-receive: requires addresses of IP (one is a Unix "
		"socket)\n");
}

TEST(zero_copy_receive_has_no_ring_of_buffers)
{
	assert_errors(RING "zero-copy-receive = copy\nfeatures = -buffer_ring\n",
		      "f:6: [listener a] features: engine io_uring has no buffer_ring to do "
		      "without\n");
}

TEST(a_device_has_a_queue_and_a_bound_for_its_clients)
{
	struct config *c = load(RING "zero-copy-receive = enp1s0f0np0:14\nmax-connections = 128\n");
	struct zero_copy_receive key = ring_zero_copy_receive(&c->listeners[0].options);
	static const char *const wrong[] = { "eth0",   "eth0:",   ":4",    "eth0:-1",
					     "eth0:x", "et h0:4", "a/b:1", "abcdefghijklmnop:1",
					     "copies" };

	assert_int_equal(key.mode, ZERO_COPY_DEVICE);
	assert_string_equal(key.interface, "enp1s0f0np0");
	assert_int_equal(key.queue, 14);
	config_free(c);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		char text[128];

		snprintf(text, sizeof(text), "zero-copy-receive = %s", wrong[i]);
		assert_has(refusal(text),
			   "zero-copy-receive: expected copy or "
			   "INTERFACE:QUEUE such as eth0:4 in ASCII, up to 21 bytes, or no, got '");
	}
	assert_errors(RING "max-connections = 129\nzero-copy-receive = eth0:4\n",
		      "f:6: [listener a] zero-copy-receive: with a device requires max-connections "
		      "from 1 to 128, one for each 128K of `buffers` times `buffer-size`\n");
	assert_errors(RING "max-connections = 0\nzero-copy-receive = eth0:4\nworkers = auto\n",
		      "f:6: [listener a] zero-copy-receive: with a device requires workers = 1\n"
		      "f:6: [listener a] zero-copy-receive: with a device requires max-connections "
		      "from 1 to 128, one for each 128K of `buffers` times `buffer-size`\n");
}

TEST(the_area_is_as_large_as_the_pool)
{
	static const struct {
		uint64_t buffers, buffer_size, area;
	} cases[] = { { 1024, 16384, 16 << 20 },
		      { 16, 4096, 65536 },
		      { 17, 4096, 65536 },
		      { 31, 65536, 1 << 20 },
		      { 32768, 1 << 20, 1 << 30 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct worker_options options = { .buffers = (unsigned)cases[i].buffers,
						  .buffer_size = (uint32_t)cases[i].buffer_size };

		assert_int_equal(ring_area_bytes(&options), cases[i].area);
	}
}
