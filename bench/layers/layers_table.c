/* The table of functions.  See layers_table.h. */
#include "layers_table.h"

#include <stdbool.h>
#include <string.h>

#include "util.h"

const struct layer_info layer_infos[LAYER_COUNT] = {
	[LAYER_SERVICE] = { "service", "service" },
	[LAYER_ENGINE] = { "engine", "engine" },
	[LAYER_STORE] = { "store", "store" },
	[LAYER_CORE] = { "core", "core of nbserved" },
	[LAYER_SYSCALL] = { "system_calls", "system call entry, exit" },
	[LAYER_IO_URING] = { "io_uring", "io_uring" },
	[LAYER_EPOLL] = { "epoll", "epoll" },
	[LAYER_SOCKETS] = { "sockets", "sockets" },
	[LAYER_TCP_IP] = { "tcp_ip", "TCP, UDP, IP" },
	[LAYER_NETFILTER] = { "netfilter", "netfilter" },
	[LAYER_DEVICE] = { "network_device", "loopback, driver" },
	[LAYER_COPY] = { "copying", "copying" },
	[LAYER_MEMORY] = { "memory", "memory" },
	[LAYER_FILES] = { "files", "VFS, file system" },
	[LAYER_BLOCK] = { "block", "block" },
	[LAYER_RDMA] = { "rdma", "RDMA" },
	[LAYER_SCHEDULER] = { "scheduler", "scheduling, wake-ups" },
	[LAYER_OTHER] = { "other", "other" },
};

/* ---- Functions of the kernel and of libraries ---- */

/* Patterns, separated by blanks: a name, the beginning of names (`tcp_*`), or an owner (`[ext4]`,
 * `[vdso]`).  The longest pattern that fits decides.  Names stand here as plain_name() makes them:
 * without leading underscores, without the prefix of an architecture's system calls, and without a
 * suffix of the compiler (`.part.0`).  A function that fits no pattern (locks, lists, timers, RCU)
 * belongs to the layer of its caller.
 *
 * kernel: each pattern fits a function of Linux 6.1, 6.12, 6.18 or 7.3 on x86 (`make
 * check-layers`). elsewhere: patterns for modules, which may not be loaded, for libraries, and for
 * other machines; NULL: none.  Where a libc has no names for functions, as Debian's, these are
 * memcpy() and its like. */
static const struct {
	enum layer layer;
	const char *kernel, *elsewhere;
} functions[] = {
	{ LAYER_CORE, .elsewhere = "[vdso] vdso_* clock_gettime gettimeofday" },
	{ LAYER_SYSCALL,
	  .kernel = "entry_SYSCALL_* do_syscall_* syscall_* x64_sys_call exit_to_user_mode* "
		    "entry_SYSRETQ_* rseq_* fdget* fput fget*",
	  .elsewhere = "el0_svc* el0t_64_sync* invoke_syscall* send recv sendto recvfrom sendmsg "
		       "recvmsg syscall read write pread* pwrite* "
		       "readv writev preadv* pwritev* epoll_wait epoll_pwait* epoll_ctl accept "
		       "accept4 shutdown close" },
	{ LAYER_IO_URING, .kernel = "io_* sys_io_uring_* do_sys_io_uring_* tctx_task_work*",
	  .elsewhere = "[liburing*]" },
	{ LAYER_EPOLL, .kernel = "ep_* epi_* eventpoll_* sys_epoll_* do_epoll_* epoll_*" },
	{ LAYER_SOCKETS,
	  .kernel = "sock_* sk_* skb_* alloc_skb* alloc_skb_* build_skb* kfree_skb* consume_skb* "
		    "napi_skb_* sys_send* sys_recv* sys_accept* sys_shutdown sys_getsockopt "
		    "sys_setsockopt import_iovec import_ubuf import_single_range move_addr_* "
		    "sockfd_* lock_sock* release_sock* datagram_* csum_partial* "
		    "security_sock* security_sk_* unix_* recv* send* copy_msghdr* kmalloc_reserve "
		    "copy_skb_header sendmsg_* recvmsg_* do_sock_*" },
	{ LAYER_TCP_IP,
	  .kernel = "tcp_* inet_* inet6_* inet6_csk_* ip_* ip6_* ipv6_* ipv4_* udp_* udpv6_* "
		    "udp4_* udp6_* raw_local_deliver raw6_local_deliver raw_v4_* fib_* fib4_* "
		    "fib6_* dst_* neigh_* icmp_* cubictcp_* bpf_skops_* reqsk_* xfrm_* "
		    "rt_dst_* rt_cache_* bpf_tcp_* sk_dst_check recently_deleted "
		    "secure_tcp_* siphash_*",
	  .elsewhere = "bbr_* mptcp_* tls_* [tls] [tcp_bbr] [tcp_cubic]" },
	{ LAYER_NETFILTER, .kernel = "nf_* bpf_prog_run_generic_xdp",
	  .elsewhere = "nft_* ipt_* ip6t_* xt_* ctnetlink_* ipt_do_table nfnl_* br_nf_* [nf_*] "
		       "[nft_*] [xt_*] [ip_tables] [ip6_tables] [iptable_*] [br_netfilter]" },
	{ LAYER_DEVICE,
	  .kernel = "dev_* netif_* net_rx_action net_tx_action napi_* process_backlog loopback_* "
		    "enqueue_to_backlog validate_xmit_* eth_* sch_direct_xmit qdisc_* pfifo_* "
		    "netdev_* get_rps_cpu gro_* dql_* virtqueue_* vring_* "
		    "skb_flow_dissect* flow_dissect* tcf_* skb_csum_hwoffload_help",
	  .elsewhere =
		  "fq_* veth_* virtnet_* e1000* ixgbe_* i40e_* ice_* igb_* mlx4_en_* mlx5e_* "
		  "ena_* bnxt_* br_* tun_* tap_* packet_rcv* tpacket_rcv cls_* [veth] "
		  "[virtio_net] [e1000*] [ixgbe] [i40e] [ice] [igb] [mlx5_core] [ena] [bnxt_en] "
		  "[tun] [bridge] [sch_*] [cls_*]" },
	{ LAYER_COPY,
	  .kernel = "copy_* rep_movs_alternative rep_stos_alternative memcpy* "
		    "memmove* memset* skb_copy_datagram_* skb_datagram_iter skb_copy_bits "
		    "simple_copy_to_iter csum_and_copy_* check_object_size "
		    "check_heap_object check_stack_object memcmp* iov_iter_* "
		    "clear_user*",
	  .elsewhere = "arch_copy_* pi_memcpy* [libc.so*]" },
	{ LAYER_MEMORY,
	  .kernel = "kmem_cache_* kmalloc* kfree kvfree* kvmalloc* slab_* free_to_pcs* "
		    "allocate_slab put_cpu_partial get_partial* alloc_pages* "
		    "get_free_pages* free_pages* free_unref_* rmqueue* get_page_from_freelist "
		    "page_frag_* skb_page_frag_refill sk_page_frag_refill folio_put* put_page* "
		    "release_pages lruvec_* lru_* mem_cgroup_* obj_cgroup_* memcg_* memcg1_* "
		    "charge_memcg try_charge* page_counter_* refill_stock "
		    "drain_stock* refill_obj_stock handle_mm_fault "
		    "do_anonymous_page do_user_addr_fault exc_page_fault asm_exc_page_fault "
		    "do_fault* vma_* mmap_* clear_page* clear_huge_page "
		    "pin_user_pages* gup_* get_user_pages* unpin_user_* follow_page* "
		    "folio_alloc* tlb_* flush_tlb_* rcu_do_batch rcu_core "
		    "rcu_free_* free_percpu madvise_* zap_* unmap_* kthread_blkcg find_vma* "
		    "lock_vma_* bvec_* is_vmalloc_addr virt_addr_valid mod_node_page_state "
		    "mod_memcg_* vmalloc* vfree*",
	  .elsewhere = "malloc calloc realloc free int_malloc int_free* libc_malloc libc_free "
		       "posix_memalign" },
	{ LAYER_FILES,
	  .kernel = "vfs_* ksys_read ksys_write ksys_pread64 ksys_pwrite64 sys_read sys_write "
		    "sys_pread* sys_pwrite* sys_preadv* sys_pwritev* sys_fsync sys_fdatasync "
		    "sys_fallocate sys_lseek do_iter_* do_preadv do_pwritev rw_verify_area "
		    "generic_file_* generic_perform_* filemap_* file_* pagecache_* "
		    "page_cache_* readahead* force_page_cache_* write_cache_* writeback_* "
		    "balance_dirty_* folio_mark_* folio_wait_* folio_unlock folio_end_* "
		    "set_page_dirty* iomap_* shmem_* ramfs_* simple_write_* hugetlbfs_* "
		    "do_sys_open* do_filp_open path_* security_file_* fsnotify* atime_* "
		    "touch_atime mnt_* xas_* xa_load xa_* aio_* bpf_lsm_file_* inode_* dquot_* "
		    "splice_*",
	  .elsewhere = "ext4_* ext2_* jbd2_* xfs_* btrfs_* f2fs_* nfs_* nfs4_* fuse_* ovl_* "
		       "overlay_* fat_* erofs_* [ext4] [xfs] [btrfs] [jbd2] [f2fs] [nfs] [nfsv4] "
		       "[fuse] [overlay]" },
	{ LAYER_BLOCK,
	  .kernel = "blk_* bio_* submit_bio* blkdev_* elv_* dd_* sbitmap_* blkcg_* rq_qos_* wbt_* "
		    "mq_* disk_* part_* direct_* iocb_bio_* block_*",
	  .elsewhere =
		  "bfq_* kyber_* nvme_* scsi_* sd_* virtblk_* virtscsi_* ata_* ahci_* dm_* md_* "
		  "raid* loop_* lo_* zram_* null_* nbd_* brd_* [nvme*] [virtio_blk] "
		  "[virtio_scsi] [sd_mod] [scsi_mod] [dm_*] [loop] [nbd] [null_blk] [zram] "
		  "[ahci] [libata] [libahci]" },
	{ LAYER_RDMA,
	  .elsewhere = "ib_* rdma_* uverbs_* ibv_* rxe_* siw_* mlx4_ib_* mlx5_ib_* irdma_* "
		       "hns_roce_* efa_* bnxt_re_* qedr_* iw_* cma_* ucma_* [ib_*] [rdma_*] "
		       "[rdma_rxe] [siw] [mlx5_ib] [mlx4_ib] [irdma] [libibverbs*] [librdmacm*] "
		       "[libmlx*] [librxe*] [libsiw*]" },
	{ LAYER_SCHEDULER,
	  .kernel = "schedule* sched_* try_to_wake_up ttwu_* wake_up* default_wake_function "
		    "autoremove_wake_function finish_task_switch switch_to* switch_mm* "
		    "enqueue_task* dequeue_task* enqueue_entity dequeue_entity "
		    "dequeue_entities update_curr* update_load_avg* pick_next_* pick_task_* "
		    "put_prev_* set_next_* select_task_rq* select_idle_* activate_task "
		    "deactivate_task check_preempt_* wakeup_preempt* resched_* update_rq_clock* "
		    "psi_* preempt_schedule* io_schedule* futex_* do_futex sys_futex* "
		    "prepare_to_wait* finish_wait* add_wait_queue* remove_wait_queue* wait_woken "
		    "woken_wake_function native_smp_send_reschedule smp_call_* flush_smp_call_* "
		    "call_function_* hrtimer_nanosleep cpuacct_* reweight_* place_entity "
		    "avg_vruntime update_min_vruntime task_tick_* scheduler_tick cond_resched "
		    "mutex_lock* mutex_unlock* rwsem_* down_* up_read up_write swake_up* "
		    "wait_for_completion* complete complete_* poll_schedule_* "
		    "schedule_hrtimeout_* io_wq_worker_sleeping io_wq_worker_running sys_sched_* "
		    "do_sched_yield",
	  .elsewhere = "pthread_* lll_lock_*" },
	/* An interrupt is not the work of the function that it interrupts. */
	{ LAYER_OTHER,
	  .kernel = "asm_sysvec_* sysvec_* asm_common_interrupt common_interrupt asm_exc_nmi",
	  .elsewhere = "el1h_64_irq* el0t_64_irq*" },
};

/* The weight of the pattern if it fits: its length, and more if it is a whole name, which so wins
 * over a beginning with as many characters.  0: it does not fit. */
static size_t fits(const char *pattern, size_t bytes, const char *text)
{
	if (pattern[bytes - 1] == '*')
		return strncmp(pattern, text, bytes - 1) == 0 ? bytes : 0;
	if (pattern[bytes - 1] == ']' && bytes > 2 && pattern[bytes - 2] == '*')
		return strncmp(pattern, text, bytes - 2) == 0 ? bytes : 0;
	return strncmp(pattern, text, bytes) == 0 && text[bytes] == '\0' ? bytes + 2 : 0;
}

/* The longest of the patterns that fit.  patterns NULL: there are none. */
static size_t longest(const char *patterns, const char *text)
{
	size_t best = 0;

	while (patterns && *patterns) {
		size_t bytes = strcspn(patterns, " "), fit = fits(patterns, bytes, text);

		best = MAX(best, fit);
		patterns += bytes + strspn(patterns + bytes, " ");
	}
	return best;
}

static enum layer look_up(const char *text)
{
	enum layer layer = LAYER_NONE;
	size_t best = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(functions); i++) {
		size_t fit = MAX(longest(functions[i].kernel, text),
				 longest(functions[i].elsewhere, text));

		if (fit > best) {
			best = fit;
			layer = functions[i].layer;
		}
	}
	return layer;
}

/* The name as the table has it: tcp_sendmsg of __tcp_sendmsg.part.0,
 * sys_sendto of __x64_sys_sendto. */
static void plain_name(const char *name, char *text, size_t bytes)
{
	static const char *const architectures[] = { "x64_sys_", "arm64_sys_", "s390x_sys_",
						     "se_sys_" };

	name += strspn(name, "_");
	for (unsigned i = 0; i < ARRAY_SIZE(architectures); i++)
		if (!strncmp(name, architectures[i], strlen(architectures[i])) &&
		    strcmp(name, "x64_sys_call") != 0)
			name = strstr(name, "sys_");
	bytes = MIN(bytes - 1, strcspn(name, ".@"));
	memcpy(text, name, bytes);
	text[bytes] = '\0';
}

enum layer layer_of_function(const char *name, const char *owner)
{
	char text[128];
	enum layer layer;

	plain_name(name, text, sizeof(text));
	layer = *text ? look_up(text) : LAYER_NONE;
	return layer == LAYER_NONE && *owner == '[' ? look_up(owner) : layer;
}

/* ---- Our own functions ---- */

/* The files of the daemon, as "service/simple/echo.c"; the Makefile writes the list. */
static const char *const sources[] = {
#ifdef NB_LAYERS_SOURCES
#include NB_LAYERS_SOURCES
#endif
	NULL
};

static enum layer layer_of_path(const char *path)
{
	static const struct {
		const char *folder;
		enum layer layer;
	} folders[] = { { "service/", LAYER_SERVICE },
			{ "engine/", LAYER_ENGINE },
			{ "ring/", LAYER_ENGINE },
			{ "store/", LAYER_STORE } };

	for (unsigned i = 0; i < ARRAY_SIZE(folders); i++)
		if (!strncmp(path, folders[i].folder, strlen(folders[i].folder)))
			return folders[i].layer;
	return LAYER_CORE;
}

/* Does the name, of a function or a file, begin with the word? */
static bool begins(const char *name, const char *word, size_t bytes)
{
	return bytes > 0 && !strncmp(name, word, bytes) && strchr("_.", name[bytes]);
}

/* The layer of the longest name of a file or a folder with which the function's name begins.  Of
 * equal ones the folder decides: udp_recv() is of the folder udp, not of a service's udp.c. */
static enum layer layer_of_prefix(const char *name)
{
	enum layer layer = LAYER_CORE;
	size_t best = 0;

	for (const char *const *path = sources; *path; path++) {
		const char *at = *path, *end;

		for (;; at = end + 1) {
			size_t bytes = strcspn(at, "/."), weight;

			end = at + bytes;
			weight = 2 * bytes + (*end == '/');
			if (weight > best && begins(name, at, bytes)) {
				best = weight;
				layer = layer_of_path(*path);
			}
			if (*end != '/')
				break;
		}
	}
	return layer;
}

enum layer layer_of_own(const char *name, const char *file)
{
	const char *found = NULL;
	unsigned count = 0;

	for (const char *const *path = sources; *path && *file; path++) {
		const char *slash = strrchr(*path, '/');

		if (!strcmp(slash ? slash + 1 : *path, file)) {
			found = *path;
			count++;
		}
	}
	if (count == 1)
		return layer_of_path(found);
	return layer_of_prefix(count ? file : name);
}
