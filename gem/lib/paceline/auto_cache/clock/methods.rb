# frozen_string_literal: true

# Follows what is asked of Time and ActiveSupport::TimeWithZone. A method that is written in Ruby calls others in the end, so of Time those in C are
# followed, and those of which more is known; of TimeWithZone, which keeps its times in variables, all. Decides nothing.
module Paceline
  module AutoCache
    module Clock
      module Methods
        # What looks at no time.
        HARMLESS = %i[utc? gmt? initialize is_a? kind_of? instance_of? blank? present? acts_like_time? time_zone].freeze
        # What has a form of its own below.
        OWN = %i[<=> eql? - initialize_copy].freeze
        private_constant :HARMLESS, :OWN

        def self.install
          Blindness.look
          Uses.prepare
          Hooks.reading(Compared)
          Aliases.pass_over(Compared)
          follow(::Time, in_c(::Time) | Moves::NAMES.select { |name| ::Time.method_defined?(name) })
          prepend_to(::Time.singleton_class, Moment)
          dates if defined?(::Date)
          Hooks.on_class(::File, %i[utime lutime]) { |_, _, arguments| Clock.refuse(arguments) }
          zones if defined?(::ActiveSupport) && ::ActiveSupport.const_defined?(:TimeWithZone) && !::ActiveSupport.autoload?(:TimeWithZone)
          Words.install if defined?(::ActiveSupport) && ::ActiveSupport.respond_to?(:on_load)
        end

        def self.dates
          prepend_to(::Date.singleton_class, Today)
          [::Date, ::DateTime].each { |kind| prepend_to(kind, Dated) }
        end
        private_class_method :dates

        def self.zones
          zoned = ::ActiveSupport::TimeWithZone
          # `utc?` asks for the zone's offset.
          follow(zoned, (zoned.instance_methods(false) + [:method_missing] - HARMLESS) | [:utc?])
          prepend_to(::ActiveSupport::TimeZone, Zone)
        end
        private_class_method :zones

        def self.in_c(owner)
          names = owner.instance_methods(false) + owner.private_instance_methods(false)
          native = names.select { |name| owner.instance_method(name).source_location.then { |file,| file.nil? || file.start_with?("<internal:") } }
          native - HARMLESS
        end
        private_class_method :in_c

        def self.follow(owner, names)
          followed = Module.new { include Compared }
          (names - OWN).each { |name| define(followed, owner, name) }
          prepend_to(owner, followed)
        end
        private_class_method :follow

        def self.prepend_to(owner, hooks)
          owner.prepend(hooks)
          owner.singleton_class.prepend(Aliases)
          Hooks.reading(hooks)
          Aliases.pass_over(hooks)
        end
        private_class_method :prepend_to

        # Most are called of times that have no mark, and take nothing.
        def self.define(followed, owner, name)
          takes = owner.instance_method(name).arity.zero? ? "" : "(...)"
          followed.class_eval(<<~RUBY, __FILE__, __LINE__ + 1)
            def #{name}#{takes}                                                                          # def year
              return super if ::Paceline::AutoCache::Clock.idle? || !MARKS[self]                         #   return super if ...
              original = ->(*arguments, **options, &block) { super(*arguments, **options, &block) }      #   original = ...
              ::Paceline::AutoCache::Clock.apply(self, :"#{name}", original#{", ..." unless takes.empty?}) #   ...apply(self, :"year", original)
            end                                                                                          # end
          RUBY
          followed.send(:private, name) if owner.private_method_defined?(name)
        end
        private_class_method :define

        # Who puts another method in the place of one, and keeps this one by an alias (Active Support does), is given the one behind ours: ours
        # would call the new one, and so itself.
        module Aliases
          @ours = {}.compare_by_identity

          class << self
            def pass_over(hooks) = @ours[hooks] = true

            def behind(method)
              method = method.super_method while method && @ours.key?(method.owner)
              method
            end
          end

          def alias_method(new_name, old_name)
            found = instance_method(old_name)
            behind = Aliases.behind(found)
            return super if behind.nil? || behind.owner.equal?(found.owner)

            define_method(new_name, behind)
            private(new_name) if private_method_defined?(old_name)
            new_name.to_sym
          end
        end

        # What looks at the time of another one, too.
        module Compared
          def <=>(other)
            return super if Clock.idle? || !(MARKS[self] || MARKS[other])

            Clock.compared(self, other) { super }
          end

          def eql?(other)
            return super if Clock.idle? || !(MARKS[self] || MARKS[other])

            Clock.compared(self, other) { super }
          end

          def -(other)
            return super if Clock.idle? || !(MARKS[self] || MARKS[other])

            MARKS[self] ? Clock.apply(self, :-, ->(*) { super(other) }, other) : Clock.subtracted(self, other) { super }
          end

          private

          def initialize_copy(other)
            super
            Clock.copied(other, self) unless Clock.idle?
          end
        end

        # Date and DateTime, of which Active Support knows which time they are.
        module Dated
          def <=>(other)
            return super if Clock.idle? || !MARKS[other]

            Clock.compared(self, other) { super }
          end
        end

        # Time.now; Time.new without arguments, which makes what `now` returns before Ruby 3.2; and what is made of another time.
        module Moment
          def new(*arguments, **options)
            arguments.empty? && AutoCache.recording ? Clock.now("Time.now") { super } : super
          end

          def now(**options)
            AutoCache.recording ? Clock.now("Time.now") { super } : super
          end

          def at(*arguments, **options)
            Clock.refuse(arguments) unless Clock.idle?
            super
          end
        end

        module Today
          def today(*)
            AutoCache.recording ? Clock.today("Date.today", :getlocal.to_proc) { super } : super
          end
        end

        # ActiveSupport::TimeZone
        module Zone
          def today
            AutoCache.recording ? Clock.today("Date.today", ->(time) { time.in_time_zone(self) }) { super } : super
          end
        end
      end
    end
  end
end
