/* Names of listening sockets.  See socket_name.h. */
#include "socket_name.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "config_keys.h"

static void replace(char *text, char from, char to)
{
	while ((text = strchr(text, from)))
		*text++ = to;
}

char *socket_name_format(const struct socket_name *name, char text[static SOCKET_NAME_TEXT_MAX])
{
	char address[ADDRESS_TEXT_MAX], where[36] = "";

	if (name->file.inode)
		snprintf(where, sizeof(where), "@%llx.%llx", (unsigned long long)name->file.device,
			 (unsigned long long)name->file.inode);
	snprintf(text, SOCKET_NAME_TEXT_MAX, "%s%s=%s", name->listener, where,
		 format_sockaddr(&name->wanted, address));
	replace(text, ':', ' ');
	return text;
}

/* Parses a hexadecimal number as "%llx" writes it (at most 64 bits, no leading zeros, no "0x"),
 * followed by `end`; advances *text. */
static bool parse_hex(const char **text, char end, unsigned long long *ret_value)
{
	size_t digits = strspn(*text, "0123456789abcdef");

	if (!digits || digits > 16 || (**text == '0' && digits > 1) || (*text)[digits] != end)
		return false;
	*ret_value = strtoull(*text, NULL, 16);
	*text += digits + 1;
	return true;
}

static int parse_file(const char *text, struct file_id *ret_file)
{
	unsigned long long device, inode;

	if (!parse_hex(&text, '.', &device) || !parse_hex(&text, '=', &inode) || !inode)
		return -EINVAL;
	*ret_file = (struct file_id){ (dev_t)device, (ino_t)inode };
	return 0;
}

static bool has_file(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_UNIX && ((const struct sockaddr_un *)sa)->sun_path[0];
}

int socket_name_parse(const char *text, struct socket_name *ret_name)
{
	size_t bytes = strcspn(text, "=@"), to_address = strcspn(text, "=");
	char address_text[ADDRESS_TEXT_MAX];
	struct socket_name name = { .type = SOCK_STREAM };
	struct address address;

	if (text[to_address] != '=' || bytes >= sizeof(name.listener) ||
	    strlen(text + to_address + 1) >= sizeof(address_text) || strchr(text, ':') ||
	    (text[bytes] == '@' && parse_file(text + bytes + 1, &name.file) < 0))
		return -EINVAL;
	memcpy(name.listener, text, bytes);
	strcpy(address_text, text + to_address + 1);
	replace(address_text, ' ', ':');
	if (!config_name_valid(name.listener) || parse_address(address_text, &address) < 0 ||
	    address.port_first != address.port_last ||
	    has_file(&address.sa) != (name.file.inode != 0))
		return -EINVAL;
	name.wanted = address.sa;
	sockaddr_set_port(&name.wanted, address.port_first);
	*ret_name = name;
	return 0;
}

bool socket_name_fits(const struct socket_name *wants, const struct socket_name *had,
		      const struct sockaddr_storage *sa)
{
	struct sockaddr_storage host = *sa;

	if (wants->type != had->type)
		return false;
	if (wants->wanted.ss_family == AF_UNIX || sockaddr_port(&wants->wanted))
		return sockaddr_is_same(&wants->wanted, sa);
	sockaddr_set_port(&host, 0);
	return !strcmp(wants->listener, had->listener) &&
	       sockaddr_is_same(&wants->wanted, &had->wanted) &&
	       sockaddr_is_same(&wants->wanted, &host);
}
