# frozen_string_literal: true

# A number that was made of a time of the clock (`to_i`, a difference), in a line of which it is known that it does nothing with it but calculate and compare
# (uses.rb). It is what the number would be, and remembers how that follows from the moment, so that a comparison knows from when on its result is another
# one. All that is made of it goes one way with time: it rises, or it falls. What else is asked of it the plain number answers, and the page is refused.
module Paceline
  module AutoCache
    module Clock
      class Seconds < Numeric
        # Nothing is looked for beyond it: no page lives so long (s).
        HORIZON = 400 * 86_400
        NANO = 1_000_000_000
        # So many nanoseconds before the change a page may end.
        NEAR = 1000
        ROUNDED = %i[to_i to_f to_r floor ceil round truncate -@ +@].freeze
        CALCULATED = %i[+ - * /].freeze
        COMPARED = %i[< <= > >= == <=>].freeze
        SIGNS = { zero?: :==, positive?: :>, negative?: :< }.freeze
        private_constant :HORIZON, :NANO, :NEAR

        # A number with one of these on its right. Ruby's numbers ask for it (`coerce`), or tell the result of a comparison that they make themselves.
        Left = Struct.new(:number) do
          CALCULATED.each { |name| define_method(name) { |seconds| seconds.calculated(name, number, from: :coerced) { |plain| number.public_send(name, plain) } } }
          COMPARED.each { |name| define_method(name) { |seconds| seconds.compared(number) { |plain| number.public_send(name, plain) } } }
        end
        private_constant :Left

        class << self
          # What the block makes of a time, while its uses are known; else the plain number, and the page is refused.
          def of(mark, value, name, &calculation)
            return value.tap { mark.refuse } unless plain?(value) && Uses.known?(name)

            made = new(mark.moved, value, calculation)
            # A number that is not what is thought is of no use.
            return value.tap { mark.refuse } unless made.expected?

            made
          end

          # One of these says that it is an Integer, too.
          def plain?(value) = ::Integer === value || ::Float === value || ::Rational === value
        end

        # `calculation`: of a time, the number.
        def initialize(mark, value, calculation)
          super()
          @mark = mark
          @value = value
          @calculation = calculation
          @mark.refuse unless mark.recording.keep_mark(self, mark)
        end

        def expected? = at(@mark.now) == @value

        ROUNDED.each { |name| define_method(name) { made(name, &name) } }
        CALCULATED.each { |name| define_method(name) { |other| calculated(name, other) { |plain| plain.public_send(name, other) } } }
        COMPARED.each { |name| define_method(name) { |other| compared(other) { |plain| plain.public_send(name, other) } } }
        SIGNS.each { |name, sign| define_method(name) { compared(0) { |plain| plain.public_send(sign, 0) } } }

        def between?(least, most) = compared(least) { |plain| plain >= least } && compared(most) { |plain| plain <= most }

        def coerce(other) = [Left.new(other), self]

        # With another number.
        def calculated(name, other, from: nil, &step)
          # Of something by this one nobody knows which way it goes.
          return refused(&step) if !number?(other) || (name == :/ && from)

          made(name, from, &step)
        end

        # The block: what comes of the number.
        def compared(other)
          return refused { |plain| yield(plain) } unless number?(other)

          result = yield(@value)
          sign = @value <=> other
          @mark.used!
          until_moment = change { |plain| (plain <=> other) == sign }
          @mark.good_until_moment(until_moment) if until_moment
          result
        end

        # All else.
        own = instance_methods(false) + %i[__id__ __send__ object_id equal? instance_variable_get instance_variable_set instance_variable_defined? ! !=]
        harmless = %i[is_a? kind_of? instance_of? class respond_to? nil? frozen? integer? real?]
        (instance_methods - own).each do |name|
          define_method(name) do |*arguments, **options, &block|
            @mark.refuse unless harmless.include?(name)
            @value.public_send(name, *arguments, **options, &block)
          end
        end

        def respond_to_missing?(...) = @value.respond_to?(...)

        def method_missing(...)
          @mark.refuse
          @value.public_send(...)
        end

        private

        def at(moment)
          @mark.recording.quiet { @calculation.call(@mark.at(moment)) }
        end

        def refused
          @mark.refuse
          yield(@value)
        end

        # Another number of it.
        def made(name, from = nil, &step)
          value = yield(@value)
          return value.tap { @mark.refuse } unless Seconds.plain?(value) && Uses.known?(name, from: from)

          Seconds.new(@mark.moved, value, @calculation >> step)
        end

        def number?(value)
          Seconds.plain?(value) || (defined?(::BigDecimal) && ::BigDecimal === value) ||
            (defined?(::ActiveSupport::Duration) && ::ActiveSupport::Duration === value)
        end

        # The first moment at which the block is not true any more; nil: it stays so.
        def change
          holds = ->(nanoseconds) { yield(at(@mark.now + Rational(nanoseconds, NANO))) }
          last = 0
          first = HORIZON * NANO
          return if holds.call(first)

          while first - last > NEAR
            middle = (first + last) / 2
            holds.call(middle) ? last = middle : first = middle
          end
          @mark.now + Rational(last, NANO)
        end
      end
    end
  end
end
