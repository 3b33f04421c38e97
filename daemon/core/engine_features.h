/* Optional features of the kernel or a device that engines use, each with a name that users see. */
#pragma once
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Engine features that are really in use, as GetStats lists them: X(name, optional, needs).
 *
 * optional: the key `features` can switch the feature off, since engines work without it
 * and it has no key of its own.  needs: what the doctor says that a host without it
 * lacks; NULL: a newer kernel; "": none lacks it, and it is in use where a connection asks for it.
 */
#define ENGINE_FEATURES(X)                                                                         \
	X(registered_ring, true, "Linux 5.18")                                                     \
	X(restricted, true, "Linux 5.19")                                                          \
	X(single_issuer, true, "Linux 6.0")                                                        \
	X(defer_taskrun, true, "Linux 6.1")                                                        \
	X(multishot_accept, true, "Linux 5.19")                                                    \
	X(multishot_recv, true, "Linux 6.0")                                                       \
	X(multishot_poll, false, "Linux 5.13")                                                     \
	X(buffer_ring, true, "Linux 5.19")                                                         \
	X(incremental_buffers, true, "Linux 6.12")                                                 \
	X(min_left, true, "Linux 7.1, or 6.12 and 6.18 with fixes of 2026")                        \
	X(recv_bundle, true, "Linux 6.15, or 6.10 to 6.14 with the fix of their stable series")    \
	X(silent_send, true, "Linux 5.17, and a short send that says so")                          \
	X(eager_io, true, "any Linux")                                                             \
	X(rcvlowat, true, "any Linux")                                                             \
	X(drop, false, "")                                                                         \
	X(send_zc, false, "Linux 6.1")                                                             \
	X(zcrx, false, "Linux 7.3, CAP_NET_ADMIN, locked memory; or zero-copy-receive = no")       \
	X(sqpoll, false, "Linux 5.11")                                                             \
	X(busy_poll, false, "nothing")                                                             \
	X(inline_send, false, NULL)                                                                \
	X(selective_signalling, false, NULL)                                                       \
	X(relaxed_ordering, true, "a driver that takes the flag")                                  \
	X(multishot_recvmsg, false, "Linux 6.0")                                                   \
	X(udp_gro, true, "Linux 5.0")                                                              \
	X(udp_gso, true, "Linux 4.18")                                                             \
	X(xdp_copy, false, "")                                                                     \
	X(xdp_zero_copy, false, "")                                                                \
	X(xdp_generic, false, "")                                                                  \
	X(socket_busy_poll, false, "CAP_NET_ADMIN, or sysctl net.core.busy_read")                  \
	X(napi_busy_poll, false, "Linux 6.9")                                                      \
	X(epoll_busy_poll, true, "Linux 6.9")
enum engine_feature {
#define X(name, ...) FEATURE_##name,
	ENGINE_FEATURES(X)
#undef X
		FEATURE_COUNT
};
extern const char *const engine_feature_names[FEATURE_COUNT],
	*const engine_feature_needs[FEATURE_COUNT];
/* A feature as a bit of a mask. */
#define FEATURE_MASK(feature) (UINT64_C(1) << (feature))
#define FEATURE_BIT(name)     FEATURE_MASK(FEATURE_##name)
static_assert(FEATURE_COUNT <= 64, "a mask has too few bits for all features");
extern const uint64_t engine_features_optional; /* a mask */
