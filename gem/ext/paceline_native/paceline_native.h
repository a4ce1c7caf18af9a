/* What the files of the native part share. Docs of the bytes: docs/worker-protocol.md. */
#ifndef PACELINE_NATIVE_H
#define PACELINE_NATIVE_H

#include <ruby.h>
#include <ruby/encoding.h>
#include <stdint.h>
#include <sys/uio.h>

/* socket.c */

/* Bodies up to this size are copied behind their head: that is cheaper than to give the kernel many pieces, or to keep others from changing them. */
#define PACELINE_COPIED (64 * 1024)

/* Sends all of `count` pieces to `fd`; raises Errno::*. What the socket does not take at once is copied, unless the pieces are `kept`: then nobody changes,
 * frees or moves them before this returns. */
void paceline_send(int fd, struct iovec *pieces, int count, int kept);

/* fork.c: whether this process was marked, and whether it was forked from one that was. */
int paceline_is_marked(void);
int paceline_is_forked(void);

void paceline_init_fork(VALUE native);
void paceline_init_mailbox(VALUE native);
void paceline_init_socket(VALUE native);
void paceline_init_env(VALUE native);
void paceline_init_response(VALUE native);
void paceline_init_gather(VALUE native);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t paceline_now(void);

/* Bytes of a REQUEST frame before its env: length, type, number, flags, length of the env. */
#define PACELINE_REQUEST_HEAD 18

static inline void paceline_put_u16(uint8_t *at, uint16_t value) {
    at[0] = value >> 8;
    at[1] = value & 255;
}

static inline void paceline_put_u32(uint8_t *at, uint32_t value) {
    paceline_put_u16(at, value >> 16);
    paceline_put_u16(at + 2, value & 65535);
}

static inline void paceline_put_u64(uint8_t *at, uint64_t value) {
    paceline_put_u32(at, value >> 32);
    paceline_put_u32(at + 4, value & 0xffffffff);
}

static inline uint32_t paceline_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

#endif
