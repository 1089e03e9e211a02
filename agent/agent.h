/*
 * The agent: everything but main(), so that tests can link it.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

/* berthd. Returns the exit status. */
int agent_main(int argc, char **argv);

#endif
