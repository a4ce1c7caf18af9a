/* Paceline::XML::Emit: what compiled templates call. Shapes, and what each call means: lib/paceline/xml/replay.rb, which also does
 * what is not done here. */
#include "xml.h"

#define ATTRIBUTE '\x01'
#define TEXT '\x02'

static VALUE replay;

/* The builder, if a shape's bytes are what it would write. */
static xml_builder *taking_shapes(VALUE xml) {
    if (!xml_is_plain(xml)) return NULL;
    xml_builder *builder = xml_ready(xml);
    return builder && builder->utf8 && builder->quote == '"' && !RTEST(builder->nil_handling) ? builder : NULL;
}

static VALUE by_replay(const char *name, int argc, const VALUE *argv) {
    return rb_funcall_passing_block(replay, rb_intern(name), argc, argv);
}

/* Writes ` name="value"` for the slot at `slot`, whose start is out already, where app code must run for the value. Returns where the
 * shape goes on. */
static const char *put_slot(xml_builder *builder, xml_out *out, const char *shape, const char *slot, VALUE value) {
    const char *start = slot;
    while (start > shape && *start != ' ') start--;
    /* Builder makes the value before it writes anything of the attribute. */
    out->length -= slot - start;
    xml_put_attribute(builder, out, rb_utf8_str_new(start + 1, slot - start - 3), value);
    return slot + 2;
}

/* The markup of a shape from `start` up to `end`, with the values of its attributes. */
static void put_shape(xml_builder *builder, xml_out *out, const char *start, const char *end, int count, const VALUE *values) {
    const char *from = start, *slot;
    for (; count > 0 && (slot = memchr(from, ATTRIBUTE, end - from)); count--) {
        VALUE value = *values++;
        xml_put(out, from, slot - from);
        from = slot + 1;
        if (NIL_P(value)) continue;
        if (FIXNUM_P(value) || (xml_is_steady(builder, value) && xml_is_simple(builder, value))) {
            xml_put_value(out, value, true);
        } else {
            from = put_slot(builder, out, start, slot, value);
        }
    }
    xml_put(out, from, end - from);
}

static VALUE leaf(int argc, VALUE *argv, VALUE self) {
    rb_check_arity(argc, 2, UNLIMITED_ARGUMENTS);
    xml_builder *builder = taking_shapes(argv[0]);
    if (!builder) return by_replay("leaf", argc, argv);
    VALUE shape = argv[1], text = Qundef;
    const char *start = RSTRING_PTR(shape), *end = start + RSTRING_LEN(shape), *slot = NULL;
    int first = 2;
    if (argc > 2 && (slot = memchr(start, TEXT, end - start))) {
        text = argv[first++];
        /* Attributes, or a namespace. */
        if (xml_is_namespace(text) || RB_TYPE_P(text, T_HASH)) return by_replay("leaf", argc, argv);
        if (!NIL_P(text)) text = xml_text_of(builder, text);
        xml_follow(argv[0], builder);
    }

    xml_out out;
    xml_open(&out, builder->target);
    xml_put_indent(&out, builder);
    put_shape(builder, &out, start, slot ? slot : end, argc - first, argv + first);
    if (slot) {
        if (NIL_P(text)) {
            /* Without text: `<b/>`. */
            out.length--;
            xml_put(&out, "/>", 2);
        } else {
            xml_put_text(builder, &out, text);
            xml_put(&out, slot + 1, end - slot - 1);
        }
    }
    xml_put_newline(&out, builder);
    xml_close(&out);
    RB_GC_GUARD(text);
    RB_GC_GUARD(shape);
    return builder->target;
}

static void put_start(xml_builder *builder, int argc, const VALUE *argv) {
    const char *start = RSTRING_PTR(argv[1]);
    xml_out out;
    xml_open(&out, builder->target);
    xml_put_indent(&out, builder);
    put_shape(builder, &out, start, start + RSTRING_LEN(argv[1]), argc - 2, argv + 2);
    xml_put_newline(&out, builder);
    xml_close(&out);
}

static VALUE open_element(int argc, VALUE *argv, VALUE self) {
    rb_check_arity(argc, 2, UNLIMITED_ARGUMENTS);
    xml_builder *builder = taking_shapes(argv[0]);
    if (!builder) return by_replay("open", argc, argv);
    put_start(builder, argc, argv);
    xml_follow(argv[0], builder);
    xml_set_level(argv[0], builder, builder->level + 1);
    return builder->target;
}

static VALUE close_element(VALUE self, VALUE xml, VALUE shape) {
    xml_builder *builder = taking_shapes(xml);
    if (!builder || builder->level == 0) return by_replay("close", 2, (VALUE[]){xml, shape});
    xml_out out;
    builder->level--;
    xml_open(&out, builder->target);
    xml_put_indent(&out, builder);
    xml_put_string(&out, shape);
    xml_put_newline(&out, builder);
    xml_close(&out);
    return builder->target;
}

static VALUE element(int argc, VALUE *argv, VALUE self) {
    rb_check_arity(argc, 2, UNLIMITED_ARGUMENTS);
    xml_builder *builder = taking_shapes(argv[0]);
    if (!builder || !rb_block_given_p()) return by_replay("element", argc, argv);
    put_start(builder, argc, argv);
    const char *name = RSTRING_PTR(argv[1]) + 1, *end = RSTRING_PTR(argv[1]) + RSTRING_LEN(argv[1]), *at = name;
    while (at < end && *at != ' ' && *at != '>') at++;
    xml_nest(argv[0], builder, argv[1], 1, at - name);
    return builder->target;
}

static VALUE text(VALUE self, VALUE xml, VALUE escaped) {
    xml_builder *builder = taking_shapes(xml);
    if (!builder) return by_replay("text", 2, (VALUE[]){xml, escaped});
    xml_out out;
    xml_open(&out, builder->target);
    xml_put_string(&out, escaped);
    xml_close(&out);
    return builder->target;
}

/* Paceline::Native.xml_emit(Replay): Emit. */
static VALUE make_emit(VALUE native, VALUE given) {
    VALUE emit = rb_module_new();
    replay = given;
    rb_gc_register_mark_object(replay);
    rb_ext_ractor_safe(true);
    rb_define_singleton_method(emit, "leaf", leaf, -1);
    rb_define_singleton_method(emit, "open", open_element, -1);
    rb_define_singleton_method(emit, "close", close_element, 2);
    rb_define_singleton_method(emit, "element", element, -1);
    rb_define_singleton_method(emit, "text", text, 2);
    rb_ext_ractor_safe(false);
    return emit;
}

void xml_init_emit(VALUE native) {
    rb_define_singleton_method(native, "xml_emit", make_emit, 1);
}
