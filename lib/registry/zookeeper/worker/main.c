/* berth-zookeeper FD; all else is in worker.c, for its tests, too. */
#include "lib/registry/zookeeper/worker/worker.h"

int main(int argc, char **argv)
{
	return zk_worker_main(argc, argv);
}
