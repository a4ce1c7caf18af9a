# frozen_string_literal: true

# Whether a number that a method of the clock returns is used by its caller for nothing but calculations and comparisons. That is read in Ruby's own instructions of the
# line that has called (flow.rb): each of them that calls such a method there has to be known, also the line to which a method returns the number. The instructions are those of
# a file that has not changed since this process began, or of a template of Action View; of all other code nothing is known. Changes nothing.
require_relative "flow"

module Paceline
  module AutoCache
    module Clock
      module Uses
        # Frames of this library come before those of the caller.
        OWN = File.expand_path("..", __dir__)
        FRAMES = 32
        # Methods that hand the number on.
        RETURNS = 4
        # Places, and templates, of which as many are remembered: one that is given as a text is compiled each time.
        MAX_KNOWN = 5000
        TICKS = 100
        private_constant :OWN, :FRAMES, :RETURNS, :MAX_KNOWN, :TICKS

        # Templates, as Action View compiles them.
        module Templates
          def compile(container)
            super.tap { Uses.template(container, method_name.to_s) }
          end
        end

        @known = {}
        @templates = {}

        class << self
          # Once, in the process that has loaded the application.
          def prepare
            @since = started
            return unless defined?(::ActiveSupport) && ::ActiveSupport.respond_to?(:on_load)

            ::ActiveSupport.on_load(:action_view) { ::ActionView::Template.prepend(Templates) }
          end

          def template(container, name) = keep(@templates, name, container)

          # Of what the method NAME returns, which runs. `from`: it was called by Ruby's own of the same name.
          def known?(name, from: nil)
            frames = caller_locations(1, FRAMES).drop_while { |frame| own?(frame) }
            return false if from && frames.shift&.base_label != name.to_s

            RETURNS.times do |nth|
              frame, outer = frames[nth, 2]
              return false if outer.nil? || same?(frame, outer)

              found = place(frame, name)
              return found == :compared unless found == :returned

              name = frame.base_label.to_sym
            end
            false
          end

          private

          def own?(frame) = (frame.absolute_path || frame.path).to_s.start_with?(OWN)

          # A method in C has the place of its caller. One that bears its caller's name is not to be told from it.
          def same?(one, other) = one.lineno == other.lineno && one.path == other.path && one.base_label == other.base_label

          def place(frame, name)
            key = [frame.absolute_path || frame.path, frame.lineno, frame.base_label, name]
            return @known[key] if @known.key?(key)

            recording = AutoCache.recording
            keep(@known, key, recording ? recording.quiet { look(frame, name) } : look(frame, name))
          end

          def keep(all, key, value)
            all.shift if all.size >= MAX_KNOWN
            all[key] = value
          end

          def look(frame, name)
            code = code(frame) or return
            found = Flow.all(code, frame.base_label, frame.lineno, name)
            return if found.empty? || found.include?(nil)

            found.include?(:returned) ? :returned : :compared
          rescue SystemCallError, SyntaxError, NameError
            nil
          end

          def code(frame)
            if (path = frame.absolute_path)
              ::RubyVM::InstructionSequence.compile_file(path) if defined?(::RubyVM::InstructionSequence) && as_loaded?(path)
            elsif (container = @templates[frame.base_label])
              ::RubyVM::InstructionSequence.of(container.instance_method(frame.base_label))
            end
          end

          # What was loaded of the file is what it says now.
          def as_loaded?(path)
            @since && File.stat(path).ctime <= @since && !transformed?
          end

          # Something changes what is loaded. Bootsnap keeps it as it is.
          def transformed?
            iseq = ::RubyVM::InstructionSequence
            iseq.respond_to?(:load_iseq) && !iseq.method(:load_iseq).owner.to_s.start_with?("Bootsnap::")
          end

          # When this process began; nil: nobody knows.
          def started
            ticks = Integer(File.read("/proc/self/stat").rpartition(")").last.split[19], 10)
            ::Time.now - (Process.clock_gettime(Process::CLOCK_BOOTTIME) - Rational(ticks, TICKS))
          rescue SystemCallError, ArgumentError, TypeError, NameError
            nil
          end
        end
      end
    end
  end
end
