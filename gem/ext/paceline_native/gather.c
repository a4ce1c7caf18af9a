/* The pieces of a body that its `each` yields, gathered. The twin in Ruby is Gatherer#add. */
#include "paceline_native.h"

static ID each, pending, begin_pending, full;

struct gathering {
    VALUE gatherer;
    long limit;
    unsigned count;
};

static VALUE add(RB_BLOCK_CALL_FUNC_ARGLIST(yielded, argument)) {
    struct gathering *gathering = (struct gathering *)argument;
    VALUE part = RB_TYPE_P(yielded, T_STRING) ? yielded : rb_obj_as_string(yielded);
    long size = RSTRING_LEN(part);
    if (size == 0) return Qnil;
    gathering->count++;
    VALUE gathered = rb_ivar_get(gathering->gatherer, pending);
    if (RSTRING_LEN(gathered) == 0) {
        rb_funcall(gathering->gatherer, begin_pending, 0);
        gathered = rb_ivar_get(gathering->gatherer, pending);
    }
    /* No other thread runs between the look at the variable and this: the one that sends late takes the string out of it. */
    rb_str_buf_cat(gathered, RSTRING_PTR(part), RSTRING_LEN(part));
    RB_GC_GUARD(part);
    if (RSTRING_LEN(gathered) >= gathering->limit) rb_funcall(gathering->gatherer, full, 0);
    return Qnil;
}

/* gather(body, gatherer, limit): gathers all that the body yields; answers how many pieces that were. Raises what `each` raises. */
static VALUE gather(VALUE self, VALUE body, VALUE gatherer, VALUE limit) {
    struct gathering gathering = {gatherer, NUM2LONG(limit), 0};
    rb_block_call(body, each, 0, NULL, add, (VALUE)&gathering);
    return UINT2NUM(gathering.count);
}

void paceline_init_gather(VALUE native) {
    each = rb_intern("each");
    pending = rb_intern("@pending");
    begin_pending = rb_intern("begin_pending");
    full = rb_intern("full");
    rb_define_module_function(native, "gather", gather, 3);
}
