/*
 * The files of a node in a dir: registry that others than its backend may read: the host's agent
 * looks into the registries of its containers. lib/registry/dir/node.h describes the whole layout.
 */
#ifndef LIB_REGISTRY_REGISTRY_DIR_H
#define LIB_REGISTRY_REGISTRY_DIR_H

/* The record: a regular file that is only ever replaced as a whole. */
#define DIR_RECORD "_record"
/*
 * In an ephemeral node only. Its owner holds a write lock on it (of the open file description); the
 * node is dead without. An owner that ends a node by itself empties the file first: a file that has
 * content and no lock belongs to an owner that died.
 */
#define DIR_OWNER "_owner"

#endif
