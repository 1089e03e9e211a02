/*
 * The id that a container runtime gave to the container of this process, from what the kernel
 * shows. No I/O.
 */
#ifndef AGENT_CONFIG_CONTAINER_ID_H
#define AGENT_CONFIG_CONTAINER_ID_H

/*
 * From /proc/self/cgroup: the last id of a path, since containers in a container (also those of a
 * node of kind) show the outer one's id before their own. malloc'ed; NULL: there is none.
 */
char *container_id_of_cgroup(const char *text);
/*
 * From /proc/self/mountinfo: a runtime mounts /etc/hostname, /etc/hosts, /etc/resolv.conf and
 * /run/.containerenv from the container's own directory. Any other mount may come from another
 * container's. In a pod of Kubernetes the first and the third are the sandbox's, and only
 * /run/.containerenv counts. malloc'ed; NULL: they do not tell.
 */
char *container_id_of_mounts(const char *text);

#endif
