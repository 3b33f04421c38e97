/* Softirq time by the ports of listeners: runs in the kernel, for `nbctl compare --softirq`.
 *
 * The time from entry to exit of each softirq is divided where a packet begins: the slice before
 * that belongs to the previous packet.  All tracepoints but tcp_probe and napi_poll are older than
 * Linux 4.19; tp_btf needs 5.5. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "softirq_maps.h"

/* The kernel offers bpf_probe_read_kernel() only to programs that declare this. */
const char program_license[] SEC("license") = "GPL";

/* ---- The kernel's types: the fields used here, found by name when the program is loaded ---- */

struct sk_buff {
	unsigned char *head, *data;
	__u16 protocol, network_header;
} __attribute__((preserve_access_index));

struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
} __attribute__((preserve_access_index));

/* ---- Maps ---- */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SOFTIRQ_PORTS_MAX);
	__type(key, struct softirq_port);
	__type(value, __u32);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SOFTIRQ_SLOTS);
	__type(key, __u32);
	__type(value, struct softirq_times);
} times SEC(".maps");

/* The listener (slot) and kind to which a slice is attributed. */
struct owner {
	__u32 slot, kind;
};

/* The softirq that runs on a CPU; softirqs do not nest. */
struct run {
	__u64 since_ns; /* of the current slice; 0: no softirq runs */
	struct owner owner, receiver /* while a driver transmits */;
	__u32 transmits; /* nesting depth of drivers that transmit */
	__u32 is_inside; /* the softirq runs on a thread of the daemon, and in its CPU time */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run);
} runs SEC(".maps");

const volatile __u32 daemon_pid SEC(".rodata.daemon") = 0;
/* With this option the kernel excludes softirqs from the CPU time of threads. */
extern const _Bool CONFIG_IRQ_TIME_ACCOUNTING __kconfig __weak;

/* ---- Slices ---- */

static struct run *this_run(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&runs, &key);
}

/* NULL: no softirq runs here. */
static struct run *running(void)
{
	struct run *run = this_run();

	return run && run->since_ns ? run : NULL;
}

/* Ends the current slice and begins another. */
static void charge(struct run *run)
{
	__u32 slot = run->owner.slot, kind = run->owner.kind;
	struct softirq_times *to = bpf_map_lookup_elem(&times, &slot);
	__u64 now_ns = bpf_ktime_get_ns(), ns = now_ns - run->since_ns;

	if (to && kind < SOFTIRQ_KINDS)
		to->ns[kind][run->is_inside & 1] += ns;
	run->since_ns = now_ns;
}

/* `to` and `from`: kinds for packets to a listener and for those from one. */
static __always_inline struct owner owner_of(struct softirq_port source,
					     struct softirq_port destination, __u32 to, __u32 from)
{
	__u32 *slot = bpf_map_lookup_elem(&ports, &destination);

	if (slot)
		return (struct owner){ *slot, to };
	slot = bpf_map_lookup_elem(&ports, &source);
	if (slot)
		return (struct owner){ *slot, from };
	return (struct owner){ SOFTIRQ_NOBODY, 0 };
}

/* The owner of a packet, by its network header. */
static __always_inline struct owner owner_of_packet(const void *header, __u16 protocol, __u32 to,
						    __u32 from)
{
	struct softirq_port source = {}, destination = {};
	__u8 first[20]; /* of IPv4; IPv6 has its next header at 6 */
	__be16 pair[2];
	__u32 bytes;

	if (bpf_probe_read_kernel(first, sizeof(first), header))
		return (struct owner){ SOFTIRQ_NOBODY, 0 };
	if (protocol == bpf_htons(ETH_P_IP)) {
		bytes = (first[0] & 15) * 4U;
		source.protocol = first[9];
		if ((first[6] & 31) || first[7]) /* a later fragment has no ports */
			return (struct owner){ SOFTIRQ_NOBODY, 0 };
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		bytes = 40;
		source.protocol = first[6];
	} else {
		return (struct owner){ SOFTIRQ_NOBODY, 0 };
	}
	if ((source.protocol != IPPROTO_TCP && source.protocol != IPPROTO_UDP) ||
	    bpf_probe_read_kernel(pair, sizeof(pair), header + bytes))
		return (struct owner){ SOFTIRQ_NOBODY, 0 };
	source.number = bpf_ntohs(pair[0]);
	destination = (struct softirq_port){ bpf_ntohs(pair[1]), source.protocol };
	return owner_of(source, destination, to, from);
}

/* ---- Tracepoints ---- */

SEC("tp_btf/softirq_entry") int BPF_PROG(softirq_begins, unsigned vector)
{
	struct run *run = this_run();

	if (!run)
		return 0;
	*run = (struct run){ .since_ns = bpf_ktime_get_ns() };
	run->is_inside =
		!CONFIG_IRQ_TIME_ACCOUNTING && bpf_get_current_pid_tgid() >> 32 == daemon_pid;
	return 0;
}

SEC("tp_btf/softirq_exit") int BPF_PROG(softirq_ends, unsigned vector)
{
	struct run *run = running();

	if (run) {
		charge(run);
		run->since_ns = 0;
	}
	return 0;
}

/* The network header is at `data`: network_header is set behind this tracepoint. */
SEC("tp_btf/netif_receive_skb") int BPF_PROG(packet_received, struct sk_buff *skb)
{
	struct run *run = running();

	if (run) {
		charge(run);
		run->owner =
			owner_of_packet(skb->data, skb->protocol, SOFTIRQ_RECEIVE, SOFTIRQ_PEER);
	}
	return 0;
}

/* For packets delivered as a list, only this tracepoint tells which one is being processed. */
SEC("tp_btf/tcp_probe") int BPF_PROG(segment_received, struct sock *sk, struct sk_buff *skb)
{
	struct run *run = running();
	struct softirq_port source = { bpf_ntohs(sk->__sk_common.skc_dport), IPPROTO_TCP },
			    destination = { sk->__sk_common.skc_num, IPPROTO_TCP };

	if (run) {
		charge(run);
		run->owner = owner_of(source, destination, SOFTIRQ_RECEIVE, SOFTIRQ_PEER);
	}
	return 0;
}

/* A device has been polled: the time that follows does not belong to its last packet. */
SEC("tp_btf/napi_poll") int BPF_PROG(device_polled)
{
	struct run *run = running();

	if (run) {
		charge(run);
		run->owner = (struct owner){ SOFTIRQ_NOBODY, 0 };
	}
	return 0;
}

SEC("tp_btf/net_dev_start_xmit") int BPF_PROG(transmit_begins, struct sk_buff *skb)
{
	struct run *run = running();

	if (!run || run->transmits++)
		return 0;
	charge(run);
	run->receiver = run->owner;
	run->owner = owner_of_packet(skb->head + skb->network_header, skb->protocol, SOFTIRQ_PEER,
				     SOFTIRQ_TRANSMIT);
	return 0;
}

SEC("tp_btf/net_dev_xmit") int BPF_PROG(transmit_ends)
{
	struct run *run = running();

	if (!run || !run->transmits || --run->transmits)
		return 0;
	charge(run);
	run->owner = run->receiver;
	return 0;
}
