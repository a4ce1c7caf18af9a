/* A channel's mailbox, the worker's side (docs/worker-protocol.md, "Mailbox"; crates/mailbox is the front's). One thread uses it, and holds Ruby's lock
 * meanwhile. The front is trusted here. */
#include "mailbox.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS (64 * 1024)
#define ANSWERS (256 * 1024)
#define HEAD 4096
#define SIZE (HEAD + REQUESTS + ANSWERS)
#define ENTRY 16

#define QUEUED 1
#define CLAIMED 2
#define SKIP 0
#define QUICK 1

/* Offsets of the words. */
#define REQUESTS_WRITTEN 64
#define REQUESTS_TAKEN 128
#define SLEEPS 192
#define ANSWERS_WRITTEN 256
#define ANSWERS_TAKEN 320
#define FRONT_WAITS 384

#define IDLE 0x39
#define NOTICE 0x3B
/* So many answers are left before the front is told, while there is more to do that is quick. */
#define UNTOLD 8
/* ... or so many nanoseconds pass. */
#define UNTOLD_TIME 200000

struct mailbox {
    uint8_t *memory; /* NULL: closed */
    int descriptor;
    /* Answers that the front may not have been told of. */
    int untold;
    /* When it was told last, in nanoseconds. */
    int64_t told;
    /* SLEEPS was set, and it is not known yet whether the front has cleared it. */
    int drowsy;
    /* The front has cleared it: something comes through the socket, and goes before what lies here. */
    int rung;
};

static _Atomic uint64_t *word(struct mailbox *mailbox, size_t at) { return (_Atomic uint64_t *)(mailbox->memory + at); }

static void close_mailbox(struct mailbox *mailbox) {
    if (mailbox->memory != NULL) munmap(mailbox->memory, SIZE);
    if (mailbox->descriptor >= 0) close(mailbox->descriptor);
    mailbox->memory = NULL;
    mailbox->descriptor = -1;
}

/* In a forked child nothing is mapped there; something else may be. */
static void free_mailbox(void *data) {
    struct mailbox *mailbox = data;
    if (paceline_is_forked()) mailbox->memory = NULL;
    close_mailbox(mailbox);
    xfree(mailbox);
}

static const rb_data_type_t mailbox_type = {
    "Paceline::Native::Mailbox", {NULL, free_mailbox, NULL, NULL, {0}}, NULL, NULL, RUBY_TYPED_FREE_IMMEDIATELY,
};

static struct mailbox *get(VALUE self) { return rb_check_typeddata(self, &mailbox_type); }

/* Mailbox.open: nil where the kernel has no sealed memory, or where a child of this process could not be told from it. */
static VALUE mailbox_open(VALUE class) {
    if (!paceline_is_marked()) return Qnil;
    int descriptor = memfd_create("paceline-mailbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return Qnil;
    void *memory = MAP_FAILED;
    if (ftruncate(descriptor, SIZE) == 0 && fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    if (memory == MAP_FAILED) {
        close(descriptor);
        return Qnil;
    }
    madvise(memory, SIZE, MADV_DONTFORK);
    struct mailbox *mailbox;
    VALUE self = TypedData_Make_Struct(class, struct mailbox, &mailbox_type, mailbox);
    mailbox->memory = memory;
    mailbox->descriptor = descriptor;
    mailbox->untold = mailbox->drowsy = mailbox->rung = 0;
    mailbox->told = 0;
    return self;
}

/* sent: the front has the descriptor; it is closed here. */
static VALUE mailbox_sent(VALUE self) {
    struct mailbox *mailbox = get(self);
    if (mailbox->descriptor >= 0) close(mailbox->descriptor);
    mailbox->descriptor = -1;
    return Qnil;
}

static VALUE mailbox_fileno(VALUE self) { return INT2NUM(get(self)->descriptor); }

static VALUE mailbox_close(VALUE self) {
    struct mailbox *mailbox = get(self);
    if (paceline_is_forked()) mailbox->memory = NULL;
    close_mailbox(mailbox);
    return Qnil;
}

static int usable(struct mailbox *mailbox) { return mailbox->memory != NULL && !paceline_is_forked(); }

/* The offset of the next request that is not revoked; -1: there is none. */
static long next_request(struct mailbox *mailbox) {
    uint64_t taken = atomic_load_explicit(word(mailbox, REQUESTS_TAKEN), memory_order_relaxed);
    for (;;) {
        if (taken == atomic_load_explicit(word(mailbox, REQUESTS_WRITTEN), memory_order_seq_cst)) return -1;
        size_t at = taken % REQUESTS;
        uint64_t state = atomic_load_explicit(word(mailbox, HEAD + at), memory_order_relaxed);
        if (state == SKIP) {
            taken += REQUESTS - at;
        } else if ((state & 3) == QUEUED) {
            return (long)at;
        } else {
            uint32_t length = *(uint32_t *)(mailbox->memory + HEAD + at + 8);
            taken += (ENTRY + length + ENTRY - 1) / ENTRY * ENTRY;
        }
        atomic_store_explicit(word(mailbox, REQUESTS_TAKEN), taken, memory_order_release);
    }
}

/* The thread is awake: it clears SLEEPS. If the front has done so before, something comes through the socket. */
static void wake_up(struct mailbox *mailbox) {
    if (!mailbox->drowsy) return;
    mailbox->drowsy = 0;
    mailbox->rung = atomic_exchange(word(mailbox, SLEEPS), 0) == 0;
}

/* take: claims the next request: its whole REQUEST frame; nil if there is none. */
static VALUE mailbox_take(VALUE self) {
    struct mailbox *mailbox = get(self);
    if (!usable(mailbox)) return Qnil;
    wake_up(mailbox);
    if (mailbox->rung) return Qnil;
    for (;;) {
        long at = next_request(mailbox);
        if (at < 0) return Qnil;
        uint64_t state = atomic_load_explicit(word(mailbox, HEAD + at), memory_order_relaxed);
        if ((state & 3) != QUEUED) continue;
        if (!atomic_compare_exchange_strong(word(mailbox, HEAD + at), &state, (state & ~(uint64_t)3) | CLAIMED)) continue;
        uint32_t length = *(uint32_t *)(mailbox->memory + HEAD + at + 8);
        VALUE frame = rb_str_new((char *)mailbox->memory + HEAD + at + ENTRY, length);
        uint64_t taken = atomic_load_explicit(word(mailbox, REQUESTS_TAKEN), memory_order_relaxed);
        taken += (ENTRY + length + ENTRY - 1) / ENTRY * ENTRY;
        atomic_store_explicit(word(mailbox, REQUESTS_TAKEN), taken, memory_order_release);
        return frame;
    }
}

/* Tells the front that there are answers, if it waits. A full socket tells it as well. */
static void notify(struct mailbox *mailbox, int socket) {
    mailbox->untold = 0;
    mailbox->told = paceline_now();
    if (atomic_exchange(word(mailbox, FRONT_WAITS), 0) == 0) return;
    static const uint8_t notice[5] = {0, 0, 0, 0, NOTICE};
    while (send(socket, notice, sizeof notice, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
}

/* sleep(fd): the thread is about to wait on its socket. False: there is a request here, and nothing in the socket goes before it. */
static VALUE mailbox_sleep(VALUE self, VALUE fd) {
    struct mailbox *mailbox = get(self);
    if (!usable(mailbox)) return Qtrue;
    wake_up(mailbox);
    if (mailbox->rung) return Qtrue;
    if (next_request(mailbox) >= 0) return Qfalse;
    if (mailbox->untold) notify(mailbox, NUM2INT(fd));
    atomic_store_explicit(word(mailbox, SLEEPS), 1, memory_order_seq_cst);
    mailbox->drowsy = 1;
    if (next_request(mailbox) < 0) return Qtrue;
    wake_up(mailbox);
    return mailbox->rung ? Qtrue : Qfalse;
}

/* woken: the thread has read from its socket what the front woke it with. */
static VALUE mailbox_woken(VALUE self) {
    struct mailbox *mailbox = get(self);
    mailbox->drowsy = mailbox->rung = 0;
    /* A request that found the mailbox full was sent without that, maybe before the thread had said that it sleeps. */
    if (usable(mailbox)) atomic_store_explicit(word(mailbox, SLEEPS), 0, memory_order_seq_cst);
    return Qnil;
}

int paceline_mailbox_put(VALUE self, int socket, struct iovec *pieces, int count) {
    if (NIL_P(self)) return 0;
    struct mailbox *mailbox = get(self);
    if (!usable(mailbox)) return 0;
    size_t length = 0;
    for (int index = 0; index < count; index++) length += pieces[index].iov_len;
    size_t need = (ENTRY + length + ENTRY - 1) / ENTRY * ENTRY;
    if (need > PACELINE_MAILBOX_ANSWER) return 0;
    uint64_t written = atomic_load_explicit(word(mailbox, ANSWERS_WRITTEN), memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(word(mailbox, ANSWERS_TAKEN), memory_order_acquire);
    size_t at = written % ANSWERS, skip = need > ANSWERS - at ? ANSWERS - at : 0;
    if (written - taken + skip + need > ANSWERS) return 0;
    uint8_t *ring = mailbox->memory + HEAD + REQUESTS;
    if (skip > 0) {
        *(uint32_t *)(ring + at + 8) = UINT32_MAX;
        at = 0;
    }
    *(uint32_t *)(ring + at + 8) = (uint32_t)length;
    uint8_t *into = ring + at + ENTRY;
    for (int index = 0; index < count; index++) {
        memcpy(into, pieces[index].iov_base, pieces[index].iov_len);
        into += pieces[index].iov_len;
    }
    atomic_store_explicit(word(mailbox, ANSWERS_WRITTEN), written + skip + need, memory_order_seq_cst);
    mailbox->untold++;
    /* The front, which looks here within a millisecond anyway, is left asleep for some answers that come fast. */
    long next = next_request(mailbox);
    int quick = next >= 0 && *(uint32_t *)(mailbox->memory + HEAD + next + 12) & QUICK;
    /* That the thread is idle matters to nobody before the answer to the request which it takes now. */
    if (next >= 0 && ((uint8_t *)pieces[0].iov_base)[4] == IDLE) return 1;
    if (!quick || mailbox->untold >= UNTOLD || paceline_now() - mailbox->told > UNTOLD_TIME) notify(mailbox, socket);
    return 1;
}

/* put(fd, *pieces): leaves a frame for the front; nil: it has to go by the socket. */
static VALUE mailbox_put(int argc, VALUE *argv, VALUE self) {
    struct iovec pieces[2];
    rb_check_arity(argc, 2, 3);
    for (int index = 1; index < argc; index++) {
        StringValue(argv[index]);
        pieces[index - 1] = (struct iovec){RSTRING_PTR(argv[index]), RSTRING_LEN(argv[index])};
    }
    int done = paceline_mailbox_put(self, NUM2INT(argv[0]), pieces, argc - 1);
    RB_GC_GUARD(argv[1]);
    return done ? Qtrue : Qnil;
}

void paceline_init_mailbox(VALUE native) {
    VALUE class = rb_define_class_under(native, "Mailbox", rb_cObject);
    rb_undef_alloc_func(class);
    rb_define_singleton_method(class, "open", mailbox_open, 0);
    rb_define_method(class, "fileno", mailbox_fileno, 0);
    rb_define_method(class, "sent", mailbox_sent, 0);
    rb_define_method(class, "close", mailbox_close, 0);
    rb_define_method(class, "take", mailbox_take, 0);
    rb_define_method(class, "sleep", mailbox_sleep, 1);
    rb_define_method(class, "woken", mailbox_woken, 0);
    rb_define_method(class, "put", mailbox_put, -1);
}
