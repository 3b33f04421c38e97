/* What a name in the file system leads to, apart from others.  Of a file that is open, or a socket
 * that is bound to it, for as long as that is so: then the number may be another file's. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

struct file_id {
	dev_t device;
	ino_t inode; /* 0: no file */
};

static inline struct file_id file_id_of(const struct stat *st)
{
	return (struct file_id){ st->st_dev, st->st_ino };
}

static inline bool file_id_is(const struct file_id *id, const struct stat *st)
{
	return id->inode && id->device == st->st_dev && id->inode == st->st_ino;
}
