# frozen_string_literal: true

# Programs that a request starts: each is named in the doctor's result. None is refused. What they may do is held by the kernel (confinement.rb). Files that
# Ruby opens for their output are files that the request writes. Of a command only the program's name is kept.
module Paceline
  module Server
    module Shadow
      class Guards
        module Programs
          # The doctor's own (outbound/stand_in.rb).
          STAND_IN = %r{/outbound/stand_in_process\.rb\z}
          # Between variables and the rest of a shell's command.
          VARIABLES = /\A(?:\s*\w+=\S*\s)*\s*/
          # Descriptors for which Ruby opens a file to write when it is given a path alone.
          OUTPUTS = [:out, :err, 1, 2, STDOUT, STDERR].freeze
          private_constant :STAND_IN, :VARIABLES, :OUTPUTS

          # A module with these methods, each of which starts a program.
          def self.starting(names, hidden: false)
            Module.new do
              names.each do |name|
                define_method(name) do |*arguments, **options, &block|
                  Programs.note(arguments)
                  super(*Programs.redirected(arguments), **Programs.redirections(options), &block)
                end
                private name if hidden
              end
            end
          end
          private_class_method :starting

          class << self
            def there?
              true
            end

            def install
              Kernel.prepend(starting(%i[system spawn exec `], hidden: true))
              Kernel.singleton_class.prepend(starting(%i[system spawn exec `]))
              ::Process.singleton_class.prepend(starting(%i[spawn exec]))
              IO.singleton_class.prepend(starting(%i[popen]))
            end

            # `arguments`: as Process.spawn and IO.popen take them, whose last one may have options, also within a list.
            def redirected(arguments)
              *others, last = arguments.map { |one| one.is_a?(Array) ? redirected(one) : one }
              others.empty? || !last.respond_to?(:to_hash) ? [*others, last] : [*others, redirections(last.to_hash)]
            end

            # The options to start a program with. Raises Errno::EROFS.
            def redirections(options)
              Guards.off? ? options : options.to_h { |to, from| [to, redirection(to, from)] }
            end

            # `arguments`: as Process.spawn takes them.
            def note(arguments)
              return if Guards.off? || arguments.any? { |one| one.is_a?(String) && STAND_IN.match?(one) }

              command = arguments.first.respond_to?(:to_hash) ? arguments[1] : arguments.first
              command = command.find { |one| !one.respond_to?(:to_hash) } if command.is_a?(Array)
              command = command.first if command.is_a?(Array)
              name = File.basename(command.to_s.sub(VARIABLES, "").split.first.to_s)
              Guards.shadow.note_program(name) unless name.empty? || name == "-"
            end

            private

            # `from`: a path, a list of path and mode, or what opens no file.
            def redirection(to, from)
              if from.is_a?(Array)
                path, mode, *others = from
                path?(path) && Files.writes?(mode, {}) ? [Files.to_write(path), mode, *others] : from
              else
                path?(from) && (to.is_a?(Array) ? to : [to]).intersect?(OUTPUTS) ? Files.to_write(from) : from
              end
            end

            def path?(from)
              from.is_a?(String) || (from.respond_to?(:to_path) && !from.is_a?(IO))
            end
          end
        end
      end
    end
  end
end
