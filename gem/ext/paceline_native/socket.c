/* Reading and writing a channel. Ruby's IO gives its lock away before every system call, and must queue for it again after; here that
 * is done only when there is something to wait for. */
#include "paceline_native.h"
#include <errno.h>
#include <poll.h>
#include <ruby/thread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define ON_STACK (16 * 1024)

/* Thread.handle_interrupt(Object => :never) */
static ID handle_interrupt;
static VALUE nothing;

struct receiving {
    int fd;
    char *into;
    size_t size;
    ssize_t received;
    int error;
};

/* Milliseconds after which poll(2) is called again. */
#define ONE_POLL 5000

/* Nanoseconds for which a thread spins before it sleeps. */
#define SPIN_TIME 250000
/* So many waits are slept through after spins that were in vain, at most. The front's loops have the same number (protocol/spin.rs). */
#define MOST_SKIPPED 63

/* Of this thread: so many waits are left that it sleeps through, and so many come after the next spin that is in vain. */
static _Thread_local unsigned skip, next_skip;

int64_t paceline_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* A client that sends one request after the other is back sooner than the kernel wakes a thread (docs/decisions/0013-spin-before-sleep.md). Whatever else
 * wants the processor gets it by sched_yield(2), and the time passes meanwhile: after it a spin was in vain, whatever has come. True: something was received, or the socket has failed. */
static int spin(struct receiving *receiving) {
    if (skip > 0) {
        skip--;
        return 0;
    }
    int64_t end = paceline_now() + SPIN_TIME;
    for (;;) {
        receiving->received = recv(receiving->fd, receiving->into, receiving->size, MSG_DONTWAIT);
        int error = errno, done = receiving->received >= 0 || (error != EAGAIN && error != EWOULDBLOCK), late = paceline_now() >= end;
        if (late) {
            skip = next_skip;
            next_skip = next_skip * 2 + 1 < MOST_SKIPPED ? next_skip * 2 + 1 : MOST_SKIPPED;
        } else if (done) {
            next_skip = 0;
        }
        receiving->error = error;
        if (done || late) return done;
        sched_yield();
    }
}

/* By poll(2): a thread that waits in recv(2) is woken as well when the other side has read what was sent before. Where the application
 * has put another file in the descriptor's place, poll(2) keeps the old one open, but looks at the new one only: what the front sends
 * would lie there for ever. Called again, it lets go of the old one, and the front learns of it. */
static void *receive_waiting(void *argument) {
    struct receiving *receiving = argument;
    if (spin(receiving)) return NULL;
    struct pollfd readable = {receiving->fd, POLLIN, 0};
    do receiving->received = poll(&readable, 1, ONE_POLL);
    while (receiving->received == 0);
    if (receiving->received > 0) receiving->received = recv(receiving->fd, receiving->into, receiving->size, MSG_DONTWAIT);
    receiving->error = errno;
    return NULL;
}

static ssize_t receive_into(int fd, char *into, size_t size) {
    for (;;) {
        ssize_t received = recv(fd, into, size, MSG_DONTWAIT);
        if (received >= 0) return received;
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct receiving receiving = {fd, into, size, -1, EINTR};
            rb_thread_call_without_gvl(receive_waiting, &receiving, RUBY_UBF_IO, NULL);
            if (receiving.received >= 0) return receiving.received;
            errno = receiving.error;
            if (errno == EAGAIN || errno == EWOULDBLOCK) continue; /* another process has taken it */
        }
        if (errno == EINTR) {
            rb_thread_check_ints();
        } else {
            rb_sys_fail("recv");
        }
    }
}

/* receive(fd, size): up to `size` bytes, as soon as there are any; nil at the end of the stream. Raises Errno::*. */
static VALUE receive(VALUE self, VALUE fd, VALUE size) {
    size_t wanted = NUM2SIZET(size);
    if (wanted <= ON_STACK) {
        char bytes[ON_STACK];
        ssize_t received = receive_into(NUM2INT(fd), bytes, wanted);
        return received == 0 ? Qnil : rb_str_new(bytes, received);
    }
    VALUE string = rb_str_buf_new(wanted);
    ssize_t received = receive_into(NUM2INT(fd), RSTRING_PTR(string), wanted);
    if (received == 0) return Qnil;
    rb_str_set_len(string, received);
    return string;
}

static int send_some(int fd, struct iovec **pieces, int *count) {
    struct msghdr message = {.msg_iov = *pieces, .msg_iovlen = *count};
    ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno;
    while (*count > 0 && (size_t)sent >= (*pieces)->iov_len) {
        sent -= (*pieces)->iov_len;
        ++*pieces;
        --*count;
    }
    if (*count > 0) {
        (*pieces)->iov_base = (char *)(*pieces)->iov_base + sent;
        (*pieces)->iov_len -= sent;
    }
    return 0;
}

struct sending {
    int fd;
    struct iovec *left;
    int pieces_left;
};

/* Waits until something could be sent. */
static void send_more(struct sending *sending) {
    for (;;) {
        rb_thread_fd_writable(sending->fd);
        int error = send_some(sending->fd, &sending->left, &sending->pieces_left);
        if (error == 0) return;
        if (error != EAGAIN && error != EWOULDBLOCK && error != EINTR) rb_syserr_fail(error, "send");
    }
}

static VALUE send_rest(RB_BLOCK_CALL_FUNC_ARGLIST(_, data)) {
    struct sending *sending = (struct sending *)data;
    while (sending->pieces_left > 0) send_more(sending);
    return Qnil;
}

/* While this thread waits, others may change, free or move the memory that the pieces lie in, unless it is kept. What they raise here (Timeout) comes before
 * anything of this is sent, or when all of it is: after half a frame nobody would know where the next one begins. */
static void send_later(int fd, struct iovec *pieces, int count, int begun, int kept) {
    VALUE rest = Qnil;
    struct iovec piece;
    if (!kept) {
        rest = rb_str_buf_new(0);
        for (int index = 0; index < count; index++) rb_str_buf_cat(rest, pieces[index].iov_base, pieces[index].iov_len);
        rb_str_freeze(rest);
        piece = (struct iovec){RSTRING_PTR(rest), RSTRING_LEN(rest)};
        pieces = &piece;
        count = 1;
    }
    struct sending sending = {fd, pieces, count};
    if (!begun) send_more(&sending);
    if (sending.pieces_left > 0) rb_block_call(rb_cThread, handle_interrupt, 1, &nothing, send_rest, (VALUE)&sending);
    RB_GC_GUARD(rest);
}

void paceline_send(int fd, struct iovec *pieces, int count, int kept) {
    for (int begun = 0; count > 0;) {
        int error = send_some(fd, &pieces, &count);
        if (error == EAGAIN || error == EWOULDBLOCK) return send_later(fd, pieces, count, begun, kept);
        if (error == 0) begun = 1;
        else if (error != EINTR) rb_syserr_fail(error, "send");
    }
}

/* send(fd, bytes): all of them. Raises Errno::*. */
static VALUE send_bytes(VALUE self, VALUE fd, VALUE bytes) {
    StringValue(bytes);
    int large = RSTRING_LEN(bytes) > PACELINE_COPIED;
    if (large) bytes = rb_str_new_frozen(bytes);
    struct iovec piece = {RSTRING_PTR(bytes), RSTRING_LEN(bytes)};
    paceline_send(NUM2INT(fd), &piece, 1, large);
    RB_GC_GUARD(bytes);
    return Qnil;
}

/* send_slice(fd, head, bytes, at, size): all of `head`, and behind it `size` of the bytes from `at` on. Raises Errno::* and ArgumentError. */
static VALUE send_slice(VALUE self, VALUE fd, VALUE head, VALUE bytes, VALUE at, VALUE size) {
    StringValue(head);
    StringValue(bytes);
    long from = NUM2LONG(at), length = NUM2LONG(size);
    if (from < 0 || length < 0 || from > RSTRING_LEN(bytes) || length > RSTRING_LEN(bytes) - from) rb_raise(rb_eArgError, "a slice of what is not there");
    head = rb_str_new_frozen(head);
    bytes = rb_str_new_frozen(bytes);
    struct iovec pieces[] = {{RSTRING_PTR(head), RSTRING_LEN(head)}, {RSTRING_PTR(bytes) + from, length}};
    paceline_send(NUM2INT(fd), pieces, 2, 1);
    RB_GC_GUARD(head);
    RB_GC_GUARD(bytes);
    return Qnil;
}

void paceline_init_socket(VALUE native) {
    handle_interrupt = rb_intern("handle_interrupt");
    nothing = rb_hash_new();
    rb_hash_aset(nothing, rb_cObject, ID2SYM(rb_intern("never")));
    rb_gc_register_mark_object(rb_obj_freeze(nothing));
    rb_define_module_function(native, "receive", receive, 2);
    rb_define_module_function(native, "send_all", send_bytes, 2);
    rb_define_module_function(native, "send_slice", send_slice, 5);
}
