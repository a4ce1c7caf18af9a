/* A channel's mailbox, for the files that write answers. */
#ifndef PACELINE_MAILBOX_H
#define PACELINE_MAILBOX_H

#include "paceline_native.h"

/* Longest answer, with its entry, that goes by the mailbox. */
#define PACELINE_MAILBOX_ANSWER (64 * 1024)

/* Leaves a frame for the front; 0: it has to go by the socket (`mailbox` is nil, the frame is too long or there is no room). */
int paceline_mailbox_put(VALUE mailbox, int socket, struct iovec *pieces, int count);

#endif
