/* Addresses of sockets: IPv4, IPv6 and Unix.  Pure, but for the two that ask the kernel about a
 * socket. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Where the address is in an AF_INET or AF_INET6 one, as inet_pton() takes it. */
void *sockaddr_host(const struct sockaddr_storage *sa);
/* Length of sa, as bind() and connect() take it. */
socklen_t sockaddr_size(const struct sockaddr_storage *sa);
/* The address of sa as IPv6 (IPv4 as ::ffff:a.b.c.d), the form of network.h. */
struct in6_addr sockaddr_mapped(const struct sockaddr_storage *sa);
struct in6_addr sockaddr_map_ipv4(const struct in_addr *address);
uint16_t sockaddr_port(const struct sockaddr_storage *sa); /* 0 for a Unix socket */
bool sockaddr_is_multicast(const struct sockaddr_storage *sa);
bool sockaddr_is_wildcard(const struct sockaddr_storage *sa); /* IPv4 or IPv6 */
void sockaddr_set_port(struct sockaddr_storage *sa, uint16_t port);

/* The index of the interface of a link-local address; 0: it has none. */
uint32_t sockaddr_interface(const struct sockaddr_storage *sa);

/* Do both have the same address, port and interface, or for Unix sockets the same name? */
bool sockaddr_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Is fd a Unix socket?  Then there is no TCP_INFO and no device. */
bool sockaddr_fd_is_local(int fd);
/* The local port of a socket; 0: it has none. */
uint16_t sockaddr_fd_port(int fd);
