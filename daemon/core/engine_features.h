/* What engines may use of the host, each with a name that users see. */
#pragma once
#include <assert.h>
#include <stdint.h>

/* Engine features that are really in use, as GetStats lists them: X(name). */
#define ENGINE_FEATURES(X)                                                                         \
	X(registered_ring)                                                                         \
	X(restricted)                                                                              \
	X(single_issuer)                                                                           \
	X(defer_taskrun)                                                                           \
	X(multishot_accept)                                                                        \
	X(multishot_recv)                                                                          \
	X(multishot_poll)                                                                          \
	X(buffer_ring)                                                                             \
	X(incremental_buffers)                                                                     \
	X(min_left)                                                                                \
	X(recv_bundle)                                                                             \
	X(silent_send)                                                                             \
	X(eager_io)                                                                                \
	X(rcvlowat)                                                                                \
	X(drop)                                                                                    \
	X(send_zc)                                                                                 \
	X(sqpoll)                                                                                  \
	X(busy_poll)                                                                               \
	X(inline_send)                                                                             \
	X(selective_signalling)                                                                    \
	X(shared_receives)                                                                         \
	X(cq_moderation)                                                                           \
	X(datagrams)                                                                               \
	X(multishot_recvmsg)                                                                       \
	X(udp_gro)                                                                                 \
	X(udp_gso)                                                                                 \
	X(socket_busy_poll)                                                                        \
	X(napi_busy_poll)                                                                          \
	X(epoll_busy_poll)                                                                         \
	X(delay)                                                                                   \
	X(stall)                                                                                   \
	X(unbatched_for_comparison)                                                                \
	X(edge_for_comparison)                                                                     \
	X(oneshot_for_comparison)                                                                  \
	X(per_operation_for_comparison)
enum engine_feature {
#define X(name) FEATURE_##name,
	ENGINE_FEATURES(X)
#undef X
		FEATURE_COUNT
};
extern const char *const engine_feature_names[FEATURE_COUNT];
/* A feature as a bit of a mask. */
#define FEATURE_MASK(feature) (UINT64_C(1) << (feature))
#define FEATURE_BIT(name)     FEATURE_MASK(FEATURE_##name)
static_assert(FEATURE_COUNT <= 64, "a mask has too few bits for all features");

/* Features that the key `features` can switch off: an engine works without them, and they have no
 * key of their own. */
#define FEATURES_OPTIONAL                                                                          \
	(FEATURE_BIT(registered_ring) | FEATURE_BIT(restricted) | FEATURE_BIT(single_issuer) |     \
	 FEATURE_BIT(defer_taskrun) | FEATURE_BIT(multishot_accept) |                              \
	 FEATURE_BIT(multishot_recv) | FEATURE_BIT(buffer_ring) |                                  \
	 FEATURE_BIT(incremental_buffers) | FEATURE_BIT(min_left) | FEATURE_BIT(recv_bundle) |     \
	 FEATURE_BIT(silent_send) | FEATURE_BIT(eager_io) | FEATURE_BIT(rcvlowat) |                \
	 FEATURE_BIT(udp_gro) | FEATURE_BIT(udp_gso) | FEATURE_BIT(epoll_busy_poll))
