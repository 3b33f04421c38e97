/* Identity of a file: device and inode.  It stays valid while the file is open or a socket is bound
 * to it; afterwards another file may get the same inode number. */
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

/* Identifies the data: two nodes of one block device are equal. */
static inline struct file_id file_id_of_data(const struct stat *st)
{
	return S_ISBLK(st->st_mode) ? (struct file_id){ 0, st->st_rdev } : file_id_of(st);
}

static inline bool file_id_is(const struct file_id *id, const struct stat *st)
{
	return id->inode && id->device == st->st_dev && id->inode == st->st_ino;
}
