# frozen_string_literal: true

# The kinds of faults that `bin/bench doctor --generated` weaves into applications. A kind is a block that makes a Weave, each time with other names and sizes.
module Bench
  module Generated
    # One fault and its cure. FAULT, CURE: the lines of a method that is given `number` and returns text; CONSTANTS: what stands before the method in both variants,
    # FAULT_CONSTANTS and CURE_CONSTANTS in one of them. A line that ends with `#!` is a right place to name. REQUIRES: libraries. FILES: {path => text}.
    # LIST, CURED_LIST, ROW: of a loop over records, in place of FAULT and CURE, which a partial can have, too. SLOTS: {place in the base => [lines of the fault, of
    # the cure]}. SIZES: {table => rows}. VIEW: text of a page's view, and PARTIALS: {variant => text} of the partial that it renders.
    Weave = Struct.new(:constants, :fault_constants, :cure_constants, :fault, :cure, :requires, :files, :list, :cured_list, :row, :slots, :sizes, :view, :partials, keyword_init: true) do
      # The lines of the method in VARIANT.
      def body(variant)
        return variant == "fault" ? fault : cure || fault if fault

        "#{variant == "fault" ? list : cured_list}.map do |row|\n  #{row} #!\nend.join(\", \")\n"
      end

      def constants_of(variant) = [constants, variant == "fault" ? fault_constants : cure_constants].compact.join
      def loop? = !row.nil?
      def view? = !view.nil?
    end

    # SAYS: findings that are right. BASES: which it can be woven into. FORMS: of what a method can stand in; nil: all. ANYWHERE: the place is not judged, since no line
    # of the application is it. MEASURE: as of DoctorFault. SAME: whether the cure changes no bytes. GROUP: what the kind changes for all pages; only one kind of a group
    # is in an application.
    Kind = Struct.new(:name, :title, :says, :bases, :forms, :anywhere, :measure, :same, :group, :make, keyword_init: true)

    module Kinds
      ALL = {}
      RAILS = %w[rails].freeze
      RECORDS = %w[rails sinatra].freeze
      EVERY = %w[rails sinatra rack].freeze

      module_function

      def add(name, title, says:, bases: EVERY, **more, &make)
        ALL[name] = Kind.new(name: name, title: title, says: Array(says), bases: bases, measure: "request", same: true, make: make, **more)
      end

      def of(base) = ALL.values.select { |kind| kind.bases.include?(base) }
    end
  end
end
Dir[File.join(__dir__, "kinds/*.rb")].sort.each { |path| require path }
