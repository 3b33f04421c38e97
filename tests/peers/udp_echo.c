/* The yardstick for datagrams: an echo server of one thread and one socket, as bare as can be: as
 * many as have come by one recvmmsg(), back by one sendmmsg().  On the loopback, or at ADDRESS. */
#include "bench.h"

enum { BATCH = 64, DATAGRAM_MAX = 65536 };

static struct mmsghdr messages[BATCH];
static struct iovec iov[BATCH];
static struct sockaddr_in names[BATCH];
static uint8_t buffers[BATCH][DATAGRAM_MAX];

static void echo(int fd)
{
	int count, sent;

	for (unsigned i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ buffers[i], DATAGRAM_MAX };
		messages[i].msg_hdr = (struct msghdr){ .msg_name = &names[i],
						       .msg_namelen = sizeof(names[i]),
						       .msg_iov = &iov[i],
						       .msg_iovlen = 1 };
	}
	while ((count = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, NULL)) > 0) {
		for (int i = 0; i < count; i++)
			iov[i].iov_len = messages[i].msg_len;
		for (int at = 0; at < count; at += MAX(sent, 1))
			sent = sendmmsg(fd, messages + at, (unsigned)(count - at), 0);
		for (int i = 0; i < count; i++)
			iov[i].iov_len = DATAGRAM_MAX;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(sa);

	if (argc == 3) {
		if (inet_pton(AF_INET, argv[1], &sa.sin_addr) != 1)
			errx(2, "expected an IPv4 address, got '%s'", argv[1]);
		sa.sin_port = htons((uint16_t)option_uint("PORT", argv[2], 0, UINT16_MAX));
	} else if (argc != 1) {
		errx(2, "usage: udp_echo [ADDRESS PORT]");
	}
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, bytes) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &bytes) < 0)
		err(1, "socket");
	set_option(fd, SOL_SOCKET, SO_RCVBUF, 4 << 20);
	printf("port %d\n", ntohs(sa.sin_port));
	fflush(stdout);
	echo(fd);
	err(1, "receive");
}
