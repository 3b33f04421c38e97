/* The kernel's TLS: see kernel.h, and Documentation/networking/tls.rst of Linux. */
#include "kernel.h"

#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util.h"

/* include/linux/socket.h, and include/uapi/linux/tls.h of Linux 6.0, which older headers lack. */
#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TLS_RX_EXPECT_NO_PAD
#define TLS_RX_EXPECT_NO_PAD 4
#endif

enum { IV_BYTES = sizeof(((struct tls_keys *)NULL)->iv), NUMBER_BYTES = 8 };

/* The words of the keys `tls` and `tls-cipher`. */
const char *const tls_modes[] = { "none", "user", "ktls-tx", "ktls", NULL };
const char *const tls_ciphers[] = { "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", NULL };

/* By the index in tls_ciphers: the kernel's number, how many bytes of the IV it calls salt, and its
 * name in /proc/crypto. */
static const struct {
	uint16_t number;
	uint8_t key_bytes, salt_bytes;
	const char *name;
} ciphers[] = {
	{ TLS_CIPHER_AES_GCM_128, 16, 4, "gcm(aes)" },
	{ TLS_CIPHER_AES_GCM_256, 32, 4, "gcm(aes)" },
	{ TLS_CIPHER_CHACHA20_POLY1305, 32, 0, "rfc7539(chacha20,poly1305)" },
};

int kernel_attach(int fd)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 ? -errno : 0;
}

/* The structs of all ciphers are alike (struct tls12_crypto_info_aes_gcm_128): the rest of the IV,
 * the key, the salt, and the number of the next record, which is 0. */
int kernel_give(int fd, enum kernel_direction direction, unsigned cipher,
		const struct tls_keys *keys)
{
	size_t salt = ciphers[cipher].salt_bytes, key = ciphers[cipher].key_bytes;
	struct {
		struct tls_crypto_info info;
		uint8_t bytes[IV_BYTES + sizeof(keys->key) + NUMBER_BYTES];
	} given = { .info = { TLS_1_3_VERSION, ciphers[cipher].number } };
	uint8_t *to = given.bytes;
	int one = 1, rc;

	to = (uint8_t *)mempcpy(to, keys->iv + salt, IV_BYTES - salt);
	to = (uint8_t *)mempcpy(to, keys->key, key);
	memcpy(to, keys->iv, salt);
	rc = setsockopt(fd, SOL_TLS, direction == KERNEL_SENDS ? TLS_TX : TLS_RX, &given,
			(socklen_t)(sizeof(given.info) + IV_BYTES + key + NUMBER_BYTES));
	explicit_bzero(&given, sizeof(given));
	if (rc < 0)
		return -errno;
	/* Clients pad no records, and those that do are opened as well, with a copy more. */
	if (direction == KERNEL_RECEIVES)
		(void)setsockopt(fd, SOL_TLS, TLS_RX_EXPECT_NO_PAD, &one, sizeof(one));
	return 0;
}

/* A message about one control record; its content type is in a control message of the socket. */
struct control {
	struct msghdr msg;
	struct iovec iov;
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(1)];
	} type;
};

static void control_init(struct control *control, void *data, size_t bytes)
{
	*control = (struct control){ .iov = { data, bytes } };
	control->msg = (struct msghdr){
		.msg_iov = &control->iov,
		.msg_iovlen = 1,
		.msg_control = &control->type,
		.msg_controllen = sizeof(control->type),
	};
}

/* The kernel may take a record for which the socket has no room, keep it outside of the socket's
 * buffer, and drop it when the socket is closed.  So close_notify is sent only while the socket has
 * room enough for such records, too. */
int kernel_close_notify(int fd)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	uint8_t alert[] = { 1, 0 }; /* a warning, close_notify */
	struct control control;

	if (poll(&room, 1, 0) == 0)
		return -EAGAIN;
	control_init(&control, alert, sizeof(alert));
	control.type.header = (struct cmsghdr){ CMSG_LEN(1), SOL_TLS, TLS_SET_RECORD_TYPE };
	*CMSG_DATA(&control.type.header) = 21; /* an alert */
	return sendmsg(fd, &control.msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t kernel_receive_control(int fd, uint8_t *ret_type, uint8_t *to, size_t bytes)
{
	struct control control;
	struct cmsghdr *header;
	ssize_t n;

	control_init(&control, to, bytes);
	n = recvmsg(fd, &control.msg, MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	header = CMSG_FIRSTHDR(&control.msg);
	if (!header || header->cmsg_level != SOL_TLS || header->cmsg_type != TLS_GET_RECORD_TYPE)
		return -EIO;
	*ret_type = *CMSG_DATA(header);
	return n;
}

/* ---- The probe ---- */

/* A connection of this process to itself, for the probe.  One second is enough to make it. */
static int loopback_pair(int fds[2])
{
	static const struct timeval second = { .tv_sec = 1 };
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = 0;

	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fds[1] = -1;
	if (listener < 0 || fds[0] < 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)) < 0 ||
	    setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second)) < 0 ||
	    bind(listener, (struct sockaddr *)&at, bytes) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &bytes) < 0 ||
	    connect(fds[0], (struct sockaddr *)&at, bytes) < 0 ||
	    (fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
		rc = -errno;
	if (listener >= 0)
		close(listener);
	return rc;
}

static int try_mode(int fd, unsigned mode, unsigned cipher, struct reason *reason)
{
	static const struct tls_keys keys;
	int rc = kernel_attach(fd);

	if (rc < 0)
		return reason_set(
			reason, rc,
			"this kernel has no TLS, or it is not loaded (%s); `modprobe tls`, and a "
			"line `tls` in /etc/modules-load.d/nbserved.conf for the next start; "
			"else a kernel with CONFIG_TLS",
			strerror(-rc));
	rc = kernel_give(fd, KERNEL_SENDS, cipher, &keys);
	if (rc == 0 && (kernel_directions(mode) & KERNEL_RECEIVES))
		rc = kernel_give(fd, KERNEL_RECEIVES, cipher, &keys);
	if (rc < 0)
		return reason_set(
			reason, rc,
			"this kernel's TLS does not take %s (%s); use another `tls-cipher`",
			tls_ciphers[cipher], strerror(-rc));
	return 0;
}

int tls_kernel_probe(unsigned mode, unsigned cipher, struct reason *reason)
{
	int fds[2], rc = loopback_pair(fds);

	if (rc < 0)
		reason_set(reason, rc, "cannot try the kernel's TLS on loopback: %s",
			   strerror(-rc));
	else
		rc = try_mode(fds[1], mode, cipher, reason);
	for (unsigned i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return rc;
}

void tls_kernel_driver(unsigned cipher, char text[static TLS_DRIVER_MAX])
{
	FILE *list = fopen("/proc/crypto", "re");
	char line[256], word[128], driver[TLS_DRIVER_MAX] = "";
	int priority, highest = -1;
	bool is = false;

	text[0] = '\0';
	while (list && fgets(line, sizeof(line), list)) {
		if (sscanf(line, "name : %127s", word) == 1)
			is = !strcmp(word, ciphers[cipher].name);
		else if (sscanf(line, "driver : %127s", word) == 1)
			snprintf(driver, sizeof(driver), "%.*s", TLS_DRIVER_MAX - 1, word);
		else if (is && sscanf(line, "priority : %d", &priority) == 1 &&
			 priority > highest) {
			highest = priority;
			strcpy(text, driver);
		}
	}
	if (list)
		fclose(list);
}
