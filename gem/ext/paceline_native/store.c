/* Paceline::Native::Store and its snapshots: records in a file (crates/store), for lib/paceline/records.rb. Knows nothing of what the
 * records mean. A store that was opened before a fork is of no use after it: records.rb opens it again. */
#include "store.h"

#include <ruby/encoding.h>
#include <pthread.h>
#include <ruby/thread.h>
#include <stdint.h>
#include <unistd.h>

/* crates/store/src/ffi.rs */
typedef struct {
    int32_t kind, code;
    char message[256];
} failure;
enum { GROWN = 7, CLOSED = 8 };
typedef struct native_store native_store;
typedef struct native_snapshot native_snapshot;
native_store *paceline_store_open(const uint8_t *path, size_t length, uint64_t verify_up_to, uint64_t most, failure *);
int32_t paceline_store_verify(const native_store *, failure *);
int32_t paceline_store_identity(const native_store *, uint64_t *device, uint64_t *number, failure *);
void paceline_store_free(native_store *);
void paceline_store_abandon(native_store *);
int32_t paceline_store_commit(const native_store *, const uint8_t *expected, size_t expected_length, const uint8_t *batch, size_t length, int32_t sync, failure *);
uint64_t paceline_store_size(const native_store *);
native_snapshot *paceline_store_snapshot(const native_store *, int32_t wait, failure *);
void paceline_snapshot_free(native_snapshot *);
int32_t paceline_snapshot_get(const native_snapshot *, const uint8_t *key, size_t length, const uint8_t **value, size_t *value_length, failure *);
int64_t paceline_snapshot_count(const native_snapshot *, failure *);
int64_t paceline_snapshot_used(const native_snapshot *, failure *);
int32_t paceline_snapshot_scan(const native_snapshot *, const uint8_t *from, size_t length,
                               int32_t (*each)(void *, const uint8_t *, size_t, const uint8_t *, size_t), void *context, failure *);

typedef struct {
    native_store *store;
    pid_t pid;
    /* Calls during which other threads run. The last of them gives back what has been closed meanwhile. */
    int calls, closed;
} open_store;

typedef struct {
    native_snapshot *snapshot;
    /* Kept alive by this. */
    VALUE store;
    pid_t pid;
} open_snapshot;

static VALUE error_class, snapshot_class;

/* This process. Asking the system each time costs more than what it is asked for. */
static pid_t here;

static void forked(void) {
    here = getpid();
}

/* Raises Paceline::Native::StoreError.new(kind, code, message). */
static void fail(const failure *why) {
    VALUE arguments[] = {INT2FIX(why->kind), INT2FIX(why->code), rb_utf8_str_new_cstr(why->message)};
    rb_exc_raise(rb_class_new_instance(3, arguments, error_class));
}

/* What was opened before a fork is the parent's, and so are its snapshots. */
static void give_back(open_store *opened) {
    native_store *store = opened->store;
    opened->closed = 1;
    /* In a child the threads of its parent call nothing. */
    if (!store || (opened->calls && opened->pid == here)) return;
    opened->store = NULL;
    if (opened->pid == here) paceline_store_free(store);
    else paceline_store_abandon(store);
}

/* Another thread has closed it: it has to be opened again. */
static const failure closed = {.kind = CLOSED, .message = "closed store"};

static void free_store(void *data) {
    give_back(data);
    xfree(data);
}

static void free_snapshot(void *data) {
    open_snapshot *opened = data;
    /* Its place in the table of readers is the parent's: a child leaves it alone. */
    if (opened->snapshot && opened->pid == here) paceline_snapshot_free(opened->snapshot);
    xfree(opened);
}

static void mark_snapshot(void *data) {
    rb_gc_mark(((open_snapshot *)data)->store);
}

static const rb_data_type_t store_type = {
    .wrap_struct_name = "Paceline::Native::Store",
    .function = {.dfree = free_store},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};
static const rb_data_type_t snapshot_type = {
    .wrap_struct_name = "Paceline::Native::Snapshot",
    .function = {.dmark = mark_snapshot, .dfree = free_snapshot},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

/* What is opened goes into an object of Ruby's at once, and whoever has to close it has that object already: another thread may have something
 * raised here whenever a call returns, also the call of a method that is written in C. */
typedef struct {
    const native_store *store;
    const uint8_t *bytes, *expected;
    size_t length, expected_length;
    uint64_t verify_up_to, most;
    int32_t sync;
    failure why;
    void *result;
    /* 1: written; 0: what was expected is not so; -1: failed. */
    int32_t committed;
    int done;
    open_store *opened;
    open_snapshot *begun;
} call;

static void *call_open(void *data) {
    call *call = data;
    call->opened->pid = here;
    call->opened->store = paceline_store_open(call->bytes, call->length, call->verify_up_to, call->most, &call->why);
    call->done = 1;
    return NULL;
}

static void *call_snapshot(void *data) {
    call *call = data;
    call->begun->snapshot = paceline_store_snapshot(call->store, 1, &call->why);
    call->done = 1;
    return NULL;
}

static void *call_commit(void *data) {
    call *call = data;
    call->committed = paceline_store_commit(call->store, call->expected, call->expected_length, call->bytes, call->length, call->sync, &call->why);
    call->done = 1;
    return NULL;
}

static void *call_verify(void *data) {
    call *call = data;
    call->result = paceline_store_verify(call->store, &call->why) ? call : NULL;
    call->done = 1;
    return NULL;
}

/* Does `work` while other threads run. What is raised by them waits: it must be known what became of the work. */
static void run(open_store *opened, void *(*work)(void *), call *call) {
    while (!call->done) {
        if (opened->closed) fail(&closed);
        opened->calls++;
        rb_thread_call_without_gvl2(work, call, NULL, NULL);
        opened->calls--;
        if (opened->closed) give_back(opened);
        if (!call->done) rb_thread_check_ints();
    }
}

/* Native::Store.open(path, verify_up_to, most): a file of up to so many bytes is looked at whole, and may grow to `most` (0: to any size).
 * Yields the store before it is opened, for who has to close it however this ends. Raises StoreError. */
static VALUE open_at(VALUE klass, VALUE path, VALUE verify_up_to, VALUE most) {
    open_store *opened;
    StringValueCStr(path);
    VALUE self = TypedData_Make_Struct(klass, open_store, &store_type, opened);
    /* Nobody else changes these bytes while other threads run. */
    path = rb_str_new_frozen(path);
    call call = {.bytes = (const uint8_t *)RSTRING_PTR(path), .length = RSTRING_LEN(path), .verify_up_to = NUM2ULL(verify_up_to), .most = NUM2ULL(most),
                 .opened = opened};
    rb_yield(self);
    run(opened, call_open, &call);
    RB_GC_GUARD(path);
    if (!opened->store) fail(&call.why);
    return self;
}

static open_store *opened_by(VALUE self) {
    open_store *opened;
    TypedData_Get_Struct(self, open_store, &store_type, opened);
    if (opened->closed || !opened->store) fail(&closed);
    if (opened->pid != here) rb_raise(rb_eIOError, "a store that was opened before a fork");
    return opened;
}

static native_store *store_of(VALUE self) {
    return opened_by(self)->store;
}

/* Gives its file and memory back now. No snapshot may be left. */
static VALUE store_close(VALUE self) {
    open_store *opened;
    TypedData_Get_Struct(self, open_store, &store_type, opened);
    give_back(opened);
    return Qnil;
}

/* Whether this process has it open: after a fork it is its parent's. */
static VALUE store_ours(VALUE self) {
    open_store *opened;
    TypedData_Get_Struct(self, open_store, &store_type, opened);
    return opened->store && !opened->closed && opened->pid == here ? Qtrue : Qfalse;
}

/* Looks at the whole structure of the file; whoever writes waits meanwhile. Raises StoreError. */
static VALUE verify(VALUE self) {
    open_store *opened = opened_by(self);
    call call = {.store = opened->store};
    run(opened, call_verify, &call);
    RB_GC_GUARD(self);
    if (!call.result) fail(&call.why);
    return Qnil;
}

/* Device and number of the file that is open. */
static VALUE identity(VALUE self) {
    failure why;
    uint64_t device, number;
    if (!paceline_store_identity(store_of(self), &device, &number, &why)) fail(&why);
    return rb_assoc_new(ULL2NUM(device), ULL2NUM(number));
}

/* commit(expected, batch, sync): writes all changes of the batch (crates/store/src/ffi.rs) or none. False, and nothing is written, if the records of
 * the batch `expected` are not so any more. Other threads run meanwhile. */
static VALUE commit(VALUE self, VALUE expected, VALUE batch, VALUE sync) {
    StringValue(expected);
    StringValue(batch);
    expected = rb_str_new_frozen(expected);
    batch = rb_str_new_frozen(batch);
    open_store *opened = opened_by(self);
    call call = {.store = opened->store, .expected = (const uint8_t *)RSTRING_PTR(expected), .expected_length = RSTRING_LEN(expected),
                 .bytes = (const uint8_t *)RSTRING_PTR(batch), .length = RSTRING_LEN(batch), .sync = RTEST(sync)};
    run(opened, call_commit, &call);
    RB_GC_GUARD(expected);
    RB_GC_GUARD(batch);
    RB_GC_GUARD(self);
    if (call.committed < 0) fail(&call.why);
    return call.committed ? Qtrue : Qfalse;
}

static VALUE store_size(VALUE self) {
    return ULL2NUM(paceline_store_size(store_of(self)));
}

/* The store as it is now, until `release`. Yields the snapshot before it is begun, for who has to release it however this ends. */
static VALUE snapshot(VALUE self) {
    open_snapshot *opened;
    VALUE made = TypedData_Make_Struct(snapshot_class, open_snapshot, &snapshot_type, opened);
    opened->store = self;
    opened->pid = here;
    rb_yield(made);
    call call = {.store = store_of(self), .begun = opened};
    opened->snapshot = paceline_store_snapshot(call.store, 0, &call.why);
    /* Others have made it larger: until this process can follow, its threads have to go on. */
    if (!opened->snapshot && call.why.kind == GROWN) run(opened_by(self), call_snapshot, &call);
    if (!opened->snapshot) fail(&call.why);
    return made;
}

static native_snapshot *snapshot_of(VALUE self) {
    open_snapshot *opened;
    TypedData_Get_Struct(self, open_snapshot, &snapshot_type, opened);
    if (!opened->snapshot) rb_raise(rb_eIOError, "released snapshot");
    if (opened->pid != here) rb_raise(rb_eIOError, "a snapshot from before a fork");
    return opened->snapshot;
}

static VALUE release(VALUE self) {
    open_snapshot *opened;
    TypedData_Get_Struct(self, open_snapshot, &snapshot_type, opened);
    native_snapshot *snapshot = opened->snapshot;
    opened->snapshot = NULL;
    if (snapshot && opened->pid == here) paceline_snapshot_free(snapshot);
    return Qnil;
}

static VALUE binary(const uint8_t *bytes, size_t length) {
    return rb_str_new((const char *)bytes, (long)length);
}

/* The value of a key as a binary String, or nil. */
static VALUE get(VALUE self, VALUE key) {
    failure why;
    const uint8_t *value;
    size_t length;
    StringValue(key);
    int32_t found = paceline_snapshot_get(snapshot_of(self), (const uint8_t *)RSTRING_PTR(key), RSTRING_LEN(key), &value, &length, &why);
    if (found < 0) fail(&why);
    VALUE returned = found ? binary(value, length) : Qnil;
    RB_GC_GUARD(self);
    RB_GC_GUARD(key);
    return returned;
}

static VALUE count(VALUE self) {
    failure why;
    int64_t count = paceline_snapshot_count(snapshot_of(self), &why);
    if (count < 0) fail(&why);
    return LL2NUM(count);
}

/* Bytes of the pages that the records fill. */
static VALUE used(VALUE self) {
    failure why;
    int64_t bytes = paceline_snapshot_used(snapshot_of(self), &why);
    if (bytes < 0) fail(&why);
    return LL2NUM(bytes);
}

typedef struct {
    VALUE found;
    long limit;
    const uint8_t *key, *value;
    size_t key_length, value_length;
    int state;
} scanning;

static VALUE take_record(VALUE data) {
    scanning *at = (scanning *)data;
    return rb_ary_push(at->found, rb_assoc_new(binary(at->key, at->key_length), binary(at->value, at->value_length)));
}

/* What Ruby raises waits until Rust has returned. */
static int32_t each(void *context, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length) {
    scanning *at = context;
    at->key = key;
    at->key_length = key_length;
    at->value = value;
    at->value_length = value_length;
    rb_protect(take_record, (VALUE)at, &at->state);
    return at->state == 0 && RARRAY_LEN(at->found) < at->limit;
}

/* scan(from, limit): up to `limit` pairs of key and value, from the key `from` on. */
static VALUE scan(VALUE self, VALUE from, VALUE limit) {
    failure why;
    StringValue(from);
    scanning at = {.found = rb_ary_new(), .limit = NUM2LONG(limit)};
    if (at.limit <= 0) return at.found;
    int32_t done = paceline_snapshot_scan(snapshot_of(self), (const uint8_t *)RSTRING_PTR(from), RSTRING_LEN(from), each, &at, &why);
    if (at.state) rb_jump_tag(at.state);
    if (!done) fail(&why);
    RB_GC_GUARD(self);
    RB_GC_GUARD(from);
    return at.found;
}

void paceline_init_store(VALUE native) {
    here = getpid();
    pthread_atfork(NULL, NULL, forked);
    error_class = rb_define_class_under(native, "StoreError", rb_eStandardError);
    VALUE store = rb_define_class_under(native, "Store", rb_cObject);
    snapshot_class = rb_define_class_under(native, "Snapshot", rb_cObject);
    rb_undef_alloc_func(store);
    rb_undef_alloc_func(snapshot_class);
    rb_define_singleton_method(store, "open", open_at, 3);
    rb_define_method(store, "close", store_close, 0);
    rb_define_method(store, "ours?", store_ours, 0);
    rb_define_method(store, "commit", commit, 3);
    rb_define_method(store, "size", store_size, 0);
    rb_define_method(store, "snapshot", snapshot, 0);
    rb_define_method(store, "verify", verify, 0);
    rb_define_method(store, "identity", identity, 0);
    rb_define_method(snapshot_class, "release", release, 0);
    rb_define_method(snapshot_class, "get", get, 1);
    rb_define_method(snapshot_class, "count", count, 0);
    rb_define_method(snapshot_class, "used", used, 0);
    rb_define_method(snapshot_class, "scan", scan, 2);
}
